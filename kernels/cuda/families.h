// The CUDA families: one function a family, one file each of the same name as on the CPU. NAME.cc is host logic (checks
// layouts, fills a parameter struct, launches), NAME.cu the kernels and their launchers, NAME.cuh what the two share:
// plain structs and `cudaError_t Launch…(const …&, cudaStream_t)`.
//
// A call has passed inference: shapes, dtypes and attributes are right, outputs are allocated and contiguous; inputs may
// have any strides. Everything goes to the context's stream; only what says so waits for it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace tensord::cuda {

class CublasLt;

// What a device is, as far as launches care.
struct DeviceTraits {
  DeviceId id;
  int32_t multiprocessors = 1;
  int32_t threads_per_multiprocessor = 2048;
  bool allow_tf32 = false;
};

// What a kernel may use beside its operands.
struct Context {
  MemoryResource& scratch;
  StreamId stream_id = 0;
  cudaStream_t stream = nullptr;
  const DeviceTraits& traits;
  // A word in pinned memory that kernels may write: 0 before, and 0 again before the function returns.
  unsigned long long* report = nullptr;
  // Matrix multiplication; loaded when first asked for.
  CublasLt& blas;
};

absl::Status RunCreate(const KernelCall& call, Context& context);       // create.cc
absl::Status RunElementwise(const KernelCall& call, Context& context);  // elementwise.cc: Unary … Select, and cast
absl::Status RunReduce(const KernelCall& call, Context& context);       // reduce.cc
absl::Status RunSoftmax(const KernelCall& call, Context& context);      // softmax.cc
absl::Status RunMatmul(const KernelCall& call, Context& context);       // matmul.cc
absl::Status RunJoin(const KernelCall& call, Context& context);         // join.cc
absl::Status RunIndex(const KernelCall& call, Context& context);   // index.cc; waits where an index may be out of range
absl::Status RunWindow(const KernelCall& call, Context& context);  // window.cc: convolution and pooling
absl::Status RunNorm(const KernelCall& call, Context& context);    // norm.cc

// A CUDA error as a status: DEVICE_LOST for the sticky ones, MEMORY_EXHAUSTED for out of memory, INTERNAL with the
// error's name otherwise; OK for cudaSuccess. `what` is the call that failed. (status.cc)
absl::Status ToStatus(cudaError_t error, const DeviceTraits& traits, const char* what);

// Blocks of `threads` for `n` elements, no more than keep the device busy: kernels loop. (status.cc)
unsigned GridFor(int64_t n, int threads, const DeviceTraits& traits);

// Temporary device memory, given back (in stream order) when it ends. (scratch.cc)
class Scratch {
 public:
  static absl::StatusOr<Scratch> Allocate(size_t bytes, Context& context);
  Scratch(Scratch&& other) noexcept;
  Scratch& operator=(Scratch&& other) noexcept;
  ~Scratch();
  void* data() const { return data_; }

 private:
  Scratch(void* data, size_t bytes, Context& context)
      : data_(data), bytes_(bytes), resource_(&context.scratch), stream_(context.stream_id) {}
  void* data_;
  size_t bytes_;
  MemoryResource* resource_;
  StreamId stream_;
};

// `input` as a contiguous tensor of `dtype`: itself where it is that already, else a converted copy whose memory
// `Dense` owns. (elementwise.cc)
struct Dense {
  TensorView view;
  std::optional<Scratch> owned;
};
absl::StatusOr<Dense> ToDense(const TensorView& input, Dtype dtype, Context& context);

// Copies any strided tensor into contiguous `output` of the same shape, converting dtype by the rules of cast.
// (elementwise.cc)
absl::Status CopyStrided(const TensorView& input, const TensorView& output, Context& context);

}  // namespace tensord::cuda
