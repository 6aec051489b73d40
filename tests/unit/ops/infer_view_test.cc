// Shapes of views, and slices against Python's definition.
#include <limits>

#include "kernels/ops/infer_internal.h"
#include "tests/unit/ops/infer_testing.h"

namespace tensord {
namespace {

Attributes Shape(std::vector<int64_t> shape) {
  return With<ViewAttributes>([&](auto& a) { a.shape.assign(shape.begin(), shape.end()); });
}

Attributes OfAxes(std::vector<int32_t> axes, int64_t diagonal = 0) {
  return With<ViewAttributes>([&](auto& a) {
    a.axes.assign(axes.begin(), axes.end());
    a.diagonal = diagonal;
  });
}

Attributes SliceOf(std::vector<int32_t> axes, std::vector<int64_t> starts, std::vector<int64_t> stops,
                   std::vector<int64_t> steps = {}) {
  return With<ViewAttributes>([&](auto& a) {
    a.axes.assign(axes.begin(), axes.end());
    a.starts.assign(starts.begin(), starts.end());
    a.stops.assign(stops.begin(), stops.end());
    a.steps.assign(steps.begin(), steps.end());
  });
}

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(InferView, Reshape) {
  EXPECT_EQ(Ask("reshape", {"float32[2,6]"}, Shape({3, 4})), "float32[3,4]");
  EXPECT_EQ(Ask("reshape", {"float32[2,6]"}, Shape({-1})), "float32[12]");
  EXPECT_EQ(Ask("reshape", {"float32[2,6]"}, Shape({4, -1})), "float32[4,3]");
  EXPECT_EQ(Ask("reshape", {"float32[1]"}, Shape({})), "float32[]");
  EXPECT_EQ(Ask("reshape", {"float32[]"}, Shape({1, 1})), "float32[1,1]");
  EXPECT_EQ(Ask("reshape", {"float32[0,3]"}, Shape({5, 0})), "float32[5,0]");
  EXPECT_EQ(Ask("reshape", {"float32[0,3]"}, Shape({-1, 3})), "float32[0,3]");
  EXPECT_EQ(Ask("reshape", {"float32[0,3]"}, Shape({-1, 0})), "SHAPE_MISMATCH") << "NumPy and PyTorch refuse it too";
  EXPECT_EQ(Ask("reshape", {"float32[2,6]"}, Shape({5, -1})), "SHAPE_MISMATCH");
  EXPECT_EQ(Ask("reshape", {"float32[2,6]"}, Shape({5, 2})), "SHAPE_MISMATCH");
  EXPECT_EQ(Ask("reshape", {"float32[2,6]"}, Shape({})), "SHAPE_MISMATCH");
  EXPECT_EQ(Ask("reshape", {"float32[2,6]"}, Shape({-1, -1})), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("reshape", {"float32[2,6]"}, Shape({-2, 6})), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("reshape", {"float32[2]"}, Shape({int64_t{1} << 62, int64_t{1} << 62})), "SHAPE_MISMATCH");
  EXPECT_EQ(Ask("reshape", {"float32[0]"}, Shape({0, int64_t{1} << 62, int64_t{1} << 62})), "SHAPE_INVALID");
  EXPECT_EQ(Ask("reshape", {"float32[1]"}, Shape(std::vector<int64_t>(65, 1))), "LIMIT_EXCEEDED");
  EXPECT_EQ(Message("reshape", {"float32[2,6]"}, Shape({5, 2})),
            "reshape: shapes [2,6] and [5,2] do not fit: 12 elements are not 10");
}

TEST(InferView, Permute) {
  EXPECT_EQ(Ask("permute", {"float32[2,3,4]"}, OfAxes({2, 0, 1})), "float32[4,2,3]");
  EXPECT_EQ(Ask("permute", {"float32[2,3,4]"}, OfAxes({-1, -2, -3})), "float32[4,3,2]");
  EXPECT_EQ(Ask("permute", {"float32[]"}, OfAxes({})), "float32[]");
  EXPECT_EQ(Ask("permute", {"float32[2,3]"}, OfAxes({0})), "AXIS_INVALID");
  EXPECT_EQ(Ask("permute", {"float32[2,3]"}, OfAxes({0, 0})), "AXIS_INVALID");
  EXPECT_EQ(Ask("permute", {"float32[2,3]"}, OfAxes({0, 2})), "AXIS_INVALID");
}

TEST(InferView, SqueezeAndUnsqueeze) {
  EXPECT_EQ(Ask("squeeze", {"float32[1,3,1]"}, OfAxes({0, -1})), "float32[3]");
  EXPECT_EQ(Ask("squeeze", {"float32[1,3,1]"}, OfAxes({})), "float32[1,3,1]");
  EXPECT_EQ(MismatchAxis("squeeze", {"float32[1,3,1]"}, OfAxes({1})), "1");
  EXPECT_EQ(Ask("squeeze", {"float32[1]"}, OfAxes({1})), "AXIS_INVALID");
  EXPECT_EQ(Ask("unsqueeze", {"float32[3]"}, OfAxes({0})), "float32[1,3]");
  EXPECT_EQ(Ask("unsqueeze", {"float32[3]"}, OfAxes({-1})), "float32[3,1]");
  EXPECT_EQ(Ask("unsqueeze", {"float32[3,4]"}, OfAxes({0, 2})), "float32[1,3,1,4]");
  EXPECT_EQ(Ask("unsqueeze", {"float32[]"}, OfAxes({0, 1})), "float32[1,1]");
  EXPECT_EQ(Ask("unsqueeze", {"float32[3]"}, OfAxes({2})), "AXIS_INVALID");
  EXPECT_EQ(Ask("unsqueeze", {"float32[3]"}, OfAxes({0, -3})), "AXIS_INVALID") << "the same place twice";
  EXPECT_EQ(Ask("unsqueeze", {TensorType{Dtype::kInt8, Dims(64, 1)}}, OfAxes({0})), "LIMIT_EXCEEDED");
}

TEST(InferView, Expand) {
  EXPECT_EQ(Ask("expand", {"float32[3,1]"}, Shape({3, 4})), "float32[3,4]");
  EXPECT_EQ(Ask("expand", {"float32[3,1]"}, Shape({2, 3, 4})), "float32[2,3,4]");
  EXPECT_EQ(Ask("expand", {"float32[3,1]"}, Shape({-1, 4})), "float32[3,4]");
  EXPECT_EQ(Ask("expand", {"float32[]"}, Shape({2, 2})), "float32[2,2]");
  EXPECT_EQ(Ask("expand", {"float32[1]"}, Shape({0})), "float32[0]");
  EXPECT_EQ(MismatchAxis("expand", {"float32[3,1]"}, Shape({2, 4})), "0");
  EXPECT_EQ(Ask("expand", {"float32[3,1]"}, Shape({3})), "SHAPE_MISMATCH");
  EXPECT_EQ(Ask("expand", {"float32[3]"}, Shape({-1, 3})), "ATTRIBUTE_INVALID") << "a new axis has no size to keep";
  EXPECT_EQ(Ask("expand", {"float32[3]"}, Shape({-2})), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("expand", {"float32[1]"}, Shape({int64_t{1} << 62})), "SHAPE_INVALID");
}

TEST(InferView, Diagonal) {
  EXPECT_EQ(Ask("diagonal", {"float32[3,4]"}, OfAxes({})), "float32[3]");
  EXPECT_EQ(Ask("diagonal", {"float32[3,4]"}, OfAxes({}, 1)), "float32[3]");
  EXPECT_EQ(Ask("diagonal", {"float32[3,4]"}, OfAxes({}, 3)), "float32[1]");
  EXPECT_EQ(Ask("diagonal", {"float32[3,4]"}, OfAxes({}, 4)), "float32[0]");
  EXPECT_EQ(Ask("diagonal", {"float32[3,4]"}, OfAxes({}, -2)), "float32[1]");
  EXPECT_EQ(Ask("diagonal", {"float32[3,4]"}, OfAxes({}, -3)), "float32[0]");
  EXPECT_EQ(Ask("diagonal", {"float32[3,4]"}, OfAxes({}, kMin)), "float32[0]");
  EXPECT_EQ(Ask("diagonal", {"float32[3,4]"}, OfAxes({}, kMax)), "float32[0]");
  EXPECT_EQ(Ask("diagonal", {"float32[2,3,4]"}, OfAxes({0, 2})), "float32[3,2]");
  EXPECT_EQ(Ask("diagonal", {"float32[5,3,4]"}, OfAxes({})), "float32[5,3]");
  EXPECT_EQ(Ask("diagonal", {"float32[3]"}, OfAxes({})), "AXIS_INVALID");
  EXPECT_EQ(Ask("diagonal", {"float32[3,4]"}, OfAxes({0})), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("diagonal", {"float32[3,4]"}, OfAxes({1, -1})), "AXIS_INVALID");
}

TEST(InferView, Flatten) {
  EXPECT_EQ(Ask("flatten", {"float32[2,3,4]"}, OfAxes({1, -1})), "float32[2,12]");
  EXPECT_EQ(Ask("flatten", {"float32[2,3,4]"}, OfAxes({0, 1})), "float32[6,4]");
  EXPECT_EQ(Ask("flatten", {"float32[2,3,4]"}, OfAxes({})), "float32[24]");
  EXPECT_EQ(Ask("flatten", {"float32[2,3,4]"}, OfAxes({1, 1})), "float32[2,3,4]");
  EXPECT_EQ(Ask("flatten", {"float32[0,3,4]"}, OfAxes({1, -1})), "float32[0,12]");
  EXPECT_EQ(Ask("flatten", {"float32[]"}, OfAxes({})), "float32[1]");
  EXPECT_EQ(Ask("flatten", {"float32[]"}, OfAxes({0, -1})), "float32[1]");
  EXPECT_EQ(Ask("flatten", {"float32[]"}, OfAxes({1, -1})), "AXIS_INVALID");
  EXPECT_EQ(Ask("flatten", {"float32[2,3]"}, OfAxes({1, 0})), "AXIS_INVALID");
  EXPECT_EQ(Ask("flatten", {"float32[2,3]"}, OfAxes({0, 2})), "AXIS_INVALID");
  EXPECT_EQ(Ask("flatten", {"float32[2,3]"}, OfAxes({0})), "ATTRIBUTE_INVALID");
}

TEST(InferView, FieldsOfOtherOps) {
  EXPECT_EQ(Ask("permute", {"float32[2]"}, Shape({2})), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("reshape", {"float32[2]"}, OfAxes({0})), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("flatten", {"float32[2]"}, OfAxes({}, 1)), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("squeeze", {"float32[1]"}, SliceOf({0}, {0}, {1})), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("reshape", {2.0}, Shape({1})), "ARITY_INVALID");
}

TEST(InferView, Slice) {
  EXPECT_EQ(Ask("slice", {"float32[5,7]"}, SliceOf({0}, {1}, {4})), "float32[3,7]");
  EXPECT_EQ(Ask("slice", {"float32[5,7]"}, SliceOf({-1, 0}, {0, 0}, {7, 5}, {2, 3})), "float32[2,4]");
  EXPECT_EQ(Ask("slice", {"float32[5]"}, SliceOf({0}, {-1}, {-6}, {-1})), "float32[5]") << "x[::-1]";
  EXPECT_EQ(Ask("slice", {"float32[5]"}, SliceOf({0}, {4}, {0}, {-1})), "float32[4]");
  EXPECT_EQ(Ask("slice", {"float32[5]"}, SliceOf({0}, {3}, {1})), "float32[0]");
  EXPECT_EQ(Ask("slice", {"float32[5]"}, SliceOf({0}, {-100}, {100})), "float32[5]");
  EXPECT_EQ(Ask("slice", {"float32[5]"}, SliceOf({0}, {kMin}, {kMax}, {kMax})), "float32[1]");
  EXPECT_EQ(Ask("slice", {"float32[5]"}, SliceOf({0}, {kMax}, {kMin}, {kMin})), "float32[1]");
  EXPECT_EQ(Ask("slice", {"float32[5]"}, SliceOf({}, {}, {})), "float32[5]");
  EXPECT_EQ(Ask("slice", {"float32[0]"}, SliceOf({0}, {-1}, {-2}, {-1})), "float32[0]");
  EXPECT_EQ(Ask("slice", {"float32[5]"}, SliceOf({0}, {0}, {5}, {0})), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("slice", {"float32[5]"}, SliceOf({0}, {0, 1}, {5})), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("slice", {"float32[5]"}, SliceOf({0}, {0}, {})), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("slice", {"float32[5]"}, SliceOf({0}, {0}, {5}, {1, 1})), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("slice", {"float32[5]"}, SliceOf({1}, {0}, {5})), "AXIS_INVALID");
  EXPECT_EQ(Ask("slice", {"float32[5,5]"}, SliceOf({0, -2}, {0, 0}, {5, 5})), "AXIS_INVALID");
}

// The indices of s[i:j:k] by the text of Python's library reference: a negative i or j is relative to the end, both are
// reduced to what the sequence has, and the items are those at i, i + k, i + 2k … before j is reached.
std::vector<int64_t> PythonSlice(int64_t i, int64_t j, int64_t k, int64_t size) {
  const auto bound = [&](int64_t index) {
    if (index < 0) index += size;
    if (k > 0) return index < 0 ? 0 : index > size ? size : index;
    return index < -1 ? -1 : index > size - 1 ? size - 1 : index;
  };
  i = bound(i);
  j = bound(j);
  std::vector<int64_t> indices;
  for (int64_t x = i; k > 0 ? x < j : x > j; x += k) indices.push_back(x);
  return indices;
}

TEST(ResolveSlice, EverySmallCaseIsPythons) {
  for (int64_t size = 0; size <= 6; ++size) {
    for (int64_t start = -8; start <= 8; ++start) {
      for (int64_t stop = -8; stop <= 8; ++stop) {
        for (int64_t step = -7; step <= 7; ++step) {
          if (step == 0) continue;
          const std::vector<int64_t> expected = PythonSlice(start, stop, step, size);
          const infer_internal::SliceRange got = infer_internal::ResolveSlice(start, stop, step, size);
          ASSERT_EQ(got.count, static_cast<int64_t>(expected.size()))
              << start << ":" << stop << ":" << step << " of " << size;
          for (size_t n = 0; n < expected.size(); ++n) {
            ASSERT_EQ(got.start + static_cast<int64_t>(n) * step, expected[n])
                << start << ":" << stop << ":" << step << " of " << size;
          }
        }
      }
    }
  }
}

// What a Python session answers for "abcdefg".
TEST(ResolveSlice, FactsFromPython) {
  const auto slice = [](int64_t start, int64_t stop, int64_t step) {
    constexpr std::string_view kText = "abcdefg";
    const auto range = infer_internal::ResolveSlice(start, stop, step, static_cast<int64_t>(kText.size()));
    std::string out;
    for (int64_t n = 0; n < range.count; ++n) out.push_back(kText[static_cast<size_t>(range.start + n * step)]);
    return out;
  };
  EXPECT_EQ(slice(1, 4, 1), "bcd");
  EXPECT_EQ(slice(-3, 7, 1), "efg");
  EXPECT_EQ(slice(0, 7, 3), "adg");
  EXPECT_EQ(slice(5, 1, -2), "fd");
  EXPECT_EQ(slice(6, -8, -1), "gfedcba");
  EXPECT_EQ(slice(100, -100, -3), "gda");
  EXPECT_EQ(slice(-1, -1, 1), "");
}

}  // namespace
}  // namespace tensord
