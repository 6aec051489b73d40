#include "tests/oracle/families.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tensord::oracle {
namespace {

using Real = long double;

constexpr Real kNan = std::numeric_limits<Real>::quiet_NaN();

bool Larger(const Number& a, const Number& b) { return a.is_real ? a.real > b.real : a.integer > b.integer; }
bool IsNan(const Number& a) { return a.is_real && std::isnan(a.real); }

Dims Without(const Dims& shape, size_t axis) {
  Dims out = shape;
  out.erase(out.begin() + static_cast<std::ptrdiff_t>(axis));
  return out;
}

// The last two axes swapped.
Array SwapLast(const Array& x) {
  Axes axes;
  for (size_t i = 0; i < x.type.shape.size(); ++i) axes.push_back(static_cast<int32_t>(i));
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return Permute(x, axes);
}

Array WithShape(Array x, const Dims& shape) {
  x.type.shape = shape;
  return x;
}

Number ReduceList(std::string_view op, const std::vector<Number>& list, bool real, const ReduceAttributes& attributes) {
  const auto n = static_cast<Real>(list.size());
  if (op == "any" || op == "all") {
    const bool any = std::any_of(list.begin(), list.end(), [](const Number& x) { return x.IsTrue(); });
    const bool all = std::all_of(list.begin(), list.end(), [](const Number& x) { return x.IsTrue(); });
    return Number::Integer(op == "any" ? any : all);
  }
  if (op == "max" || op == "min" || op == "argmax" || op == "argmin") {
    size_t best = 0;
    for (size_t i = 1; i < list.size(); ++i) {
      if (IsNan(list[best])) break;
      const bool better =
          IsNan(list[i]) || (op.ends_with("max") ? Larger(list[i], list[best]) : Larger(list[best], list[i]));
      if (better) best = i;
    }
    if (attributes.last_index) {
      for (size_t i = best + 1; i < list.size(); ++i) {
        if (IsNan(list[best]) ? IsNan(list[i])
                              : !Larger(list[i], list[best]) && !Larger(list[best], list[i]) && !IsNan(list[i]))
          best = i;
      }
    }
    return op.starts_with("arg") ? Number::Integer(static_cast<__int128>(best)) : list[best];
  }
  if (op == "prod" || op == "sum") {
    if (real) {
      Real total = op == "sum" ? 0 : 1;
      for (const Number& x : list) total = op == "sum" ? total + x.AsReal() : total * x.AsReal();
      return Number::Real(total);
    }
    unsigned __int128 total = op == "sum" ? 0 : 1;
    for (const Number& x : list) {
      const auto value = static_cast<unsigned __int128>(x.integer);
      total = op == "sum" ? total + value : total * value;
    }
    return Number::Integer(static_cast<__int128>(total));
  }
  Real sum = 0;
  for (const Number& x : list) sum += x.real;
  const Real mean = list.empty() ? kNan : sum / n;
  if (op == "mean") return Number::Real(mean);
  Real squares = 0;
  for (const Number& x : list) squares += (x.real - mean) * (x.real - mean);
  const Real divisor = n - static_cast<Real>(attributes.correction);
  const Real variance = list.empty() ? kNan : squares / std::max(divisor, Real{0});
  return Number::Real(op == "var" ? variance : std::sqrt(variance));
}

Dtype ReducedDtype(std::string_view op, Dtype dtype, const ReduceAttributes& attributes) {
  if (op == "any" || op == "all") return Dtype::kBool;
  if (op.starts_with("arg")) return Dtype::kInt64;
  if (op == "sum" || op == "prod") {
    if (attributes.dtype != Dtype::kNone) return attributes.dtype;
    if (KindOf(dtype) == DtypeKind::kUnsigned) return Dtype::kUint64;
    if (!IsReal(dtype)) return Dtype::kInt64;
  }
  return dtype;
}

int64_t Entry(const Dims& list, size_t axis, int64_t fallback) { return list.empty() ? fallback : list[axis]; }

// Output size of a sliding window along one axis.
int64_t WindowOutput(int64_t size, int64_t window, int64_t stride, int64_t dilation, int64_t begin, int64_t end,
                     bool ceil) {
  const int64_t room = size + begin + end - dilation * (window - 1) - 1;
  int64_t out = (ceil ? (room + stride - 1) / stride : room / stride) + 1;
  // A window that would begin in the padding behind the input is left out.
  if (ceil && (out - 1) * stride >= size + begin) --out;
  return out;
}

}  // namespace

int64_t FlatIndex(const Dims& index, const Dims& shape) {
  int64_t flat = 0;
  for (size_t i = 0; i < shape.size(); ++i) flat = flat * shape[i] + index[i];
  return flat;
}

