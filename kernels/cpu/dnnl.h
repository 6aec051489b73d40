// oneDNN behind functions that name none of its types: dnnl.cc is the only file that includes it (2.6 and 3.x).
//
// Primitives are made once for each shape and kept. Everything here opens parallel regions, so only a device's executor
// thread calls it (team.h). Errors: INTERNAL with the library's words, MEMORY_EXHAUSTED.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/core/shape.h"
#include "kernels/cpu/families.h"

namespace tensord::cpu {

// False under the thread sanitizer, which does not see the barriers of the library's threads: our own loops stand in.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kUseDnnl = false;
#else
inline constexpr bool kUseDnnl = true;
#endif

// True where the processor multiplies bfloat16 itself.
bool HasNativeBfloat16();

// A batch of matrices; strides in elements. A batch stride of 0: one matrix for the whole batch.
struct DnnlMatrix {
  const void* data = nullptr;
  int64_t batch_stride = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};

// c = a b + bias for contiguous c. Every dimension is at least 1; of the last two strides of a and of b one is 1 and
// the other at least the length of the line.
struct DnnlProduct {
  Dtype dtype = Dtype::kFloat32;  // of a, b and c: float32, or bfloat16 where it is native
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  DnnlMatrix a;
  DnnlMatrix b;
  const float* bias = nullptr;  // n of them, or null
  void* c = nullptr;
  bool allow_bfloat16 = false;  // float32 operands may be rounded to bfloat16
};
absl::Status DnnlMatmul(const DnnlProduct& product, Context& context);

// A convolution of contiguous tensors, every dimension at least 1, of one, two or three spatial axes.
struct DnnlConvolution {
  Dtype dtype = Dtype::kFloat32;  // of x, weight and out: float32, or bfloat16 where it is native
  Dims x_shape;                   // batch, channels, space…
  Dims weight_shape;              // out channels, channels / groups, window…
  Dims out_shape;
  Dims strides;  // one a spatial axis, as the following ones
  Dims dilations;
  Dims pads_begin;
  Dims pads_end;
  int64_t groups = 1;
  const void* x = nullptr;
  const void* weight = nullptr;
  const float* bias = nullptr;  // or null
  void* out = nullptr;
  bool allow_bfloat16 = false;
};
absl::Status DnnlConvolve(const DnnlConvolution& convolution, Context& context);

}  // namespace tensord::cpu
