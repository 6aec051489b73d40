#include "server/rpc/stream.h"

#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "grpcpp/alarm.h"
#include "kernels/core/error.h"
#include "proto/wire/status_grpc.h"
#include "proto/wire/stream.h"

namespace tensord::rpc {
namespace {

constexpr absl::Duration kAcknowledgeWithin = absl::Milliseconds(50);
// Values gathered into one response: well below the 4 MiB that a client takes by default.
constexpr uint64_t kResponseBytes = 1 << 20;
// Values waiting to be written above which nothing more is read.
constexpr uint64_t kOutboxBytes = 8 << 20;

// What one takes in a response, roughly and rather too much.
uint64_t BytesOf(const InstructionReport& report) {
  return 128 + report.label.size() + (report.error.ok() ? 0 : 1024 + report.error.message().size());
}
uint64_t BytesOf(const ReadReply& reply) {
  return 128 + (reply.data.has_value() ? reply.data->size() : 0) +
         (reply.error.ok() ? 0 : 1024 + reply.error.message().size());
}

// Three parties: the reader (OnReadDone, one at a time) submits messages; the engine's callbacks fill `outbox_` from
// any thread, also from inside Submit; the writer sends it. They meet in the fields under mutex_, which is never held
// while the engine is called.
//
// Callbacks reach the reactor through `link_`, cut in OnDone, so the engine may call back at any time. End of life:
// `end_` says how the call ends (a protocol error, the engine's OnEnd, cancellation), or the input has ended and no
// read is pending; Settle then writes what is left and calls Finish, once no message is being submitted. gRPC completes
// the open read, calls OnDone, and only there the engine's stream is closed.
class StreamReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>, public LongCall {
 public:
  StreamReactor(Services& services, grpc::CallbackServerContext* context)
      : services_(services),
        context_(context),
        scope_(services, *context, "Compute/Stream", /*finite=*/false),
        link_(std::make_shared<Link<StreamReactor>>(this)),
        submitted_(services.sessions.Submitted(scope_.caller().token)) {}

  void Start() {
    if (!scope_.admission().ok()) {
      EndCall(scope_.admission());
      return;
    }
    // The client learns at once that the call has been taken, before there is anything to say.
    StartSendInitialMetadata();
    absl::StatusOr<std::unique_ptr<InstructionStream>> opened =
        services_.engine.OpenStream(scope_.caller(), std::make_shared<Listener>(link_));
    if (!opened.ok()) {
      EndCall(opened.status());
      return;
    }
    stream_ = *std::move(opened);
    services_.calls.Add(this);
    absl::MutexLock lock(&mutex_);
    newest_ = submitted_->load();
    Read();
    Settle();
  }

  void OnReadDone(bool ok) override {
    absl::Status status;
    if (ok) status = Submit();
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    submitter_ = std::thread::id();
    if (!status.ok()) {
      SetEnd(status);
    } else if (!ok) {
      input_ended_ = true;
      if (context_->IsCancelled()) Cancelled();
    } else {
      Read();
    }
    Settle();
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) Cancelled();
    Read();
    Settle();
  }

  void OnCancel() override {
    absl::MutexLock lock(&mutex_);
    Cancelled();
    Settle();
  }

  void OnDrain(const absl::Status& notice) override {
    absl::MutexLock lock(&mutex_);
    notices_.push_back(notice);
    Settle();
  }

  void EndCall(const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    SetEnd(status);
    Settle();
  }

  void OnDone() override {
    link_->Cut();
    services_.calls.Remove(this);
    stream_.reset();
    scope_.End(final_);
    delete this;
  }

 private:
  // The engine's way to the reactor.
  class Listener final : public StreamListener {
   public:
    explicit Listener(std::shared_ptr<Link<StreamReactor>> link) : link_(std::move(link)) {}
    void OnReply(ReadReply reply) override {
      link_->With([&](StreamReactor& stream) { stream.Reply(std::move(reply)); });
    }
    void OnReport(InstructionReport report) override {
      link_->With([&](StreamReactor& stream) {
        absl::MutexLock lock(&stream.mutex_);
        stream.outbox_bytes_ += BytesOf(report);
        stream.reports_.push_back(std::move(report));
        stream.Settle();
      });
    }
    void OnAcknowledged(uint64_t sequence) override {
      link_->With([&](StreamReactor& stream) {
        absl::MutexLock lock(&stream.mutex_);
        stream.Acknowledge(sequence);
        stream.Settle();
      });
    }
    void OnNotice(absl::Status notice) override {
      link_->With([&](StreamReactor& stream) { stream.OnDrain(notice); });
    }
    void OnEnd(absl::Status status) override {
      link_->With([&](StreamReactor& stream) { stream.EndCall(status); });
    }

   private:
    const std::shared_ptr<Link<StreamReactor>> link_;
  };

  // What of the window one message takes until it is acknowledged.
  struct Sent {
    uint64_t sequence = 0;
    uint64_t instructions = 0;
    uint64_t bytes = 0;
  };

  // Takes one message. Replies that come from this thread meanwhile wait for its end, so that they leave together.
  absl::Status Submit() {
    const uint64_t bytes = in_.Length();
    TENSORD_RETURN_IF_ERROR(ParseMessage(in_, request_));
    TENSORD_ASSIGN_OR_RETURN(StreamMessage message, wire::FromProto(request_, ops_, bytes));
    {
      absl::MutexLock lock(&mutex_);
      submitter_ = std::this_thread::get_id();
      // A message that was submitted before is skipped by the engine, its reads with it.
      if (message.sequence > newest_) {
        newest_ = message.sequence;
        pending_reads_ += message.reads.size();
        sent_.push_back({message.sequence, message.instructions.size(), bytes});
      }
    }
    return stream_->Submit(std::move(message));
  }

