#include "kernels/cuda/cuda_backend.h"

#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/core/error.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/nvml.h"
#include "kernels/cuda/peers.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/staging.h"
#include "kernels/ops/infer.h"

namespace tensord::cuda {
namespace {

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
  set(Family::kCreate, RunCreate);
  for (const Family f : {Family::kUnary, Family::kBinary, Family::kCompare, Family::kSelect, Family::kConvert}) {
    set(f, RunElementwise);
  }
  set(Family::kReduce, RunReduce);
  set(Family::kSoftmax, RunSoftmax);
  set(Family::kMatmul, RunMatmul);
  set(Family::kJoin, RunJoin);
  set(Family::kIndex, RunIndex);
  set(Family::kWindow, RunWindow);
  set(Family::kNorm, RunNorm);
  return table;
}
constexpr std::array<FamilyFunction, kFamilyCount> kFamilies = MakeFamilies();

// Keeps for ever what must not be destroyed.
void Abandon(std::unique_ptr<CublasLt> blas) {
  static absl::Mutex mutex;
  static auto& kept = *new std::vector<std::unique_ptr<CublasLt>>();
  absl::MutexLock lock(&mutex);
  kept.push_back(std::move(blas));
}

class CudaBackend;

// The backends of this module that are alive: how CopyFrom knows one of its own. (The daemon may hold backends of
// another module, for which a cast would say yes and be wrong.)
class Registry {
 public:
  void Add(const Backend* backend) {
    absl::MutexLock lock(&mutex_);
    live_.insert(backend);
  }
  void Remove(const Backend* backend) {
    absl::MutexLock lock(&mutex_);
    live_.erase(backend);
  }
  bool Has(const Backend* backend) {
    absl::MutexLock lock(&mutex_);
    return live_.contains(backend);
  }

 private:
  absl::Mutex mutex_;
  std::set<const Backend*> live_ ABSL_GUARDED_BY(mutex_);
};
Registry& Live() {
  static auto* const registry = new Registry();
  return *registry;
}

class CudaBackend final : public Backend {
 public:
  // `compute` and `total` are of a device that has its context.
  CudaBackend(const CudaOptions& options, const DeviceTraits& traits, std::unique_ptr<Runtime> runtime,
              cudaStream_t compute, size_t total)
      : driver_(options.driver),
        traits_(traits),
        runtime_(std::move(runtime)),
        compute_(compute),
        memory_(*runtime_, compute, total),
        staging_(std::make_unique<Staging>(*runtime_)),
        peers_(*runtime_),
        blas_(std::make_unique<CublasLt>()),
        nvml_(options.nvml != nullptr ? *options.nvml : SharedNvml()),
        identity_{options.device.uuid, options.device.pci_bus_id},
        patience_(options.patience) {
    Describe(options);
    Live().Add(this);
  }

  ~CudaBackend() override {
    Live().Remove(this);
    runtime_->Enter().IgnoreError();
    if (!runtime_->lost()) {
      runtime_->Check(cudaStreamSynchronize(compute_), "cudaStreamSynchronize").IgnoreError();
    }
    if (runtime_->lost()) {
      // Nothing of a lost device is given back: its driver may hang or crash, and the process is to end anyway.
      Abandon(std::move(blas_));
      return;
    }
    blas_.reset();
    staging_.reset();
    if (report_ != nullptr) runtime_->Check(cudaFreeHost(report_), "cudaFreeHost").IgnoreError();
    runtime_->Check(cudaStreamDestroy(compute_), "cudaStreamDestroy").IgnoreError();
  }

  const DeviceInfo& Info() const override { return info_; }

  DeviceTelemetry Telemetry() override {
    NvmlReading reading = nvml_.Read(identity_, patience_);
    if (reading.lost) {
      runtime_->Observe(Error(Reason::kDeviceLost).With("device", info_.id.ToString()).With("cause", reading.why))
          .IgnoreError();
    }
    return std::move(reading.telemetry);
  }

  absl::Status Health() override {
    TENSORD_RETURN_IF_ERROR(runtime_->Enter());
    // Finds what went wrong after Run returned; waits for nothing.
    const cudaError_t error = cudaStreamQuery(compute_);
    if (error == cudaErrorNotReady) {
      cudaGetLastError();
      return absl::OkStatus();
    }
    return runtime_->Check(error, "cudaStreamQuery");
  }

  MemoryResource& memory() override { return memory_; }
  bool host_addressable() const override { return false; }
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
    TENSORD_RETURN_IF_ERROR(runtime_->Enter());
    if (row.family == Family::kIndex) TENSORD_RETURN_IF_ERROR(MakeReport());
    Context context{scratch, stream, compute_, traits_, report_, *blas_};
    const absl::Status status = function(call, context);
    if (!status.ok()) cudaGetLastError();
    return runtime_->Observe(status);
  }

  absl::Status Upload(void* device, const void* host, size_t bytes, StreamId /*stream*/) override {
    return staging_->Upload(device, host, bytes, compute_);
  }
  absl::Status Download(void* host, const void* device, size_t bytes, StreamId /*stream*/) override {
    return staging_->Download(host, device, bytes, compute_);
  }

