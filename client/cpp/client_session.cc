#include "client/cpp/client_session.h"

#include <algorithm>
#include <utility>

#include "kernels/core/error.h"

namespace tensord {
namespace {

// How long an instruction waits for company.
constexpr absl::Duration kFlushDelay = absl::Microseconds(50);
// How far back Free looks for the last use of an id: temporaries die soon.
constexpr size_t kFreeLookBack = 16;
// Frees of one instruction.
constexpr size_t kMaxFrees = 256;
// Messages kept while the connection is broken; then whoever submits waits.
constexpr size_t kMaxKept = 1024;
constexpr absl::Duration kFirstRetry = absl::Milliseconds(50);
constexpr absl::Duration kLastRetry = absl::Seconds(1);
constexpr absl::Duration kCloseTimeout = absl::Seconds(2);
constexpr absl::Duration kResumeTimeout = absl::Seconds(5);

bool Uses(const Instruction& instruction, uint64_t id) {
  return std::find(instruction.inputs.begin(), instruction.inputs.end(), id) != instruction.inputs.end();
}

}  // namespace

absl::StatusOr<std::shared_ptr<ClientSession>> ClientSession::Open(std::shared_ptr<Engine> engine,
                                                                   OpenSessionRequest request) {
  TENSORD_ASSIGN_OR_RETURN(OpenSessionResponse info, engine->OpenSession(Caller{}, request));
  std::shared_ptr<ClientSession> session(new ClientSession(std::move(engine), std::move(info)));
  {
    absl::MutexLock lock(&session->mu_);
    TENSORD_RETURN_IF_ERROR(session->OpenStream());
  }
  session->background_ = std::thread([s = session.get()] { s->Background(); });
  return session;
}

ClientSession::ClientSession(std::shared_ptr<Engine> engine, OpenSessionResponse info)
    : engine_(std::move(engine)),
      info_(std::move(info)),
      board_(std::make_shared<StreamBoard>()),
      next_id_(info_.highest_id + 1),
      pending_(false),
      next_sequence_(info_.next_sequence) {}

ClientSession::~ClientSession() {
  board_->Stop();
  if (background_.joinable()) background_.join();
  board_->NewListener();  // the old one is no longer heard
  {
    absl::MutexLock lock(&mu_);
    stream_.reset();
  }
  if (board_->state() == StreamBoard::State::kDead) return;
  Caller caller = PlainCaller();
  caller.deadline = absl::Now() + kCloseTimeout;
  // Nobody is left to tell: a daemon that did not hear it frees everything after its grace.
  engine_->CloseSession(caller).IgnoreError();
}

absl::Status ClientSession::OpenStream() {
  TENSORD_ASSIGN_OR_RETURN(stream_, engine_->OpenStream(PlainCaller(), board_->NewListener()));
  return absl::OkStatus();
}

void ClientSession::Submit(Instruction instruction) {
  if (board_->state() == StreamBoard::State::kBroken) board_->AwaitRoom(kMaxKept);
  absl::MutexLock lock(&mu_);
  Append(std::move(instruction));
}

void ClientSession::Append(Instruction instruction) {
  if (const auto* constant = std::get_if<ConstantAttributes>(&instruction.attributes)) {
    if (inline_bytes_ + constant->data.size() > info_.limits.max_inline_bytes) FlushLocked();
    inline_bytes_ += constant->data.size();
  }
  message_.instructions.push_back(std::move(instruction));
  if (message_.instructions.size() >= std::min<size_t>(kMaxBatch, info_.limits.max_message_instructions))
    return FlushLocked();
  WakeFlusher();
}

void ClientSession::WakeFlusher() {
  if (pending_.exchange(true)) return;
  board_->Wake();
}

void ClientSession::Bind(Binding binding) {
  if (board_->state() == StreamBoard::State::kBroken) board_->AwaitRoom(kMaxKept);
  absl::MutexLock lock(&mu_);
  // Bindings come first in a message: what they stand for must be as of now, not as of before the instructions that
  // wait.
  if (!message_.instructions.empty()) FlushLocked();
  message_.bindings.push_back(std::move(binding));
  WakeFlusher();
}

void ClientSession::Free(uint64_t id) {
  absl::MutexLock lock(&mu_);
  auto& instructions = message_.instructions;
  const size_t first = instructions.size() - std::min(instructions.size(), kFreeLookBack);
  for (size_t i = instructions.size(); i-- > first;) {
    if (instructions[i].op != Op::kNone && Uses(instructions[i], id)) {
      instructions[i].frees.push_back(id);
      return;
    }
  }
  if (!instructions.empty()) {
    Instruction& last = instructions.back();
    const bool makes_it = id >= last.output && id < last.output + last.outputs() && last.op != Op::kNone;
    if (!makes_it && last.frees.size() < kMaxFrees) {
      last.frees.push_back(id);
      return;
    }
  }
  Instruction only_free{};
  only_free.frees.push_back(id);
  Append(std::move(only_free));
}

void ClientSession::Flush() {
  absl::MutexLock lock(&mu_);
  FlushLocked();
}

void ClientSession::FlushLocked() {
  pending_.store(false);
  if (message_.instructions.empty() && message_.bindings.empty() && message_.reads.empty()) return;
  message_.sequence = next_sequence_++;
  StreamMessage message = std::exchange(message_, StreamMessage());
  inline_bytes_ = 0;
  if (board_->state() == StreamBoard::State::kDead) return;
  if (stream_ == nullptr || board_->state() == StreamBoard::State::kBroken) return board_->Sent(std::move(message));
  board_->Sent(message);
  if (absl::Status status = stream_->Submit(std::move(message)); !status.ok()) {
    // The listener hears of it too, and judges; this is for an engine whose stream ended without a word.
    if (DetailsOf(status).reason_name.empty()) board_->Broken(status);
  }
}

absl::StatusOr<ReadReply> ClientSession::Read(uint64_t id, ValueFormat format) {
  uint64_t tag = 0;
  {
    absl::MutexLock lock(&mu_);
    tag = next_tag_++;
    const tensord::Read read{.tag = tag, .id = id, .value = format};
    if (board_->Expect(read, next_sequence_, info_.limits.max_pending_reads)) message_.reads.push_back(read);
    FlushLocked();
  }
  return board_->Await(tag);
}

Caller ClientSession::OrderedCaller() {
  absl::MutexLock lock(&mu_);
  FlushLocked();
  Caller caller = PlainCaller();
  caller.after = next_sequence_ - 1;
  return caller;
}

absl::Status ClientSession::AwaitConnection() { return board_->AwaitUp(); }

void ClientSession::Background() {
  while (board_->AwaitWork(pending_)) {
    if (board_->state() == StreamBoard::State::kBroken) {
      Recover();
      continue;
    }
    board_->Pause(kFlushDelay);
    absl::MutexLock lock(&mu_);
    FlushLocked();
  }
}

void ClientSession::Recover() {
  {
    absl::MutexLock lock(&mu_);
    stream_.reset();
  }
  const absl::Time give_up = absl::Now() + info_.grace;
  absl::Duration wait = kFirstRetry;
  while (!board_->stopped()) {
    Caller caller;
    caller.deadline = absl::Now() + kResumeTimeout;
    OpenSessionRequest request;
    request.min_version = request.max_version = info_.version;
    request.resume_token = info_.token;
    request.incarnation = info_.incarnation;
    absl::StatusOr<OpenSessionResponse> answer = engine_->OpenSession(caller, request);
    absl::Status status = answer.status();
    if (answer.ok()) status = Resume(answer->next_sequence);
    if (status.ok()) return;
    const bool again =
        status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kDeadlineExceeded;
    if (!again || absl::Now() > give_up) return board_->Dead(status);
    // The board is broken, so its Pause would not sleep; a stop is noticed after at most the last wait.
    absl::SleepFor(wait);
    wait = std::min(wait * 2, kLastRetry);
  }
}

absl::Status ClientSession::Resume(uint64_t next_sequence) {
  absl::MutexLock lock(&mu_);
  board_->Up();  // first, so that a stream that breaks again is noticed again
  if (absl::Status status = OpenStream(); !status.ok()) {
    board_->Broken(status);
    return status;
  }
  StreamBoard::Unfinished unfinished = board_->Resend(next_sequence);
  for (StreamMessage& message : unfinished.messages) {
    if (absl::Status status = stream_->Submit(std::move(message)); !status.ok()) {
      if (DetailsOf(status).reason_name.empty()) board_->Broken(status);
      return absl::OkStatus();  // the board knows, and the next turn goes on
    }
  }
  if (!unfinished.reads.empty()) {
    StreamMessage again;
    again.sequence = next_sequence_++;
    again.reads = unfinished.reads;
    board_->Reassign(unfinished.reads, again.sequence);
    board_->Sent(again);
    if (absl::Status status = stream_->Submit(std::move(again)); !status.ok() && DetailsOf(status).reason_name.empty())
      board_->Broken(status);
  }
  return absl::OkStatus();
}

}  // namespace tensord
