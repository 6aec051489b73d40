// A plugin for tests of device loss: two devices on the CPU's backend, each lost for good at its first `exp`.
#include <atomic>
#include <memory>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/plugin/abi.h"

namespace tensord {
namespace {

class LossyBackend final : public Backend {
 public:
  explicit LossyBackend(const cuda::CudaDevice& device) : cpu_(MakeCpuBackend({})) {
    info_.id = device.id;
    info_.model = device.model;
  }
  const DeviceInfo& Info() const override { return info_; }
  DeviceTelemetry Telemetry() override { return {}; }
  absl::Status Health() override {
    if (!lost_) return absl::OkStatus();
    return Error(Reason::kDeviceLost).With("device", info_.id.ToString()).With("cause", "the test says so");
  }
  MemoryResource& memory() override { return cpu_->memory(); }
  bool host_addressable() const override { return false; }
  bool Supports(Op op, Dtype compute) const override { return cpu_->Supports(op, compute); }
  StreamId default_stream() const override { return 0; }
  absl::Status Run(const KernelCall& call, StreamId stream, MemoryResource& scratch) override {
    if (call.op == Op::kExp) lost_ = true;
    TENSORD_RETURN_IF_ERROR(Health());
    return cpu_->Run(call, stream, scratch);
  }
  absl::Status Upload(void* device, const void* host, size_t bytes, StreamId stream) override {
    TENSORD_RETURN_IF_ERROR(Health());
    return cpu_->Upload(device, host, bytes, stream);
  }
  absl::Status Download(void* host, const void* device, size_t bytes, StreamId stream) override {
    TENSORD_RETURN_IF_ERROR(Health());
    return cpu_->Download(host, device, bytes, stream);
  }
  absl::Status CopyFrom(Backend& source, const void* from, void* to, size_t bytes, StreamId stream) override {
    TENSORD_RETURN_IF_ERROR(Health());
    return cpu_->CopyFrom(source, from, to, bytes, stream);
  }
  absl::Status Synchronize(StreamId /*stream*/) override { return Health(); }

 private:
  DeviceInfo info_;
  std::unique_ptr<Backend> cpu_;
  std::atomic<bool> lost_{false};
};

cuda::CudaDevices List() {
  const char* count = getenv("TENSORD_LOSSY_DEVICES");  // NOLINT(concurrency-mt-unsafe)
  cuda::CudaDevices found;
  for (uint32_t i = 0; i < static_cast<uint32_t>(count == nullptr ? 2 : atoi(count)); ++i) {
    found.devices.push_back({{DeviceKind::kCuda, i}, static_cast<int>(i), "Lossy device", "", ""});
  }
  return found;
}
absl::StatusOr<std::unique_ptr<Backend>> Make(const cuda::CudaOptions& options) {
  return std::make_unique<LossyBackend>(options.device);
}

}  // namespace
}  // namespace tensord

extern "C" __attribute__((visibility("default"))) const tensord::cuda::Plugin* tensord_cuda_plugin() {
  static constexpr tensord::cuda::Plugin plugin = {tensord::cuda::kPluginAbi, sizeof(tensord::cuda::Plugin),
                                                   TENSORD_CUDA_BUILD_ID, &tensord::List, &tensord::Make};
  return &plugin;
}
