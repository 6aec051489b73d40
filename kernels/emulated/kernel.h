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

extern thread_local constinit uint3 threadIdx __attribute__((tls_model("initial-exec"), visibility("default")));

// In no namespace: its type's name then has the kernel's in it, unabbreviated.
template <auto Function>
struct TensordKernelTag {};

namespace tensord::emulated {

struct Kernel {
  const void* function;
  const char* signature;  // the compiler's words for the kernel: "… [with auto Function = Scale<float>]"
  const char* type_name;  // of a type that has the kernel in it, mangled: "16TensordKernelTagIXadL_Z…EEE"
  // Runs one thread of a kernel.
  void (*run_thread)(void* const* arguments);
  // Runs threads of one block one after another, in the order given.
  void (*run_threads)(void* const* arguments, const uint3* threads, uint32_t count);
  const uint32_t* argument_sizes;
  uint32_t argument_count;
  // The list of all kernels that some launch names, and how launches name this one.
  mutable const Kernel* next = nullptr;
  mutable bool launched_flat = false, launched_on_fibers = false;
};

#pragma GCC visibility push(default)  // the fake libcudart.so exports these

// Adds a kernel to the list of all kernels. Called before main, or by a library of kernels when it is opened.
bool Register(const Kernel& kernel);
// Some launch of it is flat, or is not: what a launch that does not say so goes by.
bool RegisterLaunch(const Kernel& kernel, bool flat);

// Enqueues a launch. `flat`: the kernel's threads neither wait for one another nor exchange values.
cudaError_t Launch(const Kernel& kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                   void** arguments, bool flat);

#pragma GCC visibility pop

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
                                       typeid(TensordKernelTag<Function>).name(),
                                       &RunThread,
                                       &RunThreads,
                                       kSizes,
                                       sizeof...(P)};
  static inline const bool registered = Register(kernel);
  template <bool kFlat>
  static inline const bool launch_registered = RegisterLaunch(kernel, kFlat);

  template <bool kFlat, class... A>
  static cudaError_t Launch(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, A&&... values) {
    static_assert(sizeof...(A) == sizeof...(P), "as many arguments as the kernel has parameters");
    (void)registered;
    (void)launch_registered<kFlat>;
    return [&](P... parameters) {
      void* arguments[] = {const_cast<void*>(static_cast<const void*>(&parameters))..., nullptr};
      return emulated::Launch(kernel, grid, block, shared_bytes, stream, arguments, kFlat);
    }(std::forward<A>(values)...);
  }

 private:
  template <size_t... I>
  static void Call([[maybe_unused]] void* const* arguments, std::index_sequence<I...>) {
    Function(*static_cast<std::remove_cv_t<P>*>(arguments[I])...);
  }
};

}  // namespace tensord::emulated
