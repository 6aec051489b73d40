// The CPU's families: one function a family, one file each of the same name. A call has passed inference: shapes,
// dtypes and attributes are right, outputs are allocated and contiguous; inputs may have any strides.
#pragma once

#include <cstddef>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace tensord::cpu {

// What a kernel may use beside its operands.
struct Context {
  MemoryResource& scratch;
  StreamId stream = 0;
};

absl::Status RunCreate(const KernelCall& call, Context& context);  // create.cc
absl::Status RunElementwise(const KernelCall& call,
                            Context& context);  // elementwise.cc: Unary, Binary, Compare, Select, and cast
absl::Status RunReduce(const KernelCall& call, Context& context);   // reduce.cc
absl::Status RunSoftmax(const KernelCall& call, Context& context);  // softmax.cc
absl::Status RunMatmul(const KernelCall& call, Context& context);   // matmul.cc
absl::Status RunJoin(const KernelCall& call, Context& context);     // join.cc
absl::Status RunIndex(const KernelCall& call, Context& context);    // index.cc
absl::Status RunWindow(const KernelCall& call, Context& context);   // window.cc
absl::Status RunNorm(const KernelCall& call, Context& context);     // norm.cc

// Temporary device memory, given back when it ends.
class Scratch {
 public:
  static absl::StatusOr<Scratch> Allocate(size_t bytes, Context& context);
  Scratch(Scratch&& other) noexcept;
  Scratch& operator=(Scratch&& other) noexcept;
  ~Scratch();
  void* data() const { return data_; }

 private:
  Scratch(void* data, size_t bytes, Context& context)
      : data_(data), bytes_(bytes), resource_(&context.scratch), stream_(context.stream) {}
  void* data_;
  size_t bytes_;
  MemoryResource* resource_;
  StreamId stream_;
};

// `input` as a contiguous tensor of `dtype`: itself where it is that already, else a converted copy whose memory
// `Dense` owns.
struct Dense {
  TensorView view;
  std::optional<Scratch> owned;
};
absl::StatusOr<Dense> ToDense(const TensorView& input, Dtype dtype, Context& context);  // elementwise.cc

// Copies any strided tensor into contiguous `output` of the same shape, converting dtype by the rules of cast.
absl::Status CopyStrided(const TensorView& input, const TensorView& output, Context& context);  // elementwise.cc

}  // namespace tensord::cpu
