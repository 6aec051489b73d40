// A device for tests: host memory, a handful of ops on float32, a gate that holds it, failures and loss on request. A
// late one runs what it was given only when somebody waits for its stream, as a GPU may.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/backend.h"
#include "kernels/core/error.h"

namespace tensord::testing {

// Memory with a limit. Thread safe.
class FakeMemory final : public MemoryResource {
 public:
  explicit FakeMemory(size_t limit) : limit_(limit) {}
  // Called before memory is given; what it says is the answer unless OK.
  std::function<absl::Status()> before_allocate;
  // Called before memory is taken back: the stream may still use it.
  std::function<void()> before_free;

  absl::StatusOr<void*> Allocate(size_t bytes, StreamId) override {
    if (before_allocate) TENSORD_RETURN_IF_ERROR(before_allocate());
    absl::MutexLock lock(&mu_);
    if (used_ + bytes > limit_) {
      return Error(Reason::kMemoryExhausted).With("device", "?").With("requested", bytes).With("free", limit_ - used_);
    }
    used_ += bytes;
    ++allocations_;
    return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
  void Deallocate(void* block, size_t bytes, StreamId) override {
    if (before_free) before_free();
    std::memset(block, 0xdb, bytes);  // who reads it now reads nonsense
    std::free(block);
    absl::MutexLock lock(&mu_);
    used_ -= bytes;
  }
  size_t Trim() override {
    absl::MutexLock lock(&mu_);
    ++trims_;
    return 0;
  }
  MemoryStats Stats() const override {
    absl::MutexLock lock(&mu_);
    MemoryStats stats;
    stats.total = static_cast<int64_t>(limit_);
    stats.used = static_cast<int64_t>(used_);
    stats.free = static_cast<int64_t>(limit_ - used_);
    stats.limit = static_cast<int64_t>(limit_);
    stats.allocations = allocations_;
    return stats;
  }
  int trims() const {
    absl::MutexLock lock(&mu_);
    return trims_;
  }
  size_t used() const {
    absl::MutexLock lock(&mu_);
    return used_;
  }

 private:
  const size_t limit_;
  mutable absl::Mutex mu_;
  size_t used_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t allocations_ ABSL_GUARDED_BY(mu_) = 0;
  int trims_ ABSL_GUARDED_BY(mu_) = 0;
};

// What a run was, in the order of runs.
struct RunRecord {
  Op op = Op::kNone;
  Dims shape;             // of the first output
  bool in_place = false;  // the output has the memory of an input
};

class FakeBackend final : public Backend {
 public:
  struct Options {
    DeviceId id;
    size_t memory_bytes = size_t{1} << 28;
    bool host_addressable = true;
    bool late = false;
    size_t scratch_bytes = 0;  // temporary memory of each run
  };
  // Where a device can be found lost.
  enum class Moment { kNowhere, kRun, kUpload, kDownload, kCopy, kSynchronize, kAllocate, kTelemetry, kHealth };

  explicit FakeBackend(Options options) : options_(std::move(options)), memory_(options_.memory_bytes) {
    memory_.before_allocate = [this] { return Reach(Moment::kAllocate); };
    memory_.before_free = [this] { Drain().IgnoreError(); };
    info_.id = options_.id;
    info_.model = "fake";
    if (options_.id.kind == DeviceKind::kCuda) {
      info_.uuid = StrCat("GPU-", options_.id.index);
      info_.pci_bus_id = StrCat("0000:0", options_.id.index, ":00.0");
    }
  }

  // Closes the gate: runs wait at it, from the next one on.
  void Hold() {
    absl::MutexLock lock(&mu_);
    held_ = true;
  }
  void Release() {
    absl::MutexLock lock(&mu_);
    held_ = false;
  }
  // Waits until a run stands at the gate.
  void AwaitHeld() {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&at_gate_));
  }
  // Lets `count` runs fail with `status`, after `skip` that do not.
  void FailRuns(absl::Status status, int count = 1, int skip = 0) {
    absl::MutexLock lock(&mu_);
    for (int i = 0; i < skip; ++i) failures_.emplace_back();
    for (int i = 0; i < count; ++i) failures_.push_back(status);
  }
  // Loses the device at the next call of that kind: it and every later call say DEVICE_LOST.
  void LoseAt(Moment at) {
    absl::MutexLock lock(&mu_);
    lose_at_ = at;
  }
  // Lets the first run that is carried out from now on lose the device; a late device notices when it carries it out.
  void LoseInNextRun() { FailRuns(Lost()); }
  absl::Status Lost() const {
    return Error(Reason::kDeviceLost).With("device", options_.id.ToString()).With("cause", "the test says so");
  }
  // Calls that came although the device was lost.
  int calls_when_lost() const {
    absl::MutexLock lock(&mu_);
    return calls_when_lost_;
  }
  size_t used() const { return memory_.used(); }
  std::vector<RunRecord> runs() const {
    absl::MutexLock lock(&mu_);
    return runs_;
  }
  int trims() const { return memory_.trims(); }

