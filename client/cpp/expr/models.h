// Models in the language: nn.Sequential(nn.Linear(3, 1)), net(X), net.to(device=…), net[0].weight.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/expr/env.h"

namespace tensord::expr {

// nn.TYPE(...): arguments named as PyTorch names them. Types and options that this client does not know are left to
// the daemon to judge.
absl::StatusOr<Value> MakeLayer(Env& env, std::string_view type, const Arguments& arguments);
// Types for completion.
std::vector<std::string_view> LayerTypes();

// Makes the model in the daemon: under `name`, replacing what has it, or with an empty name under a handle of the
// session.
absl::StatusOr<ModelPtr> CreateModel(Env& env, const LayersPtr& layers, const std::string& name);

// net(X): one Execute. A tensor that does not exist yet is computed first.
absl::StatusOr<Value> CallModel(Env& env, const ModelPtr& model, const Arguments& arguments);

// net.to(…), net.parameters(), …; LayersValue answers `to` and its like before it exists.
absl::StatusOr<Value> CallModelMethod(Env& env, std::string_view name, const ModelPtr& model,
                                      const Arguments& arguments);
absl::StatusOr<Value> CallLayersMethod(Env& env, std::string_view name, const LayersPtr& layers,
                                       const Arguments& arguments);
bool IsModelMethod(std::string_view name);

// net[0], net[0].weight; NAME_UNKNOWN or PARAMETER_UNKNOWN with the nearest.
absl::StatusOr<Value> IndexModel(Env& env, const Value& model, const Value& part);
absl::StatusOr<Value> ModelAttribute(std::string_view name, const ModelPtr& model);

// As PyTorch prints modules: "Sequential(\n  (0): Linear(in_features=3, out_features=1, bias=True)\n)".
std::string LayerText(const Layer& layer);
std::string ModelText(const ModelValue& model);
std::string ModelJson(const ModelValue& model);

}  // namespace tensord::expr
