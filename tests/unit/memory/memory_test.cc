#include "server/memory/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "kernels/core/error.h"

namespace tensord {
namespace {

// Memory of a fixed size that checks its callers: every block goes back once, with the bytes it was asked with.
class Bounded final : public MemoryResource {
 public:
  explicit Bounded(size_t total) : total_(total) {}
  ~Bounded() override { EXPECT_TRUE(live_.empty()) << live_.size() << " blocks were never given back"; }

  absl::StatusOr<void*> Allocate(size_t bytes, StreamId) override {
    if (bytes > total_ - used_) return Error(Reason::kMemoryExhausted).With("requested", bytes);
    void* block = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    live_[block] = bytes;
    used_ += bytes;
    ++calls_;
    return block;
  }
  void Deallocate(void* block, size_t bytes, StreamId) override {
    ASSERT_EQ(live_.at(block), bytes);
    live_.erase(block);
    used_ -= bytes;
    std::free(block);
  }
  MemoryStats Stats() const override {
    MemoryStats stats;
    stats.total = static_cast<int64_t>(total_);
    stats.free = static_cast<int64_t>(total_ - used_);
    stats.used = static_cast<int64_t>(used_);
    return stats;
  }
  int calls() const { return calls_; }
  size_t used() const { return used_; }

 private:
  const size_t total_;
  size_t used_ = 0;
  int calls_ = 0;
  std::map<void*, size_t> live_;
};

constexpr size_t kMiB = size_t{1} << 20;

TEST(CachingPool, ReusesWhatWasFreed) {
  Bounded raw(64 * kMiB);
  auto pool = MakeCachingPool(raw);
  void* first = *pool->Allocate(5 * kMiB, 0);
  pool->Deallocate(first, 5 * kMiB, 0);
  EXPECT_EQ(*pool->Allocate(5 * kMiB, 0), first);
  EXPECT_EQ(raw.calls(), 1);
  pool->Deallocate(first, 5 * kMiB, 0);
}

TEST(CachingPool, SmallBlocksShareASegment) {
  Bounded raw(64 * kMiB);
  auto pool = MakeCachingPool(raw);
  std::vector<void*> blocks;
  for (int i = 0; i < 1000; ++i) blocks.push_back(*pool->Allocate(24, 0));
  EXPECT_EQ(raw.calls(), 1);
  for (void* block : blocks) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % MemoryResource::kAlignment, 0u);
    pool->Deallocate(block, 24, 0);
  }
  EXPECT_EQ(pool->Stats().used, 0);
}

TEST(CachingPool, NeighboursMerge) {
  Bounded raw(64 * kMiB);
  auto pool = MakeCachingPool(raw);
  void* whole = *pool->Allocate(16 * kMiB, 0);
  pool->Deallocate(whole, 16 * kMiB, 0);
  std::vector<void*> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(*pool->Allocate(4 * kMiB, 0));
  EXPECT_EQ(raw.calls(), 1);
  for (const int i : {1, 3, 0, 2}) pool->Deallocate(parts[static_cast<size_t>(i)], 4 * kMiB, 0);
  EXPECT_EQ(*pool->Allocate(16 * kMiB, 0), whole);
  EXPECT_EQ(raw.calls(), 1);
  pool->Deallocate(whole, 16 * kMiB, 0);
}

TEST(CachingPool, AnotherStreamDoesNotTakeABlock) {
  Bounded raw(64 * kMiB);
  auto pool = MakeCachingPool(raw);
  void* block = *pool->Allocate(4 * kMiB, 1);
  pool->Deallocate(block, 4 * kMiB, 1);
  void* other = *pool->Allocate(4 * kMiB, 2);
  EXPECT_NE(other, block);
  pool->Deallocate(other, 4 * kMiB, 2);
}

TEST(CachingPool, TrimsBeforeItRefuses) {
  Bounded raw(16 * kMiB);
  auto pool = MakeCachingPool(raw);
  void* a = *pool->Allocate(10 * kMiB, 0);
  pool->Deallocate(a, 10 * kMiB, 0);
  // 12 MiB are not free beside the 10 that are cached.
  const auto b = pool->Allocate(12 * kMiB, 0);
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(ReasonOf(pool->Allocate(12 * kMiB, 0).status()), Reason::kMemoryExhausted);
  pool->Deallocate(*b, 12 * kMiB, 0);
  EXPECT_GT(pool->Trim(), 0u);
  EXPECT_EQ(raw.used(), 0u);
}

