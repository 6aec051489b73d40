#include "kernels/emulated/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "kernels/emulated/control.h"
#include "kernels/emulated/sanitizers.h"

namespace tensord::emulated {
namespace {

constexpr unsigned char kFreshByte = 0xFF;

size_t PageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// -1: this CPU has no protection keys.
int ProtectionKey() {
  static const int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
  return key;
}

// What mprotect opens and closes. Its mutex is the innermost of all.
struct Seals {
  std::mutex mutex;
  int openers = 0;
  std::map<char*, size_t> ranges;
};
Seals& AllSeals() {
  static Seals* const seals = new Seals;  // never destroyed: host threads may outlive main
  return *seals;
}

void Protect(const Seals& seals, int protection) {
  for (const auto& [data, bytes] : seals.ranges) mprotect(data, bytes, protection);
}

thread_local int access_depth = 0;

}  // namespace

void OpenDeviceMemory() {
  if (access_depth++ != 0) return;
  if (ProtectionKey() >= 0) {
    pkey_set(ProtectionKey(), 0);
    return;
  }
  Seals& seals = AllSeals();
  const std::lock_guard<std::mutex> lock(seals.mutex);
  if (seals.openers++ == 0) Protect(seals, PROT_READ | PROT_WRITE);
}

void CloseDeviceMemory() {
  if (--access_depth != 0) return;
  if (ProtectionKey() >= 0) {
    pkey_set(ProtectionKey(), PKEY_DISABLE_ACCESS);
    return;
  }
  Seals& seals = AllSeals();
  const std::lock_guard<std::mutex> lock(seals.mutex);
  if (--seals.openers == 0) Protect(seals, PROT_NONE);
}

// [guard page][… slack, data][guard page]: the data ends at the second guard but for its alignment.
bool MemoryTable::Map(Allocation& allocation) {
  const size_t page = PageBytes();
  const size_t room = (allocation.bytes + kAlignment - 1) / kAlignment * kAlignment;
  const size_t pages = (room + page - 1) / page * page;
  void* mapping = mmap(nullptr, pages + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return false;
  allocation.mapping = static_cast<char*>(mapping);
  allocation.mapped = pages + 2 * page;
  char* usable = allocation.mapping + page;
  const bool closed = allocation.device >= 0;
  int failed = 0;
  if (closed && ProtectionKey() >= 0) {
    failed = pkey_mprotect(usable, pages, PROT_READ | PROT_WRITE, ProtectionKey());
  } else if (closed) {
    Seals& seals = AllSeals();
    const std::lock_guard<std::mutex> lock(seals.mutex);
    if (seals.openers != 0) failed = mprotect(usable, pages, PROT_READ | PROT_WRITE);
    seals.ranges[usable] = pages;
  } else {
    failed = mprotect(usable, pages, PROT_READ | PROT_WRITE);
  }
  if (failed != 0) {
    Seals& seals = AllSeals();
    const std::lock_guard<std::mutex> lock(seals.mutex);
    seals.ranges.erase(usable);
    munmap(mapping, allocation.mapped);
    return false;
  }
  allocation.data = usable + pages - room;
  Poison(usable, static_cast<size_t>(allocation.data - usable));
  Poison(allocation.data + allocation.bytes, room - allocation.bytes);
  return true;
}

Allocation* MemoryTable::Allocate(size_t bytes, int device, bool guarded, bool fill) {
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.device = device;
  allocation.charged = Charged(bytes);
  if (guarded) {
    if (!Map(allocation)) return nullptr;
  } else {
    allocation.data =
        static_cast<char*>(std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
    if (allocation.data == nullptr) return nullptr;
    Poison(allocation.data + bytes, (bytes + kAlignment - 1) / kAlignment * kAlignment - bytes);
  }
  if (fill) {
    const DeviceAccess access;
    std::memset(allocation.data, kFreshByte, bytes);
  }
  return &(allocations_[allocation.data] = allocation);
}

Allocation* MemoryTable::Adopt(char* data, size_t bytes) {
  const auto next = allocations_.lower_bound(data);
  if (next != allocations_.end() && next->first < data + bytes) return nullptr;
  if (Find(data) != nullptr) return nullptr;
  Allocation allocation;
  allocation.data = data;
  allocation.bytes = bytes;
  allocation.registered = true;
  return &(allocations_[data] = allocation);
}

void MemoryTable::Release(Allocation& allocation) {
  if (allocation.registered) return;
  if (allocation.mapped == 0) {
    Unpoison(allocation.data, (allocation.bytes + kAlignment - 1) / kAlignment * kAlignment);
    std::free(allocation.data);
    return;
  }
  // The addresses stay taken and dead: whoever uses them faults. The pages behind them go back.
  Unpoison(allocation.mapping, allocation.mapped);
  {
    Seals& seals = AllSeals();
    const std::lock_guard<std::mutex> lock(seals.mutex);
    seals.ranges.erase(allocation.mapping + PageBytes());
  }
  mmap(allocation.mapping, allocation.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
       0);
}

void MemoryTable::Free(Allocation* allocation) {
  const char* data = allocation->data;
  Release(*allocation);
  allocations_.erase(data);
}

void MemoryTable::Clear() {
  for (auto& [data, allocation] : allocations_) Release(allocation);
  allocations_.clear();
}

Allocation* MemoryTable::Find(const void* data) {
  const char* address = static_cast<const char*>(data);
  auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin()) return nullptr;
  --it;
  Allocation& allocation = it->second;
  if (address == allocation.data) return &allocation;
  return address < allocation.data + allocation.bytes ? &allocation : nullptr;
}

}  // namespace tensord::emulated
