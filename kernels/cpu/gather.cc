#include "kernels/cpu/gather.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/block.h"

namespace tensord::cpu {
namespace {

// Rows this short are worth laying out as a repeated pattern.
constexpr int64_t kLongestPeriod = kBlockElements;

// Calls f.template operator()<T>() with an unsigned type of `item` bytes.
template <class F>
void WithItem(size_t item, F&& f) {
  switch (item) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    default:
      return f.template operator()<uint64_t>();
  }
}

template <class T>
void CopyRun(T* out, const T* from, int64_t stride, int64_t count) {
  if (stride == 1) {
    if (count < 16) {
      for (int64_t i = 0; i < count; ++i) out[i] = from[i];
    } else {
      std::memcpy(out, from, static_cast<size_t>(count) * sizeof(T));
    }
  } else if (stride == 0) {
    const T value = *from;
    for (int64_t i = 0; i < count; ++i) out[i] = value;
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = from[i * stride];
  }
}

// A position in row-major order, moved on row by row.
class Odometer {
 public:
  // Stands on dimensions [0, rank) of the source, at their linear index `position`.
  Odometer(const GatherSource& source, size_t rank, int64_t position) : source_(source), rank_(rank) {
    for (size_t d = rank; d-- > 0;) {
      const int64_t size = source.shape[d];
      index_[d] = position % size;
      position /= size;
      offset_ += index_[d] * source.strides[d];
    }
  }
  int64_t offset() const { return offset_; }
  void Next() {
    for (size_t d = rank_; d-- > 0;) {
      offset_ += source_.strides[d];
      if (++index_[d] < source_.shape[d]) return;
      offset_ -= source_.shape[d] * source_.strides[d];
      index_[d] = 0;
    }
  }

 private:
  const GatherSource& source_;
  const size_t rank_;
  int64_t index_[kMaxRank];
  int64_t offset_ = 0;
};

template <class T>
void GatherStrided(const GatherSource& source, int64_t first, int64_t count, T* out) {
  const size_t inner = source.shape.size() - 1;
  const int64_t length = source.shape[inner];
  const int64_t stride = source.strides[inner];
  const T* const data = reinterpret_cast<const T*>(source.data);
  Odometer row(source, inner, first / length);
  int64_t column = first % length;
  while (count > 0) {
    const int64_t run = std::min(count, length - column);
    CopyRun(out, data + row.offset() + column * stride, stride, run);
    out += run;
    count -= run;
    column = 0;
    row.Next();
  }
}

// A tile of a transpose: to[i * to_stride + j] = from[j * from_stride + i]. Whole cache lines are read and written one
// after the other, so that none is met twice: strides of a power of two would have driven it out by then.
template <class T>
void TransposeTile(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows, int64_t columns) {
  constexpr int64_t kLine = 64 / sizeof(T);
  T tile[kLine][kLine];
  if (rows == kLine && columns == kLine) {
    for (int64_t j = 0; j < kLine; ++j) std::memcpy(tile[j], from + j * from_stride, sizeof(tile[j]));
    for (int64_t i = 0; i < kLine; ++i) {
      T row[kLine];
      for (int64_t j = 0; j < kLine; ++j) row[j] = tile[j][i];
      std::memcpy(to + i * to_stride, row, sizeof(row));
    }
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) to[i * to_stride + j] = from[j * from_stride + i];
  }
}

// Rows `first` … of the last dimension, as many as `rows`, whole, where the dimension before the last has stride 1.
// Tiles walk down the rows, along memory.
template <class T>
void GatherTiles(const GatherSource& source, int64_t first, int64_t rows, T* out) {
  constexpr int64_t kLine = 64 / sizeof(T);
  const size_t inner = source.shape.size() - 1;
  const int64_t columns = source.shape[inner];
  const int64_t stride = source.strides[inner];
  const int64_t height = source.shape[inner - 1];
  while (rows > 0) {
    const int64_t start = first % height;
    const int64_t here = std::min(rows, height - start);
    const T* const data =
        reinterpret_cast<const T*>(source.data) + Odometer(source, inner - 1, first / height).offset() + start;
    for (int64_t c = 0; c < columns; c += kLine) {
      for (int64_t r = 0; r < here; r += kLine) {
        TransposeTile(data + r + c * stride, stride, out + r * columns + c, columns, std::min(kLine, here - r),
                      std::min(kLine, columns - c));
      }
    }
    out += here * columns;
    first += here;
    rows -= here;
  }
}

}  // namespace

