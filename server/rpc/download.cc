#include "server/rpc/download.h"

#include <algorithm>
#include <optional>

#include "kernels/core/error.h"
#include "proto/wire/chunk.h"
#include "proto/wire/status_grpc.h"
#include "server/rpc/bulk.h"

namespace tensord::rpc {
namespace {

// One thread at a time makes chunks (`making_`): the one that found room. It makes the next chunk while the transport
// takes the last, puts it into `next_` and leaves; OnWriteDone sends it and goes on. The source is touched by the
// making thread alone.
//
// The engine may answer long after the client has gone, so its callback reaches the reactor through `link_`. End of
// life: `end_` says how the call ends, Pump calls Finish once no write is under way and nothing is being made, gRPC
// then calls OnDone.
class DownloadReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, public LongCall {
 public:
  DownloadReactor(Services& services, grpc::CallbackServerContext* context)
      : services_(services),
        scope_(services, *context, "Tensors/Download", /*finite=*/true),
        link_(std::make_shared<Link<DownloadReactor>>(this)) {
    scope_.CancelledBy(cancellation_);
  }

  void Start(const grpc::ByteBuffer& bytes) {
    const absl::Status status = scope_.admission().ok() ? Decode(bytes) : scope_.admission();
    if (!status.ok()) {
      EndCall(status);
      return;
    }
    services_.calls.Add(this);
    services_.engine.Download(scope_.caller(), call_.request,
                              [link = link_](absl::StatusOr<std::unique_ptr<DownloadSource>> source) {
                                link->With([&](DownloadReactor& download) { download.Begin(std::move(source)); });
                              });
  }

  void OnWriteDone(bool ok) override {
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      if (!ok) SetEnd(Error(Reason::kCancelled));
    }
    Pump();
  }

  void OnCancel() override {
    cancellation_->Cancel(Error(Reason::kCancelled));
    EndCall(Error(Reason::kCancelled));
  }
  void OnDrain(const absl::Status& /*notice*/) override {}

  void EndCall(const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    SetEnd(status);
    Settle();
  }

  void OnDone() override {
    link_->Cut();
    services_.calls.Remove(this);
    source_.reset();
    scope_.End(final_);
    delete this;
  }

 private:
  absl::Status Decode(const grpc::ByteBuffer& bytes) {
    v1::DownloadRequest request;
    grpc::ByteBuffer copy = bytes;  // parsing consumes it
    TENSORD_RETURN_IF_ERROR(ParseMessage(copy, request));
    TENSORD_ASSIGN_OR_RETURN(call_, wire::FromProto(request));
    chunk_bytes_ = std::min(call_.chunk_bytes == 0 ? kChunkBytes : call_.chunk_bytes, services_.limits.max_chunk_bytes);
    return absl::OkStatus();
  }

  // The tensor is ready, or never will be. Chunks are made once the start has gone, on a thread of the transport: this
  // one is the engine's.
  void Begin(absl::StatusOr<std::unique_ptr<DownloadSource>> source) {
    absl::MutexLock lock(&mutex_);
    if (!source.ok()) {
      SetEnd(source.status());
    } else if (!end_.has_value()) {
      source_ = *std::move(source);
      left_ = source_->total();
      next_ = SerializeMessage(wire::DownloadBeginToProto({.tensor = source_->info(), .total_bytes = left_}));
      begun_ = true;
    }
    Settle();
  }

  // Sends what is ready and makes what fits.
  void Pump() {
    {
      absl::MutexLock lock(&mutex_);
      if (making_) return;  // that thread sees what has changed
      Settle();
      if (!MayMake()) return;
      making_ = true;
    }
    for (;;) {
      absl::StatusOr<grpc::ByteBuffer> chunk = Make();
      absl::MutexLock lock(&mutex_);
      if (!chunk.ok()) {
        SetEnd(chunk.status());
      } else if (!end_.has_value()) {
        next_ = *std::move(chunk);
      }
      making_ = false;
      Settle();
      if (!MayMake()) return;
      making_ = true;
    }
  }

  bool MayMake() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return begun_ && !finished_ && !end_.has_value() && !next_.has_value();
  }

  // The making thread alone. At least one byte is left.
  absl::StatusOr<grpc::ByteBuffer> Make() {
    const size_t size = std::min(chunk_bytes_, left_);
    grpc::Slice slice(size);
    char* const data = reinterpret_cast<char*>(const_cast<uint8_t*>(slice.begin()));  // fresh: nobody else sees it yet
    size_t have = 0;
    while (have < size) {
      TENSORD_ASSIGN_OR_RETURN(const size_t got, source_->Read({data + have, size - have}));
      if (got == 0)
        return Error(Reason::kInternal)
            .With("id", "download-short")
            .With("cause", StrCat(left_ - have, " bytes missing at the end"));
      have += got;
    }
    const uint64_t offset = call_.request.offset + source_->total() - left_;
    left_ -= size;
    // Before the slice moves: a short one holds its bytes in itself.
    const std::optional<uint64_t> checksum = ChecksumOf(call_.checksum, {data, size});
    return WriteChunk(offset, checksum, std::move(slice));
  }

  void SetEnd(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!end_.has_value()) end_ = status;
    if (!end_->ok()) next_.reset();
  }

  // Starts what is due: the next chunk, or the end.
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_ || writing_) return;
    if (next_.has_value()) {
      out_ = *std::move(next_);
      next_.reset();
      writing_ = true;
      if (!making_ && left_ == 0) SetEnd(absl::OkStatus());
      StartWrite(&out_);
    } else if (end_.has_value() && !making_) {
      finished_ = true;
      final_ = *end_;
      Finish(wire::ToGrpc(*end_));
    }
  }

  Services& services_;
  CallScope scope_;
  const std::shared_ptr<Link<DownloadReactor>> link_;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
  wire::DownloadCall call_;  // constant once asked
  uint64_t chunk_bytes_ = kChunkBytes;
  absl::Status final_;  // written before Finish, read after it

  // Of the making thread; handed over with making_.
  std::unique_ptr<DownloadSource> source_;
  uint64_t left_ = 0;

  absl::Mutex mutex_;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool making_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::ByteBuffer> next_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer out_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartDownload(Services& services, grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer& request) {
  auto* const reactor = new DownloadReactor(services, context);
  reactor->Start(request);
  return reactor;
}

}  // namespace tensord::rpc
