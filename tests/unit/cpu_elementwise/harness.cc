#include "tests/unit/cpu_elementwise/harness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sstream>

#include "kernels/cpu/cpu_backend.h"

namespace tensord::testing {
namespace {

struct Format {
  int digits;        // of the significand
  int min_exponent;  // of the smallest normal number, 2^min_exponent
  int max_exponent;  // of the largest, below 2^(max_exponent + 1)
};

Format FormatOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat16:
      return {11, -14, 15};
    case Dtype::kBfloat16:
      return {8, -126, 127};
    case Dtype::kFloat32:
      return {24, -126, 127};
    default:
      return {53, -1022, 1023};
  }
}

int Bits(Dtype dtype) { return static_cast<int>(ItemSize(dtype)) * 8; }

}  // namespace

const std::vector<Dtype>& AllDtypes() {
  static const auto* const all = [] {
    auto* list = new std::vector<Dtype>;
    for (int d = 1; d < kDtypeCount; ++d) {
      if (!IsComplex(static_cast<Dtype>(d))) list->push_back(static_cast<Dtype>(d));
    }
    return list;
  }();
  return *all;
}

bool IsHalfDtype(Dtype dtype) { return dtype == Dtype::kFloat16 || dtype == Dtype::kBfloat16; }

long double UlpOf(Dtype dtype, long double v) {
  const Format f = FormatOf(dtype);
  const int exponent = v == 0 || !std::isfinite(v) ? f.min_exponent : std::max(std::ilogb(v), f.min_exponent);
  return std::ldexp(1.0L, std::min(exponent, f.max_exponent) - f.digits + 1);
}

uint16_t NearestHalf(Dtype dtype, long double v) {
  const Format f = FormatOf(dtype);
  const int mantissa_bits = f.digits - 1;
  const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  const auto infinity = static_cast<uint16_t>((f.max_exponent * 2 + 1) << mantissa_bits);
  if (std::isnan(v)) return static_cast<uint16_t>(infinity | (1 << (mantissa_bits - 1)));
  const long double magnitude = std::fabs(v);
  if (std::isinf(v)) return sign | infinity;
  const long double units = std::nearbyint(magnitude / UlpOf(dtype, magnitude));  // exact but for this rounding
  int exponent = magnitude == 0 ? f.min_exponent : std::max(std::ilogb(magnitude), f.min_exponent);
  auto whole = static_cast<int64_t>(units);
  if (whole == (int64_t{1} << f.digits)) {
    whole /= 2;
    ++exponent;
  }
  if (exponent > f.max_exponent) return sign | infinity;
  if (whole < (int64_t{1} << mantissa_bits)) return static_cast<uint16_t>(sign | whole);  // subnormal
  const int64_t biased = exponent - f.min_exponent + 1;
  return static_cast<uint16_t>(sign | (biased << mantissa_bits) | (whole - (int64_t{1} << mantissa_bits)));
}

namespace {
long double HalfValue(Dtype dtype, uint16_t bits) {
  const Format f = FormatOf(dtype);
  const int mantissa_bits = f.digits - 1;
  const int biased = (bits & 0x7fff) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const long double sign = (bits & 0x8000) != 0 ? -1.0L : 1.0L;
  if (biased == f.max_exponent * 2 + 1)
    return mantissa != 0 ? std::numeric_limits<long double>::quiet_NaN() : sign * HUGE_VALL;
  if (biased == 0) return sign * std::ldexp(static_cast<long double>(mantissa), f.min_exponent - mantissa_bits);
  return sign * std::ldexp(static_cast<long double>(mantissa + (1 << mantissa_bits)),
                           biased - 1 + f.min_exponent - mantissa_bits);
}

template <class T>
T Load(const void* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}
template <class T>
void Store(T value, void* data) {
  std::memcpy(data, &value, sizeof(T));
}
}  // namespace

