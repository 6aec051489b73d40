// One value that is not a tensor: an operand written in place.
//
// Without a dtype a scalar is weak: it takes the dtype of the tensors beside it, and is refused where the value does
// not fit that dtype's kind. With one it counts as a 0-d tensor of that dtype. An empty scalar marks an operand left
// out.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "kernels/core/dtype.h"

namespace tensord {

struct Scalar {
  // uint64_t only for values above 2^63 - 1.
  std::variant<std::monostate, bool, int64_t, uint64_t, double> value;
  Dtype dtype = Dtype::kNone;

  bool operator==(const Scalar&) const = default;
  bool absent() const { return std::holds_alternative<std::monostate>(value); }
  // Kind of the value itself: kBool, kSigned (any integer) or kReal.
  DtypeKind kind() const;
  // Nearest double.
  double AsDouble() const;
  // Wraps from uint64, truncates and saturates from double (NaN gives 0).
  int64_t AsInt64() const;
  // "2.5", "True", "3"; "-" where absent.
  std::string ToString() const;
};

// Writes the scalar as one element of `dtype` (not complex) to `out` (ItemSize bytes). Error: SCALAR_RANGE where the
// kind or the range does not fit: a real for an integer dtype, -1 for an unsigned one, 300 for int8, a finite real
// beyond float16's largest. An integer goes into a real dtype rounded to nearest; anything goes into bool as `!= 0`.
absl::Status StoreScalar(const Scalar& scalar, Dtype dtype, void* out);

}  // namespace tensord
