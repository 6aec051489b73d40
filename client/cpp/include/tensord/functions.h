// Operations as functions: what has a literal on the left, several tensors, or many parameters. The op table gives the
// rest of them the same names.
//
//   td::Tensor y = td::where(x > 0.0, x, 0.0);
//   td::Tensor z = td::concat({x, y}, /*axis=*/1);
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tensord/tensor.h"

namespace tensord::client {

#define TENSORD_OP(Enum, name, Family, Types, operands, results, fields, summary)
#define TENSORD_UNARY(Enum, name, Types, summary) Tensor name(const Tensor& x);
#define TENSORD_BINARY(Enum, name, Types, summary) Tensor name(const Operand& x1, const Operand& x2);
#define TENSORD_COMPARE(Enum, name, Types, summary) Tensor name(const Operand& x1, const Operand& x2);
#define TENSORD_REDUCE(Enum, name, Types, fields, summary) \
  Tensor name(const Tensor& x, const ReduceOptions& options = {});
#include "tensord/ops.def"
#undef TENSORD_OP

// x1 where condition is true, x2 elsewhere.
Tensor where(const Tensor& condition, const Operand& x1, const Operand& x2);
// min(max(x, min), max); a bound may be left out: clip(x, {}, 6.0).
Tensor clip(const Operand& x, const Operand& min, const Operand& max);
Tensor matmul(const Tensor& x1, const Tensor& x2);
// x @ weight.T + bias, weight as (out, in).
Tensor linear(const Tensor& x, const Tensor& weight, const Operand& bias = {});
Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);
Tensor concat(const std::vector<Tensor>& tensors, int axis = 0);
Tensor stack(const std::vector<Tensor>& tensors, int axis = 0);
Tensor take(const Tensor& x, const Tensor& indices, int axis = 0);

// Windows over (batch, channels, space…). Empty lists: 1 for strides and dilations, 0 for pads, the window's size for a
// pool's strides.
struct WindowOptions {
  Shape sizes = {};  // pools: required
  Shape strides = {};
  Shape dilations = {};
  Shape pads_begin = {};
  Shape pads_end = {};
  int64_t groups = 1;       // convolutions
  bool ceil_mode = false;   // pools: round the output size up
  bool count_pads = false;  // avg_pool: padding counts
};
Tensor conv(const Tensor& x, const Tensor& weight, const Operand& bias = {}, const WindowOptions& options = {});
Tensor max_pool(const Tensor& x, const WindowOptions& options);
Tensor avg_pool(const Tensor& x, const WindowOptions& options);
Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& variance, const Operand& weight = {},
                  const Operand& bias = {}, double epsilon = 1e-5);
// Over the axes from `axis` on.
Tensor layer_norm(const Tensor& x, int axis, const Operand& weight = {}, const Operand& bias = {},
                  double epsilon = 1e-5);

// The operators with a literal on the left.
#define TENSORD_CLIENT_OPERATOR(symbol, name)                            \
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0> \
  Tensor operator symbol(T a, const Tensor& b) {                         \
    return name(Operand(a), Operand(b));                                 \
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

}  // namespace tensord::client
