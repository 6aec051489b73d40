// Stream-ordered allocation and memory pools. A pool keeps what is freed up to its threshold when the device is waited
// for; only bytes are kept count of: every block has addresses of its own, so that use after free shows.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "kernels/emulated/runtime.h"

namespace tensord::emulated {

cudaError_t Runtime::AllocateInPool(Pool& pool, void** data, size_t bytes) {
  *data = nullptr;
  if (bytes == 0) return cudaSuccess;
  Device& owner = DeviceAt(pool.device);
  const size_t charged = MemoryTable::Charged(bytes);
  if (bytes > owner.total) return cudaErrorMemoryAllocation;
  const uint64_t kept = pool.reserved - pool.used;
  const uint64_t more = charged > kept ? charged - kept : 0;
  if (more > owner.total - owner.used) {
    // What other pools of the device keep unused is given back first.
    for (auto& [handle, other] : pools) {
      if (other->device == pool.device && other.get() != &pool) TrimPool(*other, 0);
    }
    if (more > owner.total - owner.used) return cudaErrorMemoryAllocation;
  }
  Allocation* allocation = memory.Allocate(bytes, pool.device, options.guard_pages, options.fill_fresh);
  if (allocation == nullptr) return cudaErrorMemoryAllocation;
  allocation->pool = &pool;
  owner.used += more;
  pool.reserved += more;
  pool.used += charged;
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  pool.used_high = std::max(pool.used_high, pool.used);
  *data = allocation->data;
  return cudaSuccess;
}

void Runtime::FreeInPool(Allocation* allocation) {
  static_cast<Pool*>(allocation->pool)->used -= allocation->charged;
  memory.Free(allocation);
}

void Runtime::TrimPool(Pool& pool, uint64_t bytes_to_keep) {
  const uint64_t keep = std::max(pool.used, bytes_to_keep);
  if (pool.reserved <= keep) return;
  DeviceAt(pool.device).used -= pool.reserved - keep;
  pool.reserved = keep;
}

void Runtime::TrimPools(int device) {
  for (auto& [handle, pool] : pools) {
    if (pool->device == device) TrimPool(*pool, pool->threshold);
  }
}

}  // namespace tensord::emulated

using tensord::emulated::Allocation;
using tensord::emulated::Api;
using tensord::emulated::Lock;
using tensord::emulated::Pool;
using tensord::emulated::Runtime;
using tensord::emulated::Stream;

namespace {

// The value of an attribute: an int for the first three, a 64-bit count for the others.
uint64_t* Counter(Pool& pool, cudaMemPoolAttr attribute) {
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      return &pool.threshold;
    case cudaMemPoolAttrReservedMemCurrent:
      return &pool.reserved;
    case cudaMemPoolAttrReservedMemHigh:
      return &pool.reserved_high;
    case cudaMemPoolAttrUsedMemCurrent:
      return &pool.used;
    case cudaMemPoolAttrUsedMemHigh:
      return &pool.used_high;
    default:
      return nullptr;
  }
}

bool IsReuse(cudaMemPoolAttr attribute) {
  return attribute >= cudaMemPoolReuseFollowEventDependencies && attribute <= cudaMemPoolReuseAllowInternalDependencies;
}

}  // namespace

extern "C" {

cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t handle) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaMallocAsync, true, [&](Lock& lock) {
    if (data == nullptr) return cudaErrorInvalidValue;
    const std::shared_ptr<Stream> stream = runtime.FindStream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    const cudaError_t error = runtime.AllocateInPool(*runtime.DeviceAt(stream->device).pool, data, bytes);
    return error != cudaSuccess ? error : runtime.Push(lock, stream, nullptr);
  });
}

