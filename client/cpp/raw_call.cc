#include "client/cpp/raw_call.h"

#include <utility>

#include "proto/wire/status_grpc.h"

namespace tensord {

std::shared_ptr<RawCall> RawCall::Start(grpc::GenericStub& stub, const std::string& method,
                                        std::unique_ptr<grpc::ClientContext> context, Options options) {
  std::shared_ptr<RawCall> call(new RawCall(std::move(context), std::move(options)));
  stub.PrepareBidiStreamingCall(call->context_.get(), method, {}, call.get());
  {
    absl::MutexLock lock(&call->mu_);
    call->self_ = call;
    call->AddHold();
    call->PumpReads();
  }
  call->StartCall();
  return call;
}

bool RawCall::Write(grpc::ByteBuffer message, bool last) {
  absl::MutexLock lock(&mu_);
  if (options_.max_queued_writes > 0) {
    const auto free = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return writes_.size() < options_.max_queued_writes || write_broken_ || reads_over_ || half_close_ || !hold_;
    };
    mu_.Await(absl::Condition(&free));
  }
  if (write_broken_ || reads_over_ || half_close_ || !hold_) return false;
  writes_.push_back(std::move(message));
  half_close_ = last;
  PumpWrites();
  return true;
}

void RawCall::WritesDone() {
  absl::MutexLock lock(&mu_);
  half_close_ = true;
  if (hold_) PumpWrites();
}

void RawCall::PumpWrites() {
  if (writing_ || write_broken_ || half_closed_) return;
  if (writes_.empty()) {
    if (half_close_) {
      half_closed_ = true;
      StartWritesDone();
    }
    return;
  }
  writing_ = true;
  grpc::WriteOptions options;
  // the next one follows at once: one packet for many small messages
  if (writes_.size() > 1) options.set_buffer_hint();
  if (half_close_ && writes_.size() == 1) {
    half_closed_ = true;
    options.set_last_message();
  }
  StartWrite(&writes_.front(), options);
}

void RawCall::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mu_);
  writing_ = false;
  writes_.pop_front();
  if (!ok) {
    write_broken_ = true;
    writes_.clear();
    return;
  }
  PumpWrites();
}

void RawCall::PumpReads() {
  const bool full = options_.max_queued_reads > 0 && reads_.size() >= options_.max_queued_reads;
  if (reading_ || reads_over_ || full) return;
  reading_ = true;
  StartRead(&incoming_);
}

void RawCall::OnReadDone(bool ok) {
  std::function<void()> readable;
  if (ok && options_.on_message) options_.on_message(std::exchange(incoming_, grpc::ByteBuffer()));
  {
    absl::MutexLock lock(&mu_);
    reading_ = false;
    if (ok) {
      if (!options_.on_message && !discard_) {
        reads_.push_back(std::exchange(incoming_, grpc::ByteBuffer()));
        std::swap(readable, when_readable_);
      }
      PumpReads();
    } else {
      reads_over_ = true;  // who waits to read is told by OnDone, which knows how the call ended
      ReleaseHold();
    }
  }
  if (readable) readable();
}

std::optional<grpc::ByteBuffer> RawCall::Read() {
  absl::MutexLock lock(&mu_);
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !reads_.empty() || reads_over_ || over_; };
  mu_.Await(absl::Condition(&ready));
  if (reads_.empty()) return std::nullopt;
  grpc::ByteBuffer message = std::move(reads_.front());
  reads_.pop_front();
  if (hold_) PumpReads();
  return message;
}

void RawCall::WhenReadable(std::function<void()> callback) {
  {
    absl::MutexLock lock(&mu_);
    if (reads_.empty() && !over_) {
      when_readable_ = std::move(callback);
      return;
    }
  }
  callback();
}

void RawCall::ReleaseHold() {
  if (!std::exchange(hold_, false)) return;
  RemoveHold();
}

void RawCall::BeginFinish() {
  absl::MutexLock lock(&mu_);
  discard_ = true;
  reads_.clear();
  if (hold_) PumpReads();
}

absl::Status RawCall::Finish() {
  BeginFinish();
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&over_));
  return status_;
}

std::optional<absl::Status> RawCall::FinishWithin(absl::Duration timeout) {
  BeginFinish();
  absl::MutexLock lock(&mu_);
  if (!mu_.AwaitWithTimeout(absl::Condition(&over_), timeout)) return std::nullopt;
  return status_;
}

void RawCall::Cancel() {
  absl::MutexLock lock(&mu_);
  if (over_) return;
  context_->TryCancel();
  discard_ = true;
  reads_.clear();
  ReleaseHold();
}

void RawCall::OnDone(const grpc::Status& status) {
  const absl::Status end = wire::FromGrpc(status);
  if (options_.on_end) options_.on_end(end);
  options_.on_message = nullptr;
  options_.on_end = nullptr;
  std::shared_ptr<RawCall> self;
  std::function<void()> readable;
  {
    absl::MutexLock lock(&mu_);
    status_ = end;
    over_ = true;
    std::swap(readable, when_readable_);
    std::swap(self, self_);
  }
  if (readable) readable();
}

}  // namespace tensord