Number Read(Dtype dtype, const void* data) {
  switch (dtype) {
    case Dtype::kBool:
      return Number::Of(Load<uint8_t>(data) != 0 ? 1 : 0);
    case Dtype::kInt8:
      return Number::Of(Load<int8_t>(data));
    case Dtype::kInt16:
      return Number::Of(Load<int16_t>(data));
    case Dtype::kInt32:
      return Number::Of(Load<int32_t>(data));
    case Dtype::kInt64:
      return Number::Of(Load<int64_t>(data));
    case Dtype::kUint8:
      return Number::Of(Load<uint8_t>(data));
    case Dtype::kUint16:
      return Number::Of(Load<uint16_t>(data));
    case Dtype::kUint32:
      return Number::Of(Load<uint32_t>(data));
    case Dtype::kUint64:
      return Number::Of(Load<uint64_t>(data));
    case Dtype::kFloat16:
    case Dtype::kBfloat16:
      return Number::Real(HalfValue(dtype, Load<uint16_t>(data)));
    case Dtype::kFloat32:
      return Number::Real(Load<float>(data));
    default:
      return Number::Real(Load<double>(data));
  }
}

void Write(Dtype dtype, Number number, void* data) {
  if (dtype == Dtype::kBool) return Store<uint8_t>(number.real ? !(number.value == 0) : number.integer != 0, data);
  if (IsInteger(dtype)) {
    const auto low = static_cast<uint64_t>(number.integer);
    std::memcpy(data, &low, ItemSize(dtype));  // little endian: the low bytes first
    return;
  }
  const long double v = number.real ? number.value : static_cast<long double>(number.integer);
  if (IsHalfDtype(dtype)) return Store<uint16_t>(NearestHalf(dtype, v), data);
  if (dtype == Dtype::kFloat32) return Store<float>(static_cast<float>(v), data);
  Store<double>(static_cast<double>(v), data);
}

bool Same(Dtype dtype, Number got, Number want, double ulps) {
  if (!IsReal(dtype)) return got.integer == want.integer;
  const long double a = got.value;
  const long double b = want.value;
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return a != 0 || ulps > 0 || std::signbit(a) == std::signbit(b);
  if (std::isinf(a) || std::isinf(b)) {
    // One step over the edge of the range is a step as any other.
    const Format f = FormatOf(dtype);
    const long double edge = std::ldexp(1.0L, f.max_exponent + 1);
    const long double x = std::isinf(a) ? std::copysign(edge, a) : a;
    const long double y = std::isinf(b) ? std::copysign(edge, b) : b;
    return std::fabs(x - y) <= ulps * UlpOf(dtype, edge);
  }
  return std::fabs(a - b) <= ulps * UlpOf(dtype, b);
}

std::string Text(Dtype dtype, Number number) {
  std::ostringstream out;
  out.precision(20);
  if (IsReal(dtype)) {
    out << number.value;
  } else if (number.integer < 0) {
    out << static_cast<int64_t>(number.integer);
  } else {
    out << static_cast<uint64_t>(number.integer);
  }
  return out.str();
}

Tensor::Tensor(Dtype dtype, Dims shape) {
  view.dtype = dtype;
  view.shape = std::move(shape);
  view.strides = ContiguousStrides(view.shape);
  memory.resize(static_cast<size_t>(view.bytes()));
  view.data = memory.data();
}

Number Tensor::At(int64_t i) const {
  return Read(view.dtype, memory.data() + i * static_cast<int64_t>(ItemSize(view.dtype)));
}
void Tensor::Set(int64_t i, Number number) {
  Write(view.dtype, number, memory.data() + i * static_cast<int64_t>(ItemSize(view.dtype)));
}

Tensor Vector(Dtype dtype, const std::vector<Number>& numbers) {
  Tensor tensor(dtype, {static_cast<int64_t>(numbers.size())});
  for (size_t i = 0; i < numbers.size(); ++i) tensor.Set(static_cast<int64_t>(i), numbers[i]);
  return tensor;
}

