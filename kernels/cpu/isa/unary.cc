// The loops of the Unary rows.
#include "kernels/ops/functors/unary.h"

#include "kernels/cpu/isa/loop_kinds.h"

namespace tensord::cpu::TENSORD_ISA_NAMESPACE {
namespace {

namespace f = functors;

template <class F>
inline constexpr bool kSignless = kOneOf<F, f::BitwiseInvert, f::LogicalNot, f::Negative, f::Square>;
// Nothing to do for an integer.
template <class F>
inline constexpr bool kKeepsIntegers = kOneOf<F, f::Ceil, f::Floor, f::Positive, f::Round, f::Trunc>;
// The same answer for every integer.
template <class F>
inline constexpr bool kConstantForIntegers = kOneOf<F, f::IsFinite, f::IsInf, f::IsNan>;

template <class F, TypeRule kRule>
void Fill(Loop (&row)[kDtypeCount]) {
  ForEachLoopType([&row]<class T>() {
    if constexpr (Takes<kRule, T>()) {
      Loop& loop = row[static_cast<int>(DtypeOf<T>)];
      if constexpr (std::is_integral_v<T> && kKeepsIntegers<F>) {
        loop = kCopy<sizeof(T)>;
      } else if constexpr (std::is_integral_v<T> && kConstantForIntegers<F>) {
        loop = UnaryLoop<uint8_t, bool, F>;
      } else {
        using L = typename LoopType<T, kSignless<F>>::Type;
        loop = UnaryLoop<L, decltype(F()(L())), F>;
      }
    }
  });
}

}  // namespace

void FillUnary(LoopTable& table) {
#define TENSORD_UNARY(Enum, name, Types, summary) \
  Fill<f::Enum, TypeRule::Types>(table.ops[static_cast<int>(Op::k##Enum)]);
#define TENSORD_OP(Enum, name, Family, Types, operands, results, fields, summary)
#include "kernels/ops/ops.def"
#undef TENSORD_OP
  for (const Dtype half : {Dtype::kFloat16, Dtype::kBfloat16}) {
    table.ops[static_cast<int>(Op::kPositive)][static_cast<int>(half)] = kCopy<2>;
  }
}

}  // namespace tensord::cpu::TENSORD_ISA_NAMESPACE
