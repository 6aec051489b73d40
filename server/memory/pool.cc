// A caching pool: freed blocks are kept, split and coalesced.
//
// Upstream memory comes in segments. A segment is cut into blocks that know their neighbours, so that a freed block
// merges with free ones beside it. Free blocks are kept by size (best fit). Segments for small blocks are shared
// (kSmallSegment); a large request gets a segment of its own, rounded to kGranule of its size, so at most an eighth is
// wasted. Work on the CPU is over when Deallocate is called; for streams, a free block remembers the stream that used
// it last and only that stream takes it again until the pool is trimmed or the streams are joined by the backend.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "kernels/core/error.h"
#include "server/memory/memory.h"

namespace tensord {
namespace {

constexpr size_t kAlign = MemoryResource::kAlignment;
constexpr size_t kSmallBlock = size_t{256} << 10;    // requests up to this share segments
constexpr size_t kSmallSegment = size_t{2} << 20;    // one huge page
constexpr size_t kLargestRequest = size_t{1} << 62;  // sizes below can be rounded without overflow
constexpr size_t kSplitRemainder = size_t{1} << 20;  // a large block is split where at least so much is left over

size_t RoundUp(size_t n, size_t to) { return (n + to - 1) / to * to; }

// Large sizes are rounded so that near-equal requests find each other's blocks: to an eighth of the power of two below.
size_t RoundRequest(size_t bytes) {
  if (bytes <= kSmallBlock) return RoundUp(bytes, kAlign);
  size_t power = kSmallBlock;
  while (power * 2 <= bytes) power *= 2;
  return RoundUp(bytes, std::max(power / 8, kAlign));
}

struct Block {
  char* data = nullptr;
  size_t bytes = 0;
  StreamId stream = 0;
  bool free = true;
  bool small = false;
  Block* before = nullptr;  // neighbours in the segment
  Block* after = nullptr;
};

struct BySize {
  using is_transparent = void;
  static std::tuple<bool, StreamId, size_t, const char*> Key(const Block* b) {
    return {b->small, b->stream, b->bytes, b->data};
  }
  bool operator()(const Block* a, const Block* b) const { return Key(a) < Key(b); }
};

class CachingPool final : public MemoryResource {
 public:
  explicit CachingPool(MemoryResource& upstream) : upstream_(upstream) {}

  ~CachingPool() override {
    absl::MutexLock lock(&mutex_);
    TrimLocked();
    for (auto& [data, block] : blocks_) delete block;  // still handed out: a leak of the caller's
  }

  absl::StatusOr<void*> Allocate(size_t bytes, StreamId stream) override {
    if (bytes > kLargestRequest) return Error(Reason::kMemoryExhausted).With("requested", bytes);
    const size_t rounded = RoundRequest(std::max<size_t>(bytes, 1));
    absl::MutexLock lock(&mutex_);
    Block* block = TakeFree(rounded, stream);
    if (block == nullptr) {
      TENSORD_ASSIGN_OR_RETURN(block, Grow(rounded, stream));
    }
    Split(block, rounded);
    block->free = false;
    used_ += static_cast<int64_t>(block->bytes);
    return block->data;
  }

  void Deallocate(void* data, size_t /*bytes*/, StreamId stream) override {
    absl::MutexLock lock(&mutex_);
    const auto it = blocks_.find(static_cast<char*>(data));
    Block* block = it->second;
    block->free = true;
    block->stream = stream;
    used_ -= static_cast<int64_t>(block->bytes);
    block = Merge(block);
    free_.insert(block);
    // A shared segment that is wholly free goes back once another one is there to serve the next small requests.
    if (block->small && WholeSegment(*block)) {
      if (spare_small_ != nullptr && spare_small_ != block && free_.contains(spare_small_) &&
          WholeSegment(*spare_small_)) {
        Release(block);
      } else {
        spare_small_ = block;
      }
    }
  }

  size_t Trim() override {
    size_t released = 0;
    {
      absl::MutexLock lock(&mutex_);
      released = TrimLocked();
    }
    return released + upstream_.Trim();
  }

  MemoryStats Stats() const override {
    MemoryStats stats = upstream_.Stats();
    absl::MutexLock lock(&mutex_);
    stats.used = used_;
    stats.cached = reserved_ - used_;
    int64_t largest = 0;
    for (const Block* block : free_) largest = std::max(largest, static_cast<int64_t>(block->bytes));
    stats.largest_free = std::max(largest, stats.free);
    return stats;
  }

