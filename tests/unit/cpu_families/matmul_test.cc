#include <cmath>

#include "case.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/core/text.h"
#include "kernels/cpu/team.h"

namespace tensord::cpu {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

uint64_t Bits(long double v) {
  return v < 0 ? static_cast<uint64_t>(static_cast<int64_t>(v)) : static_cast<uint64_t>(v);
}

// One matrix operand: element (batch position, row, column), broadcast over the batch of the result.
class Matrices {
 public:
  Matrices(const TestTensor& x, bool left, bool transpose) : shape_(x.shape()), values_(x.Values()) {
    const size_t rank = shape_.size();
    if (rank == 1) {
      (left ? columns_ : rows_) = shape_[0];
      row_step_ = column_step_ = 1;
      return;
    }
    rows_ = shape_[rank - 2];
    columns_ = shape_[rank - 1];
    row_step_ = columns_;
    if (transpose) {
      std::swap(rows_, columns_);
      std::swap(row_step_, column_step_);
    }
  }
  int64_t columns() const { return columns_; }
  // The matrix at a place of the result's batch.
  const long double* Matrix(const std::vector<int64_t>& batch) const {
    int64_t index = 0;
    const size_t own = shape_.size() < 2 ? 0 : shape_.size() - 2;
    for (size_t d = 0; d < own; ++d) index = index * shape_[d] + (shape_[d] == 1 ? 0 : batch[batch.size() - own + d]);
    return values_.data() + index * rows_ * columns_;
  }
  int64_t Place(int64_t row, int64_t column) const { return row * row_step_ + column * column_step_; }