  const DeviceInfo& Info() const override { return info_; }
  DeviceTelemetry Telemetry() override {
    Reach(Moment::kTelemetry).IgnoreError();
    return {};
  }
  absl::Status Health() override { return Reach(Moment::kHealth); }
  MemoryResource& memory() override { return memory_; }
  bool host_addressable() const override { return options_.host_addressable; }
  bool Supports(Op op, Dtype compute) const override { return op != Op::kErf && !IsComplex(compute); }
  StreamId default_stream() const override { return 0; }
  absl::Status Upload(void* device, const void* host, size_t bytes, StreamId) override {
    TENSORD_RETURN_IF_ERROR(Reach(Moment::kUpload));
    TENSORD_RETURN_IF_ERROR(Drain());
    std::memcpy(device, host, bytes);
    return absl::OkStatus();
  }
  absl::Status Download(void* host, const void* device, size_t bytes, StreamId) override {
    TENSORD_RETURN_IF_ERROR(Reach(Moment::kDownload));
    TENSORD_RETURN_IF_ERROR(Drain());
    std::memcpy(host, device, bytes);
    return absl::OkStatus();
  }
  // The source is ready, says the contract: nothing of it is waited for.
  absl::Status CopyFrom(Backend&, const void* source, void* data, size_t bytes, StreamId) override {
    TENSORD_RETURN_IF_ERROR(Reach(Moment::kCopy));
    TENSORD_RETURN_IF_ERROR(Drain());
    std::memcpy(data, source, bytes);
    return absl::OkStatus();
  }
  absl::Status Synchronize(StreamId) override {
    TENSORD_RETURN_IF_ERROR(Reach(Moment::kSynchronize));
    return Drain();
  }

