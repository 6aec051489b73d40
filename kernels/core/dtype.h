// Element types of tensors: names, sizes, kinds, and the way from a run-time Dtype to a C++ type.
//
//   DtypeName(Dtype::kFloat32)            "float32"
//   ParseDtype("int8")                    Dtype::kInt8
//   VisitDtype(dtype, [&]<class T>() { Fill(static_cast<T*>(out)); });
//
// Standard library only: device code includes this file. Everything here is thread safe.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/core/half.h"

namespace tensord {

// Values are the wire's (tensord.v1.Dtype). kNone means "not said".
enum class Dtype : uint8_t {
  kNone = 0,
#define TENSORD_DTYPE(name, Enum, ctype, number, bytes, Kind) Enum = number,
#include "kernels/core/dtype.def"
#undef TENSORD_DTYPE
};

// Kinds in the order of promotion.
enum class DtypeKind : uint8_t { kBool, kUnsigned, kSigned, kReal, kComplex };

// Number of dtypes plus one: the size of a table indexed by Dtype.
inline constexpr int kDtypeCount = 16;

// "float32"; "none" for kNone and numbers that are no dtype.
std::string_view DtypeName(Dtype dtype);
// Empty where the name is no dtype. Takes the exact names only.
std::optional<Dtype> ParseDtype(std::string_view name);
// "bool, int8, …": for messages.
std::string_view KnownDtypes();
// True for the dtypes of dtype.def.
constexpr bool IsValid(Dtype d) { return d > Dtype::kNone && static_cast<int>(d) < kDtypeCount; }

// Bytes of one element; 0 for kNone.
constexpr size_t ItemSize(Dtype dtype) {
  switch (dtype) {
#define TENSORD_DTYPE(name, Enum, ctype, number, bytes, Kind) \
  case Dtype::Enum:                                           \
    return bytes;
#include "kernels/core/dtype.def"
#undef TENSORD_DTYPE
    default:
      return 0;
  }
}

// The kind; kBool for kNone.
constexpr DtypeKind KindOf(Dtype dtype) {
  switch (dtype) {
#define TENSORD_DTYPE(name, Enum, ctype, number, bytes, Kind) \
  case Dtype::Enum:                                           \
    return DtypeKind::Kind;
#include "kernels/core/dtype.def"
#undef TENSORD_DTYPE
    default:
      return DtypeKind::kBool;
  }
}

constexpr bool IsInteger(Dtype d) { return KindOf(d) == DtypeKind::kSigned || KindOf(d) == DtypeKind::kUnsigned; }
constexpr bool IsReal(Dtype d) { return KindOf(d) == DtypeKind::kReal; }
constexpr bool IsComplex(Dtype d) { return KindOf(d) == DtypeKind::kComplex; }
// Real or complex.
constexpr bool IsFloating(Dtype d) { return IsReal(d) || IsComplex(d); }

// The Dtype of a C++ storage type: DtypeOf<float> is kFloat32.
template <class T>
inline constexpr Dtype DtypeOf = Dtype::kNone;
#define TENSORD_DTYPE(name, Enum, ctype, number, bytes, Kind) \
  template <>                                                 \
  inline constexpr Dtype DtypeOf<ctype> = Dtype::Enum;        \
  static_assert(sizeof(ctype) == bytes);
#include "kernels/core/dtype.def"
#undef TENSORD_DTYPE

// Calls `f.template operator()<T>()` with the storage type of `dtype`, complex types left out (a later family takes
// them): `f` is never called for complex or kNone. Returns whether it was called.
template <class F>
constexpr bool VisitDtype(Dtype dtype, F&& f) {
  switch (dtype) {
#define TENSORD_DTYPE(name, Enum, ctype, number, bytes, Kind) \
  case Dtype::Enum:                                           \
    if constexpr (DtypeKind::Kind != DtypeKind::kComplex) {   \
      f.template operator()<ctype>();                         \
      return true;                                            \
    }                                                         \
    return false;
#include "kernels/core/dtype.def"
#undef TENSORD_DTYPE
    default:
      return false;
  }
}

}  // namespace tensord
