#include "kernels/emulated/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "kernels/emulated/control.h"
#include "kernels/emulated/sanitizers.h"

namespace tensord::emulated {
namespace {

constexpr unsigned char kFreshByte = 0xFF;

size_t PageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

int ProtectionKey() {
  static const int key = UnderTsan() ? -1 : pkey_alloc(0, PKEY_DISABLE_ACCESS);
  return key;
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
  const int key = allocation.device >= 0 ? ProtectionKey() : -1;
  const int failed = key >= 0 ? pkey_mprotect(usable, pages, PROT_READ | PROT_WRITE, key)
                              : mprotect(usable, pages, PROT_READ | PROT_WRITE);
  if (failed != 0) {
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
