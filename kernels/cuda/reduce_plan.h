// Reductions as loops: which dimensions are kept and which reduced, how the work is laid out, and how it is cut.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/core/tensor_view.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/ops/attributes.h"

namespace tensord::cuda {

// Fills data, dtype, dimensions, outputs and count. Dimensions of size 1 are gone, neighbours that lie like one are
// one.
// `in_order`: positions count row-major in the tensor's own order (arg reductions need it); otherwise reduced
// dimensions are put in the order of memory.
ReduceParams MakeReduceParams(const TensorView& input, const ReduceAttributes& attributes, bool in_order);

// The layout of the work, and its cut into chunks, which follow from shape and strides alone: results have the same
// bits on every device. `cut`: whether an output may be cut at all.
ReduceForm PlanReduce(ReduceParams& params, bool cut);

// Reduces to params.out, in two passes where few outputs have many elements. Errors: MEMORY_EXHAUSTED, DEVICE_LOST,
// INTERNAL.
absl::Status Reduce(ReduceKind kind, ReduceLane lane, ReduceParams params, Context& context);

}  // namespace tensord::cuda
