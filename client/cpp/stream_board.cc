#include "client/cpp/stream_board.h"

#include <algorithm>
#include <utility>

#include "kernels/core/error.h"

namespace tensord {

// Hears one stream.
class StreamBoard::Listener : public StreamListener {
 public:
  Listener(std::shared_ptr<StreamBoard> board, uint64_t generation)
      : board_(std::move(board)), generation_(generation) {}

  void OnReply(ReadReply reply) override { board_->OnReply(generation_, std::move(reply)); }
  void OnReport(InstructionReport) override {}
  void OnAcknowledged(uint64_t sequence) override { board_->OnAcknowledged(generation_, sequence); }
  void OnNotice(absl::Status) override {}  // what it announces ends the stream, or shows in the tensors
  void OnEnd(absl::Status status) override { board_->OnEnd(generation_, status); }

 private:
  const std::shared_ptr<StreamBoard> board_;
  const uint64_t generation_;
};

std::shared_ptr<StreamListener> StreamBoard::NewListener() {
  absl::MutexLock lock(&mu_);
  return std::make_shared<Listener>(shared_from_this(), ++generation_);
}

void StreamBoard::Sent(StreamMessage message) {
  absl::MutexLock lock(&mu_);
  unacknowledged_.push_back(std::move(message));
}

bool StreamBoard::Expect(const Read& read, uint64_t sequence, size_t max_reads) {
  absl::MutexLock lock(&mu_);
  const auto room = [this, max_reads]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return waiters_.size() < max_reads || state() == State::kDead;
  };
  mu_.Await(absl::Condition(&room));
  if (state() == State::kDead) return false;
  waiters_[read.tag] = Waiter{read, sequence, std::nullopt};
  return true;
}

absl::StatusOr<ReadReply> StreamBoard::Await(uint64_t tag) {
  absl::MutexLock lock(&mu_);
  const auto it = waiters_.find(tag);
  if (it == waiters_.end()) return cause_;
  const auto answered = [this, it]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return it->second.reply.has_value() || state() == State::kDead;
  };
  mu_.Await(absl::Condition(&answered));
  std::optional<ReadReply> reply = std::move(it->second.reply);
  waiters_.erase(it);
  if (!reply) return cause_;
  if (!reply->error.ok()) return reply->error;
  return *std::move(reply);
}

void StreamBoard::OnReply(uint64_t generation, ReadReply reply) {
  absl::MutexLock lock(&mu_);
  if (generation != generation_) return;
  if (const auto it = waiters_.find(reply.tag); it != waiters_.end()) it->second.reply = std::move(reply);
}

void StreamBoard::OnAcknowledged(uint64_t generation, uint64_t sequence) {
  std::deque<StreamMessage> done;  // destroyed outside the lock
  absl::MutexLock lock(&mu_);
  if (generation != generation_) return;
  while (!unacknowledged_.empty() && unacknowledged_.front().sequence <= sequence) {
    done.push_back(std::move(unacknowledged_.front()));
    unacknowledged_.pop_front();
  }
}

void StreamBoard::OnEnd(uint64_t generation, const absl::Status& status) {
  // What carries a reason comes from the daemon, and asking again would not help; a shutdown ends every session.
  const bool final = !status.ok() && !DetailsOf(status).reason_name.empty() && ReasonOf(status) != Reason::kCancelled;
  absl::MutexLock lock(&mu_);
  if (generation == generation_) End(status.ok() ? absl::UnavailableError("the stream has ended") : status, final);
}

void StreamBoard::Broken(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  End(status, /*final=*/false);
}

void StreamBoard::Dead(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  End(status, /*final=*/true);
}

void StreamBoard::End(const absl::Status& status, bool final) {
  if (state() == State::kDead || (state() == State::kBroken && !final)) return;
  state_.store(final ? State::kDead : State::kBroken, std::memory_order_release);
  cause_ = status;
  work_.SignalAll();
}

void StreamBoard::Up() {
  absl::MutexLock lock(&mu_);
  if (state() == State::kBroken) state_.store(State::kUp, std::memory_order_release);
}

absl::Status StreamBoard::AwaitUp() {
  absl::MutexLock lock(&mu_);
  const auto settled = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return state() != State::kBroken || stop_; };
  mu_.Await(absl::Condition(&settled));
  return state() == State::kUp ? absl::OkStatus() : cause_;
}

void StreamBoard::AwaitRoom(size_t max_messages) {
  absl::MutexLock lock(&mu_);
  const auto room = [this, max_messages]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return state() != State::kBroken || stop_ || unacknowledged_.size() < max_messages;
  };
  mu_.Await(absl::Condition(&room));
}

StreamBoard::Unfinished StreamBoard::Resend(uint64_t next_sequence) {
  absl::MutexLock lock(&mu_);
  while (!unacknowledged_.empty() && unacknowledged_.front().sequence < next_sequence) unacknowledged_.pop_front();
  Unfinished out;
  out.messages.assign(unacknowledged_.begin(), unacknowledged_.end());
  for (const auto& [tag, waiter] : waiters_) {
    if (!waiter.reply && waiter.sequence < next_sequence) out.reads.push_back(waiter.read);
  }
  return out;
}

void StreamBoard::Reassign(const std::vector<Read>& reads, uint64_t sequence) {
  absl::MutexLock lock(&mu_);
  for (const Read& read : reads) {
    if (const auto it = waiters_.find(read.tag); it != waiters_.end()) it->second.sequence = sequence;
  }
}

bool StreamBoard::AwaitWork(const std::atomic<bool>& pending) {
  absl::MutexLock lock(&mu_);
  asleep_.store(true);
  // Reads `pending` after saying that it sleeps; Wake's caller writes it before asking. One of them sees the other.
  while (!stop_ && state() != State::kBroken && !pending.load()) work_.Wait(&mu_);
  asleep_.store(false);
  return !stop_;
}

void StreamBoard::Pause(absl::Duration time) {
  absl::MutexLock lock(&mu_);
  if (stop_ || state() == State::kBroken) return;
  work_.WaitWithTimeout(&mu_, time);
}

void StreamBoard::Wake() {
  if (!asleep_.load()) return;
  absl::MutexLock lock(&mu_);
  work_.Signal();
}

void StreamBoard::Stop() {
  absl::MutexLock lock(&mu_);
  stop_ = true;
  work_.SignalAll();
}

bool StreamBoard::stopped() const {
  absl::MutexLock lock(&mu_);
  return stop_;
}

}  // namespace tensord