Number BroadcastAt(const Array& array, const Dims& index) {
  const Dims& shape = array.type.shape;
  Dims own(shape.size(), 0);
  const size_t skip = index.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i) own[i] = shape[i] == 1 ? 0 : index[skip + i];
  return array.At(FlatIndex(own, shape));
}

Array Convert(const Array& array, Dtype dtype) {
  Array out = Array::Zeros(dtype, array.type.shape);
  for (int64_t i = 0; i < array.size(); ++i) out.Set(i, array.At(i));
  return out;
}

Array Reduce(std::string_view op, const Array& x, const ReduceAttributes& attributes) {
  const Dims& shape = x.type.shape;
  const auto reduced = [&](size_t axis) {
    return attributes.all_axes || std::find(attributes.axes.begin(), attributes.axes.end(),
                                            static_cast<int32_t>(axis)) != attributes.axes.end();
  };
  const Dtype dtype = ReducedDtype(op, x.type.dtype, attributes);
  Dims kept;
  Dims result;
  for (size_t i = 0; i < shape.size(); ++i) {
    kept.push_back(reduced(i) ? 1 : shape[i]);
    if (!reduced(i) || attributes.keepdims) result.push_back(kept.back());
  }
  std::vector<std::vector<Number>> lists(static_cast<size_t>(NumElements(kept)));
  const bool widen = (op == "sum" || op == "prod");
  const Array source = widen ? Convert(x, dtype) : x;
  ForEachIndex(shape, [&](const Dims& index, int64_t flat) {
    Dims place = index;
    for (size_t i = 0; i < shape.size(); ++i) place[i] = reduced(i) ? 0 : index[i];
    lists[static_cast<size_t>(FlatIndex(place, kept))].push_back(source.At(flat));
  });
  Array out = Array::Zeros(dtype, result);
  for (size_t i = 0; i < lists.size(); ++i) {
    out.Set(static_cast<int64_t>(i), ReduceList(op, lists[i], IsReal(source.type.dtype), attributes));
  }
  return out;
}

Array Softmax(std::string_view op, const Array& x, int axis) {
  const Dims& shape = x.type.shape;
  Array out = Array::Zeros(x.type.dtype, shape);
  const auto a = static_cast<size_t>(axis);
  ForEachIndex(shape, [&](const Dims& index, int64_t flat) {
    Real max = -std::numeric_limits<Real>::infinity();
    bool nan = false;
    Dims at = index;
    for (at[a] = 0; at[a] < shape[a]; ++at[a]) {
      const Real v = x.At(FlatIndex(at, shape)).real;
      nan |= std::isnan(v);
      max = std::fmax(max, v);
    }
    Real sum = 0;
    for (at[a] = 0; at[a] < shape[a]; ++at[a]) sum += std::exp(x.At(FlatIndex(at, shape)).real - max);
    const Real v = x.At(flat).real;
    const Real result = op == "softmax" ? std::exp(v - max) / sum : (v - max) - std::log(sum);
    out.Set(flat, Number::Real(nan ? kNan : result));
  });
  return out;
}

Array Matmul(const Array& a0, const Array& b0, const MatmulAttributes& attributes) {
  Array a = attributes.transpose_a && a0.type.shape.size() > 1 ? SwapLast(a0) : a0;
  Array b = attributes.transpose_b && b0.type.shape.size() > 1 ? SwapLast(b0) : b0;
  const bool row = a.type.shape.size() == 1;
  const bool column = b.type.shape.size() == 1;
  if (row) a = WithShape(a, {1, a.type.shape[0]});
  if (column) b = WithShape(b, {b.type.shape[0], 1});
  const Dims& as = a.type.shape;
  const Dims& bs = b.type.shape;
  const size_t rank = std::max(as.size(), bs.size());
  Dims full(rank, 1);
  for (size_t i = 0; i + 2 < rank; ++i) {
    const size_t back = rank - i;
    const int64_t left = as.size() >= back ? as[as.size() - back] : 1;
    const int64_t right = bs.size() >= back ? bs[bs.size() - back] : 1;
    full[i] = left == 1 ? right : left;
  }
  full[rank - 2] = as[as.size() - 2];
  full[rank - 1] = bs[bs.size() - 1];
  const int64_t inner = as[as.size() - 1];
  Array out = Array::Zeros(a.type.dtype, full);
  ForEachIndex(full, [&](const Dims& index, int64_t flat) {
    Real real = 0;
    unsigned __int128 integer = 0;
    Dims ai = index;
    Dims bi = index;
    for (int64_t k = 0; k < inner; ++k) {
      ai[rank - 1] = k;
      bi[rank - 2] = k;
      const Number x = BroadcastAt(a, ai);
      const Number y = BroadcastAt(b, bi);
      if (x.is_real) {
        real += x.real * y.real;
      } else {
        integer += static_cast<unsigned __int128>(x.integer) * static_cast<unsigned __int128>(y.integer);
      }
    }
    out.Set(flat, IsReal(a.type.dtype) ? Number::Real(real) : Number::Integer(static_cast<__int128>(integer)));
  });
  Dims result = full;
  if (column) result = Without(result, rank - 1);
  if (row) result = Without(result, rank - 2);
  return WithShape(out, result);
}

