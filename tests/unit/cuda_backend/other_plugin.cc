// Plugins that a daemon must not take: what is wrong with one is said by the macros it is built with.
#include "kernels/cuda/plugin/abi.h"

#if defined(OTHER_ABI)
extern "C" __attribute__((visibility("default"))) const void* tensord_cuda_plugin() {
  static constexpr uint32_t head[] = {99, 0};
  return head;
}
#elif defined(OTHER_BUILD)
extern "C" __attribute__((visibility("default"))) const tensord::cuda::Plugin* tensord_cuda_plugin() {
  static constexpr tensord::cuda::Plugin plugin = {tensord::cuda::kPluginAbi, sizeof(tensord::cuda::Plugin),
                                                   "0.0.0-other", nullptr, nullptr};
  return &plugin;
}
#endif
