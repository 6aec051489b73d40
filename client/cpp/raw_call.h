// One streaming call in raw messages: what uploads, downloads and the instruction stream have in common. Blocking for
// its owner, callbacks underneath.
//
//   auto call = RawCall::Start(stub, "/tensord.v1.Tensors/Upload", std::move(context), {.max_queued_writes = 2});
//   call->Write(first, /*last=*/false);
//   std::optional<grpc::ByteBuffer> message = call->Read();   // nothing: the call has ended, Finish tells how
//
// Messages are grpc::ByteBuffer, so that bulk bytes pass no generated code. A call keeps itself alive until gRPC is
// done with it; its owner calls Cancel or Finish before letting go. Thread safe.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tensord {

class RawCall final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  struct Options {
    // Write blocks while so many messages wait; 0: it never blocks.
    size_t max_queued_writes = 0;
    // Reading pauses while so many messages wait for Read; 0: it never pauses.
    size_t max_queued_reads = 0;
    // Where set, messages go here in order, one call at a time, and Read is not used. Must not block.
    std::function<void(grpc::ByteBuffer)> on_message = nullptr;
    // Called once, after the last message. Must not block.
    std::function<void(absl::Status)> on_end = nullptr;
  };

  static std::shared_ptr<RawCall> Start(grpc::GenericStub& stub, const std::string& method,
                                        std::unique_ptr<grpc::ClientContext> context, Options options);

  // Queues a message; `last` half-closes behind it. False: the call is over, or was half-closed.
  bool Write(grpc::ByteBuffer message, bool last) ABSL_LOCKS_EXCLUDED(mu_);
  // Half-closes once everything is written. Idempotent.
  void WritesDone() ABSL_LOCKS_EXCLUDED(mu_);
  // The next message; nothing once there are no more.
  std::optional<grpc::ByteBuffer> Read() ABSL_LOCKS_EXCLUDED(mu_);
  // `callback` is called once, when a message is there to be read or the call is over; perhaps before this returns.
  void WhenReadable(std::function<void()> callback) ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until the call is over and tells how. Does not cancel; messages not yet read are dropped.
  absl::Status Finish() ABSL_LOCKS_EXCLUDED(mu_);
  // The same for at most `timeout`; nothing if it is not over then.
  std::optional<absl::Status> FinishWithin(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the call as soon as possible. Idempotent.
  void Cancel() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  RawCall(std::unique_ptr<grpc::ClientContext> context, Options options)
      : context_(std::move(context)), options_(std::move(options)) {}

  void OnReadDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnDone(const grpc::Status& status) override ABSL_LOCKS_EXCLUDED(mu_);

  void PumpWrites() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PumpReads() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // From now on nothing is started from outside a reaction.
  void ReleaseHold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void BeginFinish() ABSL_LOCKS_EXCLUDED(mu_);

  const std::unique_ptr<grpc::ClientContext> context_;
  Options options_;  // the callbacks are dropped in OnDone, with whatever they hold
  absl::Mutex mu_;
  std::shared_ptr<RawCall> self_ ABSL_GUARDED_BY(mu_);  // until OnDone
  bool hold_ ABSL_GUARDED_BY(mu_) = true;
  // Writing: writes_ holds what is queued, its first the one in flight.
  std::deque<grpc::ByteBuffer> writes_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool half_close_ ABSL_GUARDED_BY(mu_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mu_) = false;
  bool write_broken_ ABSL_GUARDED_BY(mu_) = false;
  // Reading.
  grpc::ByteBuffer incoming_;  // gRPC's while reading_
  std::deque<grpc::ByteBuffer> reads_ ABSL_GUARDED_BY(mu_);
  bool reading_ ABSL_GUARDED_BY(mu_) = false;
  bool reads_over_ ABSL_GUARDED_BY(mu_) = false;
  bool discard_ ABSL_GUARDED_BY(mu_) = false;
  std::function<void()> when_readable_ ABSL_GUARDED_BY(mu_);
  bool over_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensord
