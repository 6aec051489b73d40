// Copies and fills. What can be checked is checked by the call; the bytes move in stream order.
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/emulated/runtime.h"

using tensord::emulated::Allocation;
using tensord::emulated::Api;
using tensord::emulated::DeviceAccess;
using tensord::emulated::Lock;
using tensord::emulated::Mode;
using tensord::emulated::Runtime;
using tensord::emulated::Stream;

namespace {

// Rows of `width` bytes; a plain copy is one row.
struct Copy {
  char* to;
  size_t to_pitch;
  const char* from;
  size_t from_pitch;
  size_t width;
  size_t height;

  size_t ToSpan() const { return height == 0 ? 0 : (height - 1) * to_pitch + width; }
  size_t FromSpan() const { return height == 0 ? 0 : (height - 1) * from_pitch + width; }
  void Run() const {
    const DeviceAccess access;
    for (size_t row = 0; row < height; ++row) std::memcpy(to + row * to_pitch, from + row * from_pitch, width);
  }
};

enum class Place { kPageable, kPinned, kDevice };

// Where `bytes` at `data` are. False where they pass the end of what they begin in.
bool Locate(Runtime& runtime, const char* data, size_t bytes, Place* place) {
  const Allocation* allocation = runtime.memory.Find(data);
  if (allocation == nullptr) {
    *place = Place::kPageable;
    return true;
  }
  *place = allocation->device >= 0 ? Place::kDevice : Place::kPinned;
  const bool within = static_cast<size_t>(data - allocation->data) + bytes <= allocation->bytes;
  return within || *place == Place::kPinned;  // past pinned memory is ordinary host memory
}

bool KindFits(cudaMemcpyKind kind, Place from, Place to) {
  const bool from_device = from == Place::kDevice;
  const bool to_device = to == Place::kDevice;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !from_device && !to_device;
    case cudaMemcpyHostToDevice:
      return !from_device && to_device;
    case cudaMemcpyDeviceToHost:
      return from_device && !to_device;
    case cudaMemcpyDeviceToDevice:
      return from_device && to_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

cudaError_t CopyIn(Runtime& runtime, Lock& lock, Copy copy, cudaMemcpyKind kind, cudaStream_t handle, bool waits) {
  const std::shared_ptr<Stream> stream = runtime.FindStream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (copy.width == 0 || copy.height == 0) return cudaSuccess;
  if (copy.to == nullptr || copy.from == nullptr) return cudaErrorInvalidValue;
  Place from = Place::kPageable, to = Place::kPageable;
  if (!Locate(runtime, copy.from, copy.FromSpan(), &from) || !Locate(runtime, copy.to, copy.ToSpan(), &to)) {
    runtime.Report("a copy past the end of an allocation");
    return cudaErrorInvalidValue;
  }
  if (!KindFits(kind, from, to)) {
    runtime.Report("a copy whose kind does not fit its pointers");
    return cudaErrorInvalidValue;
  }
  std::function<cudaError_t()> run;
  if (from == Place::kPageable && !waits && runtime.options.mode != Mode::kEager) {
    // Pageable memory is read before the call returns; the device gets it later.
    auto staged = std::make_shared<std::vector<char>>(copy.width * copy.height);
    Copy stage = copy;
    stage.to = staged->data();
    stage.to_pitch = copy.width;
    stage.Run();
    copy.from_pitch = copy.width;
    run = [copy, staged]() mutable {
      copy.from = staged->data();
      copy.Run();
      return cudaSuccess;
    };
  } else {
    run = [copy] {
      copy.Run();
      return cudaSuccess;
    };
  }
  if (const cudaError_t error = runtime.Push(lock, stream, std::move(run)); error != cudaSuccess) return error;
  // Pageable memory is written before the call returns.
  return waits || to == Place::kPageable ? runtime.WaitStream(lock, stream) : cudaSuccess;
}

Copy Row(void* to, const void* from, size_t bytes) {
  return {static_cast<char*>(to), bytes, static_cast<const char*>(from), bytes, bytes, 1};
}

cudaError_t Fill(Runtime& runtime, Lock& lock, void* data, int value, size_t bytes, cudaStream_t handle) {
  const std::shared_ptr<Stream> stream = runtime.FindStream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  Place place = Place::kPageable;
  if (!Locate(runtime, static_cast<const char*>(data), bytes, &place) || place == Place::kPageable) {
    runtime.Report("a fill of memory that is not an allocation's");
    return cudaErrorInvalidValue;
  }
  return runtime.Push(lock, stream, [data, value, bytes] {
    const DeviceAccess access;
    std::memset(data, value, bytes);
    return cudaSuccess;
  });
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaMemcpy, true,
                      [&](Lock& lock) { return CopyIn(runtime, lock, Row(to, from, bytes), kind, nullptr, true); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaMemcpyAsync, true,
                      [&](Lock& lock) { return CopyIn(runtime, lock, Row(to, from, bytes), kind, stream, false); });
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaMemcpy2DAsync, true, [&](Lock& lock) {
    if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
    return CopyIn(runtime, lock,
                  {static_cast<char*>(to), to_pitch, static_cast<const char*>(from), from_pitch, width, height}, kind,
                  stream, false);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaMemcpyPeerAsync, true, [&](Lock& lock) {
    if (!runtime.HasDevice(to_device) || !runtime.HasDevice(from_device)) return cudaErrorInvalidDevice;
    if (bytes == 0) return cudaSuccess;
    const Allocation* target = runtime.memory.Find(to);
    const Allocation* source = runtime.memory.Find(from);
    if (target == nullptr || source == nullptr) return cudaErrorInvalidValue;
    if (target->device != to_device || source->device != from_device) return cudaErrorInvalidValue;
    return CopyIn(runtime, lock, Row(to, from, bytes), cudaMemcpyDefault, stream, false);
  });
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  const cudaError_t error = cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, nullptr);
  return error != cudaSuccess ? error : cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemset(void* data, int value, size_t bytes) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaMemset, true,
                      [&](Lock& lock) { return Fill(runtime, lock, data, value, bytes, nullptr); });
}

cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaMemsetAsync, true,
                      [&](Lock& lock) { return Fill(runtime, lock, data, value, bytes, stream); });
}

}  // extern "C"
