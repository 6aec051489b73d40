// Matrix multiplication by cuBLASLt, found when first needed: the library is half a gigabyte, and hosts that never
// multiply on a GPU never load it.
//
// Thread safety: one object a device, used by its executor alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "kernels/core/dtype.h"
#include "kernels/cuda/families.h"

namespace tensord::cuda {

// out[b] = a[b] · b[b] (+ bias), row-major. Strides in elements; a matrix is dense but for its leading dimension, or the
// transpose of such a one.
struct GemmCall {
  Dtype dtype = Dtype::kFloat32;  // of a, b, out and bias: float16, bfloat16, float32, float64
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  const void* a = nullptr;
  bool a_transposed = false;  // a is stored k×m
  int64_t a_leading = 0, a_batch_stride = 0;
  const void* b = nullptr;
  bool b_transposed = false;  // b is stored n×k
  int64_t b_leading = 0, b_batch_stride = 0;
  void* out = nullptr;
  int64_t out_leading = 0, out_batch_stride = 0;
  const void* bias = nullptr;  // n elements, added to every row; or null
};

class CublasLt {
 public:
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // float16 and bfloat16 accumulate in float32; float32 is true float32 unless traits.allow_tf32. Errors: DEVICE_LOST,
  // MEMORY_EXHAUSTED (workspace), FEATURE_UNAVAILABLE (the library cannot be loaded, with the reason), INTERNAL.
  absl::Status Gemm(const GemmCall& call, Context& context);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tensord::cuda
