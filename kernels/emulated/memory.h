// Device memory of the emulated devices, and pinned host memory: who owns which bytes.
//
// Not thread-safe: the runtime's mutex guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace tensord::emulated {

struct Allocation {
  char* data = nullptr;
  size_t bytes = 0;    // as asked for
  int device = -1;     // -1: pinned host memory
  size_t charged = 0;  // what the device counts
  char* mapping = nullptr;
  size_t mapped = 0;        // 0: from the heap
  void* pool = nullptr;     // cudaMallocAsync: whose pool
  bool freed = false;       // cudaFreeAsync is on its way
  bool registered = false;  // cudaHostRegister: the memory is somebody else's
};

class MemoryTable {
 public:
  // What devices count memory by.
  static constexpr size_t kGranule = 512;
  // What CUDA promises of every allocation.
  static constexpr size_t kAlignment = 256;

  static size_t Charged(size_t bytes) { return (bytes + kGranule - 1) / kGranule * kGranule; }

  // Null where the host has no memory left. `guarded`: see Options::guard_pages.
  Allocation* Allocate(size_t bytes, int device, bool guarded, bool fill);
  // Records memory that is somebody else's as pinned; null where it overlaps what is known.
  Allocation* Adopt(char* data, size_t bytes);
  void Free(Allocation* allocation);
  void Clear();

  // The allocation `data` points into; its end belongs to it only where the allocation is empty.
  Allocation* Find(const void* data);
  size_t size() const { return allocations_.size(); }

 private:
  bool Map(Allocation& allocation);
  void Release(Allocation& allocation);
  std::map<const char*, Allocation> allocations_;  // by address
};

// Guarded device memory is closed to host code: by a protection key where the CPU has them, which opens it to one thread
// alone; elsewhere by mprotect, which opens it to the process. Any thread; calls nest.
void OpenDeviceMemory();
void CloseDeviceMemory();

}  // namespace tensord::emulated
