#include "kernels/cpu/raw_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/core/error.h"

namespace tensord::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t PageSize() {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

// Blocks of a huge page and more are aligned to one, so that the kernel can use it.
size_t Mapped(size_t bytes) {
  const size_t unit = bytes >= kHugePage ? kHugePage : PageSize();
  return (bytes + unit - 1) / unit * unit;
}

std::optional<int64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  if (!(file >> text)) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;  // "max"
  return value;
}

// The value of a line "Key:   123 kB" of /proc/meminfo, in bytes.
std::optional<int64_t> MemInfo(std::string_view key) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kilobytes = 0;
  std::string unit;
  while (file >> name >> kilobytes) {
    if (name == key) return kilobytes * 1024;
    std::getline(file, unit);
  }
  return std::nullopt;
}

// The folder of the process's own memory cgroup, in version 2 or version 1; empty: there is none.
struct MemoryCgroup {
  std::string folder;
  bool version2 = true;
};
MemoryCgroup FindMemoryCgroup() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  MemoryCgroup found;
  while (std::getline(file, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      found = {"/sys/fs/cgroup" + path, true};
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      return {"/sys/fs/cgroup/memory" + path, false};
    }
  }
  return found;
}

// The smallest limit on the way from the process's cgroup up to the root, and what is used under it.
struct CgroupMemory {
  std::optional<int64_t> limit;
  std::optional<int64_t> used;
};
CgroupMemory ReadCgroup() {
  static const MemoryCgroup cgroup = FindMemoryCgroup();
  CgroupMemory result;
  std::string folder = cgroup.folder;
  const std::string_view root = cgroup.version2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
  while (folder.size() >= root.size()) {
    const auto limit = NumberIn(folder + (cgroup.version2 ? "/memory.max" : "/memory.limit_in_bytes"));
    if (limit && (!result.limit || *limit < *result.limit)) {
      result.limit = limit;
      result.used = NumberIn(folder + (cgroup.version2 ? "/memory.current" : "/memory.usage_in_bytes"));
    }
    const size_t slash = folder.find_last_of('/');
    if (slash == std::string::npos || folder.size() == root.size()) break;
    folder.resize(std::max(slash, root.size()));
  }
  return result;
}

class RawMemory final : public MemoryResource {
 public:
  absl::StatusOr<void*> Allocate(size_t bytes, StreamId /*stream*/) override {
    if (bytes > static_cast<size_t>(HostMemoryTotal())) return Refuse(bytes);
    const size_t mapped = Mapped(bytes);
    void* block = Map(mapped);
    if (block == nullptr) return Refuse(bytes);
    const auto used = used_.fetch_add(static_cast<int64_t>(mapped)) + static_cast<int64_t>(mapped);
    allocations_.fetch_add(1, std::memory_order_relaxed);
    for (int64_t peak = peak_.load(); used > peak && !peak_.compare_exchange_weak(peak, used);) {
    }
    return block;
  }

  void Deallocate(void* block, size_t bytes, StreamId /*stream*/) override {
    const size_t mapped = Mapped(bytes);
    munmap(block, mapped);
    used_.fetch_sub(static_cast<int64_t>(mapped));
  }

  MemoryStats Stats() const override {
    MemoryStats stats;
    stats.total = HostMemoryTotal();
    stats.free = HostMemoryAvailable();
    stats.used = used_.load();
    stats.peak = peak_.load();
    stats.largest_free = std::max<int64_t>(stats.free, 0);
    stats.allocations = allocations_.load();
    return stats;
  }

 private:
  // Null where the kernel refuses. Large blocks are cut out of a larger mapping so that they begin at a huge page.
  static void* Map(size_t mapped) {
    const bool huge = mapped >= kHugePage;
    const size_t asked = huge ? mapped + kHugePage : mapped;
    void* start = mmap(nullptr, asked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return nullptr;
    if (!huge) return start;
    const auto address = reinterpret_cast<uintptr_t>(start);
    const uintptr_t aligned = (address + kHugePage - 1) & ~(kHugePage - 1);
    if (const size_t head = aligned - address; head > 0) munmap(start, head);
    if (const size_t tail = asked - (aligned - address) - mapped; tail > 0) {
      munmap(reinterpret_cast<void*>(aligned + mapped), tail);
    }
    madvise(reinterpret_cast<void*>(aligned), mapped, MADV_HUGEPAGE);  // a wish: without it only speed is lost
    return reinterpret_cast<void*>(aligned);
  }

  static absl::Status Refuse(size_t bytes) {
    const int64_t available = std::max<int64_t>(HostMemoryAvailable(), 0);
    ErrorShortage shortage;
    shortage.device = "cpu";
    shortage.requested = bytes;
    shortage.free = static_cast<uint64_t>(available);
    shortage.largest_free = shortage.free;
    shortage.limit = static_cast<uint64_t>(HostMemoryTotal());
    return Error(Reason::kMemoryExhausted)
        .With("device", "cpu")
        .With("requested", bytes)
        .With("free", available)
        .With("cached", 0)
        .Shortage(shortage);
  }

  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<uint64_t> allocations_{0};
};

}  // namespace

int64_t HostMemoryTotal() {
  static const int64_t total = [] {
    int64_t bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(PageSize());
    if (const auto limit = ReadCgroup().limit; limit && *limit > 0) bytes = std::min(bytes, *limit);
    return bytes;
  }();
  return total;
}

int64_t HostMemoryAvailable() {
  const std::optional<int64_t> available = MemInfo("MemAvailable:");
  if (!available) return -1;
  const CgroupMemory cgroup = ReadCgroup();
  if (!cgroup.limit || !cgroup.used) return *available;
  return std::clamp<int64_t>(*cgroup.limit - *cgroup.used, 0, *available);
}

std::unique_ptr<MemoryResource> MakeRawMemory() { return std::make_unique<RawMemory>(); }

}  // namespace tensord::cpu
