// What the host code that nvcc generates calls: with it a library built by nvcc runs on the fake libcudart.so.13. A kernel
// is known by its mangled name; what runs is the one g++ made of the same source.
//
// Libraries of such kernels beside this one are named by TENSORD_EMULATED_KERNELS, separated by colons.
#include <cuda_runtime_api.h>
#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "kernels/emulated/kernel.h"
#include "kernels/emulated/runtime.h"

namespace tensord::emulated {
namespace {

std::string Demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

// The kernel in "TensordKernelTag<&(void ns::Scale<float>(float*))>". Names are compared as people read them: mangled
// ones abbreviate by where they stand.
std::string NameOf(const Kernel& kernel) {
  std::string name = Demangled(kernel.type_name);
  const size_t begin = name.find("<&");
  if (begin == std::string::npos) return name;
  name = name.substr(begin + 2, name.size() - begin - 3);
  if (!name.empty() && name.front() == '(' && name.back() == ')') name = name.substr(1, name.size() - 2);
  return name;
}

// "ns::Fill(float*, long)" without its parameters.
std::string WithoutParameters(const std::string& name) {
  int depth = 0;
  for (size_t i = name.size(); i > 0; --i) {
    if (name[i - 1] == ')') ++depth;
    if (name[i - 1] == '(' && --depth == 0) return name.substr(0, i - 1);
  }
  return name;
}

class Table {
 public:
  static Table& Get() {
    static Table* const table = new Table;  // never destroyed: libraries unregister at exit
    return *table;
  }

  void Add(const void* stub, const char* device_name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    names_[stub] = device_name;
  }

  const Kernel* Find(const void* stub) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto named = names_.find(stub);
    if (named == names_.end()) return nullptr;
    if (!opened_) OpenLibraries();
    IndexKernels();
    const std::string name = Demangled(named->second.c_str());
    auto [first, last] = kernels_.equal_range(name);
    // In a tag, functions that are no templates are written without parameters.
    if (first == last) std::tie(first, last) = kernels_.equal_range(WithoutParameters(name));
    if (first == last) {
      std::fprintf(stderr, "emulated CUDA: g++ has made no kernel %s\n", name.c_str());
      return nullptr;
    }
    if (std::next(first) != last) {
      std::fprintf(stderr, "emulated CUDA: two kernels are named %s\n", name.c_str());
      return nullptr;
    }
    return first->second;
  }

 private:
  void OpenLibraries() {
    opened_ = true;
    const char* list = std::getenv("TENSORD_EMULATED_KERNELS");
    std::string rest = list == nullptr ? "" : list;
    while (!rest.empty()) {
      const size_t colon = rest.find(':');
      const std::string path = rest.substr(0, colon);
      rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
      if (!path.empty() && dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
        std::fprintf(stderr, "emulated CUDA: %s\n", dlerror());
      }
    }
  }

  // Kernels may come late: with a library that somebody opens.
  void IndexKernels() {
    if (indexed_ == FirstKernel()) return;
    indexed_ = FirstKernel();
    kernels_.clear();
    for (const Kernel* kernel = indexed_; kernel != nullptr; kernel = kernel->next) {
      kernels_.emplace(NameOf(*kernel), kernel);
    }
  }

  std::mutex mutex_;
  std::map<const void*, std::string> names_;  // by host stub
  std::multimap<std::string, const Kernel*> kernels_;
  const Kernel* indexed_ = nullptr;
  bool opened_ = false;
};

// Every stub is looked up once.
const Kernel* KernelOfStub(const void* stub) {
  static std::mutex mutex;
  static auto* const known = new std::map<const void*, const Kernel*>;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [it, fresh] = known->try_emplace(stub, nullptr);
  if (fresh || it->second == nullptr) it->second = Table::Get().Find(stub);
  return it->second;
}

struct CallConfiguration {
  dim3 grid, block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};
thread_local CallConfiguration configuration;

}  // namespace
}  // namespace tensord::emulated

#define EXPORTED __attribute__((visibility("default")))

extern "C" {

EXPORTED void** __cudaRegisterFatBinary(void* binary) {
  tensord::emulated::SetKernelOfStub(&tensord::emulated::KernelOfStub);
  static void* handle[1];
  handle[0] = binary;
  return handle;
}
EXPORTED void __cudaRegisterFatBinaryEnd(void**) {}
EXPORTED void __cudaUnregisterFatBinary(void**) {}
EXPORTED void __cudaRegisterFunction(void**, const char* stub, char*, const char* device_name, int, uint3*, uint3*,
                                     dim3*, dim3*, int*) {
  tensord::emulated::Table::Get().Add(stub, device_name);
}
EXPORTED void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
EXPORTED char __cudaInitModule(void**) { return 0; }

EXPORTED unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, struct CUstream_st* stream) {
  tensord::emulated::configuration = {grid, block, shared_bytes, stream};
  return 0;
}
EXPORTED cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  const tensord::emulated::CallConfiguration& c = tensord::emulated::configuration;
  *grid = c.grid;
  *block = c.block;
  *shared_bytes = c.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}
EXPORTED cudaError_t __cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                                        cudaStream_t stream) {
  return cudaLaunchKernel(stub, grid, block, arguments, shared_bytes, stream);
}
EXPORTED cudaError_t __cudaGetKernel(void** kernel, const void* stub) {
  *kernel = const_cast<void*>(stub);
  return cudaSuccess;
}

}  // extern "C"
