#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "kernels/emulated/block.h"
#include "kernels/emulated/sanitizers.h"

namespace tensord::emulated {
namespace {

constexpr unsigned char kMarginByte = 0xA5;
constexpr unsigned char kFreshByte = 0xFF;  // a NaN in every floating type: use before writing shows
constexpr size_t kArenaBytes = SharedMemory::kMaxTotal + SharedMemory::kMaxArrays * 128;

}  // namespace

// Under ThreadSanitizer memory comes from malloc, whose shadow is forgotten when no accesses are recorded: blocks that
// use the same bytes one after another are no race.
char* SharedMemory::Take(size_t bytes, size_t alignment) {
  if (UnderTsan()) {
    return static_cast<char*>(std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment));
  }
  if (arena_ == nullptr) {
    void* mapping = mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) return nullptr;
    arena_ = static_cast<char*>(mapping);
  }
  const size_t start = (used_ + alignment - 1) / alignment * alignment;
  if (start + bytes > kArenaBytes) return nullptr;
  used_ = start + bytes;
  return arena_ + start;
}

void* SharedMemory::Find(const void* key, size_t bytes, size_t alignment) {
  for (size_t i = 0; i < count_; ++i) {
    if (arrays_[i].key == key) return arrays_[i].data;
  }
  if (count_ == kMaxArrays || bytes > kMaxTotal) return nullptr;
  const IgnoreAccesses ignore;
  const size_t mapped = bytes + kMargin;
  char* data = Take(mapped, alignment < 16 ? 16 : alignment);
  if (data == nullptr) return nullptr;
  std::memset(data, kFreshByte, bytes);
  std::memset(data + bytes, kMarginByte, kMargin);
  Poison(data + bytes, kMargin);
  arrays_[count_++] = {key, data, bytes, mapped};
  if (key != nullptr) static_bytes_ += bytes;
  return data;
}

bool SharedMemory::Clear(size_t* bytes) {
  const IgnoreAccesses ignore;
  bool whole = true;
  for (size_t i = 0; i < count_; ++i) {
    const Array& array = arrays_[i];
    Unpoison(array.data, array.mapped);
    for (size_t b = array.bytes; b < array.mapped && whole; ++b) {
      if (static_cast<unsigned char>(array.data[b]) != kMarginByte) {
        whole = false;
        *bytes = array.bytes;
      }
    }
    if (UnderTsan()) std::free(array.data);
  }
  count_ = 0;
  used_ = 0;
  static_bytes_ = 0;
  return whole;
}

}  // namespace tensord::emulated
