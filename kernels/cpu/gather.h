// How a plan's source comes to the block: found out once a plan, done once a block.
#pragma once

#include <cstdint>

#include "kernels/core/shape.h"

namespace tensord::cpu {

// A source over collapsed dimensions.
struct GatherSource {
  enum class Kind : uint8_t {
    kContiguous,  // read in place
    kSplat,       // one value: filled in once a thread
    kPeriodic,    // a short contiguous row repeated for ever: laid out once a thread, read in place
    kStrided,     // copied for every block
    kTransposed,  // copied by tiles for every chunk
  };
  Kind kind = Kind::kContiguous;
  uint8_t item = 0;
  const char* data = nullptr;
  int64_t period = 0;  // kPeriodic: elements
  Dims shape;          // kStrided, kTransposed
  Dims strides;
};

// Drops dimensions of size 1 and joins neighbours that all of `strides` pass through evenly. At least one dimension is
// left.
void Collapse(Dims& shape, absl::Span<Dims> strides);

// What kind of source lies at `data` (null: a value) with `strides` over the collapsed `shape`.
GatherSource Classify(const Dims& shape, const Dims& strides, const void* data, size_t item);

// Writes elements [first, first + count) of the source in row-major order. kStrided and kTransposed.
void GatherRange(const GatherSource& source, int64_t first, int64_t count, void* out);

// `count` copies of one element.
void FillItems(void* out, const void* value, size_t item, int64_t count);

}  // namespace tensord::cpu
