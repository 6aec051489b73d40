// The plugin's one exported symbol.
#include "kernels/cuda/plugin/abi.h"

extern "C" __attribute__((visibility("default"))) const tensord::cuda::Plugin* tensord_cuda_plugin() {
  static constexpr tensord::cuda::Plugin plugin = {
      tensord::cuda::kPluginAbi,       sizeof(tensord::cuda::Plugin),   TENSORD_CUDA_BUILD_ID,
      &tensord::cuda::ListCudaDevices, &tensord::cuda::MakeCudaBackend,
  };
  return &plugin;
}
