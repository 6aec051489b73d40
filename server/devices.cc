#include "server/devices.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/plugin/loader.h"
#include "kernels/emulated/emulated_backend.h"
#include "server/memory/memory.h"
#include "server/observe/log.h"

namespace tensord {
namespace {

constexpr std::string_view kNoCuda =
    "no CUDA device: this build has no CUDA backend (TENSORD_CUDA=" TENSORD_CUDA_CHOICE ")";
constexpr std::string_view kStandIn = "; --emulate-cuda stands in for one";

bool IsUuid(std::string_view text) { return text.starts_with("GPU-") || text.starts_with("MIG-"); }

// The memory of a device from bottom to top: raw, pool, statistics, limit.
EngineDevice Assemble(std::unique_ptr<Backend> backend, size_t limit_bytes) {
  EngineDevice device;
  device.stack.push_back(MakeCachingPool(backend->memory()));
  device.stack.push_back(MakeStatistics(*device.stack.back()));
  device.stack.push_back(MakeLimit(*device.stack.back(), backend->Info().id.ToString(), limit_bytes));
  device.backend = std::move(backend);
  return device;
}

// 80 % of what the process may have: the rest is for the daemon itself and its neighbours.
size_t DefaultCpuLimit(Backend& cpu) { return static_cast<size_t>(cpu.memory().Stats().total) / 5 * 4; }

size_t LimitOf(const DaemonFlags& flags, DeviceId id, size_t otherwise) {
  const auto found = flags.memory_limits.find(id);
  return found == flags.memory_limits.end() ? otherwise : found->second;
}

void Announce(Backend& backend, size_t limit_bytes) {
  const DeviceInfo& info = backend.Info();
  LogInfo("device", {{"name", info.id.ToString()},
                     {"model", info.model},
                     {"uuid", info.uuid.value_or("")},
                     {"bus", info.pci_bus_id.value_or("")},
                     {"driver", info.driver_version.value_or("")},
                     {"cuda", info.cuda_version.value_or("")},
                     {"units", info.compute_units.has_value() ? StrCat(*info.compute_units) : ""},
                     {"features", StrJoin(info.features, ",")},
                     {"memory", SizeText(static_cast<size_t>(backend.memory().Stats().total))},
                     {"limit", limit_bytes == 0 ? "none" : SizeText(limit_bytes)},
                     {"emulated", info.emulated ? "yes" : ""}});
}

// Before the first CUDA call, while there is one thread. Numbers in CUDA_VISIBLE_DEVICES are then nvidia-smi's; and CUDA
// shows a process one MIG instance, so the one that --devices names has to be the one it shows.
void PrepareCudaEnvironment(const std::vector<std::string>& selectors) {
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);  // NOLINT(concurrency-mt-unsafe)
  for (const std::string& selector : selectors) {
    if (selector.starts_with("MIG-")) setenv("CUDA_VISIBLE_DEVICES", selector.c_str(), 0);  // NOLINT
  }
}

absl::Status NoCuda(const DaemonFlags& flags, const std::string& why) {
  LogInfo(why);
  return SelectDevices(flags.devices, {}).status();
}

absl::Status AddEmulated(const DaemonFlags& flags, std::vector<std::unique_ptr<Backend>>& out) {
  absl::StatusOr<std::vector<std::unique_ptr<Backend>>> made = MakeEmulatedBackends(
      {.devices = flags.emulated_devices, .memory_bytes = flags.emulated_bytes, .allow_tf32 = flags.allow_tf32});
  TENSORD_RETURN_IF_ERROR(made.status());
  std::vector<CandidateDevice> candidates;
  for (const auto& backend : *made) candidates.push_back({backend->Info().id, backend->Info().uuid.value_or("")});
  TENSORD_ASSIGN_OR_RETURN(const std::vector<size_t> chosen, SelectDevices(flags.devices, candidates));
  for (const size_t index : chosen) out.push_back(std::move((*made)[index]));
  LogInfo("CUDA devices of this host are left alone: --emulate-cuda");
  return absl::OkStatus();
}

absl::Status AddCuda(const DaemonFlags& flags, std::vector<std::unique_ptr<Backend>>& out) {
  PrepareCudaEnvironment(flags.devices);
  const cuda::LoadedPlugin loaded = cuda::LoadCudaPlugin();
  if (loaded.plugin == nullptr) {
    const bool built = std::string_view(TENSORD_CUDA_BUILT) == "1";
    if (loaded.absent && !built) return NoCuda(flags, StrCat(kNoCuda, kStandIn));
    if (!loaded.absent) LogWarning("the CUDA plugin is not used", {{"why", loaded.why}});
    return NoCuda(flags, StrCat("no CUDA device: ", loaded.why, kStandIn));
  }
  const cuda::CudaDevices found = loaded.plugin->list();
  LogInfo("CUDA plugin", {{"path", loaded.path}, {"build", loaded.plugin->build_id}});
  if (found.devices.empty()) return NoCuda(flags, StrCat("no CUDA device: ", found.why, kStandIn));
  if (!found.why.empty()) LogWarning("a CUDA device cannot be used", {{"why", found.why}});

  std::vector<CandidateDevice> candidates;
  for (const cuda::CudaDevice& device : found.devices) candidates.push_back({device.id, device.uuid});
  TENSORD_ASSIGN_OR_RETURN(const std::vector<size_t> chosen, SelectDevices(flags.devices, candidates));
  cuda::CudaOptions options;
  options.allow_tf32 = flags.allow_tf32;
  for (const size_t index : chosen) options.all.push_back(found.devices[index]);
  for (const cuda::CudaDevice& device : options.all) {
    options.device = device;
    absl::StatusOr<std::unique_ptr<Backend>> backend = loaded.plugin->make(options);
    if (!backend.ok()) {
      // One sick card does not take the daemon down; a card that was asked for by name is worth a start that fails.
      if (!flags.devices.empty()) return backend.status();
      LogWarning("a CUDA device cannot be used",
                 {{"name", device.id.ToString()}, {"why", std::string(backend.status().message())}});
      continue;
    }
    out.push_back(*std::move(backend));
  }
  return absl::OkStatus();
}

}  // namespace

