// The state behind the fake CUDA runtime: devices, streams as queues of operations, events, faults. The API functions
// (runtime_*.cc) are thin layers over it.
//
// One mutex guards all of it; operations run with the mutex released. Internal to the emulator.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "kernels/emulated/control.h"
#include "kernels/emulated/memory.h"
#include "kernels/emulated/random.h"

namespace tensord::emulated {

struct Stream;
struct Kernel;

// Something enqueued: done when the stream has completed `index` operations.
struct Point {
  std::shared_ptr<Stream> stream;
  uint64_t index = 0;
  bool Reached() const;
};

struct Operation {
  std::function<cudaError_t()> run;
  std::vector<Point> after;  // on other streams
};

struct Stream {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  std::deque<Operation> queue;
  uint64_t enqueued = 0;
  uint64_t completed = 0;
  bool running = false;
  bool Idle() const { return completed == enqueued; }
  bool blocking() const { return (flags & cudaStreamNonBlocking) == 0; }
};

struct Event {
  int device = 0;
  unsigned flags = 0;
  bool recorded = false;
  Point point;
  std::shared_ptr<double> milliseconds;  // when it was passed
};

struct Pool {
  int device = 0;
  bool is_default = false;
  uint64_t threshold = 0;
  uint64_t reserved = 0, used = 0, reserved_high = 0, used_high = 0;
  int reuse[3] = {1, 1, 1};
};

struct Device {
  size_t total = 0;
  size_t used = 0;  // allocations and what pools hold
  cudaError_t sticky = cudaSuccess;
  std::shared_ptr<Stream> default_stream;
  std::set<int> peers;
  Pool* default_pool = nullptr;
  Pool* pool = nullptr;
  uint64_t fail_operation_in = 0;  // 0: none
  cudaError_t operation_error = cudaSuccess;
};

using Lock = std::unique_lock<std::mutex>;

class Runtime {
 public:
  static Runtime& Get();

  void Configure(const Options& options);

  // Counts the call, asks for planned faults, and runs `body` under the mutex. What it returns becomes the thread's last
  // error. `needs_device`: a sticky error of the current device is the answer.
  template <class Body>
  cudaError_t Call(Api api, bool needs_device, Body body) {
    Lock lock(mutex_);
    cudaError_t error = Enter(api, needs_device);
    if (error == cudaSuccess) error = body(lock);
    return Remember(error);
  }

  // The calling thread's device.
  Device& device() { return devices_[static_cast<size_t>(device_index())]; }
  int device_index();
  void set_device_index(int device);
  int device_count() const { return static_cast<int>(devices_.size()); }
  bool HasDevice(int device) const { return device >= 0 && device < device_count(); }
  Device& DeviceAt(int device) { return devices_[static_cast<size_t>(device)]; }

  // Null where the handle is dead. The null stream is the current device's.
  std::shared_ptr<Stream> FindStream(cudaStream_t handle);
  Event* FindEvent(cudaEvent_t handle);
  Pool* FindPool(cudaMemPool_t handle);
  std::shared_ptr<Stream> MakeStream(int device, unsigned flags, int priority);

  // Puts an operation at the end of the stream; in eager mode it has run when this returns. The error is the device's
  // from before: the operation's own surfaces later.
  cudaError_t Push(Lock& lock, const std::shared_ptr<Stream>& stream, std::function<cudaError_t()> run,
                   std::vector<Point> after = {});
  // Waits (running what must run) until `reached` says so; then the device's sticky error.
  cudaError_t WaitUntil(Lock& lock, int device, const std::function<bool()>& reached);
  cudaError_t WaitStream(Lock& lock, const std::shared_ptr<Stream>& stream);
  cudaError_t WaitDevice(Lock& lock, int device);
  bool DeviceIdle(int device) const;
  // cudaSuccess or cudaErrorNotReady. A program that only asks makes progress all the same: in lazy mode some work runs.
  cudaError_t Query(Lock& lock, int device, const Point& point);
  // Drops a destroyed stream once its work is done.
  void Forget(const std::shared_ptr<Stream>& stream);

  // Memory pools (runtime_pool.cc).
  cudaError_t AllocateInPool(Pool& pool, void** data, size_t bytes);
  void FreeInPool(Allocation* allocation);
  void TrimPool(Pool& pool, uint64_t bytes_to_keep);
  void TrimPools(int device);  // to their thresholds

  cudaError_t Fail(int device, cudaError_t error);  // makes it sticky
  void Report(std::string text);

  Options options;
  MemoryTable memory;
  std::map<const void*, std::shared_ptr<Stream>> streams;
  std::map<const void*, std::unique_ptr<Event>> events;
  std::map<const void*, std::unique_ptr<Pool>> pools;
  std::map<const void*, int> dynamic_shared_limits;  // by kernel: cudaFuncSetAttribute
  uint64_t launches = 0;

  std::mutex& mutex() { return mutex_; }

  struct PlannedFault {
    Api api = Api::kCount;  // kCount: any
    uint64_t calls_left = 0;
    cudaError_t error = cudaSuccess;
    bool sticky = false;
  };
  std::vector<PlannedFault> faults;
  uint64_t calls = 0;
  std::vector<std::string> reports;

 private:
  Runtime();
  cudaError_t Enter(Api api, bool needs_device);
  cudaError_t Remember(cudaError_t error);
  std::shared_ptr<Stream> PickRunnable(const std::shared_ptr<Stream>& preferred);
  bool AnyRunning() const;
  void RunHead(Lock& lock, std::shared_ptr<Stream> stream);
  void EnsureWorker();
  void Work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Device> devices_;
  std::vector<std::shared_ptr<Stream>> all_streams_;  // with default streams, and destroyed ones that still have work
  Random random_;
  bool worker_ = false;
};

// All kernels that some launch names; and who knows kernels by what nvcc registered (fake/registration.cc).
const Kernel* FirstKernel();
void SetKernelOfStub(const Kernel* (*find)(const void* function));

// The calling thread's last error, and whether it runs a host function of a stream.
cudaError_t TakeLastError();
cudaError_t PeekLastError();
bool InHostFunction();
void SetInHostFunction(bool inside);

}  // namespace tensord::emulated