  void Reply(ReadReply reply) {
    absl::MutexLock lock(&mutex_);
    if (pending_reads_ > 0) --pending_reads_;
    outbox_bytes_ += BytesOf(reply);
    replies_.push_back(std::move(reply));
    Settle();
  }

  void Acknowledge(uint64_t sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (sequence <= acknowledged_) return;
    acknowledged_ = sequence;
    Raise(*submitted_, sequence);
    for (; !sent_.empty() && sent_.front().sequence <= sequence; sent_.pop_front()) {
      owed_instructions_ += sent_.front().instructions;
      owed_bytes_ += sent_.front().bytes;
    }
  }

  void Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (reading_ || input_ended_ || end_.has_value() || outbox_bytes_ > kOutboxBytes) return;
    reading_ = true;
    StartRead(&in_);
  }

  void SetEnd(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!end_.has_value()) end_ = status;
  }

  void Cancelled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    SetEnd(Error(Reason::kCancelled));
    cancelled_ = true;
  }

  // True where there is something to write now; may set the alarm for an acknowledgement that can wait.
  bool MustWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!replies_.empty() || !reports_.empty() || !notices_.empty()) return true;
    if (acknowledged_ == told_) return false;
    const bool ending = end_.has_value() || input_ended_;
    if (ending || overdue_ || owed_instructions_ * 4 >= services_.limits.stream_window_instructions ||
        owed_bytes_ * 4 >= services_.limits.stream_window_bytes) {
      return true;
    }
    if (!alarm_set_) {
      alarm_set_ = true;
      // A new alarm each time: the old one may still be inside its callback.
      alarm_ = std::make_unique<grpc::Alarm>();
      alarm_->Set(absl::ToChronoTime(absl::Now() + kAcknowledgeWithin), [link = link_](bool fired) {
        if (fired) link->With([](StreamReactor& stream) { stream.OnAlarm(); });
      });
    }
    return false;
  }

  void OnAlarm() {
    absl::MutexLock lock(&mutex_);
    alarm_set_ = false;
    overdue_ = acknowledged_ != told_;
    Settle();
  }

  // Starts what is due: the next response, or the end.
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_ || writing_ || std::this_thread::get_id() == submitter_) return;
    if (!cancelled_ && MustWrite()) {
      Write();
      return;
    }
    if (submitting()) return;
    if (end_.has_value()) {
      End(*end_);
    } else if (input_ended_ && pending_reads_ == 0) {
      End(absl::OkStatus());
    }
  }

  bool submitting() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return submitter_ != std::thread::id(); }

  // Moves what fits into a response from the front of `from`; at least one where the response is still empty.
  template <class T>
  void Gather(std::deque<T>& from, std::vector<T>& to, uint64_t& bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (!from.empty()) {
      const uint64_t size = BytesOf(from.front());
      if (bytes > 0 && bytes + size > kResponseBytes) return;
      bytes += size;
      outbox_bytes_ -= size;
      to.push_back(std::move(from.front()));
      from.pop_front();
    }
  }

  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    wire::StreamEvents events;
    uint64_t bytes = 0;
    Gather(replies_, events.replies, bytes);
    Gather(reports_, events.reports, bytes);
    events.notices.swap(notices_);
    events.acknowledged = acknowledged_;
    told_ = acknowledged_;
    owed_instructions_ = 0;
    owed_bytes_ = 0;
    overdue_ = false;
    out_ = SerializeMessage(wire::ToProto(events));
    writing_ = true;
    StartWrite(&out_);
  }

  void End(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    finished_ = true;
    final_ = status;
    Finish(wire::ToGrpc(status));
  }

  Services& services_;
  grpc::CallbackServerContext* const context_;
  CallScope scope_;
  const std::shared_ptr<Link<StreamReactor>> link_;
  std::unique_ptr<InstructionStream> stream_;  // set before the first read, gone in OnDone
  const std::shared_ptr<std::atomic<uint64_t>> submitted_;
  absl::Status final_;  // written before Finish, read after it

  // Of the reader.
  grpc::ByteBuffer in_;
  v1::StreamRequest request_;  // reused: parsing into it again allocates nothing
  wire::OpTable ops_;

  absl::Mutex mutex_;
  std::thread::id submitter_ ABSL_GUARDED_BY(mutex_);  // the thread inside Submit
  uint64_t newest_ ABSL_GUARDED_BY(mutex_) = 0;        // highest sequence submitted, here or on an earlier stream
  uint64_t pending_reads_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Sent> sent_ ABSL_GUARDED_BY(mutex_);
  uint64_t acknowledged_ ABSL_GUARDED_BY(mutex_) = 0;       // by the engine
  uint64_t told_ ABSL_GUARDED_BY(mutex_) = 0;               // to the client
  uint64_t owed_instructions_ ABSL_GUARDED_BY(mutex_) = 0;  // acknowledged and not told
  uint64_t owed_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool alarm_set_ ABSL_GUARDED_BY(mutex_) = false;
  bool overdue_ ABSL_GUARDED_BY(mutex_) = false;  // an acknowledgement has waited long enough
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);

  std::deque<ReadReply> replies_ ABSL_GUARDED_BY(mutex_);
  std::deque<InstructionReport> reports_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Status> notices_ ABSL_GUARDED_BY(mutex_);
  uint64_t outbox_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of replies and reports
  grpc::ByteBuffer out_ ABSL_GUARDED_BY(mutex_);

  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool input_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartStream(Services& services,
                                                                         grpc::CallbackServerContext* context) {
  auto* const reactor = new StreamReactor(services, context);
  reactor->Start();
  return reactor;
}

}  // namespace tensord::rpc
