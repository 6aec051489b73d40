#include "kernels/core/shape.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "kernels/core/error.h"
#include "kernels/core/tensor_view.h"

namespace tensord {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

Reason RefusalOf(Dtype dtype, const Dims& shape) { return ReasonOf(CheckedBytes(dtype, shape).status()); }

TEST(CheckedBytes, Counts) {
  EXPECT_EQ(*CheckedBytes(Dtype::kFloat32, Dims{}), 4);
  EXPECT_EQ(*CheckedBytes(Dtype::kFloat32, Dims{2, 3}), 24);
  EXPECT_EQ(*CheckedBytes(Dtype::kBool, Dims{kLargest}), kLargest);
  EXPECT_EQ(*CheckedBytes(Dtype::kFloat64, Dims{0, 5}), 0);
  EXPECT_EQ(*CheckedBytes(Dtype::kInt8, Dims(64, 1)), 1);
}

TEST(CheckedBytes, RefusesHostileShapes) {
  EXPECT_EQ(RefusalOf(Dtype::kFloat32, {-1, 4}), Reason::kShapeInvalid);
  EXPECT_EQ(RefusalOf(Dtype::kFloat32, {std::numeric_limits<int64_t>::min()}), Reason::kShapeInvalid);
  EXPECT_EQ(RefusalOf(Dtype::kBool, {int64_t{1} << 62, 4}), Reason::kShapeInvalid);
  EXPECT_EQ(RefusalOf(Dtype::kFloat32, {int64_t{1} << 62}), Reason::kShapeInvalid);
  // The product wraps to 0.
  EXPECT_EQ(RefusalOf(Dtype::kFloat32, {int64_t{1} << 33, int64_t{1} << 31}), Reason::kShapeInvalid);
  EXPECT_EQ(RefusalOf(Dtype::kBool, {int64_t{1} << 31, int64_t{1} << 32}), Reason::kShapeInvalid);
  EXPECT_EQ(RefusalOf(Dtype::kInt64, {kLargest, kLargest, kLargest}), Reason::kShapeInvalid);
  // Empty, but its other sizes could not be multiplied.
  EXPECT_EQ(RefusalOf(Dtype::kInt8, {0, int64_t{1} << 62, int64_t{1} << 62}), Reason::kShapeInvalid);
  EXPECT_EQ(RefusalOf(Dtype::kInt8, {int64_t{1} << 62, int64_t{1} << 62, 0}), Reason::kShapeInvalid);
  EXPECT_EQ(RefusalOf(Dtype::kInt8, Dims(65, 1)), Reason::kLimitExceeded);
  EXPECT_EQ(RefusalOf(Dtype::kInt8, Dims(10000, 1)), Reason::kLimitExceeded);
}

TEST(CheckedBytes, TheEdgeIsExact) {
  // 2^63 - 1 bytes are taken, 2^63 are not.
  EXPECT_EQ(*CheckedBytes(Dtype::kFloat64, Dims{(int64_t{1} << 60) - 1}), ((int64_t{1} << 60) - 1) * 8);
  EXPECT_EQ(RefusalOf(Dtype::kFloat64, {int64_t{1} << 60}), Reason::kShapeInvalid);
}

TEST(CheckedBytes, AgreesWithWideArithmetic) {
  std::mt19937_64 generator(3);  // NOLINT
  for (int i = 0; i < 20000; ++i) {
    Dims shape(generator() % 5, 0);
    __int128 product = 2;
    bool too_large = false;
    bool empty = false;
    for (int64_t& size : shape) {
      size = static_cast<int64_t>(generator() >> (1 + generator() % 63));
      empty |= size == 0;
      if (size > 0 && !too_large) product *= size;
      too_large |= product > kLargest;
    }
    const absl::StatusOr<int64_t> bytes = CheckedBytes(Dtype::kFloat16, shape);
    ASSERT_EQ(bytes.ok(), !too_large) << ShapeText(shape);
    if (too_large) continue;
    ASSERT_EQ(*bytes, empty ? 0 : static_cast<int64_t>(product)) << ShapeText(shape);
  }
}

TEST(CheckedBytes, SaysWhatIsWrong) {
  const absl::Status status = CheckedBytes(Dtype::kFloat32, Dims{-1, 4}).status();
  EXPECT_EQ(status.message(),
            "shape [-1,4] with items of 4 bytes: sizes must be >= 0 and all bytes together below 2^63");
  EXPECT_EQ(DetailsOf(status).fields.at(0).first, "spec.shape");
}

TEST(Shape, Text) {
  EXPECT_EQ(ShapeText(Dims{}), "[]");
  EXPECT_EQ((TensorType{Dtype::kFloat32, {2, 3}}).ToString(), "float32[2,3]");
  EXPECT_EQ((TensorSpec{{Dtype::kBool, {}}, {DeviceKind::kCuda, 1}}).ToString(), "bool[] on cuda:1");
}

TEST(Shape, ContiguousStrides) {
  EXPECT_EQ(ContiguousStrides(Dims{2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(ContiguousStrides(Dims{}), Dims{});
  EXPECT_EQ(ContiguousStrides(Dims{2, 0, 4}), (Dims{4, 4, 1}));
}

TEST(Layout, Contiguity) {
  EXPECT_TRUE((Layout{{2, 3}, {3, 1}, 0}).contiguous());
  EXPECT_TRUE((Layout{{2, 3}, {3, 1}, 7}).contiguous());
  EXPECT_TRUE((Layout{{2, 1, 3}, {3, 99, 1}, 0}).contiguous()) << "an axis of size 1 may have any stride";
  EXPECT_TRUE((Layout{{0, 3}, {5, 5}, 0}).contiguous()) << "an empty tensor may have any strides";
  EXPECT_TRUE((Layout{{}, {}, 0}).contiguous());
  EXPECT_FALSE((Layout{{3, 2}, {1, 3}, 0}).contiguous());
  EXPECT_FALSE((Layout{{2, 3}, {0, 1}, 0}).contiguous());
  EXPECT_FALSE((Layout{{3}, {-1}, 2}).contiguous());
  EXPECT_EQ(Layout::Contiguous(Dims{2, 3}), (Layout{{2, 3}, {3, 1}, 0}));
}

}  // namespace
}  // namespace tensord
