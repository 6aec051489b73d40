#include "kernels/cuda/plugin/loader.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "kernels/core/text.h"

namespace tensord::cuda {
namespace {

std::vector<std::filesystem::path> Folders() {
  if (const char* chosen = getenv("TENSORD_PLUGIN_DIR"); chosen != nullptr && *chosen != '\0') {  // NOLINT
    return {chosen};
  }
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const std::filesystem::path folder = program.parent_path();
  return {folder.parent_path() / "lib" / "tensord", folder};
}

const char* LastLoaderError() {
  const char* text = dlerror();
  return text == nullptr ? "unknown loader error" : text;
}

LoadedPlugin Open(const std::string& path) {
  LoadedPlugin result;
  result.path = path;
  // Now: a missing symbol is found at start, not in the middle of a client's work. Local: nothing of ours meets theirs.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    result.why = LastLoaderError();
    return result;
  }
  auto* entry = reinterpret_cast<PluginEntry*>(dlsym(library, kPluginSymbol));
  if (entry == nullptr) {
    result.why = StrCat(path, " is no plugin of tensord: ", LastLoaderError());
    return result;
  }
  const Plugin* plugin = entry();
  if (plugin->abi != kPluginAbi) {
    result.why = StrCat(path, " has plugin interface ", plugin->abi, ", this daemon ", kPluginAbi);
  } else if (plugin->bytes != sizeof(Plugin) || std::string_view(plugin->build_id) != CudaBuildId()) {
    result.why = StrCat(path, " is of build ", plugin->build_id, ", this daemon of ", CudaBuildId());
  } else {
    result.plugin = plugin;
  }
  return result;
}

}  // namespace

const char* CudaBuildId() { return TENSORD_CUDA_BUILD_ID; }

LoadedPlugin LoadCudaPlugin() {
  std::vector<std::string> looked;
  for (const std::filesystem::path& folder : Folders()) {
    std::error_code error;
    const std::filesystem::path path = folder / kPluginFile;
    if (std::filesystem::exists(path, error)) return Open(path.string());
    looked.push_back(folder.string());
  }
  LoadedPlugin none;
  none.why = StrCat("no plugin ", kPluginFile, " in ", StrJoin(looked, " or "));
  none.absent = true;
  return none;
}

}  // namespace tensord::cuda
