// cuBLASLt from the system: 13, else 12, whose functions are the same as far as we call them.
#include <dlfcn.h>

#include <array>
#include <mutex>

#include "kernels/core/text.h"
#include "kernels/cuda/cublaslt_api.h"

namespace tensord::cuda::cublaslt {
namespace {

constexpr std::array kNames = {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.13",
                               "/usr/local/cuda/lib64/libcublasLt.so.12"};

void* Open(std::string& why) {
  for (const char* name : kNames) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
    const char* error = dlerror();
    if (why.empty() && error != nullptr) why = error;
  }
  return nullptr;
}

bool Fill(Api& api, std::string& why) {
  void* library = Open(why);
  if (library == nullptr) return false;
  bool complete = true;
  const auto find = [&](const char* symbol) {
    void* found = dlsym(library, symbol);
    if (found == nullptr && complete) {
      complete = false;
      why = StrCat("cuBLASLt lacks ", symbol);
    }
    return found;
  };
#define TENSORD_CUBLASLT_FIND(member, symbol, result, parameters) \
  api.member = reinterpret_cast<decltype(api.member)>(find(#symbol));
  TENSORD_CUBLASLT_API(TENSORD_CUBLASLT_FIND)
#undef TENSORD_CUBLASLT_FIND
  return complete;
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

}  // namespace tensord::cuda::cublaslt
