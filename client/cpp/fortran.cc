#include "client/cpp/fortran.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tensord {

FortranReader::FortranReader(const char* data, const Dims& shape, size_t item_bytes, size_t max_panel_bytes)
    : data_(data), shape_(shape), item_(item_bytes), left_(NumElements(shape)) {
  if (shape_.empty()) shape_.push_back(1);
  strides_.resize(shape_.size());
  int64_t stride = 1;
  for (size_t i = 0; i < shape_.size(); ++i) {
    strides_[i] = stride;
    stride *= shape_[i];
  }
  index_.assign(shape_.size(), 0);
  if (left_ == 0) return;
  const int64_t max_elements = std::max<int64_t>(1, static_cast<int64_t>(max_panel_bytes / item_));
  // The first axis whose rows fit, so that panels are large and runs along the first axis stay whole.
  inner_ = NumElements(shape_) / shape_[0];
  while (inner_ > max_elements && split_ + 1 < static_cast<int>(shape_.size())) {
    ++split_;
    inner_ /= shape_[split_];
  }
  max_rows_ = std::max<int64_t>(1, max_elements / inner_);
}

size_t FortranReader::NextBytes() const {
  if (left_ == 0) return 0;
  return static_cast<size_t>(std::min(max_rows_, shape_[split_] - index_[split_]) * inner_) * item_;
}

void FortranReader::Next(char* out) {
  if (left_ == 0) return;
  const int64_t rows = std::min(max_rows_, shape_[split_] - index_[split_]);
  switch (item_) {
    case 1:
      Fill<uint8_t>(out, rows);
      break;
    case 2:
      Fill<uint16_t>(out, rows);
      break;
    case 4:
      Fill<uint32_t>(out, rows);
      break;
    case 8:
      Fill<uint64_t>(out, rows);
      break;
    default:
      Fill<std::array<uint64_t, 2>>(out, rows);
      break;
  }
  left_ -= rows * inner_;
  index_[split_] += rows;
  for (int i = split_; i > 0 && index_[i] == shape_[i]; --i) {
    index_[i] = 0;
    ++index_[i - 1];
  }
}

template <class T>
void FortranReader::Fill(char* out, int64_t rows) {
  const auto load = [](const char* p) {
    T value;
    std::memcpy(&value, p, sizeof(T));  // neither side need be aligned
    return value;
  };
  int64_t base = 0;
  for (int i = 0; i <= split_; ++i) base += index_[i] * strides_[i];
  // A block of columns is walked row by row: reads go along as many cache lines as there are columns, writes are in
  // order.
  constexpr int64_t kColumns = 64;
  std::array<int64_t, kColumns> offsets;
  Dims inner_index(shape_.size(), 0);
  int64_t offset = 0;
  for (int64_t column = 0; column < inner_; column += kColumns) {
    const int64_t n = std::min(kColumns, inner_ - column);
    for (int64_t c = 0; c < n; ++c) {
      offsets[c] = offset;
      for (int i = static_cast<int>(shape_.size()) - 1; i > split_; --i) {
        offset += strides_[i];
        if (++inner_index[i] < shape_[i]) break;
        offset -= strides_[i] * shape_[i];
        inner_index[i] = 0;
      }
    }
    for (int64_t row = 0; row < rows; ++row) {
      const char* from = data_ + (base + row * strides_[split_]) * static_cast<int64_t>(sizeof(T));
      char* to = out + (row * inner_ + column) * static_cast<int64_t>(sizeof(T));
      for (int64_t c = 0; c < n; ++c) {
        const T value = load(from + offsets[c] * static_cast<int64_t>(sizeof(T)));
        std::memcpy(to + c * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
      }
    }
  }
}

}  // namespace tensord