 private:
  const Dims shape_;
  const std::vector<long double> values_;
  int64_t rows_ = 1;
  int64_t columns_ = 1;
  int64_t row_step_ = 1;
  int64_t column_step_ = 1;
};

void Check(Op op, const TestTensor& a, const TestTensor& b, const TestTensor* bias, MatmulAttributes attributes = {}) {
  SCOPED_TRACE(StrCat(RowOf(op).name, " ", a.view().type().ToString(), " strides [", StrJoin(a.view().strides, ","),
                      "] and ", b.view().type().ToString(), " strides [", StrJoin(b.view().strides, ","),
                      "] transposed ", attributes.transpose_a, " ", attributes.transpose_b,
                      bias != nullptr ? " with bias" : ""));
  std::vector<const TestTensor*> operands = {&a, &b};
  if (bias != nullptr) operands.push_back(bias);
  const absl::StatusOr<TestTensor> out = RunOp(op, operands, attributes);
  ASSERT_TRUE(out.ok()) << out.status();
  const bool linear = op == Op::kLinear;
  const Matrices left(a, true, attributes.transpose_a);
  const Matrices right(b, false, attributes.transpose_b || linear);
  const bool left_vector = a.shape().size() == 1;
  const bool right_vector = b.shape().size() == 1;
  const int64_t k = left.columns();
  const Dtype dtype = out->dtype();
  for (int64_t i = 0; i < out->elements(); ++i) {
    std::vector<int64_t> at = Unravel(i, out->shape());
    int64_t column = 0;
    int64_t row = 0;
    if (!right_vector) {
      column = at.back();
      at.pop_back();
    }
    if (!left_vector) {
      row = at.back();
      at.pop_back();
    }
    const long double got = out->Get(i);
    const long double* x = left.Matrix(at);
    const long double* y = right.Matrix(at);
    if (!IsReal(dtype)) {
      uint64_t sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += Bits(x[left.Place(row, p)]) * Bits(y[right.Place(p, column)]);
      TestTensor want = TestTensor::Contiguous(dtype, {});
      VisitDtype(dtype, [&]<class T>() {
        if constexpr (std::is_integral_v<T>) want.Set(0, static_cast<long double>(static_cast<T>(sum)));
      });
      ASSERT_EQ(got, want.Get(0)) << "element " << i;
      continue;
    }
    long double sum = bias != nullptr ? bias->Get(column) : 0;
    long double size = std::abs(sum);
    for (int64_t p = 0; p < k; ++p) {
      const long double product = x[left.Place(row, p)] * y[right.Place(p, column)];
      sum += product;
      size += std::abs(product);
    }
    // Libraries add up one after the other.
    const long double roundings = 8 + static_cast<long double>(k) / 4;
    const long double tolerance = StorageEpsilon(dtype) * std::abs(sum) + ComputeEpsilon(dtype) * size * roundings;
    ASSERT_TRUE(Near(got, sum, tolerance)) << "element " << i << " is " << got << ", expected " << sum;
  }
}

std::vector<Dtype> Numbers() {
  std::vector<Dtype> all = Integers();
  all.insert(all.end(), Reals().begin(), Reals().end());
  return all;
}

TEST(Matmul, EveryDtypeLayoutAndShape) {
  struct Case {
    Dims a, b;
    bool transpose_a, transpose_b;
  };
  const std::vector<Case> cases = {
      {{3, 4}, {4, 5}, false, false},
      {{7, 33}, {33, 70}, false, false},
      {{33, 7}, {33, 70}, true, false},
      {{7, 33}, {70, 33}, false, true},
      {{33, 7}, {70, 33}, true, true},
      {{9}, {9}, false, false},
      {{9}, {9, 6}, false, false},
      {{6, 9}, {9}, false, false},
      {{1, 40}, {40, 90}, false, false},
      {{90, 40}, {40, 2}, false, false},
      {{2, 3, 4}, {4, 5}, false, false},
      {{2, 3, 4}, {2, 4, 5}, false, false},
      {{2, 1, 3, 4}, {5, 4, 2}, false, false},
      {{4}, {2, 3, 4, 5}, false, false},
      {{2, 3, 4, 5}, {5}, false, false},
      {{3, 4}, {2, 4, 5}, false, false},
      {{1, 1}, {1, 1}, false, false},
      {{3, 300}, {300, 3}, false, false},
      {{2, 4, 3}, {2, 5, 4}, true, true},
      {{13, 520}, {520, 17}, false, false},
  };
  ForEachIsa([&] {
    std::mt19937 random(21);
    for (const Case& c : cases) {
      for (const Dtype dtype : Numbers()) {
        TestTensor a(dtype, c.a, Lays()[random() % Lays().size()], random);
        TestTensor b(dtype, c.b, Lays()[random() % Lays().size()], random);
        const double low = IsReal(dtype) ? -1 : 0;
        const double high = IsReal(dtype) ? 1 : 0;
        a.Fill(random, low, high);
        b.Fill(random, low, high);
        MatmulAttributes attributes;
        attributes.transpose_a = c.transpose_a;
        attributes.transpose_b = c.transpose_b;
        Check(Op::kMatmul, a, b, nullptr, attributes);
        if (HasFatalFailure()) return;
      }
    }
  });
}

// Large enough for the library, and for several threads.
TEST(Matmul, LargeOnes) {
  std::mt19937 random(22);
  for (const Lay lay : Lays()) {
    for (const Dtype dtype :
         {Dtype::kFloat32, Dtype::kFloat64, Dtype::kInt32, Dtype::kFloat16, Dtype::kBfloat16, Dtype::kInt64}) {
      TestTensor a(dtype, {150, 130}, lay, random);
      TestTensor b(dtype, {140, 130}, lay, random);
      const bool real = IsReal(dtype);
      a.Fill(random, real ? -1 : 0, real ? 1 : 0);
      b.Fill(random, real ? -1 : 0, real ? 1 : 0);
      MatmulAttributes attributes;
      attributes.transpose_b = true;
      Check(Op::kMatmul, a, b, nullptr, attributes);
      if (HasFatalFailure()) return;
    }
  }
  for (const auto& [a_shape, b_shape] : std::vector<std::pair<Dims, Dims>>{{{3, 70, 100}, {3, 100, 110}},
                                                                           {{3, 70, 100}, {100, 110}},
                                                                           {{70, 100}, {4, 100, 110}},
                                                                           {{2, 1, 70, 100}, {3, 100, 110}},
                                                                           {{1, 2000}, {2000, 1100}},
                                                                           {{2000}, {2000, 1100}},
                                                                           {{1100, 2000}, {2000}},
                                                                           {{1100, 2000}, {2000, 1}}}) {
    for (const Lay lay : {Lay::kContiguous, Lay::kPermuted, Lay::kAnyhow}) {
      TestTensor a(Dtype::kFloat32, a_shape, lay, random);
      TestTensor b(Dtype::kFloat32, b_shape, lay, random);
      a.Fill(random, -1, 1);
      b.Fill(random, -1, 1);
      Check(Op::kMatmul, a, b, nullptr);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Matmul, Linear) {
  ForEachIsa([] {
    std::mt19937 random(23);
    for (const Dtype dtype : Reals()) {
      for (const Dims& shape : {Dims{3}, Dims{2, 3}, Dims{4, 5, 3}, Dims{700, 3}}) {
        for (const int64_t outs : {1, 4, 300}) {
          const Lay lay = Lays()[random() % Lays().size()];
          TestTensor x(dtype, shape, lay, random);
          TestTensor weight(dtype, {outs, 3}, lay, random);
          TestTensor bias(dtype, {outs}, lay, random);
          x.Fill(random, -2, 2);
          weight.Fill(random, -2, 2);
          bias.Fill(random, -2, 2);
          Check(Op::kLinear, x, weight, nullptr);
          Check(Op::kLinear, x, weight, &bias);
          if (HasFatalFailure()) return;
        }
      }
    }
  });
}

TEST(Matmul, MixedDtypesPromote) {
  std::mt19937 random(24);
  TestTensor a(Dtype::kInt8, {5, 6}, Lay::kContiguous, random);
  TestTensor b(Dtype::kInt16, {6, 7}, Lay::kContiguous, random);
  a.Fill(random, 0, 0);
  b.Fill(random, 0, 0);
  Check(Op::kMatmul, a, b, nullptr);
  TestTensor x(Dtype::kFloat32, {5, 6}, Lay::kContiguous, random);
  TestTensor y(Dtype::kFloat64, {6, 7}, Lay::kContiguous, random);
  x.Fill(random, -1, 1);
  y.Fill(random, -1, 1);
  Check(Op::kMatmul, x, y, nullptr);
}

TEST(Matmul, IntegersAreExact) {
  const TestTensor a = TestTensor::Of(Dtype::kInt64, {1, 2}, {9007199254740993, 1});
  const TestTensor b = TestTensor::Of(Dtype::kInt64, {2, 1}, {1, 1});
  EXPECT_THAT(RunOp(Op::kMatmul, {&a, &b})->Values(), ElementsAre(9007199254740994));
  const TestTensor c = TestTensor::Of(Dtype::kInt32, {1, 1}, {65536});
  EXPECT_THAT(RunOp(Op::kMatmul, {&c, &c})->Values(), ElementsAre(0));
}

TEST(Matmul, EmptyInnerDimensionGivesZeros) {
  for (const Dtype dtype :
       {Dtype::kInt64, Dtype::kFloat32, Dtype::kFloat16, Dtype::kBfloat16, Dtype::kInt8, Dtype::kFloat64}) {
    const TestTensor a = TestTensor::Contiguous(dtype, {5, 0});
    const TestTensor b = TestTensor::Contiguous(dtype, {0, 5});
    EXPECT_THAT(RunOp(Op::kMatmul, {&a, &b})->Values(), Each(0));
    const TestTensor x = TestTensor::Contiguous(dtype, {0, 3, 4});
    const TestTensor y = TestTensor::Contiguous(dtype, {0, 4, 5});
    EXPECT_THAT(RunOp(Op::kMatmul, {&x, &y})->shape(), ElementsAre(0, 3, 5));
  }
  const TestTensor x = TestTensor::Contiguous(Dtype::kFloat32, {2, 0});
  const TestTensor weight = TestTensor::Contiguous(Dtype::kFloat32, {3, 0});
  const TestTensor bias = TestTensor::Of(Dtype::kFloat32, {3}, {1, 2, 3});
  EXPECT_THAT(RunOp(Op::kLinear, {&x, &weight, &bias})->Values(), ElementsAre(1, 2, 3, 1, 2, 3));
}

TEST(Matmul, TrueFloat32) {
  for (const int64_t n : {16, 200}) {
    TestTensor identity = TestTensor::Contiguous(Dtype::kFloat32, {n, n});
    TestTensor ones = TestTensor::Contiguous(Dtype::kFloat32, {n, n});
    for (int64_t i = 0; i < n; ++i) identity.Set(i * n + i, 2049);
    for (int64_t i = 0; i < n * n; ++i) ones.Set(i, 1);
    EXPECT_THAT(RunOp(Op::kMatmul, {&identity, &ones})->Values(), Each(2049));
  }
  std::mt19937 random(25);
  TestTensor a(Dtype::kFloat32, {512, 512}, Lay::kContiguous, random);
  TestTensor b(Dtype::kFloat32, {512, 512}, Lay::kContiguous, random);
  a.Fill(random, -1, 1);
  b.Fill(random, -1, 1);
  const TestTensor out = *RunOp(Op::kMatmul, {&a, &b});
  double error = 0;
  double size = 0;
  for (int64_t i = 0; i < 512; i += 3) {
    for (int64_t j = 0; j < 512; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < 512; ++p) {
        sum += static_cast<double>(a.view().as<float>()[i * 512 + p]) *
               static_cast<double>(b.view().as<float>()[p * 512 + j]);
      }
      const double d = static_cast<double>(out.view().as<float>()[i * 512 + j]) - sum;
      error += d * d;
      size += sum * sum;
    }
  }
  EXPECT_LE(std::sqrt(error / size), 1e-6);
}

TEST(Matmul, Float64IsFloat64) {
  const TestTensor a = TestTensor::Of(Dtype::kFloat64, {1, 3}, {1, 1e-12L, -1});
  const TestTensor b = TestTensor::Of(Dtype::kFloat64, {3, 1}, {1, 1, 1});
  EXPECT_NEAR(static_cast<double>(RunOp(Op::kMatmul, {&a, &b})->Get(0)), 1e-12, 1e-16);
}

TEST(Matmul, SameBitsForAnyThreads) {
  std::mt19937 random(26);
  TestTensor a(Dtype::kFloat64, {200, 300}, Lay::kContiguous, random);
  TestTensor b(Dtype::kFloat64, {300, 250}, Lay::kContiguous, random);
  a.Fill(random, -1, 1);
  b.Fill(random, -1, 1);
  SetThreads(1);
  const std::vector<std::byte> one = RunOp(Op::kMatmul, {&a, &b})->Bytes();
  SetThreads(4);
  EXPECT_EQ(RunOp(Op::kMatmul, {&a, &b})->Bytes(), one);
  SetThreads(0);
}

TEST(Matmul, MemoryIsGivenBackAndItsLackIsSaid) {
  std::mt19937 random(27);
  for (const Dtype dtype : {Dtype::kFloat64, Dtype::kFloat16}) {
    TestTensor a(dtype, {150, 150}, Lay::kContiguous, random);
    a.Fill(random, -1, 1);
    Memory().fail = true;
    const absl::Status status = RunOp(Op::kMatmul, {&a, &a}).status();
    Memory().fail = false;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(RunOp(Op::kMatmul, {&a, &a}).ok());
    EXPECT_EQ(Memory().live(), 0);
  }
}

}  // namespace
}  // namespace tensord::cpu