  absl::Status CopyFrom(Backend& source, const void* source_data, void* data, size_t bytes, StreamId stream) override {
    if (bytes == 0) return runtime_->Health();
    TENSORD_RETURN_IF_ERROR(runtime_->Enter());
    if (source.host_addressable()) return Upload(data, source_data, bytes, stream);
    if (Live().Has(&source)) {
      auto& other = static_cast<CudaBackend&>(source);
      if (&other == this) {
        return runtime_->Check(cudaMemcpyAsync(data, source_data, bytes, cudaMemcpyDeviceToDevice, compute_),
                               "cudaMemcpyAsync on the device");
      }
      return CopyBetween({*other.runtime_, *other.staging_, other.compute_}, source_data,
                         {*runtime_, *staging_, compute_}, data, bytes, peers_);
    }
    const auto read = [&](void* to, size_t offset, size_t count) {
      return source.Download(to, static_cast<const char*>(source_data) + offset, count, source.default_stream());
    };
    return staging_->UploadFrom(read, data, bytes, compute_);
  }

  absl::Status Synchronize(StreamId /*stream*/) override {
    TENSORD_RETURN_IF_ERROR(runtime_->Enter());
    return runtime_->Check(cudaStreamSynchronize(compute_), "cudaStreamSynchronize");
  }

 private:
  void Describe(const CudaOptions& options);

  // The word that kernels report into; made for the first op that can.
  absl::Status MakeReport() {
    if (report_ != nullptr) return absl::OkStatus();
    void* word = nullptr;
    TENSORD_RETURN_IF_ERROR(
        runtime_->Check(cudaHostAlloc(&word, sizeof(*report_), cudaHostAllocMapped | cudaHostAllocPortable),
                        "cudaHostAlloc for reports"));
    report_ = new (word) unsigned long long{0};
    return absl::OkStatus();
  }

  const std::shared_ptr<void> driver_;  // goes last
  const DeviceTraits traits_;
  const std::unique_ptr<Runtime> runtime_;
  const cudaStream_t compute_;
  DeviceMemory memory_;
  std::unique_ptr<Staging> staging_;
  Peers peers_;
  std::unique_ptr<CublasLt> blas_;
  unsigned long long* report_ = nullptr;
  Nvml& nvml_;
  const NvmlIdentity identity_;
  const absl::Duration patience_;
  DeviceInfo info_;
};

// "13.0" of 13000.
std::string VersionText(int version) { return StrCat(version / 1000, ".", version % 1000 / 10); }

void CudaBackend::Describe(const CudaOptions& options) {
  info_.id = options.device.id;
  info_.model = options.device.model;
  if (!options.device.uuid.empty()) info_.uuid = options.device.uuid;
  if (!options.device.pci_bus_id.empty()) info_.pci_bus_id = options.device.pci_bus_id;
  info_.compute_units = static_cast<uint32_t>(traits_.multiprocessors);
  info_.emulated = options.emulated;
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = -1;
    return runtime_->Check(cudaDeviceGetAttribute(&value, which, runtime_->ordinal()), "cudaDeviceGetAttribute").ok()
               ? value
               : -1;
  };
  const int major = attribute(cudaDevAttrComputeCapabilityMajor);
  const int minor = attribute(cudaDevAttrComputeCapabilityMinor);
  if (major >= 0 && minor >= 0) info_.compute_capability = StrCat(major, ".", minor);
  for (const CudaDevice& other : options.all) {
    if (other.ordinal == runtime_->ordinal()) continue;
    int can = 0;
    const cudaError_t error = cudaDeviceCanAccessPeer(&can, runtime_->ordinal(), other.ordinal);
    if (runtime_->Check(error, "cudaDeviceCanAccessPeer").ok() && can != 0) info_.peers.push_back(other.id);
  }
  if (options.emulated) return;  // it has no driver and no place in a machine; nothing is made up
  if (const int node = attribute(cudaDevAttrHostNumaId); node >= 0) info_.numa_node = node;
  int version = 0;
  if (cudaDriverGetVersion(&version) == cudaSuccess && version > 0) info_.cuda_version = VersionText(version);
  const NvmlReading reading = nvml_.Read(identity_, patience_);
  info_.driver_version = reading.driver_version;
  if (reading.model) info_.model = *reading.model;
  if (reading.uuid) info_.uuid = *reading.uuid;
}

// First calls of a device, and the context with them. A context that an earlier object's sticky error left behind is
// thrown away once.
absl::Status Start(Runtime& runtime, cudaStream_t& compute, size_t& total) {
  TENSORD_RETURN_IF_ERROR(runtime.Enter());
  size_t free = 0;
  TENSORD_RETURN_IF_ERROR(runtime.Check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
  return runtime.Check(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const CudaOptions& options) {
  DeviceTraits traits;
  traits.id = options.device.id;
  traits.allow_tf32 = options.allow_tf32;
  const int ordinal = options.device.ordinal;
  auto runtime = std::make_unique<Runtime>(ordinal, traits);
  cudaStream_t compute = nullptr;
  size_t total = 0;
  absl::Status started = Start(*runtime, compute, total);
  if (runtime->lost() && cudaDeviceReset() == cudaSuccess) {
    runtime = std::make_unique<Runtime>(ordinal, traits);
    started = Start(*runtime, compute, total);
  }
  TENSORD_RETURN_IF_ERROR(started);
  const auto attribute = [&](cudaDeviceAttr which, int32_t& value) {
    int got = 0;
    if (runtime->Check(cudaDeviceGetAttribute(&got, which, ordinal), "cudaDeviceGetAttribute").ok() && got > 0) {
      value = got;
    }
  };
  attribute(cudaDevAttrMultiProcessorCount, traits.multiprocessors);
  attribute(cudaDevAttrMaxThreadsPerMultiProcessor, traits.threads_per_multiprocessor);
  return std::make_unique<CudaBackend>(options, traits, std::move(runtime), compute, total);
}

}  // namespace tensord::cuda
