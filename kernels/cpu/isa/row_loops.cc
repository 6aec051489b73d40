// The loops of row_loops.h.
//
// Elements pass through a buffer of the compute type. It is worked on in whole vectors, so an element's result does not
// depend on its place.
#include "kernels/cpu/row_loops.h"

#include <type_traits>

#include "kernels/cpu/isa/combine.h"
#include "kernels/cpu/isa/half_bits.h"
#include "kernels/cpu/isa/loop_kinds.h"
#include "kernels/ops/functors/math.h"

namespace tensord::cpu::TENSORD_ISA_NAMESPACE {
namespace {

constexpr int64_t kBuffer = 2048;
constexpr int64_t kTiny = 16;   // elements up to which rows are worked on across
constexpr int64_t kShort = 64;  // elements below which a row is added up in fewer parts
constexpr int64_t kUnit = 64;   // the buffer's filled part is rounded up to this

template <class T>
using ComputeType = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
TENSORD_HD ComputeType<T> Widen(T x) {
  if constexpr (sizeof(T) == 2) {
    return ToFloat(x);
  } else {
    return x;
  }
}

template <class T>
TENSORD_HD T Round(ComputeType<T> x) {
  if constexpr (std::is_same_v<T, Half>) {
    return ToHalf(x);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return ToBFloat16(x);
  } else {
    return x;
  }
}

template <class C>
C SumOf(const C* x, int64_t n) {
  if (n < kShort) return Interleaved<Combine::kSum, C, C, 8>(x, n);
  return Interleaved<Combine::kSum, C, C, 32>(x, n);
}

template <class C>
C MaxOf(const C* x, int64_t n) {
  if (n < kShort) return Interleaved<Combine::kMax, C, C, 8>(x, n);
  return Interleaved<Combine::kMax, C, C, 32>(x, n);
}

// x[i] = exp(x[i]) for the first n, rounded up to whole vectors.
template <class C>
void ExpInPlace(C* x, int64_t n) {
  const int64_t whole = (n + kUnit - 1) / kUnit * kUnit;
  for (int64_t i = n; i < whole; ++i) x[i] = C(0);
#pragma omp simd
  for (int64_t i = 0; i < whole; ++i) x[i] = math::Exp(x[i]);
}

template <class T>
void LoadMinus(ComputeType<T>* to, const T* x, int64_t n, ComputeType<T> minus) {
  for (int64_t i = 0; i < n; ++i) to[i] = Widen(x[i]) - minus;
}

template <class T>
ComputeType<T> MaxOfRow(const T* x, int64_t n, ComputeType<T>* buffer) {
  using C = ComputeType<T>;
  if constexpr (std::is_same_v<T, C>) {
    return MaxOf(x, n);
  } else {
    C max = Arithmetic<Combine::kMax, C>::Identity();
    for (int64_t i = 0; i < n; i += kBuffer) {
      const int64_t m = n - i < kBuffer ? n - i : kBuffer;
      LoadMinus(buffer, x + i, m, C(0));
      max = Arithmetic<Combine::kMax, C>::Apply(max, MaxOf(buffer, m));
    }
    return max;
  }
}

// Rows that fit the buffer: several at once, so that short ones fill vectors too.
template <class T>
void SoftmaxShortRows(const T* x, T* out, int64_t rows, int64_t n, bool log) {
  using C = ComputeType<T>;
  alignas(64) C buffer[kBuffer + kUnit];
  alignas(64) C shifted[kBuffer];
  const int64_t at_once = kBuffer / n;
  for (int64_t first = 0; first < rows; first += at_once, x += at_once * n, out += at_once * n) {
    const int64_t some = rows - first < at_once ? rows - first : at_once;
    for (int64_t r = 0; r < some; ++r) {
      C* row = buffer + r * n;
      LoadMinus(row, x + r * n, n, C(0));
      const C max = MaxOf(row, n);
      for (int64_t i = 0; i < n; ++i) row[i] -= max;
    }
    if (log) {
      for (int64_t i = 0; i < some * n; ++i) shifted[i] = buffer[i];
    }
    ExpInPlace(buffer, some * n);
    for (int64_t r = 0; r < some; ++r) {
      const C sum = SumOf(buffer + r * n, n);
      T* to = out + r * n;
      if (log) {
        const C log_sum = math::Log(sum);
        for (int64_t i = 0; i < n; ++i) to[i] = Round<T>(shifted[r * n + i] - log_sum);
      } else {
        for (int64_t i = 0; i < n; ++i) to[i] = Round<T>(buffer[r * n + i] / sum);
      }
    }
  }
}

// Rows of a few elements: turned, so that vectors run across rows.
template <class T>
void SoftmaxTinyRows(const T* x, T* out, int64_t rows, int64_t n, bool log) {
  using C = ComputeType<T>;
  constexpr int64_t kAcross = kBuffer / kTiny;
  alignas(64) C buffer[kBuffer + kUnit];
  alignas(64) C shifted[kBuffer];
  alignas(64) C max[kAcross];
  alignas(64) C sum[kAcross];
  for (int64_t first = 0; first < rows; first += kAcross, x += kAcross * n, out += kAcross * n) {
    const int64_t some = rows - first < kAcross ? rows - first : kAcross;
    for (int64_t i = 0; i < n; ++i) {
      C* row = shifted + i * kAcross;
      for (int64_t r = 0; r < some; ++r) row[r] = Widen(x[r * n + i]);
      for (int64_t r = some; r < kAcross; ++r) row[r] = C(0);
    }
    for (int64_t r = 0; r < kAcross; ++r) {
      max[r] = shifted[r];
      sum[r] = C(0);
    }
    for (int64_t i = 1; i < n; ++i) {
      const C* row = shifted + i * kAcross;
      for (int64_t r = 0; r < kAcross; ++r) max[r] = Arithmetic<Combine::kMax, C>::Apply(max[r], row[r]);
    }
    for (int64_t i = 0; i < n; ++i) {
      C* row = shifted + i * kAcross;
      C* to = buffer + i * kAcross;
      for (int64_t r = 0; r < kAcross; ++r) {
        row[r] -= max[r];
        to[r] = row[r];
      }
    }
    ExpInPlace(buffer, n * kAcross);
    for (int64_t i = 0; i < n; ++i) {
      const C* row = buffer + i * kAcross;
      for (int64_t r = 0; r < kAcross; ++r) sum[r] += row[r];
    }
    if (log) {
#pragma omp simd
      for (int64_t r = 0; r < kAcross; ++r) sum[r] = math::Log(sum[r]);
    }
    for (int64_t i = 0; i < n; ++i) {
      C* row = buffer + i * kAcross;
      const C* from = shifted + i * kAcross;
      for (int64_t r = 0; r < kAcross; ++r) row[r] = log ? from[r] - sum[r] : row[r] / sum[r];
      for (int64_t r = 0; r < some; ++r) out[r * n + i] = Round<T>(row[r]);
    }
  }
}

template <class T>
void SoftmaxLongRow(const T* x, T* out, int64_t n, bool log) {
  using C = ComputeType<T>;
  alignas(64) C buffer[kBuffer + kUnit];
  const C max = MaxOfRow(x, n, buffer);
  double total = 0;
  for (int64_t i = 0; i < n; i += kBuffer) {
    const int64_t m = n - i < kBuffer ? n - i : kBuffer;
    LoadMinus(buffer, x + i, m, max);
    ExpInPlace(buffer, m);
    total += static_cast<double>(SumOf(buffer, m));
    if constexpr (std::is_same_v<T, C>) {
      if (!log) __builtin_memcpy(out + i, buffer, static_cast<size_t>(m) * sizeof(C));
    }
  }
  const C sum = static_cast<C>(total);
  if (log) {
    const C log_sum = math::Log(sum);
    for (int64_t i = 0; i < n; ++i) out[i] = Round<T>((Widen(x[i]) - max) - log_sum);
  } else if constexpr (std::is_same_v<T, C>) {
    for (int64_t i = 0; i < n; ++i) out[i] /= sum;
  } else {
    for (int64_t i = 0; i < n; i += kBuffer) {
      const int64_t m = n - i < kBuffer ? n - i : kBuffer;
      LoadMinus(buffer, x + i, m, max);
      ExpInPlace(buffer, m);
      for (int64_t j = 0; j < m; ++j) out[i + j] = Round<T>(buffer[j] / sum);
    }
  }
}

template <class T>
void SoftmaxRows(const void* in, void* out, int64_t rows, int64_t n, bool log) {
  const T* x = static_cast<const T*>(in);
  T* to = static_cast<T*>(out);
  if (n <= kTiny) return SoftmaxTinyRows(x, to, rows, n, log);
  if (n <= kBuffer) return SoftmaxShortRows(x, to, rows, n, log);
  for (int64_t r = 0; r < rows; ++r) SoftmaxLongRow(x + r * n, to + r * n, n, log);
}

template <class T>
void SoftmaxColumns(const void* in, void* out, int64_t n, int64_t stride, int64_t width, bool log) {
  using C = ComputeType<T>;
  constexpr int64_t kPart = 64;  // rows added up before they join the total
  const T* x = static_cast<const T*>(in);
  T* to = static_cast<T*>(out);
  alignas(64) C max[kColumnTile];
  alignas(64) C sum[kColumnTile];
  alignas(64) C part[kColumnTile];
  alignas(64) C buffer[kColumnTile + kUnit];
  for (int64_t j = 0; j < width; ++j) {
    max[j] = Widen(x[j]);
    sum[j] = C(0);
  }
  for (int64_t i = 1; i < n; ++i) {
    const T* row = x + i * stride;
    for (int64_t j = 0; j < width; ++j) max[j] = Arithmetic<Combine::kMax, C>::Apply(max[j], Widen(row[j]));
  }
  for (int64_t first = 0; first < n; first += kPart) {
    const int64_t last = first + kPart < n ? first + kPart : n;
    for (int64_t j = 0; j < width; ++j) part[j] = C(0);
    for (int64_t i = first; i < last; ++i) {
      const T* row = x + i * stride;
      for (int64_t j = 0; j < width; ++j) buffer[j] = Widen(row[j]) - max[j];
      ExpInPlace(buffer, width);
      for (int64_t j = 0; j < width; ++j) part[j] += buffer[j];
      if constexpr (std::is_same_v<T, C>) {
        if (!log) __builtin_memcpy(to + i * stride, buffer, static_cast<size_t>(width) * sizeof(C));
      }
    }
    for (int64_t j = 0; j < width; ++j) sum[j] += part[j];
  }
  if (log) {
    for (int64_t j = 0; j < width; ++j) sum[j] = math::Log(sum[j]);
  }
  for (int64_t i = 0; i < n; ++i) {
    const T* row = x + i * stride;
    T* result = to + i * stride;
    if (log) {
      for (int64_t j = 0; j < width; ++j) result[j] = Round<T>((Widen(row[j]) - max[j]) - sum[j]);
    } else if constexpr (std::is_same_v<T, C>) {
      for (int64_t j = 0; j < width; ++j) result[j] /= sum[j];
    } else {
      for (int64_t j = 0; j < width; ++j) buffer[j] = Widen(row[j]) - max[j];
      ExpInPlace(buffer, width);
      for (int64_t j = 0; j < width; ++j) result[j] = Round<T>(buffer[j] / sum[j]);
    }
  }
}

// The sum of f(x[i]) block by block, where f is x or the square of its distance from `mean`.
template <class T, bool kSquares>
double SumOfRow(const T* x, int64_t n, ComputeType<T> mean, ComputeType<T>* buffer) {
  double total = 0;
  for (int64_t i = 0; i < n; i += kBuffer) {
    const int64_t m = n - i < kBuffer ? n - i : kBuffer;
    LoadMinus(buffer, x + i, m, mean);
    if constexpr (kSquares) {
      for (int64_t j = 0; j < m; ++j) buffer[j] *= buffer[j];
    }
    total += static_cast<double>(SumOf(buffer, m));
  }
  return total;
}

template <class T>
void LayerNorm(const void* in, void* out, int64_t rows, int64_t n, const void* weight_data, const void* bias_data,
               double epsilon) {
  using C = ComputeType<T>;
  alignas(64) C buffer[kBuffer];
  const C* weight = static_cast<const C*>(weight_data);
  const C* bias = static_cast<const C*>(bias_data);
  const T* x = static_cast<const T*>(in);
  T* __restrict to = static_cast<T*>(out);
  for (int64_t r = 0; r < rows; ++r, x += n, to += n) {
    const C mean = static_cast<C>(SumOfRow<T, false>(x, n, C(0), buffer) / static_cast<double>(n));
    const double variance = SumOfRow<T, true>(x, n, mean, buffer) / static_cast<double>(n);
    const C scale = static_cast<C>(1.0 / math::Sqrt(variance + epsilon));
    if (weight != nullptr && bias != nullptr) {
      for (int64_t i = 0; i < n; ++i) to[i] = Round<T>((Widen(x[i]) - mean) * scale * weight[i] + bias[i]);
    } else if (weight != nullptr) {
      for (int64_t i = 0; i < n; ++i) to[i] = Round<T>((Widen(x[i]) - mean) * scale * weight[i]);
    } else if (bias != nullptr) {
      for (int64_t i = 0; i < n; ++i) to[i] = Round<T>((Widen(x[i]) - mean) * scale + bias[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = Round<T>((Widen(x[i]) - mean) * scale);
    }
  }
}

template <class T>
void AffineRow(const void* in, void* out, int64_t /*rows*/, int64_t n, const void* mean_data, const void* scale_data,
               const void* bias_data) {
  using C = ComputeType<T>;
  const C mean = *static_cast<const C*>(mean_data);
  const C scale = *static_cast<const C*>(scale_data);
  const C bias = *static_cast<const C*>(bias_data);
  const T* x = static_cast<const T*>(in);
  T* __restrict to = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = Round<T>((Widen(x[i]) - mean) * scale + bias);
}

template <class T>
void AffineColumns(const void* in, void* out, int64_t rows, int64_t n, const void* mean_data, const void* scale_data,
                   const void* bias_data) {
  using C = ComputeType<T>;
  const C* mean = static_cast<const C*>(mean_data);
  const C* scale = static_cast<const C*>(scale_data);
  const C* bias = static_cast<const C*>(bias_data);
  const T* x = static_cast<const T*>(in);
  T* __restrict to = static_cast<T*>(out);
  for (int64_t r = 0; r < rows; ++r, x += n, to += n) {
    for (int64_t i = 0; i < n; ++i) to[i] = Round<T>((Widen(x[i]) - mean[i]) * scale[i] + bias[i]);
  }
}

template <class T>
void FillDtype(RowTable& table) {
  RowLoops& loops = table.dtypes[static_cast<int>(DtypeOf<T>)];
  loops.softmax_rows = &SoftmaxRows<T>;
  loops.softmax_columns = &SoftmaxColumns<T>;
  loops.layer_norm = &LayerNorm<T>;
  loops.affine_row = &AffineRow<T>;
  loops.affine_columns = &AffineColumns<T>;
}

}  // namespace

const RowTable& RowLoopTable() {
  static const RowTable* const kTable = [] {
    auto* table = new RowTable();
    FillDtype<Half>(*table);
    FillDtype<BFloat16>(*table);
    FillDtype<float>(*table);
    FillDtype<double>(*table);
    return table;
  }();
  return *kTable;
}

}  // namespace tensord::cpu::TENSORD_ISA_NAMESPACE
