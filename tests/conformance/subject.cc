#include "tests/conformance/subject.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

#include "client/cpp/remote_engine.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/plugin/loader.h"
#include "kernels/emulated/control.h"
#include "kernels/emulated/emulated_backend.h"
#include "server/memory/memory.h"
#include "server/rpc/server.h"

namespace tensord::conformance {
namespace {

constexpr size_t kEmulatedBytes = size_t{64} << 20;
constexpr uint32_t kEmulatedDevices = 2;

[[noreturn]] void GiveUp(const std::string& why) {
  std::fprintf(stderr, "no CUDA device to test: %s\n", why.c_str());
  std::exit(77);
}

// cuda:0 and cuda:1: emulated, or, where TENSORD_TEST_PLUGIN is set, what the plugin finds; a single GPU is then both,
// with the memory of the emulated ones. TENSORD_TEST_STREAMS=lazy or =background: emulated work runs when it is waited
// for, or on another thread, and not at once.
std::vector<std::unique_ptr<Backend>> CudaBackends() {
  std::vector<std::unique_ptr<Backend>> backends;
  if (getenv("TENSORD_TEST_PLUGIN") == nullptr) {
    auto emulated = MakeEmulatedBackends({.devices = kEmulatedDevices, .memory_bytes = kEmulatedBytes});
    if (!emulated.ok()) std::abort();
    if (const char* const mode = getenv("TENSORD_TEST_STREAMS"); mode != nullptr) {
      emulated::SetMode(std::string_view(mode) == "lazy" ? emulated::Mode::kLazy : emulated::Mode::kBackground);
    }
    return *std::move(emulated);
  }
  static const cuda::LoadedPlugin loaded = cuda::LoadCudaPlugin();
  if (loaded.plugin == nullptr) GiveUp(loaded.why);
  cuda::CudaDevices found = loaded.plugin->list();
  if (found.devices.empty()) GiveUp(found.why);
  for (uint32_t i = 0; i < kEmulatedDevices; ++i) {
    cuda::CudaDevice device = found.devices[std::min<size_t>(i, found.devices.size() - 1)];
    device.id = DeviceId{DeviceKind::kCuda, i};
    auto backend = loaded.plugin->make({.device = device, .all = found.devices});
    if (!backend.ok()) GiveUp(backend.status().ToString());
    backends.push_back(*std::move(backend));
  }
  return backends;
}

// The stack that main.cc composes: pool, statistics, limit.
EngineDevice WithStack(std::unique_ptr<Backend> backend, size_t limit) {
  EngineDevice device{std::move(backend), {}};
  device.stack.push_back(MakeCachingPool(device.backend->memory()));
  device.stack.push_back(MakeStatistics(*device.stack.back()));
  device.stack.push_back(MakeLimit(*device.stack.back(), device.backend->Info().id.ToString(), limit));
  return device;
}

class InProcess : public Subject {
 public:
  explicit InProcess(const EngineOptions& options) {
    std::vector<EngineDevice> devices;
    devices.push_back(WithStack(MakeCpuBackend({}), 0));
    for (std::unique_ptr<Backend>& backend : CudaBackends()) {
      const size_t limit = backend->Info().emulated ? 0 : kEmulatedBytes;
      devices.push_back(WithStack(std::move(backend), limit));
    }
    engine_ = LocalEngine::Create(std::move(devices), options);
  }
  Engine& engine() override { return *engine_; }
  LocalEngine& local() override { return *engine_; }

 private:
  std::unique_ptr<LocalEngine> engine_;
};

// The same engine behind the daemon's server, on a Unix socket of its own.
class ThroughGrpc final : public InProcess {
 public:
  explicit ThroughGrpc(const EngineOptions& options) : InProcess(options) {
    std::string path = (std::filesystem::temp_directory_path() / "tensord-XXXXXX").string();
    directory_ = mkdtemp(path.data());
    const std::string address = "unix:" + directory_ + "/socket";
    auto server = Server::Start(local(), {.listen = {address}, .limits = options.limits});
    if (!server.ok()) std::abort();
    server_ = *std::move(server);
    auto remote = ConnectEngine({.server = address});
    if (!remote.ok()) std::abort();
    remote_ = *std::move(remote);
  }
  ~ThroughGrpc() override {
    remote_.reset();
    local().Shutdown(absl::ZeroDuration());
    server_.reset();
    std::filesystem::remove_all(directory_);
  }
  Engine& engine() override { return *remote_; }

 private:
  std::string directory_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Engine> remote_;
};

}  // namespace

std::vector<SubjectKind> SubjectKinds() {
  return {
      {"InProcess", [](const EngineOptions& options) { return std::make_unique<InProcess>(options); }},
      {"Grpc", [](const EngineOptions& options) { return std::make_unique<ThroughGrpc>(options); }},
  };
}

bool LoseDevice(int index) {
  if (getenv("TENSORD_TEST_PLUGIN") != nullptr) return false;
  emulated::KillDevice(index, cudaErrorECCUncorrectable);
  return true;
}

std::optional<uint64_t> CountDriverCalls() {
  if (getenv("TENSORD_TEST_PLUGIN") != nullptr) return std::nullopt;
  return emulated::CallCount();
}

void FailDriverCall(uint64_t n, DriverFault fault) {
  const cudaError_t error = fault == DriverFault::kOutOfMemory    ? cudaErrorMemoryAllocation
                            : fault == DriverFault::kInvalidValue ? cudaErrorInvalidValue
                                                                  : cudaErrorLaunchFailure;
  emulated::FailNth(n, error, fault == DriverFault::kSticky);
}

void ReviveDevices() {
  emulated::ClearFaults();
  for (uint32_t i = 0; i < kEmulatedDevices; ++i) emulated::Revive(static_cast<int>(i));
}

std::vector<std::string> DeviceNames() { return {"cpu", "cuda:0", "cuda:1"}; }

}  // namespace tensord::conformance
