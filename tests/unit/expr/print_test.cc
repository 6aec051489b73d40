// Tensors as text. The expected strings are what PyTorch prints, written by hand from its documented rules.
#include "client/cpp/expr/print.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "client/cpp/expr/elements.h"

namespace tensord::expr {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class T, class V>
std::string Raw(const std::vector<V>& values) {
  std::string data(values.size() * sizeof(T), '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    T element;
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      element = T(static_cast<float>(values[i]));
    } else {
      element = static_cast<T>(values[i]);
    }
    std::memcpy(data.data() + i * sizeof(T), &element, sizeof(T));
  }
  return data;
}

TensorSpec Spec(Dtype dtype, Dims shape, std::string_view device = "cpu") {
  return {{dtype, std::move(shape)}, *DeviceId::Parse(device)};
}

template <class T>
std::string Text(Dims shape, const std::vector<double>& values, std::string_view device = "cpu",
                 const PrintOptions& options = {}) {
  return TensorText(Spec(DtypeOf<T>, std::move(shape), device), Raw<T>(values), options);
}

TEST(Print, TheTutorial) {
  EXPECT_EQ(Text<float>({2, 3}, {1, 1, 1, 1, 1, 1}, "cuda:0"),
            "tensor([[1., 1., 1.],\n"
            "        [1., 1., 1.]], device='cuda:0')");
}

TEST(Print, WholeRealsHaveAPointOnly) {
  EXPECT_EQ(Text<float>({3}, {1, -2, 30}), "tensor([ 1., -2., 30.])");
  EXPECT_EQ(Text<float>({2}, {0, 0}), "tensor([0., 0.])");
  EXPECT_EQ(Text<float>({}, {3}), "tensor(3.)");
  EXPECT_EQ(Text<float>({2}, {1, 1001}), "tensor([1.0000e+00, 1.0010e+03])");
  EXPECT_EQ(Text<float>({2}, {2, 2000}), "tensor([   2., 2000.])");
  EXPECT_EQ(Text<float>({1}, {1e8}), "tensor([100000000.])");
  EXPECT_EQ(Text<float>({1}, {2e8}), "tensor([2.0000e+08])");
  EXPECT_EQ(Text<float>({1}, {99999992}), "tensor([99999992.])");
}

TEST(Print, FourDigits) {
  EXPECT_EQ(Text<float>({3}, {0.5, 1.25, -2}), "tensor([ 0.5000,  1.2500, -2.0000])");
  EXPECT_EQ(Text<float>({}, {3.14159265}), "tensor(3.1416)");
  EXPECT_EQ(Text<double>({2}, {0.1, 0.30000000000000004}), "tensor([0.1000, 0.3000], dtype=torch.float64)");
}

TEST(Print, ExponentsWhereSizesDiffer) {
  EXPECT_EQ(Text<float>({2}, {0.00019587, 0.00052095}), "tensor([0.0002, 0.0005])");
  EXPECT_EQ(Text<float>({2}, {0.00001, 1}), "tensor([1.0000e-05, 1.0000e+00])");
  EXPECT_EQ(Text<float>({2}, {0.5, 1000}), "tensor([5.0000e-01, 1.0000e+03])");
  EXPECT_EQ(Text<float>({2}, {-0.5, 400}), "tensor([ -0.5000, 400.0000])");
  EXPECT_EQ(Text<float>({1}, {1e-45}), "tensor([1.4013e-45])");
  EXPECT_EQ(Text<float>({2}, {-1e-6, 0}), "tensor([-1.0000e-06,  0.0000e+00])");
}

TEST(Print, NotFinite) {
  EXPECT_EQ(Text<float>({3}, {kNan, kInf, -kInf}), "tensor([nan, inf, -inf])");
  EXPECT_EQ(Text<float>({3}, {1, kNan, kInf}), "tensor([1., nan, inf])");
  EXPECT_EQ(Text<float>({3}, {0.5, kNan, -kInf}), "tensor([0.5000,    nan,   -inf])");
  EXPECT_EQ(Text<float>({2}, {-kNan, 0}), "tensor([nan, 0.])");
}

