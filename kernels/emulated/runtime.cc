#include "kernels/emulated/runtime.h"

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>

#include "kernels/emulated/sanitizers.h"

namespace tensord::emulated {
namespace {

// Begins anew with every Configure.
struct PerThread {
  uint64_t generation = 0;
  int device = 0;
  cudaError_t last_error = cudaSuccess;
};
thread_local PerThread per_thread;
thread_local bool in_host_function = false;
uint64_t generation = 1;  // guarded by the runtime's mutex

PerThread& Mine() {
  if (per_thread.generation != generation) per_thread = PerThread{generation, 0, cudaSuccess};
  return per_thread;
}

}  // namespace

bool Point::Reached() const { return stream == nullptr || stream->completed >= index; }

Runtime& Runtime::Get() {
  static Runtime* const runtime = new Runtime;  // never destroyed: host threads may outlive main
  return *runtime;
}

Runtime::Runtime() { Configure(OptionsFromEnvironment()); }

void Runtime::Configure(const Options& new_options) {
  const Lock lock(mutex_);
  ++generation;
  options = new_options;
  random_ = Random(options.seed);
  memory.Clear();
  streams.clear();
  events.clear();
  pools.clear();
  dynamic_shared_limits.clear();
  all_streams_.clear();
  faults.clear();
  reports.clear();
  calls = 0;
  launches = 0;
  devices_.clear();
  devices_.resize(static_cast<size_t>(options.devices));
  for (int i = 0; i < options.devices; ++i) {
    Device& device = DeviceAt(i);
    const auto index = static_cast<size_t>(i);
    device.total = index < options.memory_of_device.size() ? options.memory_of_device[index] : options.memory_bytes;
    device.default_stream = std::make_shared<Stream>();
    device.default_stream->device = i;
    all_streams_.push_back(device.default_stream);
    auto pool = std::make_unique<Pool>();
    pool->device = i;
    pool->is_default = true;
    device.pool = device.default_pool = pool.get();
    pools[pool.get()] = std::move(pool);
  }
  CatchKernelFaults();
  if (options.mode == Mode::kBackground) EnsureWorker();
}

int Runtime::device_index() { return Mine().device; }
void Runtime::set_device_index(int device) { Mine().device = device; }

cudaError_t Runtime::Enter(Api api, bool needs_device) {
  if (in_host_function) {
    Report(std::string(NameOf(api)) + " called in a host function of a stream");
    return cudaErrorNotPermitted;
  }
  if (options.startup_error != cudaSuccess) return options.startup_error;
  if (devices_.empty()) return cudaErrorNoDevice;
  ++calls;
  for (size_t i = 0; i < faults.size(); ++i) {
    PlannedFault& fault = faults[i];
    if (fault.api != Api::kCount && fault.api != api) continue;
    if (fault.calls_left != 0) {
      --fault.calls_left;
      continue;
    }
    const PlannedFault planned = fault;
    faults.erase(faults.begin() + static_cast<std::ptrdiff_t>(i));
    return planned.sticky ? Fail(device_index(), planned.error) : planned.error;
  }
  return needs_device ? device().sticky : cudaSuccess;
}

cudaError_t Runtime::Remember(cudaError_t error) {
  if (error != cudaSuccess) Mine().last_error = error;
  return error;
}

cudaError_t Runtime::Fail(int device, cudaError_t error) {
  Device& failed = DeviceAt(device);
  if (failed.sticky == cudaSuccess) failed.sticky = error;
  return failed.sticky;
}

void Runtime::Report(std::string text) {
  if (options.print_reports) std::fprintf(stderr, "emulated CUDA: %s\n", text.c_str());
  constexpr size_t kKept = 1000;
  if (reports.size() == kKept) reports.erase(reports.begin());
  reports.push_back(std::move(text));
}

// ---- Streams ----

std::shared_ptr<Stream> Runtime::MakeStream(int device, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->device = device;
  stream->flags = flags;
  stream->priority = priority;
  streams[stream.get()] = stream;
  all_streams_.push_back(stream);
  return stream;
}

std::shared_ptr<Stream> Runtime::FindStream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return device().default_stream;
  const auto it = streams.find(handle);
  return it == streams.end() ? nullptr : it->second;
}

Event* Runtime::FindEvent(cudaEvent_t handle) {
  const auto it = events.find(handle);
  return it == events.end() ? nullptr : it->second.get();
}

Pool* Runtime::FindPool(cudaMemPool_t handle) {
  const auto it = pools.find(handle);
  return it == pools.end() ? nullptr : it->second.get();
}

cudaError_t Runtime::Push(Lock& lock, const std::shared_ptr<Stream>& stream, std::function<cudaError_t()> run,
                          std::vector<Point> after) {
  Device& target = DeviceAt(stream->device);
  if (target.sticky != cudaSuccess) return target.sticky;
  // Work of the legacy default stream and of the blocking streams of its device waits for one another.
  if (stream == target.default_stream) {
    for (const auto& other : all_streams_) {
      if (other != stream && other->device == stream->device && other->blocking() && !other->Idle()) {
        after.push_back({other, other->enqueued});
      }
    }
  } else if (stream->blocking() && !target.default_stream->Idle()) {
    after.push_back({target.default_stream, target.default_stream->enqueued});
  }
  stream->queue.push_back({std::move(run), std::move(after)});
  const uint64_t index = ++stream->enqueued;
  switch (options.mode) {
    case Mode::kEager:
      WaitUntil(lock, stream->device, [&] { return stream->completed >= index; });
      break;
    case Mode::kLazy:
      // Now and then some work runs that nobody waits for.
      if (random_.Below(4) == 0) {
        for (uint64_t n = random_.Below(4); n > 0; --n) {
          const std::shared_ptr<Stream> some = PickRunnable(nullptr);
          if (some == nullptr) break;
          RunHead(lock, some);
        }
      }
      break;
    case Mode::kBackground:
      EnsureWorker();
      changed_.notify_all();
      break;
  }
  return cudaSuccess;
}

