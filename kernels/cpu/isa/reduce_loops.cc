// The loops of reduce_loops.h.
#include "kernels/cpu/reduce_loops.h"

#include "kernels/cpu/isa/combine.h"
#include "kernels/cpu/isa/half_bits.h"
#include "kernels/cpu/isa/loop_kinds.h"

namespace tensord::cpu::TENSORD_ISA_NAMESPACE {
namespace {

template <class T, class U>
inline U ToLane(Stored<T> value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return static_cast<U>(ToFloat(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else {
    return static_cast<U>(value);
  }
}

template <class T>
inline uint8_t ToNonZero(Stored<T> value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return (value.bits & 0x7fffu) != 0;
  } else {
    return value != 0;
  }
}

template <class T, class U, bool kNonZero>
void Load(void* out, const void* in, int64_t rows, int64_t row_stride, int64_t n, int64_t stride) {
  auto* __restrict to = static_cast<U*>(out);
  const auto* from = static_cast<const Stored<T>*>(in);
  for (int64_t r = 0; r < rows; ++r) {
    const auto* row = from + r * row_stride;
    if (stride == 1) {
      for (int64_t j = 0; j < n; ++j) {
        if constexpr (kNonZero) {
          to[j] = ToNonZero<T>(row[j]);
        } else {
          to[j] = ToLane<T, U>(row[j]);
        }
      }
    } else {
      for (int64_t j = 0; j < n; ++j) {
        if constexpr (kNonZero) {
          to[j] = ToNonZero<T>(row[j * stride]);
        } else {
          to[j] = ToLane<T, U>(row[j * stride]);
        }
      }
    }
    to += n;
  }
}

template <Combine kCombine, class U, class A>
void Rows(const void* in, int64_t row_stride, int64_t rows, int64_t n, void* out) {
  constexpr int kWide = 256 / sizeof(U);
  constexpr int kNarrow = 32 / sizeof(U) > 8 ? 32 / sizeof(U) : 8;
  const U* x = static_cast<const U*>(in);
  A* to = static_cast<A*>(out);
  for (int64_t r = 0; r < rows; ++r, x += row_stride) {
    if (n >= 2 * kWide) {
      to[r] = Interleaved<kCombine, A, U, kWide>(x, n);
    } else if (n >= kNarrow) {
      to[r] = Interleaved<kCombine, A, U, kNarrow>(x, n);
    } else {
      A total = Arithmetic<kCombine, A>::Identity();
      for (int64_t i = 0; i < n; ++i) total = Arithmetic<kCombine, A>::Apply(total, static_cast<A>(x[i]));
      to[r] = total;
    }
  }
}

template <Combine kCombine, class U, class A>
void Columns(const void* in, int64_t row_stride, int64_t rows, int64_t width, void* accumulator) {
  using Op = Arithmetic<kCombine, U>;
  using Total = Arithmetic<kCombine, A>;
  A* __restrict to = static_cast<A*>(accumulator);
  const U* x = static_cast<const U*>(in);
  int64_t r = 0;
  for (; r + 8 <= rows; r += 8, x += 8 * row_stride) {
    const U* __restrict x0 = x;
    const U* __restrict x1 = x0 + row_stride;
    const U* __restrict x2 = x1 + row_stride;
    const U* __restrict x3 = x2 + row_stride;
    const U* __restrict x4 = x3 + row_stride;
    const U* __restrict x5 = x4 + row_stride;
    const U* __restrict x6 = x5 + row_stride;
    const U* __restrict x7 = x6 + row_stride;
    for (int64_t j = 0; j < width; ++j) {
      const U low = Op::Apply(Op::Apply(x0[j], x1[j]), Op::Apply(x2[j], x3[j]));
      const U high = Op::Apply(Op::Apply(x4[j], x5[j]), Op::Apply(x6[j], x7[j]));
      to[j] = Total::Apply(to[j], static_cast<A>(Op::Apply(low, high)));
    }
  }
  for (; r < rows; ++r, x += row_stride) {
    for (int64_t j = 0; j < width; ++j) to[j] = Total::Apply(to[j], static_cast<A>(x[j]));
  }
}

template <Combine kCombine, class U>
void ArgColumns(const void* in, int64_t row_stride, int64_t rows, int64_t width, int64_t first, int64_t step,
                void* best, void* index_data) {
  // As wide as the lane, so that both fit one mask.
  using Index = std::conditional_t<sizeof(U) == 8, int64_t, int32_t>;
  U* __restrict value = static_cast<U*>(best);
  Index* __restrict index = static_cast<Index*>(index_data);
  const U* x = static_cast<const U*>(in);
  for (int64_t r = 0; r < rows; ++r, x += row_stride) {
    const auto place = static_cast<Index>(first + r * step);
    for (int64_t j = 0; j < width; ++j) {
      const bool take = Arithmetic<kCombine, U>::Beats(x[j], value[j]);
      value[j] = take ? x[j] : value[j];
      index[j] = take ? place : index[j];
    }
  }
}

template <class U>
inline bool SameOrBothNan(U a, U b) {
  return (a == b) | ((a != a) & (b != b));
}

template <class U>
int64_t Find(const void* in, int64_t n, const void* value, bool last) {
  constexpr int64_t kBlock = 64;
  const U* x = static_cast<const U*>(in);
  const U wanted = *static_cast<const U*>(value);
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t begin = (last ? blocks - 1 - b : b) * kBlock;
    const int64_t end = begin + kBlock < n ? begin + kBlock : n;
    int found = 0;
    for (int64_t i = begin; i < end; ++i) found |= SameOrBothNan(x[i], wanted);
    if (!found) continue;
    if (last) {
      for (int64_t i = end; i-- > begin;) {
        if (SameOrBothNan(x[i], wanted)) return i;
      }
    } else {
      for (int64_t i = begin; i < end; ++i) {
        if (SameOrBothNan(x[i], wanted)) return i;
      }
    }
  }
  return -1;
}

template <Combine kCombine, class U>
bool Beats(const void* a, const void* b) {
  return Arithmetic<kCombine, U>::Beats(*static_cast<const U*>(a), *static_cast<const U*>(b));
}

template <class U>
void ShiftRows(void* inout, int64_t rows, int64_t n, const void* shift) {
  U* x = static_cast<U*>(inout);
  const U* by = static_cast<const U*>(shift);
  for (int64_t r = 0; r < rows; ++r, x += n) {
    const U s = by[r];
    for (int64_t j = 0; j < n; ++j) x[j] -= s;
  }
}

template <class U>
void ShiftColumns(void* inout, int64_t rows, int64_t n, const void* shift) {
  U* __restrict x = static_cast<U*>(inout);
  const U* __restrict by = static_cast<const U*>(shift);
  for (int64_t r = 0; r < rows; ++r, x += n) {
    for (int64_t j = 0; j < n; ++j) x[j] -= by[j];
  }
}

template <class U>
void Square(void* inout, int64_t n) {
  U* x = static_cast<U*>(inout);
  for (int64_t i = 0; i < n; ++i) x[i] *= x[i];
}

template <class T, class U>
void AddLoad(ReduceLoops& loops, Lane lane) {
  loops.load[static_cast<int>(DtypeOf<T>)][static_cast<int>(lane)] = &Load<T, U, false>;
}

// Narrow integers are summed as int32, which a tile cannot overflow, and multiplied as int64.
template <class T>
void AddNarrow(ReduceLoops& loops) {
  AddLoad<T, int32_t>(loops, Lane::kI32);
  AddLoad<T, int64_t>(loops, Lane::kI64);
}

template <Combine kCombine, class U, class A>
void AddCombine(ReduceLoops& loops, Lane lane) {
  loops.rows[static_cast<int>(kCombine)][static_cast<int>(lane)] = &Rows<kCombine, U, A>;
  loops.columns[static_cast<int>(kCombine)][static_cast<int>(lane)] = &Columns<kCombine, U, A>;
}

template <Combine kCombine, class U>
void AddOrder(ReduceLoops& loops, Lane lane) {
  AddCombine<kCombine, U, U>(loops, lane);
  loops.arg_columns[static_cast<int>(kCombine)][static_cast<int>(lane)] = &ArgColumns<kCombine, U>;
  loops.beats[static_cast<int>(kCombine)][static_cast<int>(lane)] = &Beats<kCombine, U>;
}

template <class U>
void AddLane(ReduceLoops& loops, Lane lane) {
  AddOrder<Combine::kMax, U>(loops, lane);
  AddOrder<Combine::kMin, U>(loops, lane);
  loops.find[static_cast<int>(lane)] = &Find<U>;
}

template <class U>
void AddReal(ReduceLoops& loops, Lane lane) {
  AddCombine<Combine::kSum, U, U>(loops, lane);
  AddCombine<Combine::kProd, U, U>(loops, lane);
  loops.shift_rows[static_cast<int>(lane)] = &ShiftRows<U>;
  loops.shift_columns[static_cast<int>(lane)] = &ShiftColumns<U>;
  loops.square[static_cast<int>(lane)] = &Square<U>;
}

void Fill(ReduceLoops& loops) {
  AddNarrow<bool>(loops);
  AddNarrow<int8_t>(loops);
  AddNarrow<int16_t>(loops);
  AddNarrow<uint8_t>(loops);
  AddNarrow<uint16_t>(loops);
  AddNarrow<int32_t>(loops);
  AddLoad<bool, uint8_t>(loops, Lane::kU8);
  AddLoad<uint8_t, uint8_t>(loops, Lane::kU8);
  AddLoad<uint32_t, int64_t>(loops, Lane::kI64);
  AddLoad<int64_t, int64_t>(loops, Lane::kI64);
  AddLoad<uint64_t, int64_t>(loops, Lane::kI64);
  AddLoad<uint64_t, uint64_t>(loops, Lane::kU64);
  AddLoad<Half, float>(loops, Lane::kF32);
  AddLoad<BFloat16, float>(loops, Lane::kF32);
  AddLoad<float, float>(loops, Lane::kF32);
  AddLoad<double, double>(loops, Lane::kF64);
#define TENSORD_DTYPE(name, Enum, ctype, number, bytes, Kind) \
  if constexpr (DtypeKind::Kind != DtypeKind::kComplex) loops.load_nonzero[number] = &Load<ctype, uint8_t, true>;
#include "kernels/core/dtype.def"
#undef TENSORD_DTYPE
  AddLane<float>(loops, Lane::kF32);
  AddLane<double>(loops, Lane::kF64);
  AddLane<int32_t>(loops, Lane::kI32);
  AddLane<int64_t>(loops, Lane::kI64);
  AddLane<uint64_t>(loops, Lane::kU64);
  AddLane<uint8_t>(loops, Lane::kU8);
  AddReal<float>(loops, Lane::kF32);
  AddReal<double>(loops, Lane::kF64);
  AddCombine<Combine::kSum, int32_t, int64_t>(loops, Lane::kI32);
  AddCombine<Combine::kSum, int64_t, int64_t>(loops, Lane::kI64);
  AddCombine<Combine::kProd, int64_t, int64_t>(loops, Lane::kI64);
}

}  // namespace

const ReduceLoops& ReduceTable() {
  static const ReduceLoops* const kTable = [] {
    auto* loops = new ReduceLoops();
    Fill(*loops);
    return loops;
  }();
  return *kTable;
}

}  // namespace tensord::cpu::TENSORD_ISA_NAMESPACE
