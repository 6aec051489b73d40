// From nothing: Create and Constant.
#include <cmath>
#include <utility>

#include "kernels/ops/infer_internal.h"

namespace tensord::infer_internal {
namespace {

// A wide integer: differences of 64-bit numbers do not overflow.
using Wide = __int128;

absl::Status CheckDtype(const OpRow& row, Dtype dtype) {
  if (!IsValid(dtype)) {
    return Refuse(Reason::kDtypeUnknown, row)
        .With("value", DtypeName(dtype))
        .With("known", KnownDtypes())
        .At(FieldPath(row, "spec.dtype"));
  }
  if (IsComplex(dtype)) {
    return Refuse(Reason::kOpUnsupported, row)
        .With("dtype", DtypeName(dtype))
        .With("device", "any device")
        .With("supported", KnownDtypes());
  }
  return absl::OkStatus();
}

// The scalar operand i, null where it is left out. Error: ARITY_INVALID for a tensor.
absl::StatusOr<const Scalar*> ScalarAt(const Call& call, size_t i) {
  if (!call.has(i)) return nullptr;
  const OperandType& operand = call.operands[i];
  if (operand.tensor == nullptr) return operand.scalar;
  return Refuse(Reason::kArityInvalid, call.row)
      .With("expected", StrCat("a scalar as ", OperandName(call.row, i)))
      .With("got", operand.tensor->ToString())
      .At(StrCat("inputs[", i, "]"));
}

absl::Status CheckFits(const Call& call, size_t i, const Scalar& scalar, Dtype dtype) {
  alignas(8) unsigned char element[8];
  const absl::Status status = StoreScalar(scalar, dtype, element);
  if (status.ok()) return status;
  ErrorDetails details = DetailsOf(status);
  details.metadata.emplace_back("op", call.row.name);
  details.fields.emplace_back(StrCat("scalars[", i, "]"), std::string(status.message()));
  return StatusWithDetails(status.code(), std::string(status.message()), details);
}

absl::Status ScalarInvalid(const Call& call, size_t i, const Scalar& scalar, std::string_view allowed) {
  return Refuse(Reason::kAttributeInvalid, call.row)
      .With("attribute", OperandName(call.row, i))
      .With("value", scalar.ToString())
      .With("allowed", allowed)
      .At(StrCat("scalars[", i, "]"));
}

// What a fill value or a bound makes where the spec has no dtype.
Dtype DefaultDtype(const Scalar& scalar) {
  if (scalar.dtype != Dtype::kNone) return scalar.dtype;
  switch (scalar.kind()) {
    case DtypeKind::kBool:
      return Dtype::kBool;
    case DtypeKind::kReal:
      return Dtype::kFloat32;
    default:
      return Dtype::kInt64;
  }
}

Wide WideOf(const Scalar& scalar) {
  if (const uint64_t* u = std::get_if<uint64_t>(&scalar.value)) return static_cast<Wide>(*u);
  return static_cast<Wide>(scalar.AsInt64());
}

Scalar ScalarOf(Wide value) {
  Scalar scalar;
  if (value > INT64_MAX) {
    scalar.value = static_cast<uint64_t>(value);
  } else {
    scalar.value = static_cast<int64_t>(value);
  }
  return scalar;
}

struct ArangeBounds {
  const Scalar* start;
  const Scalar* stop;
  const Scalar* step;
  bool whole;  // integers all three: counted exactly
};

// A count that no tensor can have.
absl::Status TooMany(const Call& call, std::string_view count, Dtype dtype) {
  return Refuse(Reason::kShapeInvalid, call.row)
      .With("shape", StrCat("[", count, "]"))
      .With("item_bytes", ItemSize(dtype))
      .At("scalars");
}

absl::StatusOr<int64_t> CountWhole(const Call& call, const ArangeBounds& b, Dtype dtype) {
  const Wide start = WideOf(*b.start);
  const Wide step = WideOf(*b.step);
  const Wide span = WideOf(*b.stop) - start;
  if (step == 0) return ScalarInvalid(call, 2, *b.step, "any number but 0");
  if ((span > 0) != (step > 0) || span == 0) return 0;
  const Wide count = step > 0 ? (span + step - 1) / step : (span + step + 1) / step;
  if (count > INT64_MAX) return TooMany(call, "more than 2^63", dtype);
  if (IsInteger(dtype)) {
    // The stop itself need not fit: arange(0, 256) is fine as uint8.
    const Scalar last = ScalarOf(start + (count - 1) * step);
    TENSORD_RETURN_IF_ERROR(CheckFits(call, 0, *b.start, dtype));
    TENSORD_RETURN_IF_ERROR(CheckFits(call, call.operands.size() > 1 ? 1 : 0, last, dtype));
  }
  return static_cast<int64_t>(count);
}

absl::StatusOr<int64_t> CountReal(const Call& call, const ArangeBounds& b, Dtype dtype) {
  const double start = b.start->AsDouble();
  const double stop = b.stop->AsDouble();
  const double step = b.step->AsDouble();
  for (const auto& [i, scalar] : {std::pair<size_t, const Scalar*>{0, b.start}, {1, b.stop}, {2, b.step}}) {
    if (!std::isfinite(scalar->AsDouble())) return ScalarInvalid(call, i, *scalar, "a finite number");
  }
  if (step == 0) return ScalarInvalid(call, 2, *b.step, "any number but 0");
  const double count = std::ceil((stop - start) / step);
  if (count <= 0) return 0;
  if (!(count < 9223372036854775808.0)) return TooMany(call, StrCat(count), dtype);
  return static_cast<int64_t>(count);
}

absl::StatusOr<Inference> InferArange(const Call& call, const CreateAttributes& attributes) {
  static const Scalar kZero{int64_t{0}};
  static const Scalar kOne{int64_t{1}};
  if (!attributes.spec.type.shape.empty()) {
    return AttributeInvalid(call.row, "spec.shape", ShapeText(attributes.spec.type.shape),
                            "none: start, stop and step tell it");
  }
  ArangeBounds b{};
  TENSORD_ASSIGN_OR_RETURN(b.start, ScalarAt(call, 0));
  TENSORD_ASSIGN_OR_RETURN(b.stop, ScalarAt(call, 1));
  TENSORD_ASSIGN_OR_RETURN(b.step, ScalarAt(call, 2));
  if (b.stop == nullptr) b.stop = std::exchange(b.start, &kZero);
  if (b.step == nullptr) b.step = &kOne;
  b.whole = true;
  for (const Scalar* scalar : {b.start, b.stop, b.step}) b.whole &= scalar->kind() != DtypeKind::kReal;
  Dtype dtype = attributes.spec.type.dtype;
  if (dtype == Dtype::kNone) dtype = b.whole ? Dtype::kInt64 : Dtype::kFloat32;
  TENSORD_RETURN_IF_ERROR(CheckDtype(call.row, dtype));
  TENSORD_RETURN_IF_ERROR(ApplyTypeRule(call.row, dtype).status());
  if (IsInteger(dtype) && !b.whole) {
    return Refuse(Reason::kDtypeMismatch, call.row)
        .With("dtypes", StrCat(DtypeName(dtype), " and a real number"))
        .Say("why", "a range of integers has integers for start, stop and step");
  }
  if (IsReal(dtype)) {
    TENSORD_RETURN_IF_ERROR(CheckFits(call, 0, *b.start, dtype));
  }
  const absl::StatusOr<int64_t> count = b.whole ? CountWhole(call, b, dtype) : CountReal(call, b, dtype);
  if (!count.ok()) return count.status();
  return OneResult(call.row, dtype, Dims{*count}, dtype);
}

}  // namespace

absl::StatusOr<Inference> InferCreate(const Call& call) {
  const auto& attributes = call.attributes<CreateAttributes>();
  const OpRow& row = call.row;
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "seed", attributes.seed.has_value()));
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "seed_offset", attributes.seed_offset != 0));
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "diagonal", attributes.diagonal != 0));
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "exclude_stop", attributes.exclude_stop));
  if (row.op == Op::kArange) return InferArange(call, attributes);

  const Dims& shape = attributes.spec.type.shape;
  Dtype dtype = attributes.spec.type.dtype;
  if (dtype == Dtype::kNone && row.op == Op::kFull) {
    TENSORD_ASSIGN_OR_RETURN(const Scalar* value, ScalarAt(call, 0));
    dtype = DefaultDtype(*value);
  } else if (dtype == Dtype::kNone && row.op != Op::kUpload) {
    dtype = Dtype::kFloat32;
  }
  TENSORD_RETURN_IF_ERROR(CheckDtype(row, dtype));
  TENSORD_RETURN_IF_ERROR(ApplyTypeRule(row, dtype).status());
  for (size_t i = 0; i < call.operands.size(); ++i) {
    TENSORD_ASSIGN_OR_RETURN(const Scalar* scalar, ScalarAt(call, i));
    TENSORD_RETURN_IF_ERROR(CheckFits(call, i, *scalar, dtype));
  }
  if (row.op == Op::kEye && shape.size() != 2) {
    return AttributeInvalid(row, "spec.shape", ShapeText(shape), "two sizes, rows and columns");
  }
  if (row.op == Op::kLinspace && shape.size() != 1) {
    return AttributeInvalid(row, "spec.shape", ShapeText(shape), "one size, how many numbers");
  }
  return OneResult(row, dtype, shape, row.op == Op::kUpload ? Dtype::kNone : dtype);
}

absl::StatusOr<Inference> InferConstant(const Call& call) {
  const auto& attributes = call.attributes<ConstantAttributes>();
  const TensorType& type = attributes.spec.type;
  TENSORD_RETURN_IF_ERROR(CheckDtype(call.row, type.dtype));
  TENSORD_RETURN_IF_ERROR(CheckResult(call.row, type.dtype, type.shape));
  const auto refuse = [&] {
    return Refuse(Reason::kDataInvalid, call.row)
        .With("expected_bytes", type.bytes())
        .With("got_bytes", attributes.data.size())
        .At("constant.data");
  };
  if (static_cast<uint64_t>(type.bytes()) != attributes.data.size()) return refuse();
  if (type.dtype == Dtype::kBool) {
    for (size_t i = 0; i < attributes.data.size(); ++i) {
      const auto byte = static_cast<unsigned char>(attributes.data[i]);
      if (byte > 1) return refuse().With("element", i).Say("why", StrCat("a bool is byte 0 or 1, not ", +byte));
    }
  }
  return OneResult(call.row, type.dtype, type.shape, Dtype::kNone);
}

}  // namespace tensord::infer_internal