TEST(CachingPool, RefusesSizesThatOverflow) {
  Bounded raw(kMiB);
  auto pool = MakeCachingPool(raw);
  EXPECT_EQ(ReasonOf(pool->Allocate(SIZE_MAX, 0).status()), Reason::kMemoryExhausted);
  EXPECT_EQ(ReasonOf(pool->Allocate(SIZE_MAX / 2 + 5, 0).status()), Reason::kMemoryExhausted);
}

// Blocks never overlap, keep their contents, and all memory comes back, whatever the order.
TEST(CachingPool, RandomUseKeepsContents) {
  Bounded raw(256 * kMiB);
  auto pool = MakeCachingPool(raw);
  std::mt19937 random(7);
  struct Held {
    unsigned char* data;
    size_t bytes;
    unsigned char mark;
  };
  std::vector<Held> held;
  for (int step = 0; step < 4000; ++step) {
    if (held.size() < 40 && random() % 3 != 0) {
      const size_t bytes = random() % 5 == 0 ? random() % (4 * kMiB) + 1 : random() % 4000 + 1;
      auto block = pool->Allocate(bytes, random() % 2);
      if (!block.ok()) continue;
      held.push_back({static_cast<unsigned char*>(*block), bytes, static_cast<unsigned char>(step)});
      std::memset(*block, held.back().mark, bytes);
    } else if (!held.empty()) {
      const size_t i = random() % held.size();
      const Held h = held[i];
      for (size_t k = 0; k < h.bytes; k += 97) ASSERT_EQ(h.data[k], h.mark);
      ASSERT_EQ(h.data[h.bytes - 1], h.mark);
      pool->Deallocate(h.data, h.bytes, random() % 2);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  for (const Held& h : held) pool->Deallocate(h.data, h.bytes, 0);
  EXPECT_EQ(pool->Stats().used, 0);
}

TEST(Statistics, CountsUsedAndPeak) {
  Bounded raw(64 * kMiB);
  auto statistics = MakeStatistics(raw);
  void* a = *statistics->Allocate(100, 0);
  void* b = *statistics->Allocate(50, 0);
  statistics->Deallocate(a, 100, 0);
  EXPECT_EQ(statistics->Stats().used, 50);
  EXPECT_EQ(statistics->Stats().peak, 150);
  EXPECT_EQ(statistics->Stats().allocations, 2u);
  statistics->Deallocate(b, 50, 0);
}

TEST(Limit, RefusesWithTheNumbers) {
  Bounded raw(64 * kMiB);
  auto limit = MakeLimit(raw, "cuda:0", 10 * kMiB);
  void* block = *limit->Allocate(8 * kMiB, 0);
  const absl::Status status = limit->Allocate(4 * kMiB, 0).status();
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.reason, Reason::kMemoryExhausted);
  EXPECT_EQ(details.Get("device"), "cuda:0");
  EXPECT_EQ(details.Get("requested"), "4194304");
  EXPECT_EQ(details.Get("free"), "2097152");
  ASSERT_TRUE(details.shortage.has_value());
  EXPECT_EQ(details.shortage->limit, 10 * kMiB);
  EXPECT_EQ(std::string(status.message()), "cuda:0: 4194304 bytes requested, 2097152 free, 0 cached, limit 10485760");
  // What is in use on the device follows from what is free there, whatever the limit.
  EXPECT_EQ(limit->Stats().free, raw.Stats().free);
  limit->Deallocate(block, 8 * kMiB, 0);
  EXPECT_EQ(limit->Stats().free, raw.Stats().free);
}

TEST(Limit, NamesTheDeviceOfARefusalFromBelow) {
  Bounded raw(kMiB);
  auto limit = MakeLimit(raw, "cpu", 0);
  EXPECT_EQ(DetailsOf(limit->Allocate(2 * kMiB, 0).status()).Get("device"), "cpu");
}

TEST(Stack, ThreadsShareIt) {
  class Malloc final : public MemoryResource {
   public:
    absl::StatusOr<void*> Allocate(size_t bytes, StreamId) override {
      return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    }
    void Deallocate(void* block, size_t, StreamId) override { std::free(block); }
    MemoryStats Stats() const override { return {}; }
  } raw;
  auto pool = MakeCachingPool(raw);
  auto statistics = MakeStatistics(*pool);
  auto limit = MakeLimit(*statistics, "cpu", 64 * kMiB);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 2000; ++i) {
        const size_t bytes = random() % 100000 + 1;
        auto block = limit->Allocate(bytes, 0);
        ASSERT_TRUE(block.ok());
        static_cast<char*>(*block)[bytes - 1] = static_cast<char>(i);
        limit->Deallocate(*block, bytes, 0);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(limit->Stats().used, 0);
}

}  // namespace
}  // namespace tensord
