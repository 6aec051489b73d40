// The macros of portable.h under nvcc. A launch returns its own error, which <<<>>> would leave behind for the next
// cudaGetLastError.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

namespace tensord::cuda {

template <class T, size_t... Extents>
struct SharedType {
  using Type = T;
};
template <class T, size_t Extent, size_t... Rest>
struct SharedType<T, Extent, Rest...> {
  using Type = typename SharedType<T, Rest...>::Type[Extent];
};

template <class... P, class... A>
inline cudaError_t Launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                          A&&... arguments) {
  static_assert((sizeof(P) + ... + 0) <= 4096, "a kernel's parameters are at most 4 KiB");
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, std::forward<A>(arguments)...);
}

}  // namespace tensord::cuda

#define TENSORD_SHARED(T, name, ...) \
  __shared__ typename ::tensord::cuda::SharedType<T __VA_OPT__(, ) __VA_ARGS__>::Type name
#define TENSORD_DYNAMIC_SHARED(T, name)                             \
  extern __shared__ __align__(16) unsigned char tensord_dynamic_[]; \
  T* name = reinterpret_cast<T*>(tensord_dynamic_)
#define TENSORD_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  ::tensord::cuda::Launch(kernel, grid, block, shared_bytes, stream __VA_OPT__(, ) __VA_ARGS__)
#define TENSORD_LAUNCH_FLAT(kernel, grid, block, stream, ...) \
  ::tensord::cuda::Launch(kernel, grid, block, 0, stream __VA_OPT__(, ) __VA_ARGS__)
