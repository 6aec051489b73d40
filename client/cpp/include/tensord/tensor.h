// A tensor on the daemon.
//
//   td::Tensor z = x.matmul(y).sum({0}, /*keepdims=*/true);
//   absl::StatusOr<std::vector<float>> values = z.get<float>();
//
// A Tensor is a handle: copying one costs nothing, and when the last copy goes, the daemon frees the tensor. Tensors
// never change. Shape, dtype and device are mostly known without asking: the library infers them as the daemon does.
//
// A handle is a name for a tensor or for the reason why there is none. Operations on such a one are allowed and give
// more of them; reading one tells the first cause.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensord/types.h"

namespace tensord {
class TensorHandle;  // of the implementation
}

namespace tensord::client {

class Operand;

// How a reduction treats its axes.
struct ReduceOptions {
  std::optional<Axes> axes = {};  // absent: all of them
  bool keepdims = false;
  Dtype dtype = Dtype::kNone;  // sum, prod: of the result
  double correction = 0;       // var, std: taken from the divisor
  bool last_index = false;     // argmax, argmin: the last of equals
};

class Tensor {
 public:
  // No tensor at all: reading it fails with FAILED_PRECONDITION.
  Tensor();
  ~Tensor();
  Tensor(const Tensor&);
  Tensor& operator=(const Tensor&);
  Tensor(Tensor&&) noexcept;
  Tensor& operator=(Tensor&&) noexcept;

  // Known at once where the library can infer them; otherwise they wait for the daemon. Error: why there is no tensor.
  absl::StatusOr<Shape> shape() const;
  absl::StatusOr<Dtype> dtype() const;
  absl::StatusOr<std::string> device() const;
  // "float32[2,3] on cuda:0", or the error's message.
  std::string description() const;

  // Waits until the values are there. Error: the first cause, with its origin.
  absl::Status wait() const;
  // Brings the values here, in row-major order. T must be the dtype's own type: DTYPE_MISMATCH otherwise; cast first.
  template <class T>
  absl::StatusOr<std::vector<T>> get(const Progress& progress = nullptr) const;
  // The same into memory that is there, exactly as many elements as the tensor has (DATA_INVALID otherwise).
  template <class T>
  absl::Status get_into(std::span<T> out, const Progress& progress = nullptr) const;
  // The only element. Error: DATA_INVALID where there is not just one.
  template <class T>
  absl::StatusOr<T> item() const;
  // Little-endian bytes in row-major order, whatever the dtype.
  absl::StatusOr<std::string> bytes(const Progress& progress = nullptr) const;

  // Where it lives. On the device where it is already the same handle comes back and nothing is copied. `cpu` is the
  // daemon's: `get` brings values here.
  Tensor to(const std::string& device) const;
  Tensor cpu() const;
  Tensor cuda(int index = 0) const;
  Tensor cast(Dtype dtype) const;

  // Other looks at the same elements.
  Tensor reshape(const Shape& shape) const;  // one size may be -1
  Tensor permute(const Axes& axes) const;
  Tensor transpose() const;  // the last two axes exchanged
  Tensor expand(const Shape& shape) const;
  Tensor squeeze(const Axes& axes) const;
  Tensor unsqueeze(const Axes& axes) const;
  Tensor diagonal(int64_t offset = 0) const;
  // start:stop:step along an axis with Python's rules; absent: from end to end.
  Tensor slice(int axis, std::optional<int64_t> start, std::optional<int64_t> stop = std::nullopt,
               int64_t step = 1) const;
  // One position along the first axis, which disappears: x[i].
  Tensor operator[](int64_t index) const;

  Tensor matmul(const Tensor& other) const;
  Tensor softmax(int axis = -1) const;
  Tensor log_softmax(int axis = -1) const;
  Tensor take(const Tensor& indices, int axis = 0) const;
  Tensor clip(const Operand& min, const Operand& max) const;

  // From the op table: exp(), relu() …; add(y), less(2.0) …; sum(), sum({0}, keepdims) ….
#define TENSORD_OP(Enum, name, Family, Types, operands, results, fields, summary)
#define TENSORD_UNARY(Enum, name, Types, summary) Tensor name() const;
#define TENSORD_BINARY(Enum, name, Types, summary) Tensor name(const Operand& other) const;
#define TENSORD_COMPARE(Enum, name, Types, summary) Tensor name(const Operand& other) const;
#define TENSORD_REDUCE(Enum, name, Types, fields, summary) \
  Tensor name(const ReduceOptions& options = {}) const;    \
  Tensor name(const Axes& axes, bool keepdims = false) const;
#include "tensord/ops.def"
#undef TENSORD_OP

  // For the library's own sources.
  explicit Tensor(std::shared_ptr<TensorHandle> handle);
  const std::shared_ptr<TensorHandle>& handle() const { return handle_; }

 private:
  std::shared_ptr<TensorHandle> handle_;
};

// What an operation takes: a tensor, a literal, or nothing. A literal takes the dtype of the tensor beside it, and is
// refused where it does not fit.
class Operand {
 public:
  Operand() = default;                                  // left out, as one bound of clip
  Operand(Tensor tensor) : value(std::move(tensor)) {}  // NOLINT(google-explicit-constructor)
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Operand(T number) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_same_v<T, bool>) {
      value = number;
    } else if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<double>(number);
    } else if constexpr (std::is_unsigned_v<T>) {
      value = static_cast<uint64_t>(number);
    } else {
      value = static_cast<int64_t>(number);
    }
  }

  std::variant<std::monostate, Tensor, bool, int64_t, uint64_t, double> value;
};

// Arithmetic and comparison, element by element, with NumPy's broadcasting. A comparison gives a tensor of bools. With
// the literal on the left: functions.h.
#define TENSORD_CLIENT_OPERATOR(symbol, name)                                                    \
  inline Tensor operator symbol(const Tensor& a, const Tensor& b) { return a.name(Operand(b)); } \
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>                         \
  Tensor operator symbol(const Tensor& a, T b) {                                                 \
    return a.name(Operand(b));                                                                   \
  }

TENSORD_CLIENT_OPERATOR(+, add)
TENSORD_CLIENT_OPERATOR(-, subtract)
TENSORD_CLIENT_OPERATOR(*, multiply)
TENSORD_CLIENT_OPERATOR(/, divide)
TENSORD_CLIENT_OPERATOR(%, remainder)
TENSORD_CLIENT_OPERATOR(==, equal)
TENSORD_CLIENT_OPERATOR(!=, not_equal)
TENSORD_CLIENT_OPERATOR(<, less)
TENSORD_CLIENT_OPERATOR(<=, less_equal)
TENSORD_CLIENT_OPERATOR(>, greater)
TENSORD_CLIENT_OPERATOR(>=, greater_equal)
TENSORD_CLIENT_OPERATOR(&, bitwise_and)
TENSORD_CLIENT_OPERATOR(|, bitwise_or)
TENSORD_CLIENT_OPERATOR(^, bitwise_xor)
#undef TENSORD_CLIENT_OPERATOR
inline Tensor operator-(const Tensor& x) { return x.negative(); }
inline Tensor operator~(const Tensor& x) { return x.bitwise_invert(); }

}  // namespace tensord::client
