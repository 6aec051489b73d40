// Runs the blocks of one launch on the calling thread: every CUDA thread is a fiber, or, in a flat launch, one call of
// the kernel after another on a single fiber.
//
// Compiled without sanitizers in every build (see sanitizers.h). Nothing here knows streams or memory: what a launch may
// touch is the runtime's business.
//
// Thread safety: any number of threads, one launch each; executors with their stacks are kept for the next launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/emulated/kernel.h"

namespace tensord::emulated {

enum class Order : uint8_t { kAscending, kDescending, kRandom };

struct GridLaunch {
  const Kernel* kernel = nullptr;
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  void* const* arguments = nullptr;
  bool flat = false;                // its threads may not wait for one another
  bool fibers = false;              // a flat launch runs on fibers all the same
  Order order = Order::kAscending;  // of blocks, and of the threads of a block
  uint64_t seed = 1;                // of random order and pre-emption
};

struct GridResult {
  // cudaSuccess, cudaErrorIllegalAddress, or cudaErrorLaunchFailure for what breaks CUDA's rules.
  cudaError_t error = cudaSuccess;
  // What happened, where, in which thread; empty where nothing did.
  char text[640] = "";
  uint64_t switches = 0;
};

GridResult RunGrid(const GridLaunch& launch);

// Faults in kernels become errors of the launch instead of the end of the process. Without effect under sanitizers, which
// report faults themselves. Handlers that were there before get every other fault.
void CatchKernelFaults();

// The kernel's name as people write it: "Scale<float>". Returns the length.
size_t KernelName(const Kernel& kernel, char* text, size_t size);

}  // namespace tensord::emulated
