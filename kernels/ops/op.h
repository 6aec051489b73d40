// The op table as C++: enum, rows, look-up by name.
//
// Standard library only: device code includes this file.
#pragma once

#include <cstdint>
#include <string_view>

namespace tensord {

enum class Op : uint16_t {
  kNone = 0,
#define TENSORD_OP(Enum, name, Family, Types, operands, results, fields, summary) k##Enum,
#include "kernels/ops/ops.def"
#undef TENSORD_OP
};

enum class Family : uint8_t {
  kNone = 0,
#define TENSORD_FAMILY(Enum, name, attributes) Enum,
#include "kernels/ops/families.def"
#undef TENSORD_FAMILY
};

// Which dtypes an op takes, and the dtype of its result (complex is a later issue: no rule takes it yet).
enum class TypeRule : uint8_t {
  kAny,             // every dtype; the result has the promoted one
  kNumeric,         // all but bool
  kInteger,         // signed and unsigned
  kBoolOrInteger,   // bool, signed, unsigned
  kReal,            // float16, bfloat16, float32, float64
  kAnyToBool,       // every dtype; the result is bool
  kNumericToBool,   // all but bool; the result is bool
  kRealToBool,      // reals; the result is bool
  kNumericToIndex,  // all but bool; the result is int64
  kNumericToWide,   // all dtypes; bool and signed become int64, unsigned uint64, reals stay
};

struct OpRow {
  Op op = Op::kNone;
  std::string_view name;
  Family family = Family::kNone;
  TypeRule types = TypeRule::kAny;
  std::string_view operands;
  std::string_view results;
  std::string_view fields;
  std::string_view summary;
  // From `operands`: how many must be there, and how many there may be (-1: any number).
  int min_operands = 0;
  int max_operands = 0;
};

inline constexpr int kOpCount = 0
#define TENSORD_OP(Enum, name, Family, Types, operands, results, fields, summary) +1
#include "kernels/ops/ops.def"
#undef TENSORD_OP
    ;

// The row of an op; of kNone an empty one.
const OpRow& RowOf(Op op);
// kNone where no op has that name.
Op FindOp(std::string_view name);
// "unary".
std::string_view FamilyName(Family family);
// The field of Instruction.attributes, or "".
std::string_view FamilyAttributes(Family family);
// Unary, Binary, Compare, Select, Convert (cast): one loop over elements, no look at neighbours.
constexpr bool IsElementwise(Family f) {
  return f == Family::kUnary || f == Family::kBinary || f == Family::kCompare || f == Family::kSelect;
}

}  // namespace tensord