std::vector<Number> Edges(Dtype dtype) {
  std::vector<Number> edges;
  if (dtype == Dtype::kBool) return {Number::Of(0), Number::Of(1)};
  if (IsInteger(dtype)) {
    const bool is_signed = KindOf(dtype) == DtypeKind::kSigned;
    const int bits = Bits(dtype);
    const int128 low = is_signed ? -(int128{1} << (bits - 1)) : 0;
    const int128 high = (int128{1} << (bits - (is_signed ? 1 : 0))) - 1;
    for (int128 v :
         {int128{0}, int128{1}, int128{2}, int128{3}, int128{5}, int128{7}, int128{8}, int128{13}, int128{31},
          int128{32}, int128{63}, int128{64}, int128{100}, high, high - 1, high / 2, high / 2 + 1}) {
      if (v <= high) edges.push_back(Number::Of(v));
    }
    if (is_signed) {
      for (int128 v : {int128{-1}, int128{-2}, int128{-3}, int128{-5}, int128{-7}, int128{-64}, int128{-100}, low,
                       low + 1, low / 2}) {
        edges.push_back(Number::Of(v));
      }
    }
    return edges;
  }
  const Format f = FormatOf(dtype);
  const long double tiny = std::ldexp(1.0L, f.min_exponent - f.digits + 1);
  const long double normal = std::ldexp(1.0L, f.min_exponent);
  const long double largest = std::ldexp(2.0L, f.max_exponent) - std::ldexp(1.0L, f.max_exponent - f.digits + 1);
  for (long double v : {0.0L,     1.0L,        0.5L,      1.5L,
                        2.5L,     2.0L,        3.0L,      3.5L,
                        5.0L,     7.0L,        2.3L,      0.1L,
                        0.7L,     0.001L,      1e-4L,     3.14159265358979L,
                        10.0L,    20.0L,       88.5L,     103.0L,
                        709.5L,   745.0L,      1000.0L,   12345.0L,
                        60000.0L, 1e6L,        1e10L,     3e19L,
                        1e30L,    tiny,        3 * tiny,  normal,
                        largest,  largest / 2, HUGE_VALL, std::numeric_limits<long double>::quiet_NaN()}) {
    edges.push_back(Number::Real(v));
    edges.push_back(Number::Real(-v));
  }
  // As the dtype holds them.
  for (Number& n : edges) {
    alignas(8) std::byte bytes[8];
    Write(dtype, n, bytes);
    n = Read(dtype, bytes);
  }
  return edges;
}

Backend& Cpu() {
  static Backend* const backend = MakeCpuBackend({}).release();
  return *backend;
}

KernelOperand In(const Tensor& tensor) { return {&tensor.view, nullptr}; }
KernelOperand In(const TensorView& view) { return {&view, nullptr}; }
KernelOperand In(const Scalar& scalar) { return {nullptr, &scalar}; }

Tensor RunOp(Op op, std::vector<KernelOperand> inputs, TensorType output, Dtype compute, const Attributes& attributes) {
  Tensor out(output.dtype, output.shape);
  std::fill(out.memory.begin(), out.memory.end(), std::byte{0x5a});
  KernelCall call;
  call.op = op;
  call.attributes = &attributes;
  call.compute = compute;
  call.inputs = inputs;
  call.outputs = absl::MakeConstSpan(&out.view, 1);
  const absl::Status status = Cpu().Run(call, Cpu().default_stream(), Cpu().memory());
  EXPECT_TRUE(status.ok()) << RowOf(op).name << ": " << status;
  return out;
}

Number ElementOf(const TensorView& view, const Dims& index) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) offset += index[d] * view.strides[d];
  return Read(view.dtype, static_cast<const char*>(view.data) + offset * static_cast<int64_t>(ItemSize(view.dtype)));
}

}  // namespace tensord::testing
