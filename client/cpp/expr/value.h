// Values of the expression language: what a name or an expression can be.
//
// Numbers, strings, lists, dtypes and devices live in the client. Tensors and models live in the daemon; here they
// are references, or, for a
// tensor that nobody has needed yet, the instruction that will make it (graph.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/core/device_id.h"
#include "kernels/core/dtype.h"
#include "kernels/core/scalar.h"
#include "server/engine/types.h"

namespace tensord::expr {

struct TensorNode;
using TensorPtr = std::shared_ptr<TensorNode>;

struct None {
  bool operator==(const None&) const = default;
};
struct Ellipsis {
  bool operator==(const Ellipsis&) const = default;
};

struct Value;
struct ListValue {
  std::vector<Value> items;
  bool tuple = false;
  // Each item on a line of its own when printed: lists of parameters.
  bool one_per_line = false;
};
using ListPtr = std::shared_ptr<const ListValue>;

// start:stop:step in a subscript; a part left out is empty.
struct SliceValue {
  std::optional<int64_t> start, stop, step;
};

// A device by name; whether it exists is the daemon's to say when it is used.
struct DeviceValue {
  DeviceId id;
  bool operator==(const DeviceValue&) const = default;
};

// Layers as the user wrote them: a model that is not made yet.
struct LayersValue {
  Layer layer;
  std::string device;  // of .to(); empty: cpu
};
using LayersPtr = std::shared_ptr<const LayersValue>;

// A model in the daemon, or a part of it by path.
struct ModelValue {
  ModelRef ref;
  ModelInfo info;
  // Ends the handle of a model that has no name.
  std::shared_ptr<void> handle;
  // Known where this session made it; for printing and for net[0].
  LayersPtr layers;
  std::string path;  // "" is the whole model, "0" its first layer
};
using ModelPtr = std::shared_ptr<const ModelValue>;

// A module that is built in: torch, nn, …
struct Namespace {
  std::string name;
};
// A function by name, perhaps bound to what stood before the point.
struct Function {
  std::string name;
  std::shared_ptr<const Value> self;
};

struct Value {
  // uint64_t only for values above 2^63 - 1.
  std::variant<None, bool, int64_t, uint64_t, double, std::string, Dtype, DeviceValue, ListPtr, SliceValue, Ellipsis,
               TensorPtr, LayersPtr, ModelPtr, Namespace, Function>
      v;

  Value() = default;
  template <class T>
  requires(!std::same_as<std::remove_cvref_t<T>, Value>) Value(T&& value)
      : v(std::forward<T>(value)) {}  // NOLINT(google-explicit-constructor)

  template <class T>
  const T* As() const {
    return std::get_if<T>(&v);
  }
  template <class T>
  bool Is() const {
    return std::holds_alternative<T>(v);
  }
  bool IsNumber() const { return Is<bool>() || Is<int64_t>() || Is<uint64_t>() || Is<double>(); }
  bool IsInteger() const { return Is<int64_t>() || Is<uint64_t>(); }
  // "a tensor", "an integer": for messages.
  std::string KindText() const;
};

inline Value MakeList(std::vector<Value> items, bool tuple = false) {
  return Value(ListPtr(std::make_shared<ListValue>(ListValue{std::move(items), tuple, false})));
}
Value MakeSizes(absl::Span<const int64_t> sizes);  // a tuple

// The number as an operand; the value must be one (IsNumber).
Scalar ToScalar(const Value& value);
Value FromScalar(const Scalar& scalar);
// The exact integer, or empty.
std::optional<int64_t> ToInteger(const Value& value);

// Python's repr of everything but tensors and models, which need the daemon; those are named by kind.
std::string HostText(const Value& value);
std::string DeviceText(const DeviceId& device);  // "device(type='cuda', index=0)"
std::string StringText(std::string_view text);   // in single quotes, escaped

// Arithmetic of two numbers as Python does it, exact for integers. `op` is + - * / // % ** & | ^ << >>.
// Error: EXPRESSION-free text of what is wrong ("division by zero"), or the value.
struct Arithmetic {
  std::optional<Value> value;
  std::string problem;
};
Arithmetic Compute(std::string_view op, const Value& left, const Value& right);
Arithmetic Negate(const Value& value);
Arithmetic Invert(const Value& value);
// -1, 0, 1; 2 where unordered (NaN).
int Compare(const Value& left, const Value& right);

}  // namespace tensord::expr