Array Linear(const Array& x, const Array& weight, const Array* bias) {
  const Dims& xs = x.type.shape;
  Dims result = xs;
  result.back() = weight.type.shape[0];
  Array out = Array::Zeros(x.type.dtype, result);
  ForEachIndex(result, [&](const Dims& index, int64_t flat) {
    Real sum = bias != nullptr ? bias->At(index.back()).real : 0;
    Dims at = index;
    for (int64_t k = 0; k < xs.back(); ++k) {
      at.back() = k;
      sum += x.At(FlatIndex(at, xs)).real * weight.At(index.back() * xs.back() + k).real;
    }
    out.Set(flat, Number::Real(sum));
  });
  return out;
}

Array Concat(const std::vector<Array>& parts, int axis) {
  const auto a = static_cast<size_t>(axis);
  Dims shape = parts[0].type.shape;
  for (size_t i = 1; i < parts.size(); ++i) shape[a] += parts[i].type.shape[a];
  Array out = Array::Zeros(parts[0].type.dtype, shape);
  int64_t before = 0;
  for (const Array& part : parts) {
    ForEachIndex(part.type.shape, [&](const Dims& index, int64_t flat) {
      Dims at = index;
      at[a] += before;
      out.Set(FlatIndex(at, shape), part.At(flat));
    });
    before += part.type.shape[a];
  }
  return out;
}

Array Stack(const std::vector<Array>& parts, int axis) {
  std::vector<Array> wide;
  for (Array part : parts) {
    part.type.shape.insert(part.type.shape.begin() + axis, 1);
    wide.push_back(std::move(part));
  }
  return Concat(wide, axis);
}

Array Take(const Array& x, const Array& indices, int axis) {
  const auto a = static_cast<size_t>(axis);
  const Dims& xs = x.type.shape;
  Dims shape(xs.begin(), xs.begin() + axis);
  shape.insert(shape.end(), indices.type.shape.begin(), indices.type.shape.end());
  shape.insert(shape.end(), xs.begin() + axis + 1, xs.end());
  Array out = Array::Zeros(x.type.dtype, shape);
  const size_t n = indices.type.shape.size();
  ForEachIndex(shape, [&](const Dims& index, int64_t flat) {
    const Dims which(index.begin() + axis, index.begin() + axis + static_cast<std::ptrdiff_t>(n));
    auto place = static_cast<int64_t>(indices.At(FlatIndex(which, indices.type.shape)).integer);
    if (place < 0) place += xs[a];
    Dims at(index.begin(), index.begin() + axis);
    at.push_back(place);
    at.insert(at.end(), index.begin() + axis + static_cast<std::ptrdiff_t>(n), index.end());
    out.Set(flat, x.At(FlatIndex(at, xs)));
  });
  return out;
}

Array Conv(const Array& x, const Array& weight, const Array* bias, const WindowAttributes& attributes) {
  const Dims& xs = x.type.shape;
  const Dims& ws = weight.type.shape;
  const size_t space = xs.size() - 2;
  const int64_t groups = std::max<int64_t>(attributes.groups, 1);
  Dims shape{xs[0], ws[0]};
  for (size_t i = 0; i < space; ++i) {
    shape.push_back(WindowOutput(xs[2 + i], ws[2 + i], Entry(attributes.strides, i, 1),
                                 Entry(attributes.dilations, i, 1), Entry(attributes.pads_begin, i, 0),
                                 Entry(attributes.pads_end, i, 0), false));
  }
  Array out = Array::Zeros(x.type.dtype, shape);
  const Dims kernel(ws.begin() + 1, ws.end());  // channels of the group, window
  ForEachIndex(shape, [&](const Dims& index, int64_t flat) {
    Real sum = bias != nullptr ? bias->At(index[1]).real : 0;
    const int64_t group = index[1] / (ws[0] / groups);
    ForEachIndex(kernel, [&](const Dims& k, int64_t place) {
      Dims at{index[0], group * ws[1] + k[0]};
      for (size_t i = 0; i < space; ++i) {
        const int64_t p = index[2 + i] * Entry(attributes.strides, i, 1) +
                          k[1 + i] * Entry(attributes.dilations, i, 1) - Entry(attributes.pads_begin, i, 0);
        if (p < 0 || p >= xs[2 + i]) return;
        at.push_back(p);
      }
      sum += x.At(FlatIndex(at, xs)).real * weight.At(index[1] * NumElements(kernel) + place).real;
    });
    out.Set(flat, Number::Real(sum));
  });
  return out;
}

