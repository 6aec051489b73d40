// Calls that several commands make, and listings as JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/context.h"
#include "kernels/ops/program.h"

namespace tensord::cli {

// "tensorctl/0.1.0".
std::string ClientName();
std::string_view ClientVersion();

// Runs a program of one output on published names, and publishes the output under `name`, replacing what has it.
absl::StatusOr<TensorInfo> ExecuteAs(Context& context, Program program, const std::vector<std::string>& inputs,
                                     const std::string& name);

// Every page.
absl::StatusOr<std::vector<TensorInfo>> ListAllTensors(Context& context, const std::string& prefix);
absl::StatusOr<std::vector<ModelInfo>> ListAllModels(Context& context, const std::string& prefix);

absl::StatusOr<ModelInfo> CreateModel(Context& context, CreateModelRequest request);
absl::StatusOr<ModelInfo> UpdateModel(Context& context, UpdateModelRequest request);

// A name without its workspace where that is the one at work.
std::string ShortName(const Context& context, const std::string& name);

std::string TensorInfoJson(const TensorInfo& info);
std::string ModelInfoJson(const ModelInfo& info);

}  // namespace tensord::cli
