// The device side of CUDA for plain C++ compilers: with it a kernel source is ordinary C++ whose kernels the emulator
// runs. Included by kernels/cuda/portable.h, which says what kernels may use.
//
// Every block runs on one host thread: a CUDA thread is a fiber, or, in a flat launch, one call of the kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/emulated/kernel.h"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))

extern thread_local constinit uint3 blockIdx __attribute__((tls_model("initial-exec"), visibility("default")));
extern thread_local constinit dim3 blockDim __attribute__((tls_model("initial-exec"), visibility("default")));
extern thread_local constinit dim3 gridDim __attribute__((tls_model("initial-exec"), visibility("default")));
inline constexpr int warpSize = 32;

namespace tensord::emulated {

#pragma GCC visibility push(default)  // the fake libcudart.so exports these

// Shared memory of the running block that belongs to `key`: the same for all its threads, filled with 0xFF.
void* SharedArray(const void* key, size_t bytes, size_t alignment, const char* file, int line);
// The launch's dynamic shared memory.
void* DynamicShared(const char* file, int line);

#pragma GCC visibility pop

template <class T, size_t... Extents>
struct SharedType {
  using Type = T;
};
template <class T, size_t Extent, size_t... Rest>
struct SharedType<T, Extent, Rest...> {
  using Type = typename SharedType<T, Rest...>::Type[Extent];
};

}  // namespace tensord::emulated

#define TENSORD_SHARED(T, name, ...)                                                                \
  static const char name##_key = 0;                                                                 \
  using name##_type = typename ::tensord::emulated::SharedType<T __VA_OPT__(, ) __VA_ARGS__>::Type; \
  name##_type& name = *static_cast<name##_type*>(                                                   \
      ::tensord::emulated::SharedArray(&name##_key, sizeof(name##_type), alignof(name##_type), __FILE__, __LINE__))
#define TENSORD_DYNAMIC_SHARED(T, name) \
  T* name = static_cast<T*>(::tensord::emulated::DynamicShared(__FILE__, __LINE__))

#define TENSORD_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                     \
  ::tensord::emulated::KernelOf<kernel>::template Launch<false>(grid, block, shared_bytes, \
                                                                stream __VA_OPT__(, ) __VA_ARGS__)
#define TENSORD_LAUNCH_FLAT(kernel, grid, block, stream, ...) \
  ::tensord::emulated::KernelOf<kernel>::template Launch<true>(grid, block, 0, stream __VA_OPT__(, ) __VA_ARGS__)

#include "kernels/emulated/device_atomics.h"
#include "kernels/emulated/device_collectives.h"
#include "kernels/emulated/device_math.h"
