// On whose behalf work is done: the principal, its share, and the tenant (a session, or one call without a session)
// whose work keeps its order.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/account.h"
#include "server/engine/ref.h"

namespace tensord {

class Lane;

// Counts of what a principal holds, and its turn on each device. Counters are thread safe.
struct Principal {
  Principal(std::string name_, size_t devices);
  ~Principal();
  const std::string name;
  std::atomic<uint64_t> handles{0};
  std::atomic<uint32_t> sessions{0};
  std::atomic<uint32_t> requests{0};
  std::atomic<uint64_t> upload_bytes{0};
  // Lanes with work that can go on, one queue a device; each is guarded by that device's executor.
  std::vector<std::deque<Ref<Lane>>> turns;
};

// A counter of random numbers: what a random instruction without a seed draws from. Thread safe.
class Generator {
 public:
  struct Draw {
    uint64_t seed = 0;
    uint64_t offset = 0;  // elements
  };
  explicit Generator(uint64_t seed) : seed_(seed) {}
  Draw Take(uint64_t elements) {
    absl::MutexLock lock(&mu_);
    const Draw draw{seed_, offset_};
    offset_ += elements;
    return draw;
  }

 private:
  absl::Mutex mu_;
  const uint64_t seed_;
  uint64_t offset_ ABSL_GUARDED_BY(mu_) = 0;
};

// A session's side of the executors, or that of one call without a session. Outlives the session while work of it is
// queued. Thread safe but for `lanes`, which whoever submits for the tenant has to itself (a session's mutex).
struct Tenant : public RefCounted<Tenant> {
  Tenant(std::shared_ptr<Principal> principal_, Ref<Account> account_, size_t devices);
  ~Tenant();
  const std::shared_ptr<Principal> principal;
  const Ref<Account> account;
  std::vector<Ref<Lane>> lanes;  // by device; made when first needed
  std::atomic<uint64_t> queued{0};
  std::atomic<uint64_t> done{0};
  // Called by an executor when `queued` falls to `low_water` while `waiting` is set. Set before the first work, never
  // changed.
  std::atomic<bool> waiting{false};
  uint64_t low_water = 0;
  std::function<void()> on_low_water;

  // One piece of work has ended.
  void WorkDone() {
    done.fetch_add(1, std::memory_order_relaxed);
    // Sequentially consistent with `waiting`: either this sees the waiter, or the waiter sees the new count.
    if (queued.fetch_sub(1) - 1 <= low_water && waiting.load() && waiting.exchange(false)) on_low_water();
  }
};

}  // namespace tensord
