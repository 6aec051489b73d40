// Column-major data read out in row-major order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/core/shape.h"

namespace tensord {

// Reads a column-major array in memory as row-major panels: runs of whole elements, one after the other. Blocked, so
// that each cache line is fetched once. The shape must have passed CheckedBytes; one thread at a time.
class FortranReader {
 public:
  // `data` must outlive the reader. Panels have at most `max_panel_bytes` (at least one element).
  FortranReader(const char* data, const Dims& shape, size_t item_bytes, size_t max_panel_bytes);

  // Bytes of the next panel; 0 at the end.
  size_t NextBytes() const;
  // Fills `out`, NextBytes() of them.
  void Next(char* out);

 private:
  template <class T>
  void Fill(char* out, int64_t rows);

  const char* data_;
  Dims shape_;
  Dims strides_;  // of the column-major array, in elements
  size_t item_;
  int split_ = 0;      // the axis whose rows make a panel
  int64_t inner_ = 1;  // elements of one row: the axes after split_
  int64_t max_rows_ = 1;
  Dims index_;        // of the axes up to split_
  int64_t left_ = 0;  // elements
};

}  // namespace tensord
