#include "kernels/cpu/cpu_backend.h"

#include <array>
#include <cstring>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/host_info.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/raw_memory.h"
#include "kernels/cpu/team.h"
#include "kernels/ops/infer.h"

namespace tensord {
namespace {

using cpu::Context;
using FamilyFunction = absl::Status (*)(const KernelCall&, Context&);

constexpr int kFamilyCount = 1
#define TENSORD_FAMILY(Enum, name, attributes) +1
#include "kernels/ops/families.def"
#undef TENSORD_FAMILY
    ;

// Null: nothing that runs here (the engine does it with layouts and copies).
constexpr std::array<FamilyFunction, kFamilyCount> MakeFamilies() {
  std::array<FamilyFunction, kFamilyCount> table{};
  const auto set = [&table](Family family, FamilyFunction function) { table[static_cast<size_t>(family)] = function; };
  set(Family::kCreate, cpu::RunCreate);
  for (const Family f : {Family::kUnary, Family::kBinary, Family::kCompare, Family::kSelect, Family::kConvert}) {
    set(f, cpu::RunElementwise);
  }
  set(Family::kReduce, cpu::RunReduce);
  set(Family::kSoftmax, cpu::RunSoftmax);
  set(Family::kMatmul, cpu::RunMatmul);
  set(Family::kJoin, cpu::RunJoin);
  set(Family::kIndex, cpu::RunIndex);
  set(Family::kWindow, cpu::RunWindow);
  set(Family::kNorm, cpu::RunNorm);
  return table;
}
constexpr std::array<FamilyFunction, kFamilyCount> kFamilies = MakeFamilies();

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(CpuOptions options) : info_(std::move(options.info)), memory_(cpu::MakeRawMemory()) {
    // Both are the process's, not this object's: a backend that does not say leaves them to one that did.
    if (options.threads > 0) cpu::SetThreads(options.threads);
    if (!options.isa.empty()) cpu::UseIsa(options.isa);
    if (info_.model.empty()) info_.model = cpu::ProcessorName();
    if (!info_.compute_units) info_.compute_units = static_cast<uint32_t>(cpu::Threads());
    if (info_.features.empty()) info_.features = cpu::ProcessorFeatures();
  }

  const DeviceInfo& Info() const override { return info_; }
  DeviceTelemetry Telemetry() override { return load_.Read(); }
  absl::Status Health() override { return absl::OkStatus(); }
  MemoryResource& memory() override { return *memory_; }
  bool host_addressable() const override { return true; }
  StreamId default_stream() const override { return 0; }

  bool Supports(Op op, Dtype compute) const override {
    const OpRow& row = RowOf(op);
    if (row.op == Op::kNone || IsComplex(compute)) return false;
    return compute == Dtype::kNone || Takes(row, compute);
  }

  absl::Status Run(const KernelCall& call, StreamId stream, MemoryResource& scratch) override {
    const OpRow& row = RowOf(call.op);
    const FamilyFunction function = kFamilies[static_cast<size_t>(row.family)];
    if (function == nullptr) {
      return Error(Reason::kInternal)
          .With("id", "kernel")
          .With("cause", StrCat("op ", row.name, " does not run on a device"));
    }
    Context context{scratch, stream};
    return function(call, context);
  }

  absl::Status Upload(void* device, const void* host, size_t bytes, StreamId /*stream*/) override {
    if (bytes > 0) std::memcpy(device, host, bytes);
    return absl::OkStatus();
  }
  absl::Status Download(void* host, const void* device, size_t bytes, StreamId /*stream*/) override {
    if (bytes > 0) std::memcpy(host, device, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyFrom(Backend& source, const void* source_data, void* data, size_t bytes, StreamId stream) override {
    if (source.host_addressable()) return Upload(data, source_data, bytes, stream);
    return source.Download(data, source_data, bytes, source.default_stream());
  }
  absl::Status Synchronize(StreamId /*stream*/) override { return absl::OkStatus(); }

 private:
  DeviceInfo info_;
  std::unique_ptr<MemoryResource> memory_;
  cpu::LoadMeter load_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(CpuOptions options) { return std::make_unique<CpuBackend>(std::move(options)); }

}  // namespace tensord
