// A device for tests: host memory, a handful of ops on float32, a gate that holds it, and failures on request.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
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

  absl::StatusOr<void*> Allocate(size_t bytes, StreamId) override {
    absl::MutexLock lock(&mu_);
    if (used_ + bytes > limit_) {
      return Error(Reason::kMemoryExhausted).With("device", "?").With("requested", bytes).With("free", limit_ - used_);
    }
    used_ += bytes;
    ++allocations_;
    return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
  void Deallocate(void* block, size_t bytes, StreamId) override {
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
  };
  explicit FakeBackend(Options options) : options_(std::move(options)), memory_(options_.memory_bytes) {
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
  std::vector<RunRecord> runs() const {
    absl::MutexLock lock(&mu_);
    return runs_;
  }
  int trims() const { return memory_.trims(); }

  const DeviceInfo& Info() const override { return info_; }
  DeviceTelemetry Telemetry() override { return {}; }
  absl::Status Health() override { return absl::OkStatus(); }
  MemoryResource& memory() override { return memory_; }
  bool host_addressable() const override { return options_.host_addressable; }
  bool Supports(Op op, Dtype compute) const override { return op != Op::kErf && !IsComplex(compute); }
  StreamId default_stream() const override { return 0; }
  absl::Status Upload(void* device, const void* host, size_t bytes, StreamId) override {
    std::memcpy(device, host, bytes);
    return absl::OkStatus();
  }
  absl::Status Download(void* host, const void* device, size_t bytes, StreamId) override {
    std::memcpy(host, device, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyFrom(Backend&, const void* source, void* data, size_t bytes, StreamId) override {
    std::memcpy(data, source, bytes);
    return absl::OkStatus();
  }
  absl::Status Synchronize(StreamId) override { return absl::OkStatus(); }

  absl::Status Run(const KernelCall& call, StreamId, MemoryResource&) override {
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
        const absl::Status failure = failures_.front();
        failures_.pop_front();
        if (!failure.ok()) return failure;
      }
    }
    return Compute(call);
  }

 private:
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
  mutable absl::Mutex mu_;
  bool held_ ABSL_GUARDED_BY(mu_) = false;
  bool at_gate_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<absl::Status> failures_ ABSL_GUARDED_BY(mu_);
  std::vector<RunRecord> runs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensord::testing
