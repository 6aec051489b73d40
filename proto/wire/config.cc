#include "proto/wire/config.h"

#include <atomic>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/core/error.h"

namespace tensord::wire {
namespace {

// One value that readers take without a lock. Old values are kept, because references to them may be in use: a process
// sets each a few times.
template <class T>
class Published {
 public:
  explicit Published(T initial) { Set(std::move(initial)); }
  void Set(T value) {
    absl::MutexLock lock(&mutex_);
    all_.push_back(std::move(value));
    current_.store(&all_.back(), std::memory_order_release);
  }
  const T& Get() const { return *current_.load(std::memory_order_acquire); }

 private:
  absl::Mutex mutex_;
  std::deque<T> all_ ABSL_GUARDED_BY(mutex_);
  std::atomic<const T*> current_{nullptr};
};

Published<std::string>& Version() {
  static auto& version = *new Published<std::string>("0.1.0");
  return version;
}

Published<Limits>& Bounds() {
  static auto& bounds = *new Published<Limits>(Limits{});
  return bounds;
}

}  // namespace

void SetDaemonVersion(std::string_view version) { Version().Set(std::string(version)); }
const std::string& DaemonVersion() { return Version().Get(); }

void SetLimits(const Limits& limits) { Bounds().Set(limits); }
const Limits& RequestLimits() { return Bounds().Get(); }

absl::Status NotOffered(std::string_view what) {
  return Error(Reason::kNotOffered).With("what", what).With("daemon_version", DaemonVersion());
}

absl::Status FeatureUnavailable(std::string_view feature) {
  return Error(Reason::kFeatureUnavailable).With("feature", feature).With("available", "none");
}

}  // namespace tensord::wire