TEST(Print, IntegersAndBools) {
  EXPECT_EQ(Text<int64_t>({3}, {1, -20, 300}), "tensor([  1, -20, 300])");
  EXPECT_EQ(Text<int32_t>({2}, {1, 2}, "cuda:1"), "tensor([1, 2], device='cuda:1', dtype=torch.int32)");
  EXPECT_EQ(Text<uint8_t>({2}, {0, 255}), "tensor([  0, 255], dtype=torch.uint8)");
  EXPECT_EQ(Text<bool>({2, 2}, {1, 0, 0, 1}),
            "tensor([[ True, False],\n"
            "        [False,  True]])");
  EXPECT_EQ(Text<bool>({}, {1}), "tensor(True)");
  EXPECT_EQ(Text<int64_t>({}, {-7}), "tensor(-7)");
}

TEST(Print, SmallReals) {
  EXPECT_EQ(Text<Half>({1}, {0.1}), "tensor([0.1000], dtype=torch.float16)");
  EXPECT_EQ(Text<BFloat16>({2}, {1, 3}), "tensor([1., 3.], dtype=torch.bfloat16)");
}

TEST(Print, Empty) {
  EXPECT_EQ(Text<float>({0}, {}), "tensor([])");
  EXPECT_EQ(Text<float>({0, 3}, {}), "tensor([], size=(0, 3))");
  EXPECT_EQ(Text<int64_t>({0}, {}), "tensor([], dtype=torch.int64)");
  EXPECT_EQ(Text<float>({2, 0}, {}, "cuda:0"), "tensor([], device='cuda:0', size=(2, 0))");
}

