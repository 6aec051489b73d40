// The instruction stream through gRPC: messages are encoded where they are submitted, in order, and sent as fast as the
// daemon takes them.
#include <grpcpp/support/proto_buffer_writer.h>

#include <deque>
#include <utility>

#include "client/cpp/remote_call.h"
#include "kernels/core/error.h"
#include "proto/wire/stream.h"

namespace tensord {
namespace {

grpc::ByteBuffer Encode(const google::protobuf::MessageLite& message) {
  const size_t bytes = message.ByteSizeLong();
  grpc::Slice slice(bytes);
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

bool Decode(const grpc::ByteBuffer& buffer, google::protobuf::MessageLite& message) {
  grpc::Slice slice;
  if (!buffer.TrySingleSlice(&slice).ok() && !buffer.DumpToSingleSlice(&slice).ok()) return false;
  return message.ParseFromArray(slice.begin(), static_cast<int>(slice.size()));
}

// What a stream knows beside the call; shared with the callbacks, which may outlive the stream's owner.
class StreamState {
 public:
  StreamState(std::shared_ptr<Connection> connection, std::shared_ptr<StreamListener> listener)
      : connection_(std::move(connection)), limits_(connection_->limits()), listener_(std::move(listener)) {}

  void set_call(std::shared_ptr<RawCall> call) { call_ = std::move(call); }
  RawCall& call() { return *call_; }

  absl::Status Submit(StreamMessage message) ABSL_LOCKS_EXCLUDED(submit_mu_, mu_) {
    absl::MutexLock submit(&submit_mu_);  // the op table and the order of messages go together
    const v1::StreamRequest request = wire::ToProto(message, ops_);
    const Sent sent{message.sequence, message.instructions.size(), request.ByteSizeLong()};
    {
      absl::MutexLock lock(&mu_);
      // A message larger than the whole window goes when nothing else is under way; the daemon says what it thinks of
      // it.
      const auto fits = [this, &sent]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return ended_ || sent_.empty() ||
               (instructions_ + sent.instructions <= limits_.stream_window_instructions &&
                bytes_ + sent.bytes <= limits_.stream_window_bytes);
      };
      mu_.Await(absl::Condition(&fits));
      if (ended_) return end_;
      sent_.push_back(sent);
      instructions_ += sent.instructions;
      bytes_ += sent.bytes;
    }
    if (call_->Write(Encode(request), /*last=*/false)) return absl::OkStatus();
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&ended_));
    return end_;
  }

  void OnMessage(const grpc::ByteBuffer& buffer) ABSL_LOCKS_EXCLUDED(mu_, listener_mu_) {
    v1::StreamResponse response;
    absl::StatusOr<wire::StreamEvents> events = absl::InternalError("a message of the daemon that cannot be read");
    if (Decode(buffer, response)) events = wire::FromProto(response);
    absl::MutexLock calling(&listener_mu_);
    if (!events.ok()) {
      if (listener_) listener_->OnNotice(events.status());
      return;
    }
    Acknowledge(events->acknowledged);
    if (!listener_) return;
    if (events->acknowledged != 0) listener_->OnAcknowledged(events->acknowledged);
    for (InstructionReport& report : events->reports) listener_->OnReport(std::move(report));
    for (ReadReply& reply : events->replies) listener_->OnReply(std::move(reply));
    for (absl::Status& notice : events->notices) listener_->OnNotice(std::move(notice));
  }

  void OnEnd(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_, listener_mu_) {
    // A daemon that ends the stream in good order, as for a shutdown, leaves nothing to submit to.
    absl::Status end = status.ok()
                           ? absl::UnavailableError(StrCat("the daemon at ", connection_->server, " closed the stream"))
                           : connection_->Explain(std::move(status));
    {
      absl::MutexLock lock(&mu_);
      ended_ = true;
      end_ = end;
    }
    absl::MutexLock calling(&listener_mu_);
    if (listener_) listener_->OnEnd(std::move(end));
    listener_.reset();
  }

  // The owner is gone: what was submitted is still sent, what comes back is dropped.
  void Close() ABSL_LOCKS_EXCLUDED(listener_mu_) {
    {
      absl::MutexLock calling(&listener_mu_);
      listener_.reset();
    }
    call_->WritesDone();
  }

 private:
  struct Sent {
    uint64_t sequence = 0;
    uint64_t instructions = 0;
    uint64_t bytes = 0;
  };

  void Acknowledge(uint64_t sequence) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    while (!sent_.empty() && sent_.front().sequence <= sequence) {
      instructions_ -= sent_.front().instructions;
      bytes_ -= sent_.front().bytes;
      sent_.pop_front();
    }
  }

  const std::shared_ptr<Connection> connection_;
  const Limits limits_;
  std::shared_ptr<RawCall> call_;  // set before anything else happens
  absl::Mutex submit_mu_ ABSL_ACQUIRED_BEFORE(mu_);
  wire::OpTable ops_ ABSL_GUARDED_BY(submit_mu_);
  absl::Mutex listener_mu_;  // held while the listener is called
  std::shared_ptr<StreamListener> listener_ ABSL_GUARDED_BY(listener_mu_);
  absl::Mutex mu_;
  std::deque<Sent> sent_ ABSL_GUARDED_BY(mu_);  // not yet acknowledged: the window
  uint64_t instructions_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mu_);
};

class RemoteStream : public InstructionStream {
 public:
  explicit RemoteStream(std::shared_ptr<StreamState> state) : state_(std::move(state)) {}
  ~RemoteStream() override { state_->Close(); }
  absl::Status Submit(StreamMessage message) override { return state_->Submit(std::move(message)); }

 private:
  const std::shared_ptr<StreamState> state_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<InstructionStream>> StartStream(std::shared_ptr<Connection> connection,
                                                               const Caller& caller,
                                                               std::shared_ptr<StreamListener> listener) {
  auto context = std::make_unique<grpc::ClientContext>();
  Caller streaming = caller;
  streaming.deadline = absl::InfiniteFuture();  // the deadline is that of opening it
  TENSORD_RETURN_IF_ERROR(SetCaller(*context, streaming));
  auto state = std::make_shared<StreamState>(connection, std::move(listener));
  RawCall::Options options;
  options.on_message = [state](grpc::ByteBuffer message) { state->OnMessage(message); };
  options.on_end = [state](absl::Status status) { state->OnEnd(std::move(status)); };
  state->set_call(
      RawCall::Start(connection->generic, "/tensord.v1.Compute/Stream", std::move(context), std::move(options)));
  return std::make_unique<RemoteStream>(std::move(state));
}

}  // namespace tensord
