#include "server/engine/work.h"

#include <algorithm>
#include <utility>

#include "kernels/core/error.h"
#include "server/engine/device.h"

namespace tensord {
namespace {

// Whether output 0 may have the memory of an input: an elementwise op, an input of the same bytes and layout that ends
// with this work.
Tensor* ReusableInput(const Work& work) {
  if (work.kind != Work::Kind::kRun || work.outputs.size() != 1 || !IsElementwise(RowOf(work.op).family))
    return nullptr;
  const Tensor& out = *work.outputs[0];
  if (out.storage->bytes() == 0) return nullptr;
  for (const Ref<Tensor>& in : work.inputs) {
    if (!in || in->spec.type.shape != out.spec.type.shape) continue;
    const Storage& storage = *in->storage;
    if (storage.bytes() != out.storage->bytes() || storage.device() != out.storage->device()) continue;
    if (in->offset != 0 || in->bytes() != storage.bytes() || !in->contiguous()) continue;
    if (in->unique() && storage.unique() && storage.allocated()) return in.get();
  }
  return nullptr;
}

// The inputs of work stay on their device while this lives.
class WorkHold {
 public:
  WorkHold(Device& device, const Work& work) : device_(device), work_(work) {
    if (device_.residency().enabled()) status_ = device_.residency().Hold(work_.inputs);
  }
  WorkHold(const WorkHold&) = delete;
  WorkHold& operator=(const WorkHold&) = delete;
  ~WorkHold() {
    if (device_.residency().enabled()) device_.residency().Release(work_.inputs);
  }
  const absl::Status& status() const { return status_; }

 private:
  Device& device_;
  const Work& work_;
  absl::Status status_;
};

// What the work needs on its device at one time, temporary memory aside.
size_t WorkingSet(const Work& work) {
  absl::InlinedVector<const Storage*, 4> seen;
  size_t bytes = 0;
  const auto add = [&](const Ref<Tensor>& tensor) {
    if (!tensor || std::find(seen.begin(), seen.end(), tensor->storage.get()) != seen.end()) return;
    seen.push_back(tensor->storage.get());
    bytes += tensor->storage->bytes();
  };
  for (const Ref<Tensor>& in : work.inputs) add(in);
  for (const Ref<Tensor>& out : work.outputs) add(out);
  return bytes;
}

absl::Status RunKernel(Device& device, Work& work) {
  static const Attributes kNone;
  const WorkHold hold(device, work);
  TENSORD_RETURN_IF_ERROR(hold.status());
  absl::InlinedVector<TensorView, 4> views(work.inputs.size());
  absl::InlinedVector<KernelOperand, 4> operands(work.inputs.size());
  size_t next_scalar = 0;
  for (size_t i = 0; i < work.inputs.size(); ++i) {
    if (work.inputs[i]) {
      views[i] = work.inputs[i]->view();
      operands[i].tensor = &views[i];
    } else {
      operands[i].scalar = &work.scalars[next_scalar++];
    }
  }
  if (Tensor* donor = ReusableInput(work)) {
    work.outputs[0]->storage->Adopt(*donor->storage);
  } else {
    for (const Ref<Tensor>& out : work.outputs) TENSORD_RETURN_IF_ERROR(out->storage->Allocate());
  }
  absl::InlinedVector<TensorView, 1> outputs;
  bool empty = true;
  for (const Ref<Tensor>& out : work.outputs) {
    outputs.push_back(out->view());
    empty &= out->storage->bytes() == 0;
  }
  if (empty) return absl::OkStatus();
  const KernelCall call{work.op, work.attributes ? work.attributes : &kNone, work.compute, operands, outputs};
  return device.Run(call, *work.batch->tenant()->account);
}

absl::Status Transfer(Device& device, Work& work) {
  const Tensor& source = *work.inputs[0];
  Storage& target = *work.outputs[0]->storage;
  TENSORD_RETURN_IF_ERROR(target.Allocate());
  if (target.bytes() == 0) return absl::OkStatus();
  // Memory first: whoever holds a storage of one device waits for none of another's.
  const ReadHold hold(*source.storage);
  if (hold.host() != nullptr) return device.Write(target.data(), hold.host() + source.offset_bytes(), target.bytes());
  return device.CopyFrom(*source.storage->device(), source.data(), target.data(), target.bytes());
}

// On devices that compute in the background.
absl::Status Finished(Device& device) { return device.asynchronous() ? device.Synchronize() : absl::OkStatus(); }

absl::Status Compute(Device& device, Work& work) {
  switch (work.kind) {
    case Work::Kind::kRun:
      return RunKernel(device, work);
    case Work::Kind::kConstant: {
      Storage& target = *work.outputs[0]->storage;
      TENSORD_RETURN_IF_ERROR(target.Allocate());
      return device.Write(target.data(), AttributesAs<ConstantAttributes>(*work.attributes).data.data(),
                          target.bytes());
    }
    case Work::Kind::kTransfer:
      return Transfer(device, work);
    case Work::Kind::kSync:
      return device.Synchronize();
    case Work::Kind::kMarker:
      // What a marker tells of has ended, not only begun. A fault that shows up here is the device's loss.
      return Finished(device);
  }
  return absl::OkStatus();
}

// The status as the work's outputs hold it: says which instruction failed, in the error's metadata and as its origin.
absl::Status Explain(const Work& work, absl::Status status) {
  const ErrorDetails details = DetailsOf(status);
  if (details.origin) return status;
  if (details.reason_name.empty()) {
    status = Error(Reason::kInternal).With("id", work.origin).With("cause", std::string(status.message()));
  }
  if (work.op == Op::kNone) return status;  // no instruction of anybody's
  const std::string_view op = RowOf(work.op).name;
  status = WithMetadata(status, "op", op);
  if (!work.label.empty()) status = WithMetadata(status, "label", work.label);
  status = WithMetadata(status, "instruction", std::to_string(work.index));
  return WithOrigin(status, {work.origin, std::string(op), work.batch->sequence, work.index, work.label, 0});
}

uint64_t Nanos(absl::Duration d) { return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Nanoseconds(d))); }

}  // namespace

