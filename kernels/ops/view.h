// View ops as layouts: no element moves.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "kernels/core/tensor_view.h"
#include "kernels/ops/program.h"

namespace tensord {

// The layout of a view op's result over the same buffer as `input`. The instruction must have passed Infer, and
// `result` is the shape it inferred. Empty where strides cannot express it (a reshape of something not contiguous):
// then the input must be copied to a contiguous tensor first, and asked again.
std::optional<Layout> ViewLayout(const Instruction& instruction, const Layout& input, const Dims& result);

}  // namespace tensord
