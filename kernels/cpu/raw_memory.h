// Host memory from the kernel, and how much of it there is.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/core/memory_resource.h"

namespace tensord::cpu {

// Bytes the process may use: RAM, or its cgroup's limit where that is smaller. Constant.
int64_t HostMemoryTotal();
// Bytes available now, as /proc/meminfo estimates them (and inside the cgroup's limit); -1 where it does not say.
int64_t HostMemoryAvailable();

// One mapping a block: page aligned, zero filled by the kernel, huge pages asked for from 2 MiB on. No cache and no
// limit, but a block larger than HostMemoryTotal() is refused before the kernel is asked.
std::unique_ptr<MemoryResource> MakeRawMemory();

}  // namespace tensord::cpu
