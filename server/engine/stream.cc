#include "server/engine/stream.h"

#include <utility>

#include "kernels/core/error.h"
#include "server/engine/upload.h"
#include "server/engine/values.h"

namespace tensord {

absl::Status StreamCore::end_status() const {
  absl::MutexLock lock(&mu_);
  return ended_ ? end_status_ : absl::OkStatus();
}

void StreamCore::End(const absl::Status& status) {
  {
    absl::MutexLock lock(&session_->mu);
    if (session_->stream.get() == this) {
      session_->stream.reset();
      const absl::Time end = absl::Now() + session_->grace;
      session_->expire_ns.store(absl::ToUnixNanos(end));
      core_->SweepBy(end);
    }
    held_.clear();
  }
  absl::MutexLock lock(&mu_);
  if (ended_) return;
  ended_ = true;
  end_status_ = status;
  reads_.clear();
  listener_->OnEnd(status);
}

void StreamCore::Abandon() {
  {
    absl::MutexLock lock(&mu_);
    if (!ended_) {
      ended_ = true;
      end_status_ = Error(Reason::kCancelled);
      reads_.clear();
    }
  }
  End(absl::OkStatus());
}

void StreamCore::Notice(const absl::Status& notice) {
  absl::MutexLock lock(&mu_);
  if (!ended_) listener_->OnNotice(notice);
}

void StreamCore::Report(InstructionReport report) {
  absl::MutexLock lock(&mu_);
  if (!ended_) listener_->OnReport(std::move(report));
}

void StreamCore::Acknowledge(uint64_t sequence) {
  absl::MutexLock lock(&mu_);
  if (!ended_) listener_->OnAcknowledged(sequence);
}

void StreamCore::Reply(uint64_t serial, ReadReply reply) {
  absl::MutexLock lock(&mu_);
  if (ended_) return;
  if (serial != 0) {
    const auto it = reads_.find(reply.tag);
    if (it == reads_.end() || it->second != serial) return;  // cancelled meanwhile
    reads_.erase(it);
  }
  listener_->OnReply(std::move(reply));
}

void StreamCore::Cancel(const std::vector<uint64_t>& tags) {
  absl::MutexLock lock(&mu_);
  for (const uint64_t tag : tags) {
    if (ended_ || reads_.erase(tag) == 0) continue;
    ReadReply reply;
    reply.tag = tag;
    reply.error = Error(Reason::kCancelled).With("tag", tag);
    listener_->OnReply(std::move(reply));
  }
}

absl::Status StreamCore::CheckBounds(const StreamMessage& message) const {
  const Limits& limits = core_->limits();
  if (message.instructions.size() > limits.max_message_instructions) {
    return Error(Reason::kLimitExceeded)
        .With("limit", "max_message_instructions")
        .With("value", message.instructions.size())
        .With("maximum", limits.max_message_instructions)
        .At("instructions");
  }
  const auto exceeded = [](std::string_view quota, uint64_t used, uint64_t limit, uint64_t requested) {
    return Error(Reason::kQuotaExceeded)
        .With("quota", quota)
        .With("used", used)
        .With("limit", limit)
        .With("requested", requested)
        .ToStatus();
  };
  if (held_instructions_ + message.instructions.size() > limits.stream_window_instructions) {
    return exceeded("stream_window_instructions", held_instructions_, limits.stream_window_instructions,
                    message.instructions.size());
  }
  if (held_bytes_ + message.wire_bytes > limits.stream_window_bytes) {
    return exceeded("stream_window_bytes", held_bytes_, limits.stream_window_bytes, message.wire_bytes);
  }
  // A refused instruction's outputs are held, with QUOTA_EXCEEDED, a little beyond the quota; not for ever.
  const uint64_t handles = session_->tenant->principal->handles.load();
  if (handles > limits.max_handles + limits.max_message_instructions) {
    return exceeded("handles", handles, limits.max_handles, message.instructions.size());
  }
  absl::MutexLock lock(&mu_);
  if (reads_.size() + message.reads.size() > limits.max_pending_reads) {
    return exceeded("pending_reads", reads_.size(), limits.max_pending_reads, message.reads.size());
  }
  return absl::OkStatus();
}

absl::Status StreamCore::Submit(StreamMessage message) {
  absl::Status problem = core_->CheckOpen();
  std::vector<Session::AfterWaiter> ready;
  if (problem.ok()) {
    absl::MutexLock lock(&session_->mu);
    TENSORD_RETURN_IF_ERROR(end_status());
    const uint64_t expected = session_->next_sequence + held_.size();
    if (message.sequence < expected) {
      Acknowledge(session_->next_sequence - 1);
      return absl::OkStatus();
    }
    if (message.sequence > expected) {
      problem = Error(Reason::kSequenceGap).With("expected", expected).With("got", message.sequence);
    } else {
      problem = CheckBounds(message);
    }
    if (problem.ok()) {
      Cancel(message.cancels);
      Tenant& tenant = *session_->tenant;
      if (!held_.empty() || tenant.queued.load() > core_->limits().stream_window_instructions) {
        // The device is behind: hold the message back, and with it its acknowledgement, until it has caught up.
        held_instructions_ += message.instructions.size();
        held_bytes_ += message.wire_bytes;
        held_.push_back(std::move(message));
        tenant.waiting.store(true);
        if (tenant.queued.load() <= tenant.low_water && tenant.waiting.exchange(false)) tenant.on_low_water();
        return absl::OkStatus();
      }
      Process(message);
      ready = session_->TakeReady();
    }
  }
  if (!problem.ok()) {
    End(problem);
    return problem;
  }
  for (Session::AfterWaiter& waiter : ready) waiter.run(absl::OkStatus());
  return absl::OkStatus();
}

void StreamCore::Resume() {
  std::vector<Session::AfterWaiter> ready;
  {
    absl::MutexLock lock(&session_->mu);
    Tenant& tenant = *session_->tenant;
    while (!held_.empty() && tenant.queued.load() <= core_->limits().stream_window_instructions) {
      StreamMessage message = std::move(held_.front());
      held_.pop_front();
      held_instructions_ -= message.instructions.size();
      held_bytes_ -= message.wire_bytes;
      Process(message);
    }
    if (!held_.empty()) {
      tenant.waiting.store(true);
      if (tenant.queued.load() <= tenant.low_water && tenant.waiting.exchange(false)) tenant.on_low_water();
    }
    ready = session_->TakeReady();
  }
  for (Session::AfterWaiter& waiter : ready) waiter.run(absl::OkStatus());
}

void StreamCore::Process(StreamMessage& message) {
  auto batch = MakeRef<Batch>(session_->tenant, absl::Now());
  batch->sequence = message.sequence;
  batch->report = message.report;
  if (message.report != ReportLevel::kNone) {
    batch->report_to = [self = shared_from_this()](InstructionReport report) { self->Report(std::move(report)); };
  }
  Planner planner(*core_, {session_.get(), session_->tenant, &session_->generator}, batch);
  for (const Binding& binding : message.bindings) Bind(binding, planner);
  for (uint32_t i = 0; i < message.instructions.size(); ++i) ProcessInstruction(message.instructions[i], i, planner);
  for (const Read& read : message.reads) ProcessRead(read, planner);
  const bool timed = message.timeout && !planner.empty();
  planner.Submit();
  if (timed) {
    const Timer::Id timer = CancelAt(*core_, batch, batch->arrival() + *message.timeout,
                                     Error(Reason::kDeadlineExceeded)
                                         .With("after", absl::FormatDuration(*message.timeout))
                                         .With("stage", "the timeout of the message"));
    batch->on_done = [core = core_.get(), timer] { core->timer.Cancel(timer); };
  }
  batch->Close();
  session_->next_sequence = message.sequence + 1;
  PokeLanes(*core_, *session_->tenant);
  Acknowledge(message.sequence);
}

void StreamCore::ProcessRead(const Read& read, Planner& planner) {
  ReadReply reply;
  reply.tag = read.tag;
  uint64_t serial = 0;
  {
    absl::MutexLock lock(&mu_);
    if (ended_) return;
    const auto [it, fresh] = reads_.try_emplace(read.tag, next_serial_);
    if (fresh) {
      serial = next_serial_++;
    } else {
      reply.error = Error(Reason::kFieldInvalid)
                        .With("value", read.tag)
                        .With("allowed", "a tag that no pending read has")
                        .At("reads.tag");
    }
  }
  if (serial == 0) return Reply(0, std::move(reply));
  if (read.id == 0) {
    planner.Barrier(std::make_shared<absl::AnyInvocable<void()>>(
        [self = shared_from_this(), serial, reply]() mutable { self->Reply(serial, std::move(reply)); }));
    return;
  }
  const Handle* handle = session_->table.Find(read.id);
  if (handle == nullptr) {
    reply.error = session_->table.Unknown(read.id, "tensor");
  } else if (!handle->tensor) {
    reply.error = Error(Reason::kKindMismatch).With("name", read.id).With("kind", "model").With("expected", "tensor");
  }
  if (!reply.error.ok()) return Reply(serial, std::move(reply));
  Ref<Tensor> tensor = handle->tensor;
  const bool values = read.value != ValueFormat::kNone && tensor->bytes() <= core_->limits().max_inline_bytes;
  if (values && !tensor->failed()) tensor = planner.Contiguous(tensor);
  Storage* storage = tensor->storage.get();
  storage->OnDone([self = shared_from_this(), serial, read, tensor = std::move(tensor)]() mutable {
    self->Answer(serial, read, std::move(tensor));
  });
}

void StreamCore::Answer(uint64_t serial, const Read& read, Ref<Tensor> tensor) {
  ReadReply reply;
  reply.tag = read.tag;
  if (tensor->failed()) {
    reply.error = tensor->error();
  } else {
    reply.spec = tensor->spec;
    reply.format = read.value;
    if (read.value != ValueFormat::kNone && tensor->bytes() <= core_->limits().max_inline_bytes) {
      absl::StatusOr<std::string> data = ReadValues(*tensor);
      if (data.ok()) {
        reply.data = *std::move(data);
      } else {
        reply.error = data.status();
      }
    }
  }
  // Who has the answer finds nothing held by this read any more.
  tensor.reset();
  Reply(serial, std::move(reply));
}

void PokeLanes(Core& core, const Tenant& tenant) {
  for (size_t i = 0; i < tenant.lanes.size(); ++i) {
    if (tenant.lanes[i] && tenant.lanes[i]->blocked()) core.devices.all()[i]->executor().Poke(tenant.lanes[i]);
  }
}

}  // namespace tensord
