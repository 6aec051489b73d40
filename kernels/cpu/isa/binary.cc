// The loops of the Binary rows.
#include "kernels/ops/functors/binary.h"

#include "kernels/cpu/isa/loop_kinds.h"

namespace tensord::cpu::TENSORD_ISA_NAMESPACE {
namespace {

namespace f = functors;

template <class F>
inline constexpr bool kSignless =
    kOneOf<F, f::Add, f::BitwiseAnd, f::BitwiseLeftShift, f::BitwiseOr, f::BitwiseXor, f::Multiply, f::Subtract>;

template <class F, TypeRule kRule>
void Fill(Loop (&row)[kDtypeCount]) {
  ForEachLoopType([&row]<class T>() {
    if constexpr (Takes<kRule, T>()) {
      using L = typename LoopType<T, kSignless<F>>::Type;
      row[static_cast<int>(DtypeOf<T>)] = BinaryLoop<L, L, F>;
    }
  });
}

}  // namespace

void FillBinary(LoopTable& table) {
#define TENSORD_BINARY(Enum, name, Types, summary) \
  Fill<f::Enum, TypeRule::Types>(table.ops[static_cast<int>(Op::k##Enum)]);
#define TENSORD_OP(Enum, name, Family, Types, operands, results, fields, summary)
#include "kernels/ops/ops.def"
#undef TENSORD_OP
}

}  // namespace tensord::cpu::TENSORD_ISA_NAMESPACE