TEST(Print, ThreeAxes) {
  EXPECT_EQ(Text<int64_t>({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
            "tensor([[[1, 2],\n"
            "         [3, 4]],\n"
            "\n"
            "        [[5, 6],\n"
            "         [7, 8]]])");
}

TEST(Print, LinesBreakAtEightyColumns) {
  std::vector<double> values(30);
  std::iota(values.begin(), values.end(), 0);
  EXPECT_EQ(Text<int64_t>({30}, values),
            "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
            "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])");
}

TEST(Print, LargeTensorsShowTheirEdges) {
  EXPECT_TRUE(IsSummarized({1001}, {}));
  EXPECT_FALSE(IsSummarized({1000}, {}));
  EXPECT_EQ(EdgeShape({1000, 4, 7}, {}), (Dims{6, 4, 6}));
  EXPECT_EQ(EdgeShape({10, 10}, {}), (Dims{10, 10}));
  const auto edges = Raw<int64_t>(std::vector<double>{0, 1, 2, 1998, 1999, 2000});
  EXPECT_EQ(TensorText(Spec(Dtype::kInt64, {2001}), edges), "tensor([   0,    1,    2,  ..., 1998, 1999, 2000])");
  std::vector<double> ones(36, 1);
  EXPECT_EQ(Text<float>({1000, 1000}, ones),
            "tensor([[1., 1., 1.,  ..., 1., 1., 1.],\n"
            "        [1., 1., 1.,  ..., 1., 1., 1.],\n"
            "        [1., 1., 1.,  ..., 1., 1., 1.],\n"
            "        ...,\n"
            "        [1., 1., 1.,  ..., 1., 1., 1.],\n"
            "        [1., 1., 1.,  ..., 1., 1., 1.],\n"
            "        [1., 1., 1.,  ..., 1., 1., 1.]])");
}

TEST(Print, SuffixesGoToANewLineWhereTheyDoNotFit) {
  std::vector<double> values(9, 1.5);
  EXPECT_EQ(Text<double>({9}, values, "cuda:0"),
            "tensor([1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000],\n"
            "       device='cuda:0', dtype=torch.float64)");
}

TEST(Print, Precision) {
  PrintOptions options;
  options.precision = 8;
  EXPECT_EQ(Text<double>({1}, {0.30000000000000004}, "cpu", options), "tensor([0.30000000], dtype=torch.float64)");
}

TEST(Json, NumbersReadBackExactly) {
  EXPECT_EQ(TensorDataJson({Dtype::kFloat32, {7}},
                           Raw<float>(std::vector<double>{kNan, kInf, -kInf, 6e-7, -0.0, 1e30, 0.1f})),
            "[\"NaN\",\"Infinity\",\"-Infinity\",6e-07,-0.0,1e+30,0.1]");
  EXPECT_EQ(TensorDataJson({Dtype::kInt64, {1}}, Raw<int64_t>(std::vector<int64_t>{9007199254740993})),
            "[9007199254740993]");
  EXPECT_EQ(TensorDataJson({Dtype::kUint64, {1}}, Raw<uint64_t>(std::vector<uint64_t>{18446744073709551615u})),
            "[18446744073709551615]");
  EXPECT_EQ(TensorDataJson({Dtype::kFloat64, {}}, Raw<double>(std::vector<double>{0.1 + 0.2})), "0.30000000000000004");
  EXPECT_EQ(TensorDataJson({Dtype::kFloat32, {2}}, Raw<float>(std::vector<double>{16777216, 1e-45})),
            "[16777216.0,1e-45]");
  EXPECT_EQ(TensorDataJson({Dtype::kFloat16, {2}}, Raw<Half>(std::vector<double>{0.1, 65504})), "[0.1,65504.0]");
  EXPECT_EQ(TensorDataJson({Dtype::kBfloat16, {1}}, Raw<BFloat16>(std::vector<double>{0.1})), "[0.1]");
  EXPECT_EQ(TensorDataJson({Dtype::kBool, {2, 1}}, Raw<bool>(std::vector<double>{1, 0})), "[[true],[false]]");
}

TEST(Json, EverySmallRealReadsBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    Half half;
    half.bits = static_cast<uint16_t>(bits);
    const auto value = static_cast<double>(static_cast<float>(half));
    if (!std::isfinite(value)) continue;
    const double back = std::stod(JsonText(Dtype::kFloat16, value));
    ASSERT_EQ(Half(static_cast<float>(back)).bits, half.bits) << value;
  }
}

TEST(Json, EmptyTensors) {
  EXPECT_EQ(TensorDataJson({Dtype::kFloat32, {0, 3}}, ""), "[]");
  EXPECT_EQ(TensorDataJson({Dtype::kFloat32, {2, 0}}, ""), "[[],[]]");
  EXPECT_EQ(TensorDataJson({Dtype::kFloat32, {int64_t{1} << 60, 0}}, ""), "[]");
}

TEST(Json, Strings) {
  EXPECT_EQ(JsonString("a\"b\\c\nd\te\x01"), "\"a\\\"b\\\\c\\nd\\te\\u0001\"");
  EXPECT_EQ(JsonString("gr\xC3\xBC\xC3\x9F \xF0\x9F\x99\x82"), "\"gr\xC3\xBC\xC3\x9F \xF0\x9F\x99\x82\"");
  EXPECT_EQ(JsonString("\xFFx\xC3"), "\"\xEF\xBF\xBDx\xEF\xBF\xBD\"");
  EXPECT_EQ(JsonString("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");  // a surrogate is no character
}

TEST(Python, Reals) {
  EXPECT_EQ(PythonReal(1), "1.0");
  EXPECT_EQ(PythonReal(0.1), "0.1");
  EXPECT_EQ(PythonReal(1e-5), "1e-05");
  EXPECT_EQ(PythonReal(0.0001), "0.0001");
  EXPECT_EQ(PythonReal(1e16), "1e+16");
  EXPECT_EQ(PythonReal(123456789012345.0), "123456789012345.0");
  EXPECT_EQ(PythonReal(-0.0), "-0.0");
  EXPECT_EQ(PythonReal(kInf), "inf");
  EXPECT_EQ(PythonReal(kNan), "nan");
}

}  // namespace
}  // namespace tensord::expr
