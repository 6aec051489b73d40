// NVML from the driver.
#include <dlfcn.h>

#include <mutex>

#include "kernels/core/text.h"
#include "kernels/cuda/nvml_api.h"

namespace tensord::cuda::nvml {
namespace {

bool Fill(Api& api, std::string& why) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = dlerror();
    why = error == nullptr ? "libnvidia-ml.so.1 cannot be opened" : error;
    return false;
  }
  bool usable = true;
  const auto find = [&](const char* symbol, bool required) {
    void* found = dlsym(library, symbol);
    if (found == nullptr && required && usable) {
      usable = false;
      why = StrCat("libnvidia-ml.so.1 lacks ", symbol);
    }
    return found;
  };
#define TENSORD_NVML_FIND(member, symbol, parameters, required) \
  api.member = reinterpret_cast<decltype(api.member)>(find(#symbol, (required) != 0));
  TENSORD_NVML_API(TENSORD_NVML_FIND)
#undef TENSORD_NVML_FIND
  return usable;
}

}  // namespace

const Api* Load(std::string* why) {
  static Api api;
  static std::string error;
  static bool usable = false;
  static std::once_flag once;
  std::call_once(once, [] { usable = Fill(api, error); });
  if (usable) return &api;
  *why = error;
  return nullptr;
}

}  // namespace tensord::cuda::nvml
