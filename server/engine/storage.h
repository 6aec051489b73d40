// Storage: device memory that holds, or is going to hold, the elements of one or more tensors. Tensor: a spec and a
// layout over it.
//
// A Storage is made when an instruction is submitted, without memory. The device's executor gives it memory when the
// instruction runs, and then fills it exactly once: ready, or failed with the first cause. What waits for it is told
// then. Tensors (views of the same elements, and tensors that failed for the same reason) share it; a Tensor itself
// never changes.
//
//   auto storage = MakeRef<Storage>(device, bytes, account);
//   auto tensor = Tensor::Make(spec, storage, now);        // known, pending
//   storage->OnDone([tensor] { … });                       // runs once, at once if it is done already
//   storage->Allocate(); …; storage->SetReady();           // on the executor; tells who waits
//
// A ready storage can be offloaded: its bytes are in host memory for the time being (residency.h). One whose device is
// lost counts as failed, whatever it held.
//
// Thread safety: state, OnDone, error and charges by any thread; Allocate, Adopt and Set… by whoever fills it; data by
// whoever fills or holds it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/core/shape.h"
#include "kernels/core/tensor_view.h"
#include "server/engine/account.h"
#include "server/engine/ref.h"
#include "server/engine/residency.h"

namespace tensord {

class Device;

// Who waits for a storage: told, the oldest first, when this is destroyed. Keeps nothing of the storage alive, so that who
// fills it can let go of it before anybody learns that it is there.
class Waiters {
 public:
  Waiters() = default;
  Waiters(Waiters&& other) noexcept : newest_(std::exchange(other.newest_, nullptr)) {}
  Waiters& operator=(Waiters&&) = delete;
  ~Waiters();

 private:
  friend class Storage;
  struct Node {
    Node* next = nullptr;
    absl::AnyInvocable<void()> done;
  };
  explicit Waiters(Node* newest) : newest_(newest) {}
  Node* newest_ = nullptr;
};

class Storage : public RefCounted<Storage> {
 public:
  enum class State : uint8_t { kPending, kReady, kFailed };

  // `device` outlives the storage. `account` is charged once there is memory.
  Storage(Device* device, size_t bytes, Ref<Account> account);
  // Failed from the start; belongs to no device.
  explicit Storage(absl::Status error);
  ~Storage();

  State state() const {
    const State state = state_.load(std::memory_order_acquire);
    return state == State::kReady && device_lost() ? State::kFailed : state;
  }
  bool pending() const { return state_.load(std::memory_order_acquire) == State::kPending; }
  bool failed() const { return state() == State::kFailed; }
  Device* device() const { return device_; }
  size_t bytes() const { return bytes_; }
  // Null before Allocate, for no bytes, and while offloaded.
  void* data() const { return data_; }
  // True once it has memory, there or on the host.
  bool allocated() const { return allocated_.load(std::memory_order_acquire); }
  // A moment's value: for lists.
  bool offloaded() const { return offloaded_.load(std::memory_order_relaxed); }
  // Copies bytes of a ready storage to `out`, from wherever they are. Error: DEVICE_LOST and the like.
  absl::Status Read(size_t offset, char* out, size_t bytes);

  // Gives it memory. Error: MEMORY_EXHAUSTED with the numbers and the holders.
  absl::Status Allocate();
  // Takes the memory of another ready storage of the same device and size that nobody else holds.
  void Adopt(Storage& donor);

  // Once, by whoever fills it. The error keeps its origin; `distance` counts the steps of dependence from there. Who
  // waits is told when the result goes: at once, if it is ignored.
  Waiters SetReady();
  Waiters SetFailed(absl::Status error, uint32_t distance);
  // With kFailed.
  const absl::Status& error() const;
  uint32_t distance() const { return distance_; }

  // Calls `done` once the storage is ready or failed: at once if it is, else on the thread that fills it. Must not
  // block, and takes no session's mutex: whoever fills may hold it.
  void OnDone(absl::AnyInvocable<void()> done);

  // Moves the charge: publishing to the name's account, and back to the first one with a null account.
  void MoveCharge(Ref<Account> account);
  const Ref<Account>& origin() const { return origin_; }

 private:
  friend class Residency;
  using Waiter = Waiters::Node;
  static Waiter* Closed() { return reinterpret_cast<Waiter*>(uintptr_t{1}); }
  // Gives the memory back to the device, and the charge to nobody.
  void FreeMemory();
  void Uncharge();
  void Charge(int64_t sign) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Charges whoever is charged for memory of `device` instead.
  void MovePlace(const Device& device);
  bool device_lost() const;
  Waiters Finish(State state);

  Device* const device_ = nullptr;
  const size_t bytes_ = 0;
  const Ref<Account> origin_;
  std::atomic<State> state_{State::kPending};
  std::atomic<bool> filling_{false};
  std::atomic<bool> allocated_{false};
  uint32_t distance_ = 0;
  void* data_ = nullptr;
  Residence residence_;
  std::atomic<bool> offloaded_{false};
  std::atomic<Waiter*> waiters_{nullptr};
  absl::Status error_;
  absl::Mutex mu_;
  Ref<Account> charged_ ABSL_GUARDED_BY(mu_);  // null while there is no memory
  Ref<Account> holder_ ABSL_GUARDED_BY(mu_);   // who is, or will be, charged
  uint32_t place_ ABSL_GUARDED_BY(mu_) = 0;    // index of the device whose memory is charged
};

// A tensor as handles, names and instructions hold it. Immutable.
struct Tensor : public RefCounted<Tensor> {
  // dtype kNone: it failed before its spec was known.
  TensorSpec spec;
  Dims strides;        // elements
  int64_t offset = 0;  // elements
  Ref<Storage> storage;
  // Steps of dependence from the storage's failure to this tensor.
  uint32_t distance = 0;
  // Label of the instruction that made it: what refusals call it. May be empty.
  std::string label;
  absl::Time create_time;

  // Contiguous over the whole storage.
  static Ref<Tensor> Make(TensorSpec spec, Ref<Storage> storage, absl::Time now);
  // Over another tensor's storage.
  static Ref<Tensor> View(TensorSpec spec, const Layout& layout, const Tensor& base, absl::Time now);
  // Failed from the start.
  static Ref<Tensor> Failed(absl::Status error, absl::Time now);
  // Failed because `cause` did; shares its storage.
  static Ref<Tensor> FailedBy(const Tensor& cause, absl::Time now);

  bool pending() const { return storage->pending(); }
  bool failed() const { return storage->failed(); }
  bool known() const { return spec.type.dtype != Dtype::kNone; }
  uint64_t bytes() const { return known() ? static_cast<uint64_t>(spec.type.bytes()) : 0; }
  Layout layout() const { return {spec.type.shape, strides, offset}; }
  bool contiguous() const { return layout().contiguous(); }
  // Where element [0, …, 0] is in the storage.
  size_t offset_bytes() const { return static_cast<size_t>(offset) * ItemSize(spec.type.dtype); }
  // Copies bytes of a ready, contiguous tensor to `out`. Error: DEVICE_LOST and the like.
  absl::Status Read(size_t from, char* out, size_t bytes) const {
    return storage->Read(offset_bytes() + from, out, bytes);
  }
  // Address of element [0, …, 0]; the storage has memory on its device.
  void* data() const;
  TensorView view() const { return {spec.type.dtype, spec.type.shape, strides, data()}; }
  // The first cause, with the distance to here. With failed().
  absl::Status error() const;
};

// The status with its origin `steps` further away.
absl::Status AddDistance(const absl::Status& status, uint32_t steps);

}  // namespace tensord
