// Downloads: waits for a tensor, brings it into row-major order, hands out its bytes.
#include <algorithm>
#include <utility>

#include "kernels/core/error.h"
#include "server/engine/planner.h"
#include "server/engine/upload.h"
#include "server/engine/values.h"

namespace tensord {
namespace {

class LocalSource final : public DownloadSource {
 public:
  // `tensor` is ready and contiguous.
  LocalSource(std::shared_ptr<Core> core, TensorInfo info, Ref<Tensor> tensor, uint64_t offset, uint64_t total,
              TransferSlot slot)
      : core_(std::move(core)),
        info_(std::move(info)),
        tensor_(std::move(tensor)),
        offset_(offset),
        total_(total),
        slot_(std::move(slot)) {}

  const TensorInfo& info() const override { return info_; }
  uint64_t total() const override { return total_; }
  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    const size_t bytes = static_cast<size_t>(std::min<uint64_t>(out.size(), total_ - done_));
    TENSORD_RETURN_IF_ERROR(tensor_->Read(offset_ + done_, out.data(), bytes));
    done_ += bytes;
    return bytes;
  }

 private:
  const std::shared_ptr<Core> core_;  // the device outlives the tensor
  const TensorInfo info_;
  const Ref<Tensor> tensor_;
  const uint64_t offset_;
  const uint64_t total_;
  uint64_t done_ = 0;
  const TransferSlot slot_;
};

// One call of Download from its start to its source.
class DownloadCall : public RefCounted<DownloadCall> {
 public:
  DownloadCall(std::shared_ptr<Core> core, Caller caller, DownloadRequest request,
               Done<std::unique_ptr<DownloadSource>> done)
      : core_(std::move(core)), caller_(std::move(caller)), request_(std::move(request)), done_(std::move(done)) {}

  void Start(absl::StatusOr<std::shared_ptr<Session>> session) {
    absl::Status status = session.status();
    if (status.ok()) status = Plan(*session);
    if (!status.ok()) return Finish(status);
    // Out of the session's mutex: what is ready already answers here and now.
    Storage* storage = readable_->storage.get();
    Ref<DownloadCall> self(this);
    if (caller_.cancellation) {
      cancellation_ = caller_.cancellation->Add([self](const absl::Status& cause) { self->Cancel(cause); });
    }
    // readable_ keeps it; a reference from its own waiter would keep what nobody fills for ever.
    storage->OnDone([self, storage, steps = readable_->distance] { self->Ready(*storage, steps); });
    batch_->Close();
  }

 private:
  absl::Status Plan(const std::shared_ptr<Session>& session) {
    absl::MutexLockMaybe lock(session ? &session->mu : nullptr);
    if (session && session->ended) return session->end_cause;
    TENSORD_ASSIGN_OR_RETURN(tensor_, core_->Resolve(request_.tensor, session.get()));
    if (tensor_->failed()) return tensor_->error();
    TENSORD_RETURN_IF_ERROR(TransferSlot::Check(session.get(), core_->limits()));
    const uint64_t bytes = tensor_->bytes();
    if (request_.offset > bytes) {
      return Error(Reason::kFieldInvalid)
          .With("value", request_.offset)
          .With("allowed", StrCat("0 to ", bytes))
          .At("offset");
    }
    total_ = bytes - request_.offset;
    if (request_.length > 0) total_ = std::min(total_, request_.length);
    slot_.emplace(session);
    const Ref<Tenant> tenant = session ? session->tenant : core_->MakeTenant(caller_.principal, "");
    batch_ = MakeRef<Batch>(tenant, start_);
    Planner planner(*core_, {session.get(), tenant, nullptr}, batch_);
    readable_ = planner.Contiguous(tensor_);
    planner.Submit();
    lanes_ = tenant->lanes;
    timer_ = CancelAt(*core_, batch_, caller_.deadline,
                      Error(Reason::kDeadlineExceeded)
                          .With("after", absl::FormatDuration(caller_.deadline - start_))
                          .With("stage", "waiting for the tensor"),
                      [self = Ref<DownloadCall>(this)] { self->Finish(self->batch_->cancel_status()); });
    return absl::OkStatus();
  }

  // Nobody waits any more: what has been queued for this call alone goes.
  void Cancel(const absl::Status& cause) {
    CancelNow(*core_, *batch_, lanes_, cause);
    Finish(cause);
  }

  void Ready(const Storage& storage, uint32_t steps) {
    core_->timer.Cancel(timer_);
    if (caller_.cancellation) caller_.cancellation->Remove(cancellation_);
    if (storage.failed()) return Finish(AddDistance(storage.error(), storage.distance() + steps));
    Done<std::unique_ptr<DownloadSource>> done = TakeDone();
    if (!done) return;
    const auto* id = std::get_if<uint64_t>(&request_.tensor.ref);
    TensorInfo info = core_->Info(*tensor_, id ? *id : 0);
    // Who has the source finds nothing held by this call any more.
    tensor_.reset();
    done(std::make_unique<LocalSource>(core_, std::move(info), std::move(readable_), request_.offset, total_,
                                       *std::move(slot_)));
  }

  // A refusal; the call may still be starting on another thread.
  void Finish(const absl::Status& status) {
    Done<std::unique_ptr<DownloadSource>> done = TakeDone();
    if (!done) return;
    slot_.reset();
    done(status);
  }

  // The callback, for whoever comes first; null for the others.
  Done<std::unique_ptr<DownloadSource>> TakeDone() {
    absl::MutexLock lock(&mu_);
    return std::exchange(done_, nullptr);
  }

  const std::shared_ptr<Core> core_;
  const Caller caller_;
  const DownloadRequest request_;
  const absl::Time start_ = absl::Now();
  Ref<Tensor> tensor_;
  Ref<Tensor> readable_;
  uint64_t total_ = 0;
  std::optional<TransferSlot> slot_;
  Ref<Batch> batch_;
  std::vector<Ref<Lane>> lanes_;
  std::atomic<Timer::Id> timer_{0};
  std::atomic<Cancellation::Id> cancellation_{0};
  absl::Mutex mu_;
  Done<std::unique_ptr<DownloadSource>> done_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

void StartDownload(const std::shared_ptr<Core>& core, const Caller& caller, const DownloadRequest& request,
                   Done<std::unique_ptr<DownloadSource>> done) {
  auto call = MakeRef<DownloadCall>(core, caller, request, std::move(done));
  core->EnterAsync(caller,
                   [call](absl::StatusOr<std::shared_ptr<Session>> session) { call->Start(std::move(session)); });
}

}  // namespace tensord
