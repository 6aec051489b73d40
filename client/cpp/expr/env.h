// What built-in functions work with: the graph, the devices that exist, and where in the text they were called.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/expr/graph.h"
#include "client/cpp/expr/print.h"
#include "client/cpp/expr/problem.h"
#include "client/cpp/expr/value.h"

namespace tensord::expr {

// Numbers drawn by this client after manual_seed: the seed, and how many elements were drawn from it.
struct Generator {
  std::optional<uint64_t> seed;
  uint64_t drawn = 0;
};

// One thread at a time.
struct Env {
  Graph* graph = nullptr;
  Generator generator;
  PrintOptions print;
  bool json = false;
  // Gets what print() prints and what expressions show, each with its newline.
  std::function<void(std::string_view)> out = [](std::string_view) {};

  // A tensor or model of the workspace, by any name ("encoder.weight", "alice/X"); empty where nothing has it.
  std::function<absl::StatusOr<std::optional<Value>>(const std::string& name)> look_up;

  // The text at work and the place of the call at work, for errors.
  std::string_view source;
  size_t offset = 0;

  // Asked of the daemon once.
  absl::StatusOr<std::vector<DeviceId>> Devices();
  std::optional<std::vector<DeviceId>> devices;

  absl::Status Problem(std::string_view problem) const { return ExpressionProblem(source, offset, problem); }
  absl::Status NotOffered(std::string_view what) const;
};

// Values given to a call, in order and by name.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

}  // namespace tensord::expr