std::string BackendsText() {
  return std::string_view(TENSORD_CUDA_BUILT) == "1"
             ? StrCat("backends cpu, cuda (plugin ", cuda::kPluginFile, ", build ", cuda::CudaBuildId(), "), emulated")
             : StrCat("backends cpu, emulated\n", kNoCuda, kStandIn);
}

bool WantsCuda(const std::vector<std::string>& selectors) {
  return selectors.empty() ||
         std::any_of(selectors.begin(), selectors.end(), [](const std::string& selector) { return selector != "cpu"; });
}

absl::StatusOr<std::vector<size_t>> SelectDevices(const std::vector<std::string>& selectors,
                                                  const std::vector<CandidateDevice>& candidates) {
  std::vector<bool> chosen(candidates.size(), selectors.empty());
  for (const std::string& selector : selectors) {
    if (selector == "cpu") continue;
    size_t matches = 0;
    const std::optional<DeviceId> id = DeviceId::Parse(selector);
    for (size_t i = 0; i < candidates.size(); ++i) {
      const bool match =
          selector == "cuda" || (IsUuid(selector) ? std::string_view(candidates[i].uuid).starts_with(selector)
                                                  : id.has_value() && candidates[i].id == *id);
      if (!match) continue;
      chosen[i] = true;
      ++matches;
    }
    if (matches == 1 || (matches > 1 && selector == "cuda")) continue;
    std::vector<std::string> known = {"cpu"};
    for (const CandidateDevice& candidate : candidates) {
      known.push_back(StrCat(candidate.id.ToString(), " (", candidate.uuid, ")"));
    }
    return Error(Reason::kDeviceUnknown)
        .With("device", matches == 0 ? selector : StrCat(selector, " (", matches, " have it)"))
        .With("known", StrJoin(known, ", "));
  }
  std::vector<size_t> result;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (chosen[i]) result.push_back(i);
  }
  return result;
}

absl::StatusOr<std::vector<EngineDevice>> MakeDevices(const DaemonFlags& flags) {
  std::vector<std::unique_ptr<Backend>> accelerators;
  if (flags.emulated_devices > 0) {
    TENSORD_RETURN_IF_ERROR(AddEmulated(flags, accelerators));
  } else if (WantsCuda(flags.devices)) {
    TENSORD_RETURN_IF_ERROR(AddCuda(flags, accelerators));
  } else {
    LogInfo("CUDA devices of this host are left alone: --devices");
  }
  CpuOptions options;
  options.threads = flags.threads;
  options.isa = flags.isa;
  std::unique_ptr<Backend> cpu = MakeCpuBackend(std::move(options));
  const size_t cpu_limit = LimitOf(flags, {}, DefaultCpuLimit(*cpu));
  std::vector<EngineDevice> devices;
  Announce(*cpu, cpu_limit);
  devices.push_back(Assemble(std::move(cpu), cpu_limit));
  for (std::unique_ptr<Backend>& backend : accelerators) {
    const size_t limit = LimitOf(flags, backend->Info().id, 0);
    Announce(*backend, limit);
    devices.push_back(Assemble(std::move(backend), limit));
  }
  for (const auto& [id, bytes] : flags.memory_limits) {
    const auto is_it = [&id = id](const EngineDevice& device) { return device.backend->Info().id == id; };
    if (std::none_of(devices.begin(), devices.end(), is_it)) {
      LogWarning("a memory limit names a device that is not there", {{"device", id.ToString()}});
    }
  }
  return devices;
}

}  // namespace tensord
