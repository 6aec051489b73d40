// Memory resources that stack: raw (a backend's) -> pool -> statistics -> limit. Composed in main.cc, top last.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/core/memory_resource.h"

namespace tensord {

// Keeps freed blocks for the next request: size classes, splits and coalesces, at most a quarter of a block wasted.
// `upstream` outlives it. Allocate that upstream refuses trims the cache and tries once more.
std::unique_ptr<MemoryResource> MakeCachingPool(MemoryResource& upstream);

// Counts used bytes, peak and allocations.
std::unique_ptr<MemoryResource> MakeStatistics(MemoryResource& upstream);

// Refuses what would take `used` beyond `limit_bytes`: MEMORY_EXHAUSTED naming `device`, with requested, free, cached
// and the limit. 0: no limit. Every refusal from below leaves here with the device's name too.
std::unique_ptr<MemoryResource> MakeLimit(MemoryResource& upstream, std::string device, size_t limit_bytes);

}  // namespace tensord