void Batch::Cancel(absl::Status status) {
  absl::MutexLock lock(&mu_);
  if (cancelled_.load(std::memory_order_relaxed)) return;
  cancel_status_ = std::move(status);
  cancelled_.store(true, std::memory_order_release);
}

absl::Status Batch::cancel_status() const {
  absl::MutexLock lock(&mu_);
  return cancel_status_;
}

void Batch::WorkDone(const absl::Status& failure) {
  if (!failure.ok()) {
    absl::MutexLock lock(&mu_);
    if (failure_.ok()) failure_ = failure;
  }
  CountDown();
}

void Batch::CountDown() {
  if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // Who waits refers to the batch and is referred to by it: let go before telling.
  absl::AnyInvocable<void()> tell = std::move(on_done);
  Discard();
  keep.clear();
  if (tell) tell();
}

absl::Status Batch::failure() const {
  absl::MutexLock lock(&mu_);
  return failure_;
}

bool Unwanted(const Work& work) {
  if (work.outputs.empty()) return false;  // done for its effect
  for (const Ref<Tensor>& out : work.outputs) {
    if (!out->unique() || !out->storage->unique()) return false;
  }
  return true;
}

Storage* FirstPending(const Work& work) {
  for (const Ref<Tensor>& in : work.inputs) {
    if (in && in->pending()) return in->storage.get();
  }
  return nullptr;
}

WorkResult ComputeWork(Device& device, Work& work) {
  WorkResult result;
  if (work.batch->cancelled()) return RefuseWork(work, work.batch->cancel_status());
  if (Unwanted(work)) {
    result.kind = WorkResult::Kind::kDropped;
    result.status = Error(Reason::kCancelled);
    return result;
  }
  for (const Ref<Tensor>& in : work.inputs) {
    if (!in || !in->failed()) continue;
    result.kind = WorkResult::Kind::kInputFailed;
    result.status = in->storage->error();
    result.distance = in->storage->distance() + in->distance + 1;
    return result;
  }
  if (device.lost()) return RefuseWork(work, device.loss());
  const bool timed = work.batch->report == ReportLevel::kTimings;
  const absl::Time start = timed ? absl::Now() : absl::Time();
  absl::Status status = Compute(device, work);
  if (ReasonOf(status) == Reason::kMemoryExhausted && device.residency().enabled()) {
    status = WithMetadata(status, "working_set", std::to_string(WorkingSet(work)));
  }
  if (timed) {
    // A time is that of the work, not that of handing it over.
    if (status.ok()) status = Finished(device);
    result.queue_ns = Nanos(start - work.batch->arrival());
    result.run_ns = Nanos(absl::Now() - start);
  }
  if (!status.ok()) {
    result.kind = WorkResult::Kind::kFailed;
    result.status = Explain(work, std::move(status));
  }
  return result;
}

WorkResult RefuseWork(const Work& work, const absl::Status& cause) {
  WorkResult result;
  result.kind = WorkResult::Kind::kFailed;
  result.status = work.kind == Work::Kind::kMarker ? cause : Explain(work, cause);
  return result;
}

void CompleteWork(Device& device, Work& work, const WorkResult& result) {
  // Who is told of the outputs may look at what is free, or ask for it: by then this work refers to no memory.
  work.inputs.clear();
  absl::InlinedVector<Waiters, 1> waiters;
  for (const Ref<Tensor>& out : work.outputs) {
    waiters.push_back(result.kind == WorkResult::Kind::kDone ? out->storage->SetReady()
                                                             : out->storage->SetFailed(result.status, result.distance));
  }
  work.outputs.clear();
  waiters.clear();
  Batch& batch = *work.batch;
  const bool own = result.kind == WorkResult::Kind::kFailed;
  if (work.kind == Work::Kind::kMarker) {
    work.marker();
  } else if (work.op == Op::kNone) {
    // Nobody's instruction.
  } else if (batch.report == ReportLevel::kTimings || (batch.report == ReportLevel::kFailures && own)) {
    InstructionReport report;
    report.sequence = batch.sequence;
    report.instruction = work.index;
    report.op = work.op;
    report.label = work.label;
    report.device = device.id();
    report.error = AddDistance(result.status, result.distance);
    report.queue_ns = result.queue_ns;
    report.run_ns = result.run_ns;
    report.group = (batch.sequence << 20) + work.index + 1;
    batch.report_to(std::move(report));
  }
  // Work that nobody wanted has not failed.
  const bool failed = own || result.kind == WorkResult::Kind::kInputFailed;
  batch.WorkDone(failed ? AddDistance(result.status, result.distance) : absl::OkStatus());
}

}  // namespace tensord
