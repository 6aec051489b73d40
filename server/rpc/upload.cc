#include "server/rpc/upload.h"

#include <optional>
#include <variant>

#include "absl/time/clock.h"
#include "kernels/core/error.h"
#include "proto/wire/chunk.h"
#include "proto/wire/status_grpc.h"
#include "server/rpc/bulk.h"

namespace tensord::rpc {
namespace {

constexpr uint64_t kReportBytes = 64 << 20;
constexpr absl::Duration kReportTime = absl::Seconds(1);

// Two activities: reading (OnReadDone, one at a time, the only one that touches the sink) and writing responses. They
// meet in the fields under mutex_. A response that has not been taken by the transport is overwritten by the next: only
// the latest counts.
//
// The engine may take the upload away while the client is silent: it reaches the reactor through `link_`.
//
// End of life: `end_` says how the call ends, Settle calls Finish once no message is being taken and no write is under
// way, gRPC then completes what read is still open and calls OnDone. The sink goes before the client learns of the end,
// so that its next Upload of the handle finds the place free.
class UploadReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>, public LongCall {
 public:
  UploadReactor(Services& services, grpc::CallbackServerContext* context)
      : services_(services),
        context_(context),
        scope_(services, *context, "Tensors/Upload", /*finite=*/true),
        link_(std::make_shared<Link<UploadReactor>>(this)) {
    if (!scope_.admission().ok()) {
      EndCall(scope_.admission());
      return;
    }
    services_.calls.Add(this);
    absl::MutexLock lock(&mutex_);
    if (!finished_) StartRead(&in_);
  }

  void OnReadDone(bool ok) override {
    {
      absl::MutexLock lock(&mutex_);
      receiving_ = true;
    }
    // The start may wait for the stream (tensord-after), which it must not do on one of gRPC's threads.
    if (ok && sink_ == nullptr && scope_.caller().after != 0) {
      services_.waiters.Run([this] { Handle(Receive()); });
    } else {
      Handle(ok ? Receive() : InputEnded());
    }
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) {
      next_.reset();
      if (!end_.has_value() || end_->ok()) end_ = Error(Reason::kCancelled);
    }
    Settle();
  }

  // The open read ends without a message, and OnReadDone does the rest.
  void OnCancel() override {}
  void OnDrain(const absl::Status& /*notice*/) override {}

  void EndCall(const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    if (!end_.has_value()) end_ = status;
    Settle();
  }

  void OnDone() override {
    link_->Cut();
    services_.calls.Remove(this);
    { absl::MutexLock wait(&mutex_); }  // whoever called Finish has left
    sink_.reset();
    scope_.End(final_);
    delete this;
  }

 private:
  // What the client's half-close, or its disappearance, means. Never OK.
  absl::Status InputEnded() {
    if (context_->IsCancelled()) return Error(Reason::kCancelled);
    if (sink_ == nullptr) return OutOfOrder("start", "missing", "the first message has start");
    return Error(Reason::kUploadIncomplete).With("received", sink_->received()).With("total", sink_->total());
  }

  // Takes one message; the call goes on while it is OK and the upload is not complete.
  absl::Status Receive() {
    if (sink_ != nullptr && ReadChunk(in_, services_.limits.max_chunk_bytes, chunk_)) {
      return Write(chunk_.offset, chunk_.pieces, chunk_.checksum);
    }
    TENSORD_RETURN_IF_ERROR(ParseMessage(in_, request_));
    TENSORD_ASSIGN_OR_RETURN(const wire::UploadPart part, wire::FromProto(request_));
    if (const auto* start = std::get_if<UploadStart>(&part)) {
      if (sink_ != nullptr) return OutOfOrder("start", "given again", "start in the first message alone");
      TENSORD_ASSIGN_OR_RETURN(sink_, services_.engine.Upload(scope_.caller(), *start));
      checksum_ = start->checksum;
      if (const std::shared_ptr<Cancellation> revocation = sink_->revocation()) {
        revocation->Add([link = link_](const absl::Status& cause) {
          link->With([&](UploadReactor& upload) { upload.EndCall(cause); });
        });
      }
      if (!sink_->complete()) Report(sink_->received());
      return absl::OkStatus();
    }
    if (sink_ == nullptr) return OutOfOrder("start", "missing", "the first message has start");
    const wire::Chunk& chunk = std::get<wire::Chunk>(part);
    return Write(chunk.offset, {&chunk.data, 1}, chunk.checksum);
  }

