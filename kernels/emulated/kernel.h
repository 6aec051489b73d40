// What the emulator knows of a kernel: one constant a kernel, made by the compiler from the function itself.
//
//   const Kernel& kernel = KernelOf<Scale<float>>::kernel;
//   void* arguments[] = {&data, &by, &count};
//   cudaError_t error = Launch(kernel, grid, block, shared_bytes, stream, arguments);
//
// Parameters must be trivially copyable and together at most 4 KiB, as CUDA's are.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <typeinfo>
#include <utility>

extern thread_local constinit uint3 threadIdx __attribute__((tls_model("initial-exec")));

namespace tensord::emulated {

struct Kernel {
  const void* function;
  const char* signature;  // the compiler's words for the kernel: "… [with auto Function = Scale<float>]"
  const char* type_name;  // typeid of a type that has the kernel in it: holds the mangled name
  // Runs one thread of a kernel.
  void (*run_thread)(void* const* arguments);
  // Runs threads of one block one after another, in the order given.
  void (*run_threads)(void* const* arguments, const uint3* threads, uint32_t count);
  const uint32_t* argument_sizes;
  uint32_t argument_count;
  // The list of all kernels that some launch names.
  mutable const Kernel* next = nullptr;
};

// Adds a kernel to the list of all kernels. Called before main.
bool Register(const Kernel& kernel);

// Enqueues a launch. `flat`: the kernel's threads neither wait for one another nor exchange values.
cudaError_t Launch(const Kernel& kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                   void** arguments, bool flat);

template <auto Function>
struct KernelTag {};

template <auto Function>
struct KernelOf;

template <class... P, void (*Function)(P...)>
struct KernelOf<Function> {
  static_assert((!std::is_reference_v<P> && ...), "a kernel's parameters are passed by value");
  static_assert((std::is_trivially_copyable_v<P> && ...), "a kernel's parameters are trivially copyable");
  static_assert((sizeof(P) + ... + 0) <= 4096, "a kernel's parameters are at most 4 KiB");

  static void RunThread(void* const* arguments) { Call(arguments, std::index_sequence_for<P...>{}); }
  static void RunThreads(void* const* arguments, const uint3* threads, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      threadIdx = threads[i];
      Call(arguments, std::index_sequence_for<P...>{});
    }
  }
  static const char* Signature() { return __PRETTY_FUNCTION__; }

  static constexpr uint32_t kSizes[sizeof...(P) + 1] = {sizeof(P)..., 0};
  static inline const Kernel kernel = {reinterpret_cast<const void*>(Function),
                                       Signature(),
                                       typeid(KernelTag<Function>).name(),
                                       &RunThread,
                                       &RunThreads,
                                       kSizes,
                                       sizeof...(P)};
  static inline const bool registered = Register(kernel);

  template <class... A>
  static cudaError_t Launch(bool flat, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, A&&... values) {
    static_assert(sizeof...(A) == sizeof...(P), "as many arguments as the kernel has parameters");
    (void)registered;
    return [&](P... parameters) {
      void* arguments[] = {const_cast<void*>(static_cast<const void*>(&parameters))..., nullptr};
      return emulated::Launch(kernel, grid, block, shared_bytes, stream, arguments, flat);
    }(std::forward<A>(values)...);
  }

 private:
  template <size_t... I>
  static void Call([[maybe_unused]] void* const* arguments, std::index_sequence<I...>) {
    Function(*static_cast<std::remove_cv_t<P>*>(arguments[I])...);
  }
};

}  // namespace tensord::emulated
