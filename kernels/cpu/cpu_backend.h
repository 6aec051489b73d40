// The CPU as a device.
#pragma once

#include <memory>
#include <string>

#include "kernels/backend.h"

namespace tensord {

// Threads and isa are the process's: an object made with the defaults leaves what an earlier one chose.
struct CpuOptions {
  int threads = 0;  // 0: one for each core the process may run on
  std::string isa;  // "x86-64-v2", "-v3", "-v4" (prefix and all); empty: the best the machine has
  DeviceInfo info;  // what stands on the CPU says here what it is; default: the CPU itself
};

// Never fails; an isa the machine lacks falls back to the best it has.
std::unique_ptr<Backend> MakeCpuBackend(CpuOptions options);

}  // namespace tensord
