#include <limits>

#include "case.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace tensord::cpu {
namespace {

using ::testing::ElementsAre;

std::vector<Dtype> EveryDtype() {
  std::vector<Dtype> all = Integers();
  all.insert(all.end(), Reals().begin(), Reals().end());
  all.push_back(Dtype::kBool);
  return all;
}

TEST(Join, ConcatAlongEveryAxis) {
  std::mt19937 random(31);
  for (const Dtype dtype : EveryDtype()) {
    for (const Lay lay : Lays()) {
      for (int32_t axis = -3; axis < 3; ++axis) {
        const size_t d = static_cast<size_t>((axis + 3) % 3);
        std::vector<TestTensor> parts;
        std::vector<const TestTensor*> operands;
        for (const int64_t size : {2, 0, 1, 5}) {
          Dims shape = {3, 4, 5};
          shape[d] = size;
          parts.emplace_back(dtype, shape, lay, random);
          parts.back().Fill(random, 0, IsReal(dtype) ? 1 : 0);
        }
        for (const TestTensor& part : parts) operands.push_back(&part);
        const absl::StatusOr<TestTensor> out = RunOp(Op::kConcat, operands, JoinAttributes{axis});
        ASSERT_TRUE(out.ok()) << out.status();
        EXPECT_EQ(out->shape()[d], 8);
        for (int64_t i = 0; i < out->elements(); ++i) {
          std::vector<int64_t> at = Unravel(i, out->shape());
          size_t part = 0;
          while (at[d] >= parts[part].shape()[d]) at[d] -= parts[part++].shape()[d];
          ASSERT_EQ(out->Get(i), parts[part].Get(Ravel(at, parts[part].shape())))
              << DtypeName(dtype) << " axis " << axis;
        }
      }
    }
  }
}

TEST(Join, StackAlongEveryAxis) {
  std::mt19937 random(32);
  for (const Lay lay : Lays()) {
    for (int32_t axis = -3; axis < 3; ++axis) {
      const size_t d = static_cast<size_t>((axis + 3) % 3);
      TestTensor a(Dtype::kFloat32, {4, 5}, lay, random);
      TestTensor b(Dtype::kFloat32, {4, 5}, lay, random);
      a.Fill(random, 0, 1);
      b.Fill(random, 0, 1);
      const absl::StatusOr<TestTensor> out = RunOp(Op::kStack, {&a, &b, &a}, JoinAttributes{axis});
      ASSERT_TRUE(out.ok()) << out.status();
      for (int64_t i = 0; i < out->elements(); ++i) {
        std::vector<int64_t> at = Unravel(i, out->shape());
        const int64_t which = at[d];
        at.erase(at.begin() + static_cast<int64_t>(d));
        ASSERT_EQ(out->Get(i), (which == 1 ? b : a).Get(Ravel(at, a.shape())));
      }
    }
  }
  const TestTensor x = TestTensor::Of(Dtype::kInt16, {}, {7});
  EXPECT_THAT(RunOp(Op::kStack, {&x, &x})->Values(), ElementsAre(7, 7));
}

TEST(Join, MixedDtypesPromote) {
  const TestTensor a = TestTensor::Of(Dtype::kInt8, {1, 2}, {-1, 2});
  const TestTensor b = TestTensor::Of(Dtype::kInt32, {1, 2}, {100000, 4});
  for (const int32_t axis : {0, 1}) {
    const absl::StatusOr<TestTensor> out = RunOp(Op::kConcat, {&a, &b}, JoinAttributes{axis});
    EXPECT_EQ(out->dtype(), Dtype::kInt32);
    EXPECT_THAT(out->Values(), ElementsAre(-1, 2, 100000, 4));
  }
  const TestTensor c = TestTensor::Of(Dtype::kFloat16, {2, 1}, {1.5L, 2});
  const TestTensor e = TestTensor::Of(Dtype::kFloat64, {2, 1}, {0.1L, 3});
  EXPECT_THAT(RunOp(Op::kConcat, {&c, &e}, JoinAttributes{1})->Values(),
              ElementsAre(1.5L, static_cast<long double>(static_cast<double>(0.1L)), 2, 3));
}

TEST(Join, LargeParts) {
  std::mt19937 random(33);
  TestTensor a(Dtype::kInt32, {700, 300}, Lay::kContiguous, random);
  TestTensor b(Dtype::kInt32, {700, 1}, Lay::kContiguous, random);
  a.Fill(random, 0, 0);
  b.Fill(random, 0, 0);
  const TestTensor out = *RunOp(Op::kConcat, {&b, &a, &b}, JoinAttributes{1});
  for (int64_t i = 0; i < 700; i += 7) {
    EXPECT_EQ(out.Get(i * 302), b.Get(i));
    EXPECT_EQ(out.Get(i * 302 + 1), a.Get(i * 300));
    EXPECT_EQ(out.Get(i * 302 + 300), a.Get(i * 300 + 299));
    EXPECT_EQ(out.Get(i * 302 + 301), b.Get(i));
  }
}

TEST(Take, EveryIndexDtypeAxisAndLayout) {
  std::mt19937 random(34);
  for (const Dtype dtype : EveryDtype()) {
    for (const Dtype index_dtype : Integers()) {
      for (int32_t axis = -3; axis < 3; ++axis) {
        const size_t d = static_cast<size_t>((axis + 3) % 3);
        TestTensor x(dtype, {4, 5, 6}, Lays()[random() % Lays().size()], random);
        x.Fill(random, 0, IsReal(dtype) ? 1 : 0);
        TestTensor indices(index_dtype, {2, 3}, Lays()[random() % Lays().size()], random);
        const int64_t size = x.shape()[d];
        const int64_t least = KindOf(index_dtype) == DtypeKind::kUnsigned ? 0 : -size;
        indices.Fill(random, static_cast<double>(least), static_cast<double>(size - 1));
        const absl::StatusOr<TestTensor> out = RunOp(Op::kTake, {&x, &indices}, IndexAttributes{axis});
        ASSERT_TRUE(out.ok()) << out.status();
        ASSERT_EQ(out->shape().size(), 4);
        for (int64_t i = 0; i < out->elements(); ++i) {
          std::vector<int64_t> at = Unravel(i, out->shape());
          auto index = static_cast<int64_t>(indices.Get(at[d] * 3 + at[d + 1]));
          if (index < 0) index += size;
          at.erase(at.begin() + static_cast<int64_t>(d));
          at[d] = index;
          ASSERT_EQ(out->Get(i), x.Get(Ravel(at, x.shape()))) << DtypeName(dtype) << " axis " << axis;
        }
      }
    }
  }
}

TEST(Take, BadIndicesAreRefused) {
  const TestTensor x = TestTensor::Of(Dtype::kFloat32, {2, 3}, {1, 2, 3, 4, 5, 6});
  struct Case {
    Dtype dtype;
    long double index;
    const char* text;
  };
  for (const Case& c : {Case{Dtype::kInt64, 3, "3"}, Case{Dtype::kInt8, -4, "-4"},
                        Case{Dtype::kUint64, 18446744073709551615.0L, "18446744073709551615"},
                        Case{Dtype::kInt64, static_cast<long double>(INT64_MIN), "-9223372036854775808"}}) {
    const TestTensor indices = TestTensor::Of(c.dtype, {2}, {0, c.index});
    const absl::Status status = RunOp(Op::kTake, {&x, &indices}, IndexAttributes{1}).status();
    EXPECT_EQ(ReasonOf(status), Reason::kIndexOutOfRange) << status;
    const ErrorDetails details = DetailsOf(status);
    EXPECT_EQ(details.Get("index"), c.text);
    EXPECT_EQ(details.Get("axis"), "1");
    EXPECT_EQ(details.Get("size"), "3");
    EXPECT_EQ(details.Get("op"), "take");
  }
}

TEST(Take, EmptyOnes) {
  const TestTensor x = TestTensor::Of(Dtype::kFloat32, {2, 3}, {1, 2, 3, 4, 5, 6});
  const TestTensor none = TestTensor::Contiguous(Dtype::kInt64, {0});
  EXPECT_THAT(RunOp(Op::kTake, {&x, &none}, IndexAttributes{1})->shape(), ElementsAre(2, 0));
  const TestTensor empty = TestTensor::Contiguous(Dtype::kFloat32, {2, 0});
  EXPECT_THAT(RunOp(Op::kTake, {&empty, &none}, IndexAttributes{1})->shape(), ElementsAre(2, 0));
  const TestTensor zero = TestTensor::Of(Dtype::kInt64, {1}, {0});
  EXPECT_EQ(ReasonOf(RunOp(Op::kTake, {&empty, &zero}, IndexAttributes{1}).status()), Reason::kIndexOutOfRange);
  const TestTensor one = TestTensor::Of(Dtype::kInt64, {}, {-1});
  EXPECT_THAT(RunOp(Op::kTake, {&x, &one}, IndexAttributes{0})->Values(), ElementsAre(4, 5, 6));
}

TEST(Take, ManyIndices) {
  std::mt19937 random(35);
  TestTensor x(Dtype::kFloat32, {3, 1000, 7}, Lay::kContiguous, random);
  x.Fill(random, 0, 1);
  TestTensor indices(Dtype::kInt32, {40000}, Lay::kContiguous, random);
  indices.Fill(random, -1000, 999);
  const TestTensor out = *RunOp(Op::kTake, {&x, &indices}, IndexAttributes{1});
  for (int64_t i = 0; i < out.elements(); i += 101) {
    const std::vector<int64_t> at = Unravel(i, out.shape());
    auto index = static_cast<int64_t>(indices.Get(at[1]));
    if (index < 0) index += 1000;
    ASSERT_EQ(out.Get(i), x.Get((at[0] * 1000 + index) * 7 + at[2]));
  }
}

}  // namespace
}  // namespace tensord::cpu