 private:
  static bool WholeSegment(const Block& block) { return block.before == nullptr && block.after == nullptr; }

  // The smallest free block of the class that fits and wastes no more than a quarter, unless it can be split.
  Block* TakeFree(size_t bytes, StreamId stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Block probe;
    probe.bytes = bytes;
    probe.stream = stream;
    probe.small = bytes <= kSmallBlock;
    const auto it = free_.lower_bound(&probe);
    if (it == free_.end() || (*it)->small != probe.small || (*it)->stream != stream) return nullptr;
    Block* block = *it;
    const size_t rest = block->bytes - bytes;
    if (!probe.small && rest < kSplitRemainder && rest > block->bytes / 4) return nullptr;
    free_.erase(it);
    return block;
  }

  absl::StatusOr<Block*> Grow(size_t bytes, StreamId stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const bool small = bytes <= kSmallBlock;
    size_t wanted = small ? kSmallSegment : bytes;
    absl::StatusOr<void*> data = upstream_.Allocate(wanted, stream);
    if (!data.ok() && small) {
      // A nearly full device still has room for the block itself.
      wanted = bytes;
      data = upstream_.Allocate(wanted, stream);
    }
    if (!data.ok() && TrimLocked() > 0) data = upstream_.Allocate(wanted, stream);
    if (!data.ok()) return data.status();
    auto* block = new Block{static_cast<char*>(*data), wanted, stream, true, small, nullptr, nullptr};
    blocks_.emplace(block->data, block);
    reserved_ += static_cast<int64_t>(wanted);
    return block;
  }

  void Split(Block* block, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const size_t rest = block->bytes - bytes;
    if (rest < (block->small ? kAlign : kSplitRemainder)) return;
    auto* tail = new Block{block->data + bytes,   rest, block->stream, true, block->small, /*before=*/block,
                           /*after=*/block->after};
    if (tail->after != nullptr) tail->after->before = tail;
    block->after = tail;
    block->bytes = bytes;
    blocks_.emplace(tail->data, tail);
    free_.insert(tail);
  }

  // Joins a block that is not in free_ with free neighbours of its stream.
  Block* Merge(Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (Block* left = block->before; left != nullptr && left->free && left->stream == block->stream) {
      free_.erase(left);
      Absorb(left, block);
      block = left;
    }
    if (Block* right = block->after; right != nullptr && right->free && right->stream == block->stream) {
      free_.erase(right);
      Absorb(block, right);
    }
    return block;
  }

  void Absorb(Block* left, Block* right) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (right == spare_small_) spare_small_ = nullptr;
    left->bytes += right->bytes;
    left->after = right->after;
    if (left->after != nullptr) left->after->before = left;
    blocks_.erase(right->data);
    delete right;
  }

  void Release(Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (block == spare_small_) spare_small_ = nullptr;
    free_.erase(block);
    blocks_.erase(block->data);
    reserved_ -= static_cast<int64_t>(block->bytes);
    upstream_.Deallocate(block->data, block->bytes, block->stream);
    delete block;
  }

  size_t TrimLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    // Free blocks of different streams do not merge while they may be used again, but a segment of free blocks alone
    // goes back as one: giving memory back upstream waits for every stream.
    std::vector<Block*> heads;
    for (Block* head : free_) {
      if (head->before != nullptr) continue;
      bool all_free = true;
      for (const Block* block = head; block != nullptr; block = block->after) all_free &= block->free;
      if (all_free) heads.push_back(head);
    }
    size_t released = 0;
    for (Block* head : heads) {
      while (head->after != nullptr) {
        free_.erase(head->after);
        free_.erase(head);
        Absorb(head, head->after);
        free_.insert(head);
      }
      released += head->bytes;
      Release(head);
    }
    return released;
  }

  MemoryResource& upstream_;
  mutable absl::Mutex mutex_;
  std::set<Block*, BySize> free_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<char*, Block*> blocks_ ABSL_GUARDED_BY(mutex_);  // by where they begin
  Block* spare_small_ ABSL_GUARDED_BY(mutex_) = nullptr;               // the one free shared segment that is kept
  int64_t reserved_ ABSL_GUARDED_BY(mutex_) = 0;                       // bytes held from upstream
  int64_t used_ ABSL_GUARDED_BY(mutex_) = 0;                           // bytes of blocks handed out
};

}  // namespace

std::unique_ptr<MemoryResource> MakeCachingPool(MemoryResource& upstream) {
  return std::make_unique<CachingPool>(upstream);
}

}  // namespace tensord
