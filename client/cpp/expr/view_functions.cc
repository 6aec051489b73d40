// Views: PyTorch's and NumPy's ways to write them.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "client/cpp/expr/arguments.h"
#include "client/cpp/expr/functions.h"

namespace tensord::expr {
namespace {

absl::StatusOr<Value> View(Env& env, Op op, const TensorPtr& tensor, ViewAttributes attributes) {
  TENSORD_ASSIGN_OR_RETURN(TensorPtr result, env.graph->Apply(op, {tensor}, std::move(attributes)));
  return Value(std::move(result));
}

absl::StatusOr<Axes> ToAxes(const ArgumentReader& read, const Dims& sizes) {
  Axes axes;
  for (const int64_t size : sizes) {
    if (size < INT32_MIN || size > INT32_MAX) return read.Invalid("axis", Value(size), "an axis of the tensor");
    axes.push_back(static_cast<int32_t>(size));
  }
  return axes;
}

int Rank(const TensorPtr& tensor) { return static_cast<int>(tensor->spec.type.shape.size()); }

absl::Status AxisProblem(std::string_view op, int64_t axis, int rank) {
  return Error(Reason::kAxisInvalid).With("op", op).With("axis", axis).With("rank", rank);
}

absl::StatusOr<Value> Reshape(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "reshape", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x,input"));
  ViewAttributes a;
  TENSORD_ASSIGN_OR_RETURN(a.shape, read.Sizes("shape"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  return View(env, Op::kReshape, x, std::move(a));
}

absl::StatusOr<Value> Permute(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "permute", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x,input"));
  TENSORD_ASSIGN_OR_RETURN(const Dims order, read.Sizes("axes,dims"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  ViewAttributes a;
  TENSORD_ASSIGN_OR_RETURN(a.axes, ToAxes(read, order));
  return View(env, Op::kPermute, x, std::move(a));
}

absl::StatusOr<Value> Swap(Env& env, std::string_view name, const TensorPtr& x, int64_t first, int64_t second) {
  const int rank = Rank(x);
  ViewAttributes a;
  a.axes.resize(static_cast<size_t>(rank));
  std::iota(a.axes.begin(), a.axes.end(), 0);
  for (int64_t* axis : {&first, &second}) {
    if (*axis < -rank || *axis >= rank) return AxisProblem(name, *axis, rank);
    if (*axis < 0) *axis += rank;
  }
  std::swap(a.axes[static_cast<size_t>(first)], a.axes[static_cast<size_t>(second)]);
  return View(env, Op::kPermute, x, std::move(a));
}

absl::StatusOr<Value> Reverse(Env& env, const TensorPtr& x) {
  ViewAttributes a;
  for (int axis = Rank(x) - 1; axis >= 0; --axis) a.axes.push_back(axis);
  return View(env, Op::kPermute, x, std::move(a));
}

// transpose(X, 0, 1) as PyTorch; transpose(X) and transpose(X, (2, 0, 1)) as NumPy.
absl::StatusOr<Value> Transpose(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "transpose", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x,input"));
  const Value* first = read.Optional("dim0,axis1,axes");
  const Value* second = read.Optional("dim1,axis2");
  TENSORD_RETURN_IF_ERROR(read.Finish());
  if (first == nullptr && second == nullptr) return Reverse(env, x);
  if (first != nullptr && second == nullptr && first->Is<ListPtr>()) {
    const std::optional<Dims> order = AsSizes(*first);
    if (!order) return read.Invalid("axes", *first, "integers");
    ViewAttributes a;
    TENSORD_ASSIGN_OR_RETURN(a.axes, ToAxes(read, *order));
    return View(env, Op::kPermute, x, std::move(a));
  }
  for (const Value* axis : {first, second}) {
    if (axis == nullptr || !ToInteger(*axis)) return read.Invalid("dim", axis == nullptr ? Value() : *axis, "two axes");
  }
  return Swap(env, "transpose", x, *ToInteger(*first), *ToInteger(*second));
}

absl::StatusOr<Value> MatrixTranspose(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "matrix_transpose", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x,input"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  return Swap(env, "matrix_transpose", x, -2, -1);
}

absl::StatusOr<Value> T(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "t", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x,input"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  if (Rank(x) > 2) return AxisProblem("t", 2, Rank(x));
  return Reverse(env, x);
}

absl::StatusOr<Value> Squeeze(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "squeeze", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x,input"));
  const Value* axes = read.Optional("axis,dim,axes");
  TENSORD_RETURN_IF_ERROR(read.Finish());
  ViewAttributes a;
  if (axes == nullptr) {
    const Dims& shape = x->spec.type.shape;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 1) a.axes.push_back(static_cast<int32_t>(i));
    }
    if (a.axes.empty()) return Value(x);
  } else {
    const std::optional<Dims> sizes = AsSizes(*axes);
    if (!sizes) return read.Invalid("axis", *axes, "an integer, or a tuple of integers");
    TENSORD_ASSIGN_OR_RETURN(a.axes, ToAxes(read, *sizes));
  }
  return View(env, Op::kSqueeze, x, std::move(a));
}

absl::StatusOr<Value> Unsqueeze(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "unsqueeze", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x,input"));
  TENSORD_ASSIGN_OR_RETURN(const Value* axes, read.Required("axis,dim,axes"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  const std::optional<Dims> sizes = AsSizes(*axes);
  if (!sizes) return read.Invalid("axis", *axes, "an integer, or a tuple of integers");
  ViewAttributes a;
  TENSORD_ASSIGN_OR_RETURN(a.axes, ToAxes(read, *sizes));
  return View(env, Op::kUnsqueeze, x, std::move(a));
}

// -1 keeps a size, as in PyTorch.
absl::StatusOr<Value> Expand(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "expand", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x,input"));
  ViewAttributes a;
  TENSORD_ASSIGN_OR_RETURN(a.shape, read.Sizes("shape,size,sizes"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  const Dims& shape = x->spec.type.shape;
  for (size_t i = 0; i < std::min(shape.size(), a.shape.size()); ++i) {
    int64_t& size = a.shape[a.shape.size() - 1 - i];
    if (size == -1) size = shape[shape.size() - 1 - i];
  }
  return View(env, Op::kExpand, x, std::move(a));
}

absl::StatusOr<Value> Diagonal(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "diagonal", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x,input"));
  ViewAttributes a;
  TENSORD_ASSIGN_OR_RETURN(a.diagonal, read.Integer("offset,diagonal", 0));
  TENSORD_ASSIGN_OR_RETURN(const int64_t first, read.Integer("dim1,axis1", -2));
  TENSORD_ASSIGN_OR_RETURN(const int64_t second, read.Integer("dim2,axis2", -1));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  TENSORD_ASSIGN_OR_RETURN(a.axes, ToAxes(read, {first, second}));
  return View(env, Op::kDiagonal, x, std::move(a));
}

// The row's own form: slice(X, axes=[0], starts=[1], stops=[3], steps=[1]). X[1:3] is the short one.
absl::StatusOr<Value> Slice(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "slice", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x,input"));
  ViewAttributes a;
  Dims axes;
  for (const auto& [name, target] : {std::pair<std::string_view, Dims*>{"axes,axis", &axes},
                                     {"starts,start", &a.starts},
                                     {"stops,stop", &a.stops},
                                     {"steps,step", &a.steps}}) {
    const Value* value = read.Optional(name);
    if (value == nullptr) continue;
    const std::optional<Dims> sizes = AsSizes(*value);
    if (!sizes) return read.Invalid(name, *value, "integers");
    *target = *sizes;
  }
  TENSORD_RETURN_IF_ERROR(read.Finish());
  TENSORD_ASSIGN_OR_RETURN(a.axes, ToAxes(read, axes));
  return View(env, Op::kSlice, x, std::move(a));
}

absl::StatusOr<Value> Flatten(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "flatten", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x,input"));
  TENSORD_ASSIGN_OR_RETURN(int64_t start, read.Integer("start_dim", 0));
  TENSORD_ASSIGN_OR_RETURN(int64_t end, read.Integer("end_dim", -1));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  const Dims& shape = x->spec.type.shape;
  const auto rank = static_cast<int64_t>(shape.size());
  ViewAttributes a;
  if (rank == 0) {
    a.shape = {1};
    return View(env, Op::kReshape, x, std::move(a));
  }
  for (int64_t* axis : {&start, &end}) {
    if (*axis < -rank || *axis >= rank) return AxisProblem("flatten", *axis, static_cast<int>(rank));
    if (*axis < 0) *axis += rank;
  }
  if (start > end) return AxisProblem("flatten", end, static_cast<int>(rank));
  int64_t size = 1;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t n = shape[static_cast<size_t>(i)];
    if (i < start || i > end) {
      a.shape.push_back(n);
      continue;
    }
    // The tensor exists or was checked, so its sizes multiply without overflow, unless one is 0.
    if (__builtin_mul_overflow(size, n, &size)) size = 0;
    if (i == end) a.shape.push_back(size);
  }
  return View(env, Op::kReshape, x, std::move(a));
}

constexpr auto kViews = std::to_array<Builtin>({{"reshape", Reshape},
                                                {"view", Reshape},
                                                {"permute", Permute},
                                                {"permute_dims", Permute},
                                                {"transpose", Transpose},
                                                {"swapaxes", Transpose},
                                                {"matrix_transpose", MatrixTranspose},
                                                {"t", T},
                                                {"squeeze", Squeeze},
                                                {"unsqueeze", Unsqueeze},
                                                {"expand_dims", Unsqueeze},
                                                {"expand", Expand},
                                                {"broadcast_to", Expand},
                                                {"diagonal", Diagonal},
                                                {"slice", Slice},
                                                {"flatten", Flatten},
                                                {"ravel", Flatten}});

}  // namespace

absl::Span<const Builtin> ViewFunctions() { return kViews; }

}  // namespace tensord::expr
