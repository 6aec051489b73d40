// Models from lists of layers: a Sequential becomes a program, its parameters and the programs that initialise them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops/program.h"
#include "server/engine/types.h"

namespace tensord {

// A parameter or buffer of a model before it exists.
struct ParameterSpec {
  std::string path;  // "0.weight"
  TensorType type;
  // Makes it: no inputs, one output, create instructions with an empty device (the engine sets the model's) and without
  // seeds for random ones: the engine draws `draws` numbers from the seed's counter for each parameter, in the order of
  // the list.
  Program init;
  uint64_t draws = 0;
};

struct CompiledModel {
  // inputs: "input", then the parameters by path in the order of `parameters`; output: "output".
  Program program;
  std::vector<ParameterSpec> parameters;
};

// Compiles layers. Field paths begin with "layers", the field of CreateModelRequest. Errors: LAYER_INVALID (unknown
// type or option with the nearest, missing or out-of-range option, layers that cannot follow one another),
// LIMIT_EXCEEDED (depth). Options and defaults are PyTorch's: see docs in layers.cc's table.
absl::StatusOr<CompiledModel> CompileLayers(const Layer& root, const Limits& limits);

}  // namespace tensord
