// A stand-in for a CUDA device where there is none: the CPU backend under another name, with memory of its own size.
//
// Listed as `cuda:N`, marked `emulated`. Its memory is host memory that nobody else may touch: host_addressable() is
// false, so the engine treats it as a device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/backend.h"

namespace tensord {

struct EmulatedOptions {
  uint32_t index = 0;
  size_t memory_bytes = size_t{1} << 30;
};

std::unique_ptr<Backend> MakeEmulatedBackend(const EmulatedOptions& options);

}  // namespace tensord
