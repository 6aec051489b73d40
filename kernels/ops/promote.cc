// Promotion: what dtype operands are brought to, and what a row's type rule makes of it. The table is in infer.h.
#include <algorithm>
#include <array>

#include "kernels/ops/infer_internal.h"

namespace tensord {
namespace {

constexpr Dtype WidestReal(Dtype a, Dtype b) {
  if (a == b) return a;
  if (a == Dtype::kFloat64 || b == Dtype::kFloat64) return Dtype::kFloat64;
  return Dtype::kFloat32;  // float16 beside bfloat16 included: neither holds the other
}

constexpr Dtype PromoteIntegers(Dtype a, Dtype b) {
  const bool a_signed = KindOf(a) == DtypeKind::kSigned;
  const bool b_signed = KindOf(b) == DtypeKind::kSigned;
  if (a_signed == b_signed) return ItemSize(a) >= ItemSize(b) ? a : b;
  const Dtype s = a_signed ? a : b;
  const Dtype u = a_signed ? b : a;
  if (ItemSize(s) > ItemSize(u)) return s;
  switch (ItemSize(u)) {
    case 1:
      return Dtype::kInt16;
    case 2:
      return Dtype::kInt32;
    case 4:
      return Dtype::kInt64;
    default:
      return Dtype::kNone;  // uint64: no integer dtype holds both
  }
}

// Where NumPy's table (the real dtype must hold every value of the integer dtype) and PyTorch's (the real dtype wins)
// say the same. bfloat16 is no dtype of NumPy's own, so nothing but bool is agreed on.
constexpr bool RealHolds(Dtype real, Dtype integer) {
  switch (real) {
    case Dtype::kFloat64:
      return true;
    case Dtype::kFloat32:
      return ItemSize(integer) <= 2;
    case Dtype::kFloat16:
      return ItemSize(integer) == 1;
    default:
      return false;
  }
}

constexpr Dtype PromotePair(Dtype a, Dtype b) {
  if (!IsValid(a) || !IsValid(b) || IsComplex(a) || IsComplex(b)) return Dtype::kNone;
  if (a == b) return a;
  if (a == Dtype::kBool) return b;
  if (b == Dtype::kBool) return a;
  if (IsReal(a) && IsReal(b)) return WidestReal(a, b);
  if (IsReal(a)) return RealHolds(a, b) ? a : Dtype::kNone;
  if (IsReal(b)) return RealHolds(b, a) ? b : Dtype::kNone;
  return PromoteIntegers(a, b);
}

constexpr auto kTable = [] {
  std::array<std::array<Dtype, kDtypeCount>, kDtypeCount> table{};
  for (int a = 0; a < kDtypeCount; ++a) {
    for (int b = 0; b < kDtypeCount; ++b) {
      table[a][b] = PromotePair(static_cast<Dtype>(a), static_cast<Dtype>(b));
    }
  }
  return table;
}();

}  // namespace

Dtype Promote(Dtype a, Dtype b) {
  const auto i = static_cast<size_t>(a);
  const auto j = static_cast<size_t>(b);
  return i < kTable.size() && j < kTable.size() ? kTable[i][j] : Dtype::kNone;
}

namespace infer_internal {
namespace {

// The dtype an operand brings along; kNone for a weak scalar and for one left out.
Dtype FirmDtype(const OperandType& operand) {
  if (operand.tensor) return operand.tensor->dtype;
  if (operand.scalar && !operand.scalar->absent()) return operand.scalar->dtype;
  return Dtype::kNone;
}

bool IsWeak(const OperandType& operand) {
  return operand.tensor == nullptr && !operand.absent() && operand.scalar->dtype == Dtype::kNone;
}

absl::Status RefusePair(const OpRow& row, Dtype a, Dtype b) {
  std::string why;
  if (IsReal(a) != IsReal(b)) {
    const Dtype real = IsReal(a) ? a : b;
    const Dtype integer = IsReal(a) ? b : a;
    why = StrCat("what an integer this wide makes beside a real is left open; cast the ", DtypeName(integer),
                 " operand to ", DtypeName(real), " first");
  } else {
    why = "no integer dtype holds both; cast one operand first, for example uint64 to int64";
  }
  return Refuse(Reason::kDtypeMismatch, row)
      .With("dtypes", StrCat(DtypeName(a), " and ", DtypeName(b)))
      .Say("why", why);
}

// The scalar as one element of `dtype`; the path names it among the instruction's scalars.
absl::Status CheckScalar(const Call& call, const Scalar& scalar, Dtype dtype) {
  alignas(8) unsigned char element[8];
  absl::Status status = StoreScalar(scalar, dtype, element);
  if (status.ok() && dtype == Dtype::kBool && scalar.dtype == Dtype::kBool && scalar.kind() != DtypeKind::kBool &&
      scalar.AsDouble() != 0 && scalar.AsDouble() != 1) {
    status = Error(Reason::kScalarRange)
                 .With("value", scalar.ToString())
                 .With("dtype", DtypeName(dtype))
                 .With("minimum", "False")
                 .With("maximum", "True");
  }
  if (status.ok()) return status;
  ErrorDetails details = DetailsOf(status);
  size_t position = 0;
  for (const OperandType& operand : call.operands) {
    if (operand.scalar == &scalar) break;
    if (operand.tensor == nullptr) ++position;
  }
  details.metadata.emplace_back("op", call.row.name);
  details.fields.emplace_back(StrCat("scalars[", position, "]"), std::string(status.message()));
  return StatusWithDetails(status.code(), std::string(status.message()), details);
}

// The real dtypes first, then the others one by one, so that the order of operands does not matter.
absl::StatusOr<Dtype> PromoteFirm(const OpRow& row, absl::Span<const OperandType> operands) {
  Dtype result = Dtype::kNone;
  for (const bool reals : {true, false}) {
    for (const OperandType& operand : operands) {
      const Dtype dtype = FirmDtype(operand);
      if (dtype == Dtype::kNone || IsReal(dtype) != reals) continue;
      if (result == Dtype::kNone) {
        result = dtype;
        continue;
      }
      const Dtype joined = Promote(result, dtype);
      if (joined == Dtype::kNone) {
        const bool later = FirmDtype(operands.front()) == dtype;  // named in the order of the operands
        return later ? RefusePair(row, dtype, result) : RefusePair(row, result, dtype);
      }
      result = joined;
    }
  }
  return result;
}

// What a weak scalar makes of the dtype that the firm operands promote to.
absl::StatusOr<Dtype> JoinWeak(const OpRow& row, Dtype firm, const Scalar& scalar) {
  const DtypeKind kind = scalar.kind();
  if (kind == DtypeKind::kReal && !IsReal(firm)) {
    return Refuse(Reason::kDtypeMismatch, row)
        .With("dtypes", StrCat(DtypeName(firm), " and the real number ", scalar.ToString()))
        .Say("why", "a real number goes beside a real tensor; cast the tensor to float32 first");
  }
  // PyTorch and NumPy agree: a whole number beside truth values counts as int64.
  if (kind == DtypeKind::kSigned && firm == Dtype::kBool) return Dtype::kInt64;
  return firm;
}

}  // namespace

absl::StatusOr<Dtype> PromoteOperands(const Call& call, absl::Span<const OperandType> operands) {
  // The common case costs nothing: tensors of one dtype.
  if (operands.size() <= 2 && operands.front().tensor && operands.back().tensor &&
      operands.front().tensor->dtype == operands.back().tensor->dtype) {
    return operands.front().tensor->dtype;
  }
  for (const OperandType& operand : operands) {
    if (operand.tensor || operand.absent() || operand.scalar->dtype == Dtype::kNone) continue;
    TENSORD_RETURN_IF_ERROR(CheckScalar(call, *operand.scalar, operand.scalar->dtype));
  }
  TENSORD_ASSIGN_OR_RETURN(Dtype result, PromoteFirm(call.row, operands));
  if (result == Dtype::kNone) {
    DtypeKind kind = DtypeKind::kBool;
    for (const OperandType& operand : operands) {
      if (IsWeak(operand)) kind = std::max(kind, operand.scalar->kind());
    }
    result = kind == DtypeKind::kReal ? Dtype::kFloat32 : kind == DtypeKind::kBool ? Dtype::kBool : Dtype::kInt64;
  } else {
    for (const OperandType& operand : operands) {
      if (!IsWeak(operand)) continue;
      TENSORD_ASSIGN_OR_RETURN(result, JoinWeak(call.row, result, *operand.scalar));
    }
  }
  for (const OperandType& operand : operands) {
    if (IsWeak(operand)) TENSORD_RETURN_IF_ERROR(CheckScalar(call, *operand.scalar, result));
  }
  return result;
}

absl::StatusOr<Dtype> ApplyTypeRule(const OpRow& row, Dtype compute) {
  const auto refuse = [&](std::string_view why) -> absl::Status {
    return Refuse(Reason::kDtypeMismatch, row).With("dtypes", DtypeName(compute)).Say("why", why);
  };
  constexpr std::string_view kReals = "it takes real numbers; cast to float32 first";
  constexpr std::string_view kNumbers = "it takes numbers; cast to int64 first";
  switch (row.types) {
    case TypeRule::kAny:
      return compute;
    case TypeRule::kAnyToBool:
      return Dtype::kBool;
    case TypeRule::kNumeric:
      return compute == Dtype::kBool ? refuse(kNumbers) : absl::StatusOr<Dtype>(compute);
    case TypeRule::kNumericToBool:
      return compute == Dtype::kBool ? refuse(kNumbers) : absl::StatusOr<Dtype>(Dtype::kBool);
    case TypeRule::kNumericToIndex:
      return compute == Dtype::kBool ? refuse(kNumbers) : absl::StatusOr<Dtype>(Dtype::kInt64);
    case TypeRule::kInteger:
      return IsInteger(compute) ? absl::StatusOr<Dtype>(compute)
                                : refuse("it takes integers; cast to an integer dtype first");
    case TypeRule::kBoolOrInteger:
      return IsReal(compute) ? refuse("it takes integers and truth values; cast to an integer dtype first")
                             : absl::StatusOr<Dtype>(compute);
    case TypeRule::kReal:
      return IsReal(compute) ? absl::StatusOr<Dtype>(compute) : refuse(kReals);
    case TypeRule::kRealToBool:
      return IsReal(compute) ? absl::StatusOr<Dtype>(Dtype::kBool) : refuse(kReals);
    case TypeRule::kNumericToWide:
      if (IsReal(compute)) return compute;
      return KindOf(compute) == DtypeKind::kUnsigned ? Dtype::kUint64 : Dtype::kInt64;
  }
  return Error(Reason::kInternal).With("id", row.name);
}

}  // namespace infer_internal

bool Takes(const OpRow& row, Dtype compute) {
  return !IsComplex(compute) && infer_internal::ApplyTypeRule(row, compute).ok();
}

}  // namespace tensord