void Collapse(Dims& shape, absl::Span<Dims> strides) {
  size_t kept = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const bool joins = kept > 0 && std::all_of(strides.begin(), strides.end(),
                                               [&](const Dims& s) { return s[kept - 1] == s[d] * shape[d]; });
    if (joins) {
      shape[kept - 1] *= shape[d];
    } else {
      shape[kept++] = shape[d];
    }
    for (Dims& s : strides) s[kept - 1] = s[d];
  }
  const size_t rank = std::max<size_t>(kept, 1);
  shape.resize(rank, 1);
  for (Dims& s : strides) s.resize(rank, 0);
  if (kept == 0) {
    shape[0] = 1;
    for (Dims& s : strides) s[0] = 0;
  }
}

GatherSource Classify(const Dims& shape, const Dims& strides, const void* data, size_t item) {
  using Kind = GatherSource::Kind;
  GatherSource source;
  source.item = static_cast<uint8_t>(item);
  source.data = static_cast<const char*>(data);
  source.kind = Kind::kSplat;
  if (data == nullptr || std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s == 0; })) return source;

  // The contiguous dimensions at the end.
  int64_t run = 1;
  size_t outer = shape.size();
  while (outer > 0 && strides[outer - 1] == run) run *= shape[--outer];
  if (outer == 0) {
    source.kind = Kind::kContiguous;
    return source;
  }
  const bool repeats = std::all_of(strides.begin(), strides.begin() + static_cast<std::ptrdiff_t>(outer),
                                   [](int64_t s) { return s == 0; });
  if (repeats && run > 1 && run <= kLongestPeriod) {
    source.kind = Kind::kPeriodic;
    source.period = run;
    return source;
  }
  source.kind = Kind::kStrided;
  source.shape = shape;
  source.strides = strides;
  Collapse(source.shape, absl::MakeSpan(&source.strides, 1));  // alone it may join more than the others allowed
  const size_t rank = source.shape.size();
  if (rank >= 2 && source.strides[rank - 2] == 1 && source.strides[rank - 1] != 0 && source.shape[rank - 2] >= 8 &&
      source.shape[rank - 1] >= 8) {
    source.kind = Kind::kTransposed;
  }
  return source;
}

void GatherRange(const GatherSource& source, int64_t first, int64_t count, void* out) {
  WithItem(source.item, [&]<class T>() {
    auto* to = static_cast<T*>(out);
    if (source.kind != GatherSource::Kind::kTransposed) return GatherStrided(source, first, count, to);
    // The ends of the range that are no whole rows, row by row; what is between, by tiles.
    const int64_t columns = source.shape.back();
    const int64_t head = std::min(count, (columns - first % columns) % columns);
    const int64_t whole = (count - head) / columns;
    const int64_t tail = count - head - whole * columns;
    if (head > 0) GatherStrided(source, first, head, to);
    if (whole > 0) GatherTiles(source, (first + head) / columns, whole, to + head);
    if (tail > 0) GatherStrided(source, first + head + whole * columns, tail, to + head + whole * columns);
  });
}

void FillItems(void* out, const void* value, size_t item, int64_t count) {
  const auto* const bytes = static_cast<const unsigned char*>(value);
  if (std::all_of(bytes, bytes + item, [bytes](unsigned char b) { return b == bytes[0]; })) {
    std::memset(out, bytes[0], static_cast<size_t>(count) * item);
    return;
  }
  WithItem(item, [&]<class T>() {
    T one;
    std::memcpy(&one, value, sizeof(T));
    std::fill_n(static_cast<T*>(out), count, one);
  });
}

}  // namespace tensord::cpu
