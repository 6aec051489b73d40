// Reductions as loops: which dimensions are kept, which are reduced, and how the elements of one tile are reached.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "kernels/core/tensor_view.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/reduce_loops.h"
#include "kernels/ops/attributes.h"

namespace tensord::cpu {

// Strides in elements.
struct ReduceDim {
  int64_t size = 1;
  int64_t stride = 0;
  int64_t out_stride = 0;  // kept dimensions: in the contiguous result
};
using ReduceDims = absl::InlinedVector<ReduceDim, 4>;

// Dimensions of size 1 are gone and neighbours that lie like one are one. Both lists have at least one entry.
struct ReducePlan {
  Dtype dtype = Dtype::kNone;
  const char* data = nullptr;
  ReduceDims kept;     // outermost first, in the order of the result
  ReduceDims reduced;  // outermost first
  int64_t outputs = 1;
  int64_t count = 1;  // elements behind one output
};

// `in_order`: positions count row-major in the tensor's own order (arg reductions need it); otherwise reduced
// dimensions are put in the order of memory.
ReducePlan MakeReducePlan(const TensorView& input, const ReduceAttributes& attributes, bool in_order);

// A contiguous matrix of lanes reduced along its rows (axis 1) or its columns (axis 0).
ReducePlan MatrixPlan(Lane lane, const void* data, int64_t rows, int64_t columns, int axis);

// Whether tiles should run along a kept dimension (reducing many outputs at once), and along which.
struct ReduceOrder {
  bool columns = false;
  size_t along = 0;  // index in kept
};
ReduceOrder ChooseOrder(const ReducePlan& plan);

// Splits an index over all kept dimensions but `skip` into element offsets.
struct KeptOffset {
  int64_t in = 0;
  int64_t out = 0;
};
KeptOffset OffsetOf(const ReducePlan& plan, int64_t index, size_t skip);

// How elements are read and combined.
struct ReduceMeaning {
  Combine combine = Combine::kSum;
  Lane lane = Lane::kF32;
  Reading reading = Reading::kValue;
  // One lane for each output, taken from its elements first; or null.
  const void* shift = nullptr;
  bool square = false;  // elements are squared, after the shift
  bool serial = false;  // on the calling thread, whatever the size
};

// out[i] = the elements behind output i, combined; of type AccumulatorOf(combine, lane). Without elements the identity.
// Sums combine as trees of a shape that follows from the plan alone. Error: MEMORY_EXHAUSTED.
absl::Status Accumulate(const ReducePlan& plan, const ReduceMeaning& meaning, void* out, Context& context);

// argmax (kMax) or argmin (kMin): out[i] = position in the reduced dimension, of which the plan has one.
absl::Status FindExtremes(const ReducePlan& plan, Combine combine, Lane lane, bool last, int64_t* out,
                          Context& context);

}  // namespace tensord::cpu