cudaError_t cudaMallocFromPoolAsync(void** data, size_t bytes, cudaMemPool_t handle, cudaStream_t stream_handle) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaMallocFromPoolAsync, true, [&](Lock& lock) {
    Pool* pool = runtime.FindPool(handle);
    const std::shared_ptr<Stream> stream = runtime.FindStream(stream_handle);
    if (data == nullptr || pool == nullptr) return cudaErrorInvalidValue;
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    const cudaError_t error = runtime.AllocateInPool(*pool, data, bytes);
    return error != cudaSuccess ? error : runtime.Push(lock, stream, nullptr);
  });
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t handle) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaFreeAsync, true, [&](Lock& lock) {
    const std::shared_ptr<Stream> stream = runtime.FindStream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (data == nullptr) return cudaSuccess;
    Allocation* allocation = runtime.memory.Find(data);
    if (allocation == nullptr || allocation->device < 0 || allocation->data != data || allocation->freed) {
      return cudaErrorInvalidValue;
    }
    allocation->freed = true;
    const cudaError_t error = runtime.Push(lock, stream, [&runtime, data] {
      const Lock free_lock(runtime.mutex());
      Allocation* freed = runtime.memory.Find(data);
      if (freed == nullptr) return cudaSuccess;
      if (freed->pool != nullptr) {
        runtime.FreeInPool(freed);
      } else {
        runtime.DeviceAt(freed->device).used -= freed->charged;
        runtime.memory.Free(freed);
      }
      return cudaSuccess;
    });
    return error;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaDeviceGetDefaultMemPool, false, [&](Lock&) {
    if (pool == nullptr) return cudaErrorInvalidValue;
    if (!runtime.HasDevice(device)) return cudaErrorInvalidDevice;
    *pool = reinterpret_cast<cudaMemPool_t>(runtime.DeviceAt(device).default_pool);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaDeviceGetMemPool, false, [&](Lock&) {
    if (pool == nullptr) return cudaErrorInvalidValue;
    if (!runtime.HasDevice(device)) return cudaErrorInvalidDevice;
    *pool = reinterpret_cast<cudaMemPool_t>(runtime.DeviceAt(device).pool);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t handle) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaDeviceSetMemPool, false, [&](Lock&) {
    if (!runtime.HasDevice(device)) return cudaErrorInvalidDevice;
    Pool* pool = runtime.FindPool(handle);
    if (pool == nullptr || pool->device != device) return cudaErrorInvalidValue;
    runtime.DeviceAt(device).pool = pool;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* handle, const struct cudaMemPoolProps* properties) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaMemPoolCreate, true, [&](Lock&) {
    if (handle == nullptr || properties == nullptr) return cudaErrorInvalidValue;
    if (properties->allocType != cudaMemAllocationTypePinned) return cudaErrorInvalidValue;
    if (properties->location.type != cudaMemLocationTypeDevice) return cudaErrorInvalidValue;
    if (!runtime.HasDevice(properties->location.id)) return cudaErrorInvalidDevice;
    if (properties->handleTypes != cudaMemHandleTypeNone) return cudaErrorNotSupported;
    auto pool = std::make_unique<Pool>();
    pool->device = properties->location.id;
    *handle = reinterpret_cast<cudaMemPool_t>(pool.get());
    runtime.pools[pool.get()] = std::move(pool);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaMemPoolDestroy, false, [&](Lock& lock) {
    Pool* pool = runtime.FindPool(handle);
    if (pool == nullptr || pool->is_default) return cudaErrorInvalidValue;
    runtime.WaitDevice(lock, pool->device);
    if (pool->used != 0) {
      runtime.Report("a pool destroyed while blocks of it live");
      return cudaErrorInvalidValue;
    }
    runtime.TrimPool(*pool, 0);
    if (runtime.DeviceAt(pool->device).pool == pool) {
      runtime.DeviceAt(pool->device).pool = runtime.DeviceAt(pool->device).default_pool;
    }
    runtime.pools.erase(handle);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, enum cudaMemPoolAttr attribute, void* value) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaMemPoolSetAttribute, false, [&](Lock&) {
    Pool* pool = runtime.FindPool(handle);
    if (pool == nullptr || value == nullptr) return cudaErrorInvalidValue;
    if (IsReuse(attribute)) {
      std::memcpy(&pool->reuse[attribute - cudaMemPoolReuseFollowEventDependencies], value, sizeof(int));
      return cudaSuccess;
    }
    uint64_t number = 0;
    std::memcpy(&number, value, sizeof(number));
    if (attribute == cudaMemPoolAttrReleaseThreshold) {
      pool->threshold = number;
    } else if (attribute == cudaMemPoolAttrReservedMemHigh && number == 0) {
      pool->reserved_high = pool->reserved;  // high-water marks can only be set back
    } else if (attribute == cudaMemPoolAttrUsedMemHigh && number == 0) {
      pool->used_high = pool->used;
    } else {
      return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, enum cudaMemPoolAttr attribute, void* value) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaMemPoolGetAttribute, false, [&](Lock&) {
    Pool* pool = runtime.FindPool(handle);
    if (pool == nullptr || value == nullptr) return cudaErrorInvalidValue;
    if (IsReuse(attribute)) {
      std::memcpy(value, &pool->reuse[attribute - cudaMemPoolReuseFollowEventDependencies], sizeof(int));
      return cudaSuccess;
    }
    const uint64_t* counter = Counter(*pool, attribute);
    if (counter == nullptr) return cudaErrorInvalidValue;
    std::memcpy(value, counter, sizeof(*counter));
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, size_t bytes_to_keep) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaMemPoolTrimTo, false, [&](Lock&) {
    Pool* pool = runtime.FindPool(handle);
    if (pool == nullptr) return cudaErrorInvalidValue;
    runtime.TrimPool(*pool, bytes_to_keep);
    return cudaSuccess;
  });
}

// Every device reaches every block here; what is checked is that CUDA would take the call.
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t handle, const struct cudaMemAccessDesc* list, size_t count) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaMemPoolSetAccess, false, [&](Lock&) {
    Pool* pool = runtime.FindPool(handle);
    if (pool == nullptr || (list == nullptr && count != 0)) return cudaErrorInvalidValue;
    for (size_t i = 0; i < count; ++i) {
      if (list[i].location.type != cudaMemLocationTypeDevice) return cudaErrorInvalidValue;
      if (!runtime.HasDevice(list[i].location.id)) return cudaErrorInvalidDevice;
      if (list[i].location.id != pool->device && !runtime.options.peers) return cudaErrorPeerAccessUnsupported;
      if (list[i].location.id == pool->device && list[i].flags != cudaMemAccessFlagsProtReadWrite) {
        return cudaErrorInvalidValue;
      }
    }
    return cudaSuccess;
  });
}

}  // extern "C"
