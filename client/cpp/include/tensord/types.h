// Dtypes, shapes, options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace tensord::client {

// The element type of a tensor.
enum class Dtype : uint8_t {
  kNone = 0,  // not said
  kBool = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint8 = 6,
  kUint16 = 7,
  kUint32 = 8,
  kUint64 = 9,
  kFloat16 = 10,
  kBfloat16 = 11,
  kFloat32 = 12,
  kFloat64 = 13,
};

inline constexpr Dtype bool_ = Dtype::kBool;
inline constexpr Dtype int8 = Dtype::kInt8;
inline constexpr Dtype int16 = Dtype::kInt16;
inline constexpr Dtype int32 = Dtype::kInt32;
inline constexpr Dtype int64 = Dtype::kInt64;
inline constexpr Dtype uint8 = Dtype::kUint8;
inline constexpr Dtype uint16 = Dtype::kUint16;
inline constexpr Dtype uint32 = Dtype::kUint32;
inline constexpr Dtype uint64 = Dtype::kUint64;
inline constexpr Dtype float16 = Dtype::kFloat16;
inline constexpr Dtype bfloat16 = Dtype::kBfloat16;
inline constexpr Dtype float32 = Dtype::kFloat32;
inline constexpr Dtype float64 = Dtype::kFloat64;

// "float32".
std::string_view dtype_name(Dtype dtype);
// Bytes of one element; 0 for kNone.
size_t item_size(Dtype dtype);

// Two-byte elements as they lie in memory; to compute with them, cast to float32 on the daemon.
struct Float16 {
  uint16_t bits = 0;
  bool operator==(const Float16&) const = default;
};
struct Bfloat16 {
  uint16_t bits = 0;
  bool operator==(const Bfloat16&) const = default;
};

// The dtype of a C++ type; kNone where it has none.
template <class T>
inline constexpr Dtype dtype_of = Dtype::kNone;
template <>
inline constexpr Dtype dtype_of<bool> = Dtype::kBool;
template <>
inline constexpr Dtype dtype_of<int8_t> = Dtype::kInt8;
template <>
inline constexpr Dtype dtype_of<int16_t> = Dtype::kInt16;
template <>
inline constexpr Dtype dtype_of<int32_t> = Dtype::kInt32;
template <>
inline constexpr Dtype dtype_of<int64_t> = Dtype::kInt64;
template <>
inline constexpr Dtype dtype_of<uint8_t> = Dtype::kUint8;
template <>
inline constexpr Dtype dtype_of<uint16_t> = Dtype::kUint16;
template <>
inline constexpr Dtype dtype_of<uint32_t> = Dtype::kUint32;
template <>
inline constexpr Dtype dtype_of<uint64_t> = Dtype::kUint64;
template <>
inline constexpr Dtype dtype_of<Float16> = Dtype::kFloat16;
template <>
inline constexpr Dtype dtype_of<Bfloat16> = Dtype::kBfloat16;
template <>
inline constexpr Dtype dtype_of<float> = Dtype::kFloat32;
template <>
inline constexpr Dtype dtype_of<double> = Dtype::kFloat64;

// Sizes, outermost first; empty for a 0-d tensor.
using Shape = std::vector<int64_t>;
// Axes; negative ones count from the end.
using Axes = std::vector<int>;

// Where and as what a tensor is made. Devices are "cpu", "cuda:0"; "cuda" is "cuda:0".
struct TensorOptions {
  Dtype dtype = Dtype::kNone;  // kNone: float32; arange, full and upload take it from their values
  std::string device = {};     // empty: "cpu"
};

// Called with bytes done and bytes in all, from the calling thread; at the end both are equal.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

}  // namespace tensord::client
