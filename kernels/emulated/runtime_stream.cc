// Streams, events, host functions.
#include <chrono>
#include <memory>
#include <utility>

#include "kernels/emulated/runtime.h"

using tensord::emulated::Api;
using tensord::emulated::Event;
using tensord::emulated::Lock;
using tensord::emulated::Point;
using tensord::emulated::Runtime;
using tensord::emulated::Stream;

namespace {

double Milliseconds() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

cudaError_t CreateStream(Api api, cudaStream_t* stream, unsigned flags, int priority) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(api, true, [&](Lock&) {
    if (stream == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0) return cudaErrorInvalidValue;
    *stream = reinterpret_cast<cudaStream_t>(runtime.MakeStream(runtime.device_index(), flags, priority).get());
    return cudaSuccess;
  });
}

cudaError_t CreateEvent(Api api, cudaEvent_t* event, unsigned flags) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(api, true, [&](Lock&) {
    constexpr unsigned kKnown = cudaEventBlockingSync | cudaEventDisableTiming;
    if (event == nullptr || (flags & ~kKnown) != 0) return cudaErrorInvalidValue;
    auto made = std::make_unique<Event>();
    made->device = runtime.device_index();
    made->flags = flags;
    *event = reinterpret_cast<cudaEvent_t>(made.get());
    runtime.events[made.get()] = std::move(made);
    return cudaSuccess;
  });
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return CreateStream(Api::cudaStreamCreate, stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return CreateStream(Api::cudaStreamCreateWithFlags, stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  return CreateStream(Api::cudaStreamCreateWithPriority, stream, flags, priority);
}

// What the stream still holds runs on; only the handle dies.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaStreamDestroy, false, [&](Lock&) {
    const auto it = runtime.streams.find(handle);
    if (it == runtime.streams.end()) return cudaErrorInvalidResourceHandle;
    const std::shared_ptr<Stream> stream = it->second;
    runtime.streams.erase(it);
    runtime.Forget(stream);
    return runtime.DeviceAt(stream->device).sticky;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned int* flags) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaStreamGetFlags, false, [&](Lock&) {
    const std::shared_ptr<Stream> stream = runtime.FindStream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (flags == nullptr) return cudaErrorInvalidValue;
    *flags = stream->flags;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaStreamGetDevice, false, [&](Lock&) {
    const std::shared_ptr<Stream> stream = runtime.FindStream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = stream->device;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaStreamQuery, true, [&](Lock& lock) {
    const std::shared_ptr<Stream> stream = runtime.FindStream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    const uint64_t index = stream->enqueued;
    return runtime.Query(lock, stream->device, {stream, index});
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaStreamSynchronize, true, [&](Lock& lock) {
    const std::shared_ptr<Stream> stream = runtime.FindStream(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : runtime.WaitStream(lock, stream);
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned int flags) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaStreamWaitEvent, true, [&](Lock& lock) {
    if (flags != 0) return cudaErrorInvalidValue;
    const std::shared_ptr<Stream> stream = runtime.FindStream(handle);
    Event* waited = runtime.FindEvent(event);
    if (stream == nullptr || waited == nullptr) return cudaErrorInvalidResourceHandle;
    if (!waited->recorded) return cudaSuccess;  // an event that was never recorded is passed
    return runtime.Push(lock, stream, nullptr, {waited->point});
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* user_data) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaLaunchHostFunc, true, [&](Lock& lock) {
    const std::shared_ptr<Stream> stream = runtime.FindStream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (function == nullptr) return cudaErrorInvalidValue;
    return runtime.Push(lock, stream, [function, user_data] {
      tensord::emulated::SetInHostFunction(true);
      function(user_data);
      tensord::emulated::SetInHostFunction(false);
      return cudaSuccess;
    });
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return CreateEvent(Api::cudaEventCreate, event, cudaEventDefault); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return CreateEvent(Api::cudaEventCreateWithFlags, event, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaEventDestroy, false, [&](Lock&) {
    const auto it = runtime.events.find(event);
    if (it == runtime.events.end()) return cudaErrorInvalidResourceHandle;
    const int device = it->second->device;
    runtime.events.erase(it);
    return runtime.DeviceAt(device).sticky;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaEventRecord, true, [&](Lock& lock) {
    const std::shared_ptr<Stream> stream = runtime.FindStream(handle);
    Event* recorded = runtime.FindEvent(event);
    if (stream == nullptr || recorded == nullptr) return cudaErrorInvalidResourceHandle;
    if (recorded->device != stream->device) return cudaErrorInvalidResourceHandle;
    auto time = std::make_shared<double>(0);
    recorded->recorded = true;
    recorded->milliseconds = time;
    recorded->point = {stream, stream->enqueued + 1};
    return runtime.Push(lock, stream, [time] {
      *time = Milliseconds();
      return cudaSuccess;
    });
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaEventQuery, true, [&](Lock& lock) {
    Event* queried = runtime.FindEvent(event);
    if (queried == nullptr) return cudaErrorInvalidResourceHandle;
    const Point point = queried->point;
    return runtime.Query(lock, queried->device, point);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaEventSynchronize, true, [&](Lock& lock) {
    Event* waited = runtime.FindEvent(event);
    if (waited == nullptr) return cudaErrorInvalidResourceHandle;
    const Point point = waited->point;  // the event may be recorded again meanwhile
    return runtime.WaitUntil(lock, waited->device, [&] { return point.Reached(); });
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaEventElapsedTime, true, [&](Lock&) {
    Event* first = runtime.FindEvent(start);
    Event* last = runtime.FindEvent(end);
    if (first == nullptr || last == nullptr) return cudaErrorInvalidResourceHandle;
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    if (((first->flags | last->flags) & cudaEventDisableTiming) != 0) return cudaErrorInvalidResourceHandle;
    if (!first->recorded || !last->recorded) return cudaErrorInvalidResourceHandle;
    if (!first->point.Reached() || !last->point.Reached()) return cudaErrorNotReady;
    *milliseconds = static_cast<float>(*last->milliseconds - *first->milliseconds);
    return cudaSuccess;
  });
}

}  // extern "C"
