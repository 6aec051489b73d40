// What ops need beside their operands: one struct a family, the same fields as tensord.v1's messages.
// Plain data: an instruction can be stored, sent and compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "kernels/core/shape.h"

namespace tensord {

using Axes = absl::InlinedVector<int32_t, 6>;

struct CreateAttributes {
  SpecRequest spec;
  // Absent: the engine fills in the session's generator at submission, together with seed_offset.
  std::optional<uint64_t> seed;
  uint64_t seed_offset = 0;  // counter of the first element, in elements
  int64_t diagonal = 0;
  bool exclude_stop = false;
  bool operator==(const CreateAttributes&) const = default;
};

// Values that come along: raw little-endian bytes in row-major order, exactly as many as the spec says (the wire
// decoder checked it).
struct ConstantAttributes {
  SpecRequest spec;
  std::string data;
  bool operator==(const ConstantAttributes&) const = default;
};

struct ConvertAttributes {
  Dtype dtype = Dtype::kNone;  // cast
  std::string device;          // to
  bool copy = false;           // to: a copy even where it is there already
  bool operator==(const ConvertAttributes&) const = default;
};

struct ReduceAttributes {
  Axes axes;
  bool all_axes = false;
  bool keepdims = false;
  Dtype dtype = Dtype::kNone;
  double correction = 0;
  bool last_index = false;
  bool operator==(const ReduceAttributes&) const = default;
};

struct ViewAttributes {
  Dims shape;
  Axes axes;
  Dims starts;
  Dims stops;
  Dims steps;
  int64_t diagonal = 0;
  bool operator==(const ViewAttributes&) const = default;
};

struct JoinAttributes {
  int32_t axis = 0;
  bool operator==(const JoinAttributes&) const = default;
};

struct IndexAttributes {
  int32_t axis = 0;
  bool operator==(const IndexAttributes&) const = default;
};

// How exact a float32 product is; values are the wire's.
enum class Precision : uint8_t { kFloat32 = 0, kTf32 = 1, kBfloat16 = 2 };

struct MatmulAttributes {
  bool transpose_a = false;
  bool transpose_b = false;
  Precision precision = Precision::kFloat32;
  bool operator==(const MatmulAttributes&) const = default;
};

// Lists have one entry a spatial axis, or are empty for the default (1; pads 0; stride of a pool: its size).
struct WindowAttributes {
  Dims sizes;
  Dims strides;
  Dims dilations;
  Dims pads_begin;
  Dims pads_end;
  int64_t groups = 0;  // 0 means 1
  bool ceil_mode = false;
  bool count_pads = false;
  Precision precision = Precision::kFloat32;
  bool operator==(const WindowAttributes&) const = default;
};

struct NormAttributes {
  int32_t axis = 0;
  double epsilon = 0;
  bool operator==(const NormAttributes&) const = default;
};

// A model by handle or by name.
struct ModelRef {
  uint64_t id = 0;   // handle, or 0
  std::string name;  // published name, or empty
  bool operator==(const ModelRef&) const = default;
};

struct CallAttributes {
  uint64_t program = 0;           // a registered program of the session, or 0
  std::optional<ModelRef> model;  // or a model
  bool operator==(const CallAttributes&) const = default;
};

using Attributes = std::variant<std::monostate, CreateAttributes, ConstantAttributes, ConvertAttributes,
                                ReduceAttributes, ViewAttributes, JoinAttributes, IndexAttributes, MatmulAttributes,
                                WindowAttributes, NormAttributes, CallAttributes>;

// The attributes as T, or T's defaults where there are none. The reference lives as long as `attributes`.
template <class T>
const T& AttributesAs(const Attributes& attributes) {
  static const T kDefaults;
  const T* p = std::get_if<T>(&attributes);
  return p ? *p : kDefaults;
}

}  // namespace tensord
