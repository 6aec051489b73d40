// The loops of the Compare and Select rows.
#include "kernels/ops/functors/compare.h"

#include "kernels/cpu/isa/loop_kinds.h"
#include "kernels/ops/functors/select.h"

namespace tensord::cpu::TENSORD_ISA_NAMESPACE {
namespace {

namespace f = functors;

template <class F>
inline constexpr bool kSignless = kOneOf<F, f::Equal, f::LogicalAnd, f::LogicalOr, f::LogicalXor, f::NotEqual>;

template <class F, TypeRule kRule>
void Fill(Loop (&row)[kDtypeCount]) {
  ForEachLoopType([&row]<class T>() {
    if constexpr (Takes<kRule, T>()) {
      using L = typename LoopType<T, kSignless<F>>::Type;
      row[static_cast<int>(DtypeOf<T>)] = BinaryLoop<L, bool, F>;
    }
  });
}

// Elements are moved, not computed with: by width.
template <class T>
void WhereLoop(void* out, const void* const* inputs, int64_t n) {
  auto* const o = static_cast<T*>(out);
  const auto* const condition = static_cast<const uint8_t*>(inputs[0]);
  const auto* const a = static_cast<const T*>(inputs[1]);
  const auto* const b = static_cast<const T*>(inputs[2]);
  const int64_t m = Whole(n);
#pragma omp simd
  for (int64_t i = 0; i < m; ++i) o[i] = f::Where()(condition[i] != 0, a[i], b[i]);
}

}  // namespace

void FillCompare(LoopTable& table) {
#define TENSORD_COMPARE(Enum, name, Types, summary) \
  Fill<f::Enum, TypeRule::Types>(table.ops[static_cast<int>(Op::k##Enum)]);
#define TENSORD_OP(Enum, name, Family, Types, operands, results, fields, summary)
#include "kernels/ops/ops.def"
#undef TENSORD_OP
  for (int d = 1; d < kDtypeCount; ++d) {
    Loop& where = table.ops[static_cast<int>(Op::kWhere)][d];
    switch (ItemSize(static_cast<Dtype>(d))) {
      case 1:
        where = WhereLoop<uint8_t>;
        break;
      case 2:
        where = WhereLoop<uint16_t>;
        break;
      case 4:
        where = WhereLoop<uint32_t>;
        break;
      case 8:
        where = WhereLoop<uint64_t>;
        break;
      default:
        break;
    }
  }
  table.ops[static_cast<int>(Op::kWhere)][static_cast<int>(Dtype::kComplex64)] = nullptr;
}

}  // namespace tensord::cpu::TENSORD_ISA_NAMESPACE