std::shared_ptr<Stream> Runtime::PickRunnable(const std::shared_ptr<Stream>& preferred) {
  const auto runnable = [](const std::shared_ptr<Stream>& stream) {
    if (stream->running || stream->queue.empty()) return false;
    return std::all_of(stream->queue.front().after.begin(), stream->queue.front().after.end(),
                       [](const Point& point) { return point.Reached(); });
  };
  if (preferred != nullptr && runnable(preferred)) return preferred;
  const size_t count = all_streams_.size();
  const size_t first = count == 0 || options.mode == Mode::kEager ? 0 : static_cast<size_t>(random_.Below(count));
  for (size_t i = 0; i < count; ++i) {
    const auto& stream = all_streams_[(first + i) % count];
    if (runnable(stream)) return stream;
  }
  return nullptr;
}

bool Runtime::AnyRunning() const {
  return std::any_of(all_streams_.begin(), all_streams_.end(), [](const auto& stream) { return stream->running; });
}

void Runtime::RunHead(Lock& lock, std::shared_ptr<Stream> stream) {
  Operation operation = std::move(stream->queue.front());
  stream->queue.pop_front();
  Device& target = DeviceAt(stream->device);
  cudaError_t error = target.sticky;  // a lost device does nothing more
  if (error == cudaSuccess && target.fail_operation_in != 0 && --target.fail_operation_in == 0) {
    error = target.operation_error;
  }
  if (error == cudaSuccess && operation.run != nullptr) {
    stream->running = true;
    lock.unlock();
    error = operation.run();
    operation = Operation();  // what it holds may be freed only without the mutex
    lock.lock();
    stream->running = false;
  }
  if (error != cudaSuccess) Fail(stream->device, error);
  ++stream->completed;
  if (streams.find(stream.get()) == streams.end()) Forget(stream);
  changed_.notify_all();
}

void Runtime::Forget(const std::shared_ptr<Stream>& stream) {
  if (stream->Idle() && stream != DeviceAt(stream->device).default_stream) std::erase(all_streams_, stream);
}

cudaError_t Runtime::Query(Lock& lock, int device, const Point& point) {
  if (!point.Reached() && options.mode == Mode::kLazy && random_.Below(2) == 0) {
    const std::shared_ptr<Stream> some = PickRunnable(nullptr);
    if (some != nullptr) RunHead(lock, some);
  }
  if (DeviceAt(device).sticky != cudaSuccess) return DeviceAt(device).sticky;
  return point.Reached() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t Runtime::WaitUntil(Lock& lock, int device, const std::function<bool()>& reached) {
  while (!reached()) {
    if (options.mode == Mode::kBackground) {
      changed_.wait(lock);
      continue;
    }
    if (const std::shared_ptr<Stream> stream = PickRunnable(nullptr); stream != nullptr) {
      RunHead(lock, stream);
    } else if (AnyRunning()) {
      changed_.wait(lock);
    } else {
      Report("a wait that nothing can end");
      return Fail(device, cudaErrorLaunchTimeout);
    }
  }
  return DeviceAt(device).sticky;
}

cudaError_t Runtime::WaitStream(Lock& lock, const std::shared_ptr<Stream>& stream) {
  const uint64_t index = stream->enqueued;
  const cudaError_t error = WaitUntil(lock, stream->device, [&] { return stream->completed >= index; });
  TrimPools(stream->device);
  return error;
}

bool Runtime::DeviceIdle(int device) const {
  return std::all_of(all_streams_.begin(), all_streams_.end(),
                     [&](const auto& stream) { return stream->device != device || stream->Idle(); });
}

cudaError_t Runtime::WaitDevice(Lock& lock, int device) {
  const cudaError_t error = WaitUntil(lock, device, [&] { return DeviceIdle(device); });
  TrimPools(device);
  return error;
}

void Runtime::EnsureWorker() {
  if (worker_) return;
  worker_ = true;
  std::thread([this] { Work(); }).detach();
}

void Runtime::Work() {
  Lock lock(mutex_);
  for (;;) {
    const std::shared_ptr<Stream> stream = options.mode == Mode::kBackground ? PickRunnable(nullptr) : nullptr;
    if (stream != nullptr) {
      RunHead(lock, stream);
    } else {
      changed_.wait(lock);
    }
  }
}

// ---- Threads ----

cudaError_t TakeLastError() { return std::exchange(Mine().last_error, cudaSuccess); }
cudaError_t PeekLastError() { return Mine().last_error; }
bool InHostFunction() { return in_host_function; }
void SetInHostFunction(bool inside) { in_host_function = inside; }

DeviceAccess::DeviceAccess() { OpenDeviceMemory(); }
DeviceAccess::~DeviceAccess() { CloseDeviceMemory(); }

}  // namespace tensord::emulated
