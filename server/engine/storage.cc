#include "server/engine/storage.h"

#include <cstring>
#include <memory>
#include <utility>

#include "kernels/core/error.h"
#include "server/engine/device.h"

namespace tensord {

Waiters::~Waiters() {
  Node* oldest = nullptr;
  while (newest_ != nullptr) {
    Node* next = newest_->next;
    newest_->next = oldest;
    oldest = std::exchange(newest_, next);
  }
  while (oldest != nullptr) {
    const std::unique_ptr<Node> node(oldest);
    oldest = node->next;
    node->done();
  }
}

Storage::Storage(Device* device, size_t bytes, Ref<Account> account)
    : device_(device), bytes_(bytes), origin_(account), holder_(std::move(account)), place_(device->index()) {}

Storage::Storage(absl::Status error)
    : state_(State::kFailed), filling_(true), waiters_(Closed()), error_(std::move(error)) {}

Storage::~Storage() {
  // Whoever was to fill it has been dropped: nobody is left to be told but those who wait.
  if (!filling_.exchange(true)) {
    error_ = Error(Reason::kCancelled);
    Finish(State::kFailed);
  }
  FreeMemory();
}

absl::Status Storage::Allocate() {
  TENSORD_ASSIGN_OR_RETURN(void* data, device_->Allocate(bytes_, *origin_));
  data_ = data;
  {
    absl::MutexLock lock(&mu_);
    charged_ = holder_;
    Charge(1);
  }
  allocated_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

void Storage::Adopt(Storage& donor) {
  donor.Uncharge();
  data_ = std::exchange(donor.data_, nullptr);
  donor.allocated_.store(false, std::memory_order_release);
  {
    absl::MutexLock lock(&mu_);
    charged_ = holder_;
    Charge(1);
  }
  allocated_.store(true, std::memory_order_release);
}

void Storage::Uncharge() {
  absl::MutexLock lock(&mu_);
  if (!charged_) return;
  Charge(-1);
  charged_.reset();
}

void Storage::Charge(int64_t sign) { charged_->Charge(place_, sign * static_cast<int64_t>(bytes_), sign); }

void Storage::MovePlace(const Device& device) {
  absl::MutexLock lock(&mu_);
  if (charged_) Charge(-1);
  place_ = device.index();
  if (charged_) Charge(1);
  offloaded_.store(&device != device_, std::memory_order_relaxed);
}

void Storage::FreeMemory() {
  if (!allocated_.exchange(false, std::memory_order_acq_rel)) return;
  Residency& residency = device_->residency();
  void* const host = residency.enabled() ? residency.Remove(*this) : nullptr;
  Uncharge();
  if (host != nullptr) return residency.host()->Deallocate(host, bytes_);
  device_->Deallocate(std::exchange(data_, nullptr), bytes_);
}

bool Storage::device_lost() const { return device_ != nullptr && device_->lost(); }

const absl::Status& Storage::error() const {
  return state_.load(std::memory_order_acquire) == State::kFailed ? error_ : device_->loss();
}

absl::Status Storage::Read(size_t offset, char* out, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  const ReadHold hold(*this);
  if (failed()) return error();
  if (hold.host() == nullptr) return device_->Read(out, static_cast<const char*>(data_) + offset, bytes);
  std::memcpy(out, hold.host() + offset, bytes);
  return absl::OkStatus();
}

Waiters Storage::Finish(State state) {
  state_.store(state, std::memory_order_release);
  return Waiters(waiters_.exchange(Closed(), std::memory_order_acq_rel));
}

Waiters Storage::SetReady() {
  if (filling_.exchange(true)) return {};
  if (data_ != nullptr && device_->residency().enabled()) device_->residency().Add(*this);
  return Finish(State::kReady);
}

Waiters Storage::SetFailed(absl::Status error, uint32_t distance) {
  if (filling_.exchange(true)) return {};
  FreeMemory();
  error_ = std::move(error);
  distance_ = distance;
  return Finish(State::kFailed);
}

void Storage::OnDone(absl::AnyInvocable<void()> done) {
  Waiter* head = waiters_.load(std::memory_order_acquire);
  if (head != Closed()) {
    auto* waiter = new Waiter{head, std::move(done)};
    while (true) {
      if (head == Closed()) {
        done = std::move(waiter->done);
        delete waiter;
        break;
      }
      waiter->next = head;
      if (waiters_.compare_exchange_weak(head, waiter, std::memory_order_acq_rel, std::memory_order_acquire)) return;
    }
  }
  done();
}

void Storage::MoveCharge(Ref<Account> account) {
  if (!origin_) return;
  absl::MutexLock lock(&mu_);
  holder_ = account ? std::move(account) : origin_;
  if (!charged_) return;
  Charge(-1);
  charged_ = holder_;
  Charge(1);
}

Ref<Tensor> Tensor::Make(TensorSpec spec, Ref<Storage> storage, absl::Time now) {
  auto tensor = MakeRef<Tensor>();
  tensor->strides = ContiguousStrides(spec.type.shape);
  tensor->spec = std::move(spec);
  tensor->storage = std::move(storage);
  tensor->create_time = now;
  return tensor;
}

Ref<Tensor> Tensor::View(TensorSpec spec, const Layout& layout, const Tensor& base, absl::Time now) {
  auto tensor = MakeRef<Tensor>();
  tensor->spec = std::move(spec);
  tensor->strides = layout.strides;
  tensor->offset = layout.offset;
  tensor->storage = base.storage;
  tensor->distance = base.distance + 1;
  tensor->create_time = now;
  return tensor;
}

Ref<Tensor> Tensor::Failed(absl::Status error, absl::Time now) {
  auto tensor = MakeRef<Tensor>();
  tensor->storage = MakeRef<Storage>(std::move(error));
  tensor->create_time = now;
  return tensor;
}

Ref<Tensor> Tensor::FailedBy(const Tensor& cause, absl::Time now) {
  auto tensor = MakeRef<Tensor>();
  tensor->storage = cause.storage;
  tensor->distance = cause.distance + 1;
  tensor->create_time = now;
  return tensor;
}

void* Tensor::data() const {
  auto* base = static_cast<char*>(storage->data());
  return base == nullptr ? nullptr : base + offset_bytes();
}

absl::Status Tensor::error() const { return AddDistance(storage->error(), storage->distance() + distance); }

absl::Status AddDistance(const absl::Status& status, uint32_t steps) {
  if (steps == 0 || status.ok()) return status;
  ErrorDetails details = DetailsOf(status);
  if (!details.origin) return status;
  details.origin->distance += steps;
  return StatusWithDetails(status.code(), std::string(status.message()), details);
}

}  // namespace tensord
