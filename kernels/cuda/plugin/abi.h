// What the daemon and the plugin libtensord_cuda.so agree on: one exported function that returns a table.
//
//   const auto* entry = reinterpret_cast<cuda::PluginEntry*>(dlsym(library, cuda::kPluginSymbol));
//   const cuda::Plugin* plugin = entry();
//   if (plugin->abi == cuda::kPluginAbi && plugin->build_id == daemon's) …   // then, and only then, the rest may be read
//
// The table has C++ types in it, so both sides must come from one source tree: `abi` counts changes of this struct's own
// head, `build_id` is made of the version and a hash of the headers that both sides see. loader.h does all this.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_backend.h"

namespace tensord::cuda {

inline constexpr uint32_t kPluginAbi = 1;
inline constexpr const char* kPluginSymbol = "tensord_cuda_plugin";
inline constexpr const char* kPluginFile = "libtensord_cuda.so";

struct Plugin {
  // Stays first and as it is in every version.
  uint32_t abi;
  uint32_t bytes;        // sizeof(Plugin)
  const char* build_id;  // "0.1.0-4f1c2a99d0b3"

  CudaDevices (*list)();
  absl::StatusOr<std::unique_ptr<Backend>> (*make)(const CudaOptions& options);
};
using PluginEntry = const Plugin*();

}  // namespace tensord::cuda
