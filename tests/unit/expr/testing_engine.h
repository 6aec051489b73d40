// An engine in this process with the CPU and emulated CUDA devices, composed as main.cc does it.
#pragma once

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/emulated/emulated_backend.h"
#include "server/engine/local_engine.h"
#include "server/memory/memory.h"

namespace tensord {

inline EngineDevice WithStack(std::unique_ptr<Backend> backend) {
  EngineDevice device{std::move(backend), {}};
  device.stack.push_back(MakeCachingPool(device.backend->memory()));
  device.stack.push_back(MakeStatistics(*device.stack.back()));
  device.stack.push_back(MakeLimit(*device.stack.back(), device.backend->Info().id.ToString(), 0));
  return device;
}

inline std::unique_ptr<LocalEngine> MakeTestingEngine(uint32_t cuda_devices = 1) {
  std::vector<EngineDevice> devices;
  devices.push_back(WithStack(MakeCpuBackend({})));
  auto emulated = MakeEmulatedBackends({.devices = cuda_devices, .memory_bytes = size_t{64} << 20});
  if (!emulated.ok()) std::abort();
  for (std::unique_ptr<Backend>& backend : *emulated) devices.push_back(WithStack(std::move(backend)));
  return LocalEngine::Create(std::move(devices), {});
}

}  // namespace tensord
