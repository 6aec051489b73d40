// What tests and the daemon may ask of the emulated CUDA driver beside the CUDA API itself.
//
//   emulated::Options options;
//   options.devices = 2;
//   options.memory_bytes = size_t{64} << 20;
//   emulated::Configure(options);
//   emulated::FailAfter(Api::cudaMalloc, 3, cudaErrorMemoryAllocation);   // the fourth call from now fails, once
//
// Thread safety: any thread, any time, except Configure. Sizes in bytes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/emulated/executor.h"

namespace tensord::emulated {

#pragma GCC visibility push(default)  // the fake libcudart.so exports these
// When enqueued work runs.
enum class Mode : uint8_t {
  kEager,       // before the call that enqueues it returns
  kLazy,        // when something waits for it, or now and then by `seed`: the same every time
  kBackground,  // on a thread of the emulator
};

struct Options {
  int devices = 1;
  size_t memory_bytes = size_t{1} << 30;  // of every device
  std::vector<size_t> memory_of_device;   // overrides it, device by device
  int multiprocessors = 8;
  bool peers = true;  // devices copy directly
  Mode mode = Mode::kEager;
  Order order = Order::kAscending;  // of blocks and threads
  uint64_t seed = 1;                // of lazy mode and random order
  // An own mapping for each allocation, up against a page that nobody may touch; freed addresses stay dead; host code that
  // touches device memory faults. For tests: a page at least and some system calls an allocation and an operation.
  bool guard_pages = false;
  // Threads of flat launches are fibers, too, so that ThreadSanitizer tells them apart. Slow.
  bool flat_on_fibers = false;
  bool fill_fresh = true;     // fresh memory is 0xFF, a NaN in every floating type
  bool print_reports = true;  // what kernels do wrong goes to stderr, too
  // What every call answers, as where there is no driver (35), no device (100) or a driver that does not fit (803).
  cudaError_t startup_error = cudaSuccess;
};

// What a process begins with: Options(), changed by the variable TENSORD_EMULATED_CUDA, a comma-separated list of
//   devices=N  memory=BYTES|KiB|MiB|GiB  mode=eager|lazy|background  order=ascending|descending|random  seed=N
//   multiprocessors=N  peers=0|1  guard=0|1  fill=0|1  reports=0|1  startup_error=CODE
// Exits with a message where it is none of these: a test with a wrong set-up must not pass.
Options OptionsFromEnvironment();

// Begins anew: devices without allocations, streams, events, errors, faults; the calling thread's device is 0. All devices
// must be idle, and handles from before are dead.
void Configure(const Options& options);
const Options& CurrentOptions();

// Of all work from now on.
void SetMode(Mode mode);
void SetOrder(Order order, uint64_t seed);

enum class Api : uint16_t {
#define X(result, name, parameters) name,
  TENSORD_CUDA_FUNCTIONS(X)
#undef X
      kCount
};
const char* NameOf(Api api);

// The call after `calls` more calls of `api` fails with `error`, once. `sticky`: the device then repeats it for ever.
void FailAfter(Api api, uint64_t calls, cudaError_t error, bool sticky = false);
// The n-th call from now on, from 1, whatever it is. For fault matrices: count a scenario's calls, then fail each.
void FailNth(uint64_t n, cudaError_t error, bool sticky = false);
// The operation that runs as the n-th from now on its device, from 1, fails: the error surfaces when somebody waits.
void FailOperation(int device, uint64_t n, cudaError_t error);
// Calls since Configure, and how many of them FailNth counts: all but those that cannot fail.
uint64_t CallCount();
// Every call on the device answers `error` until Revive.
void KillDevice(int device, cudaError_t error);
void Revive(int device);
void ClearFaults();

// Allocations of device and pinned memory that live.
size_t LiveAllocations();
// Bytes of device memory in use, in the granules the device counts by.
size_t UsedBytes(int device);
size_t LiveStreams();
size_t LiveEvents();

// What went wrong in kernels and copies since Configure, newest last.
std::vector<std::string> Reports();
std::string LastReport();

// Runs `work` in stream order with device memory accessible: how the fakes of libraries do their work.
cudaError_t Enqueue(cudaStream_t stream, std::function<cudaError_t()> work);

// Where device memory is closed to host code (guard_pages) this opens it while it lives.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

#pragma GCC visibility pop

}  // namespace tensord::emulated
