// Work: one instruction that has been checked and waits for its device. Batch: what the instructions of a message or a
// call have in common.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/ops/program.h"
#include "server/engine/ref.h"
#include "server/engine/storage.h"
#include "server/engine/tenant.h"
#include "server/engine/types.h"

namespace tensord {

// Instructions that came together: a stream message, an Execute, a copy for a download. Lives until the last of its
// work has ended. Thread safe; fields that are not atomic or guarded are set before anything is submitted.
class Batch : public RefCounted<Batch> {
 public:
  Batch(Ref<Tenant> tenant, absl::Time arrival) : tenant_(std::move(tenant)), arrival_(arrival) {}

  uint64_t sequence = 0;
  ReportLevel report = ReportLevel::kNone;
  std::function<void(InstructionReport)> report_to;  // with a level
  std::vector<std::shared_ptr<const void>> keep;     // programs whose attributes are referred to
  absl::AnyInvocable<void()> on_done;                // all work has ended, and Close was called

  const Ref<Tenant>& tenant() const { return tenant_; }
  absl::Time arrival() const { return arrival_; }

  // Work that has not begun fails with `status` from now on.
  void Cancel(absl::Status status);
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  absl::Status cancel_status() const;

  void AddWork(uint32_t count) { left_.fetch_add(count, std::memory_order_relaxed); }
  // One has ended; `failure` if it failed, by itself or by its inputs.
  void WorkDone(const absl::Status& failure);
  // Nothing more will be added.
  void Close() { CountDown(); }
  // Nothing was submitted and nothing will be: lets go of who waits.
  void Discard() {
    on_done = nullptr;
    report_to = nullptr;
  }
  bool done() const { return left_.load(std::memory_order_acquire) == 0; }
  // The first failure.
  absl::Status failure() const;

 private:
  void CountDown();
  const Ref<Tenant> tenant_;
  const absl::Time arrival_;
  std::atomic<int64_t> left_{1};
  std::atomic<bool> cancelled_{false};
  mutable absl::Mutex mu_;
  absl::Status cancel_status_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
};

// One piece of work of a lane.
struct Work {
  enum class Kind : uint8_t {
    kRun,       // a kernel of the backend
    kConstant,  // bytes that came along, to the device
    kTransfer,  // the input is on another device
    kSync,      // everything enqueued before on this device is done; the output, where there is one, is a token
    kMarker,    // `marker` is called
  };
  Kind kind = Kind::kRun;
  Op op = Op::kNone;
  Dtype compute = Dtype::kNone;
  uint32_t index = 0;                          // of the instruction in its message or program
  uint64_t origin = 0;                         // first output, as the message or program numbers it
  absl::InlinedVector<Ref<Tensor>, 3> inputs;  // null: the next scalar
  absl::InlinedVector<Ref<Tensor>, 1> outputs;
  std::vector<Scalar> scalars;
  const Attributes* attributes = nullptr;  // null: none; points to `owned` or into a program that the batch keeps
  std::unique_ptr<Attributes> owned;
  std::string label;
  Ref<Batch> batch;
  absl::AnyInvocable<void()> marker;
};
using WorkPtr = std::unique_ptr<Work>;

// True where the only references to every output are the work's own, so that nobody could see what it computes.
bool Unwanted(const Work& work);
// The first input that is not there yet, or null.
Storage* FirstPending(const Work& work);

class Device;

// How a piece of work went.
struct WorkResult {
  enum class Kind : uint8_t { kDone, kFailed, kInputFailed, kDropped };
  Kind kind = Kind::kDone;
  absl::Status status;    // unless kDone
  uint32_t distance = 0;  // kInputFailed: steps from the first cause
  uint64_t queue_ns = 0;
  uint64_t run_ns = 0;
};

// Runs work whose inputs are all done: allocates, computes, copies. On the device's executor; nobody is told yet.
WorkResult ComputeWork(Device& device, Work& work);
// A failure of work that has not begun.
WorkResult RefuseWork(const Work& work, const absl::Status& cause);
// Fills the outputs and tells the batch: readers, reports, completions run here.
void CompleteWork(Device& device, Work& work, const WorkResult& result);

}  // namespace tensord