  absl::Status Run(const KernelCall& call, StreamId stream, MemoryResource& scratch) override {
    TENSORD_RETURN_IF_ERROR(Reach(Moment::kRun));
    if (options_.scratch_bytes > 0) {
      TENSORD_ASSIGN_OR_RETURN(void* const block, scratch.Allocate(options_.scratch_bytes, stream));
      std::memset(block, 0xee, options_.scratch_bytes);
      scratch.Deallocate(block, options_.scratch_bytes, stream);
    }
    absl::Status failure;
    {
      absl::MutexLock lock(&mu_);
      RunRecord record{call.op, call.outputs[0].shape, false};
      for (const KernelOperand& in : call.inputs) {
        record.in_place |= in.tensor != nullptr && in.tensor->data == call.outputs[0].data;
      }
      runs_.push_back(std::move(record));
      at_gate_ = held_;
      const auto open = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !held_; };
      mu_.Await(absl::Condition(&open));
      at_gate_ = false;
      if (!failures_.empty()) {
        failure = failures_.front();
        failures_.pop_front();
      }
    }
    if (!options_.late) return failure.ok() ? Compute(call) : Fail(failure);
    absl::MutexLock lock(&late_mu_);
    late_.push_back([saved = SavedCall(call), failure] { return failure.ok() ? Compute(saved.Get()) : failure; });
    return absl::OkStatus();
  }

 private:
  // A call that outlives what it refers to, but not the tensors' memory.
  class SavedCall {
   public:
    explicit SavedCall(const KernelCall& call)
        : op_(call.op),
          attributes_(*call.attributes),
          compute_(call.compute),
          outputs_(call.outputs.begin(), call.outputs.end()) {
      for (const KernelOperand& in : call.inputs) {
        tensors_.push_back(in.tensor != nullptr ? *in.tensor : TensorView());
        scalars_.push_back(in.scalar != nullptr ? *in.scalar : Scalar());
        kinds_.push_back(in.tensor != nullptr ? 't' : in.scalar != nullptr ? 's' : '-');
      }
    }
    KernelCall Get() const {
      operands_.clear();
      for (size_t i = 0; i < kinds_.size(); ++i) {
        operands_.push_back({kinds_[i] == 't' ? &tensors_[i] : nullptr, kinds_[i] == 's' ? &scalars_[i] : nullptr});
      }
      return {op_, &attributes_, compute_, operands_, outputs_};
    }

   private:
    Op op_;
    Attributes attributes_;
    Dtype compute_;
    std::vector<TensorView> tensors_;
    std::vector<Scalar> scalars_;
    std::string kinds_;
    std::vector<TensorView> outputs_;
    mutable std::vector<KernelOperand> operands_;
  };

  // DEVICE_LOST where the device is, or is to be lost here.
  absl::Status Reach(Moment at) {
    absl::MutexLock lock(&mu_);
    if (lost_) {
      ++calls_when_lost_;
      return Lost();
    }
    if (lose_at_ != at) return absl::OkStatus();
    lost_ = true;
    return Lost();
  }
  absl::Status Fail(const absl::Status& status) {
    if (ReasonOf(status) == Reason::kDeviceLost) {
      absl::MutexLock lock(&mu_);
      lost_ = true;
    }
    return status;
  }
  // Carries out what the stream holds.
  absl::Status Drain() {
    absl::MutexLock lock(&late_mu_);
    while (!late_.empty()) {
      const absl::Status status = late_.front()();
      late_.pop_front();
      if (!status.ok()) {
        late_.clear();
        return Fail(status);
      }
    }
    return absl::OkStatus();
  }

  // Address of the element with row-major number i, strides of size-1 axes broadcast.
  static char* At(const TensorView& view, absl::Span<const int64_t> shape, int64_t i) {
    int64_t offset = 0;
    const size_t shift = shape.size() - view.shape.size();
    for (size_t d = shape.size(); d-- > 0;) {
      const int64_t index = i % shape[d];
      i /= shape[d];
      if (d >= shift && view.shape[d - shift] != 1) offset += index * view.strides[d - shift];
    }
    return static_cast<char*>(view.data) + offset * static_cast<int64_t>(ItemSize(view.dtype));
  }
  static float Value(const KernelOperand& operand, absl::Span<const int64_t> shape, int64_t i) {
    if (operand.tensor == nullptr) return static_cast<float>(operand.scalar->AsDouble());
    return *reinterpret_cast<float*>(At(*operand.tensor, shape, i));
  }
  static absl::Status Compute(const KernelCall& call) {
    const TensorView& out = call.outputs[0];
    if (call.op == Op::kCast) {
      for (int64_t i = 0; i < out.elements(); ++i) {
        std::memcpy(At(out, out.shape, i), At(*call.inputs[0].tensor, out.shape, i), ItemSize(out.dtype));
      }
      return absl::OkStatus();
    }
    if (out.dtype != Dtype::kFloat32) {
      std::memset(out.data, call.op == Op::kOnes ? 1 : 0, static_cast<size_t>(out.bytes()));
      return absl::OkStatus();
    }
    const auto& create = AttributesAs<CreateAttributes>(*call.attributes);
    auto* data = out.as<float>();
    for (int64_t i = 0; i < out.elements(); ++i) {
      const auto in = [&](size_t k) { return Value(call.inputs[k], out.shape, i); };
      switch (call.op) {
        case Op::kZeros:
          data[i] = 0;
          break;
        case Op::kOnes:
          data[i] = 1;
          break;
        case Op::kFull:
          data[i] = in(0);
          break;
        case Op::kRand:  // depends on seed and counter alone
          data[i] = static_cast<float>(
                        ((*create.seed * 31 + create.seed_offset + static_cast<uint64_t>(i)) * 2654435761u) % 1000) /
                    1000.0f;
          break;
        case Op::kAdd:
          data[i] = in(0) + in(1);
          break;
        case Op::kSubtract:
          data[i] = in(0) - in(1);
          break;
        case Op::kMultiply:
          data[i] = in(0) * in(1);
          break;
        case Op::kRelu:
          data[i] = std::max(in(0), 0.0f);
          break;
        case Op::kLinear: {
          const TensorView& weight = *call.inputs[1].tensor;
          const int64_t features = weight.shape[1];
          const int64_t row = i / weight.shape[0];
          const int64_t column = i % weight.shape[0];
          float sum =
              call.inputs.size() > 2 && !call.inputs[2].absent() ? call.inputs[2].tensor->as<float>()[column] : 0;
          for (int64_t k = 0; k < features; ++k) {
            sum += Value(call.inputs[0], call.inputs[0].tensor->shape, row * features + k) *
                   weight.as<float>()[column * features + k];
          }
          data[i] = sum;
          break;
        }
        default:
          return Error(Reason::kOpUnsupported).With("op", RowOf(call.op).name).With("device", "fake");
      }
    }
    return absl::OkStatus();
  }

  const Options options_;
  DeviceInfo info_;
  FakeMemory memory_;
  absl::Mutex late_mu_ ABSL_ACQUIRED_BEFORE(mu_);
  std::deque<std::function<absl::Status()>> late_ ABSL_GUARDED_BY(late_mu_);
  mutable absl::Mutex mu_;
  Moment lose_at_ ABSL_GUARDED_BY(mu_) = Moment::kNowhere;
  bool lost_ ABSL_GUARDED_BY(mu_) = false;
  int calls_when_lost_ ABSL_GUARDED_BY(mu_) = 0;
  bool held_ ABSL_GUARDED_BY(mu_) = false;
  bool at_gate_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<absl::Status> failures_ ABSL_GUARDED_BY(mu_);
  std::vector<RunRecord> runs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensord::testing