  absl::Status Write(uint64_t offset, absl::Span<const std::string_view> pieces, std::optional<uint64_t> checksum) {
    if (checksum_ != Checksum::kNone && !checksum.has_value())
      return OutOfOrder("checksum", "missing", "one in every chunk, as start announced");
    TENSORD_RETURN_IF_ERROR(sink_->Write(offset, pieces, checksum));
    const uint64_t received = sink_->received();
    if (!sink_->complete() && (received - reported_ >= kReportBytes || absl::Now() - reported_at_ >= kReportTime))
      Report(received);
    return absl::OkStatus();
  }

  void Report(uint64_t received) {
    reported_ = received;
    reported_at_ = absl::Now();
    absl::MutexLock lock(&mutex_);
    next_ = wire::UploadProgress{.received_bytes = received, .complete = false, .tensor = std::nullopt};
    Settle();
  }

  // After each message, and after the last.
  void Handle(absl::Status status) {
    std::optional<TensorInfo> tensor;
    if (status.ok() && sink_->complete()) {
      absl::StatusOr<TensorInfo> finished = sink_->Finish();
      if (finished.ok()) {
        tensor = *std::move(finished);
      } else {
        status = finished.status();
      }
    }
    if (tensor.has_value()) {
      const uint64_t total = sink_->total();
      sink_.reset();
      absl::MutexLock lock(&mutex_);
      receiving_ = false;
      next_ = wire::UploadProgress{.received_bytes = total, .complete = true, .tensor = std::move(tensor)};
      if (!end_.has_value()) end_ = absl::OkStatus();
      Settle();
      return;
    }
    if (!status.ok()) sink_.reset();
    chunk_.slices.clear();
    absl::MutexLock lock(&mutex_);
    receiving_ = false;
    if (!status.ok() && !end_.has_value()) end_ = status;
    if (end_.has_value()) {
      sink_.reset();
      Settle();
    } else {
      StartRead(&in_);
    }
  }

  // Starts what is due: the next response, or the end. An upload that failed needs no progress.
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_ || writing_) return;
    if (next_.has_value() && (!end_.has_value() || end_->ok())) {
      out_ = SerializeMessage(wire::ToProto(*next_));
      next_.reset();
      writing_ = true;
      StartWrite(&out_);
    } else if (end_.has_value() && !receiving_) {
      finished_ = true;
      final_ = *end_;
      Finish(wire::ToGrpc(*end_));
    }
  }

  Services& services_;
  grpc::CallbackServerContext* const context_;
  CallScope scope_;
  const std::shared_ptr<Link<UploadReactor>> link_;
  absl::Status final_;  // written before Finish, read after it

  // Of the reading side.
  grpc::ByteBuffer in_;
  ChunkView chunk_;
  v1::UploadRequest request_;
  std::unique_ptr<UploadSink> sink_;
  Checksum checksum_ = Checksum::kNone;
  uint64_t reported_ = 0;
  absl::Time reported_at_;

  absl::Mutex mutex_;
  std::optional<wire::UploadProgress> next_ ABSL_GUARDED_BY(mutex_);
  bool receiving_ ABSL_GUARDED_BY(mutex_) = false;  // a message is being taken: the sink and the reactor are in use
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer out_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartUpload(Services& services,
                                                                         grpc::CallbackServerContext* context) {
  return new UploadReactor(services, context);
}

}  // namespace tensord::rpc
