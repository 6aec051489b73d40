// Finds and opens the CUDA plugin.
//
//   const LoadedPlugin loaded = LoadCudaPlugin();
//   if (loaded.plugin == nullptr) LogInfo(loaded.why);
//   CudaDevices found = loaded.plugin->list();
//
// Looks in TENSORD_PLUGIN_DIR alone where that is set, else in ../lib/tensord from the program's own folder, then beside
// the program. A plugin of another build is refused by name; it is never unloaded. Call it from one thread, before others
// are made.
#pragma once

#include <string>

#include "kernels/cuda/plugin/abi.h"

namespace tensord::cuda {

struct LoadedPlugin {
  const Plugin* plugin = nullptr;
  std::string path;
  std::string why;      // where there is none
  bool absent = false;  // there is no such file: a host without CUDA, nothing is wrong
};

LoadedPlugin LoadCudaPlugin();

// The build id that this program takes.
const char* CudaBuildId();

}  // namespace tensord::cuda