Array Pool(std::string_view op, const Array& x, const WindowAttributes& attributes) {
  const Dims& xs = x.type.shape;
  const size_t space = xs.size() - 2;
  const auto stride = [&](size_t i) { return Entry(attributes.strides, i, attributes.sizes[i]); };
  Dims shape{xs[0], xs[1]};
  for (size_t i = 0; i < space; ++i) {
    shape.push_back(WindowOutput(xs[2 + i], attributes.sizes[i], stride(i), Entry(attributes.dilations, i, 1),
                                 Entry(attributes.pads_begin, i, 0), Entry(attributes.pads_end, i, 0),
                                 attributes.ceil_mode));
  }
  Array out = Array::Zeros(x.type.dtype, shape);
  ForEachIndex(shape, [&](const Dims& index, int64_t flat) {
    std::vector<Number> inside;
    int64_t padded = 0;  // places of the window that lie in the input or in its padding
    ForEachIndex(attributes.sizes, [&](const Dims& k, int64_t) {
      Dims at{index[0], index[1]};
      bool in = true;
      bool within = true;
      for (size_t i = 0; i < space; ++i) {
        const int64_t p =
            index[2 + i] * stride(i) + k[i] * Entry(attributes.dilations, i, 1) - Entry(attributes.pads_begin, i, 0);
        in &= p >= 0 && p < xs[2 + i];
        within &= p < xs[2 + i] + Entry(attributes.pads_end, i, 0);
        at.push_back(p);
      }
      padded += within ? 1 : 0;
      if (in) inside.push_back(x.At(FlatIndex(at, xs)));
    });
    if (op == "max_pool") {
      out.Set(flat, inside.empty() ? Number::Real(-std::numeric_limits<Real>::infinity())
                                   : ReduceList("max", inside, true, {}));
      return;
    }
    Real sum = 0;
    for (const Number& v : inside) sum += v.real;
    out.Set(flat, Number::Real(
                      sum / static_cast<Real>(attributes.count_pads ? padded : static_cast<int64_t>(inside.size()))));
  });
  return out;
}

Array BatchNorm(const Array& x, const Array& mean, const Array& variance, const Array* weight, const Array* bias,
                double epsilon) {
  Array out = Array::Zeros(x.type.dtype, x.type.shape);
  ForEachIndex(x.type.shape, [&](const Dims& index, int64_t flat) {
    const int64_t c = index[1];
    Real v = (x.At(flat).real - mean.At(c).real) / std::sqrt(variance.At(c).real + static_cast<Real>(epsilon));
    if (weight != nullptr) v *= weight->At(c).real;
    if (bias != nullptr) v += bias->At(c).real;
    out.Set(flat, Number::Real(v));
  });
  return out;
}

Array LayerNorm(const Array& x, const Array* weight, const Array* bias, int axis, double epsilon) {
  const Dims& shape = x.type.shape;
  int64_t row = 1;
  for (size_t i = static_cast<size_t>(axis); i < shape.size(); ++i) row *= shape[i];
  Array out = Array::Zeros(x.type.dtype, shape);
  for (int64_t start = 0; start < x.size(); start += row) {
    Real sum = 0;
    for (int64_t i = 0; i < row; ++i) sum += x.At(start + i).real;
    const Real mean = sum / static_cast<Real>(row);
    Real squares = 0;
    for (int64_t i = 0; i < row; ++i) squares += (x.At(start + i).real - mean) * (x.At(start + i).real - mean);
    const Real scale = 1 / std::sqrt(squares / static_cast<Real>(row) + static_cast<Real>(epsilon));
    for (int64_t i = 0; i < row; ++i) {
      Real v = (x.At(start + i).real - mean) * scale;
      if (weight != nullptr) v *= weight->At(i).real;
      if (bias != nullptr) v += bias->At(i).real;
      out.Set(start + i, Number::Real(v));
    }
  }
  return out;
}

Array Where(const Array& condition, const Array& a, const Array& b) {
  Dims shape;
  const size_t rank = std::max({condition.type.shape.size(), a.type.shape.size(), b.type.shape.size()});
  shape.resize(rank, 1);
  for (const Array* x : {&condition, &a, &b}) {
    const size_t skip = rank - x->type.shape.size();
    for (size_t i = 0; i < x->type.shape.size(); ++i) {
      if (x->type.shape[i] != 1) shape[skip + i] = x->type.shape[i];
    }
  }
  Array out = Array::Zeros(a.type.dtype, shape);
  ForEachIndex(shape, [&](const Dims& index, int64_t flat) {
    out.Set(flat, BroadcastAt(BroadcastAt(condition, index).IsTrue() ? a : b, index));
  });
  return out;
}

}  // namespace tensord::oracle
