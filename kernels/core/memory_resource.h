// Device memory by the block: the interface that raw memory, pools, statistics and limits share, so that they stack.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace tensord {

// Work is ordered on a stream; memory that a stream still uses is handed out again only to the same stream. The CPU has
// one.
using StreamId = uint32_t;

// Bytes, taken at one moment.
struct MemoryStats {
  int64_t total = 0;         // all the device has (or the limit allows, where one is set)
  int64_t free = -1;         // free on the device, whoever holds the rest; -1: cannot be told
  int64_t used = 0;          // handed out and not given back
  int64_t cached = 0;        // held by a pool, ready to be handed out
  int64_t peak = 0;          // largest `used` so far
  int64_t largest_free = 0;  // largest block that could be handed out now
  int64_t limit = 0;         // a limit below total, or 0
  uint64_t allocations = 0;  // calls of Allocate that succeeded
};

// Thread safe.
class MemoryResource {
 public:
  virtual ~MemoryResource() = default;

  // Alignment of every block.
  static constexpr size_t kAlignment = 256;

  // `bytes` > 0. Error: MEMORY_EXHAUSTED with requested, free and cached; nothing is kept then.
  virtual absl::StatusOr<void*> Allocate(size_t bytes, StreamId stream) = 0;
  // A block from Allocate with the same `bytes`. Work on `stream` issued before may still use it.
  virtual void Deallocate(void* block, size_t bytes, StreamId stream) = 0;
  // Gives what is cached back; returns bytes.
  virtual size_t Trim() { return 0; }
  virtual MemoryStats Stats() const = 0;
};

}  // namespace tensord
