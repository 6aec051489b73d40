// The loops of gemm.h. A product and its sum are one instruction where the processor has that: unlike elementwise code,
// products need not agree with other devices to the bit.
#include <type_traits>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/isa/loop_kinds.h"

#pragma GCC optimize("fp-contract=fast")

namespace tensord::cpu::TENSORD_ISA_NAMESPACE {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kPanelRows = 12;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
constexpr int kPanelRows = 6;
#else
constexpr int kVectorBytes = 16;
constexpr int kPanelRows = 4;
#endif

template <class T>
struct Vector {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
};
template <class T>
constexpr int kLanes_ = kVectorBytes / static_cast<int>(sizeof(T));

template <class T, int kLines>
void Pack(void* panel, const void* from, int64_t line_stride, int64_t k_stride, int64_t lines, int64_t k) {
  T* __restrict to = static_cast<T*>(panel);
  const T* x = static_cast<const T*>(from);
  if (lines == kLines && line_stride == 1) {
    for (int64_t p = 0; p < k; ++p) {
      for (int l = 0; l < kLines; ++l) to[l] = x[l];
      to += kLines;
      x += k_stride;
    }
    return;
  }
  if (lines == kLines) {
    for (int64_t p = 0; p < k; ++p) {
      for (int l = 0; l < kLines; ++l) to[l] = x[l * line_stride];
      to += kLines;
      x += k_stride;
    }
    return;
  }
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t l = 0; l < kLines; ++l) to[l] = l < lines ? x[l * line_stride] : T(0);
    to += kLines;
    x += k_stride;
  }
}

template <class T>
void Multiply(const void* a_panel, const void* b_panel, int64_t k, void* c_data, int64_t c_row_stride, int64_t rows,
              int64_t columns, bool add) {
  using V = typename Vector<T>::Type;
  constexpr int kLanes = kLanes_<T>;
  const T* __restrict a = static_cast<const T*>(a_panel);
  const T* __restrict b = static_cast<const T*>(b_panel);
  V sums[kPanelRows][2] = {};
  for (int64_t p = 0; p < k; ++p) {
    V b0;
    V b1;
    __builtin_memcpy(&b0, b, sizeof(V));
    __builtin_memcpy(&b1, b + kLanes, sizeof(V));
#pragma GCC unroll 12
    for (int i = 0; i < kPanelRows; ++i) {
      const T x = a[i];
      sums[i][0] += x * b0;
      sums[i][1] += x * b1;
    }
    a += kPanelRows;
    b += 2 * kLanes;
  }
  T* c = static_cast<T*>(c_data);
  if (columns == 2 * kLanes && rows == kPanelRows) {
#pragma GCC unroll 12
    for (int i = 0; i < kPanelRows; ++i) {
      for (int h = 0; h < 2; ++h) {
        T* to = c + i * c_row_stride + h * kLanes;
        V old = {};
        if (add) __builtin_memcpy(&old, to, sizeof(V));
        const V sum = add ? old + sums[i][h] : sums[i][h];
        __builtin_memcpy(to, &sum, sizeof(V));
      }
    }
    return;
  }
  T tile[kPanelRows][2 * kLanes];
  __builtin_memcpy(tile, sums, sizeof(tile));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      T* to = c + i * c_row_stride + j;
      *to = add ? static_cast<T>(*to + tile[i][j]) : tile[i][j];
    }
  }
}

// Sums in interleaved parts, which then join as a tree.
template <class T>
T Dot(const T* x, const T* y, int64_t n) {
  constexpr int kParts = 128 / static_cast<int>(sizeof(T));
  T sums[kParts] = {};
  int64_t i = 0;
  for (; i + kParts <= n; i += kParts) {
    for (int l = 0; l < kParts; ++l) sums[l] += x[i + l] * y[i + l];
  }
  for (int l = 0; i + l < n; ++l) sums[l] += x[i + l] * y[i + l];
  for (int half = kParts / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  return sums[0];
}

template <class T>
void Dots(const void* x, const void* b, int64_t column_stride, int64_t columns, int64_t k, void* c_data,
          int64_t c_stride, bool add) {
  T* c = static_cast<T*>(c_data);
  const T* y = static_cast<const T*>(b);
  for (int64_t j = 0; j < columns; ++j, y += column_stride, c += c_stride) {
    const T dot = Dot(static_cast<const T*>(x), y, k);
    *c = add ? *c + dot : dot;
  }
}

template <class T>
void Rows(const void* x_data, const void* b, int64_t row_stride, int64_t columns, int64_t k, void* c_data,
          int64_t c_stride, bool add) {
  constexpr int64_t kBlock = 1024;
  const T* x = static_cast<const T*>(x_data);
  T* c = static_cast<T*>(c_data);
  for (int64_t first = 0; first < columns; first += kBlock) {
    const int64_t n = columns - first < kBlock ? columns - first : kBlock;
    T sums[kBlock];
    for (int64_t j = 0; j < n; ++j) sums[j] = add ? c[(first + j) * c_stride] : T(0);
    const T* __restrict y = static_cast<const T*>(b) + first;
    int64_t p = 0;
    for (; p + 4 <= k; p += 4, y += 4 * row_stride) {
      const T x0 = x[p];
      const T x1 = x[p + 1];
      const T x2 = x[p + 2];
      const T x3 = x[p + 3];
      for (int64_t j = 0; j < n; ++j) {
        sums[j] += (x0 * y[j] + x1 * y[j + row_stride]) + (x2 * y[j + 2 * row_stride] + x3 * y[j + 3 * row_stride]);
      }
    }
    for (; p < k; ++p, y += row_stride) {
      for (int64_t j = 0; j < n; ++j) sums[j] += x[p] * y[j];
    }
    for (int64_t j = 0; j < n; ++j) c[(first + j) * c_stride] = sums[j];
  }
}

template <class T>
void FillLane(GemmLoops& loops) {
  loops.panel_rows = kPanelRows;
  loops.panel_columns = 2 * kLanes_<T>;
  loops.pack_a = &Pack<T, kPanelRows>;
  loops.pack_b = &Pack<T, 2 * kLanes_<T>>;
  loops.multiply = &Multiply<T>;
  loops.dots = &Dots<T>;
  loops.rows = &Rows<T>;
}

}  // namespace

const GemmTable& GemmLoopTable() {
  static const GemmTable* const kTable = [] {
    auto* table = new GemmTable();
    FillLane<float>(table->lanes[static_cast<int>(GemmLane::kF32)]);
    FillLane<double>(table->lanes[static_cast<int>(GemmLane::kF64)]);
    FillLane<uint32_t>(table->lanes[static_cast<int>(GemmLane::kU32)]);
    FillLane<uint64_t>(table->lanes[static_cast<int>(GemmLane::kU64)]);
    return table;
  }();
  return *kTable;
}

}  // namespace tensord::cpu::TENSORD_ISA_NAMESPACE
