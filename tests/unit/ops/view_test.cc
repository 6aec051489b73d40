// Layouts of views against where each element comes from.
#include "kernels/ops/view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "kernels/ops/infer.h"

namespace tensord {
namespace {

using Index = std::vector<int64_t>;

// All indices of a shape in row-major order.
std::vector<Index> Indices(const Dims& shape) {
  std::vector<Index> all{{}};
  for (const int64_t size : shape) {
    std::vector<Index> longer;
    for (const Index& index : all) {
      for (int64_t i = 0; i < size; ++i) {
        longer.push_back(index);
        longer.back().push_back(i);
      }
    }
    all = std::move(longer);
  }
  return all;
}

// Addresses of a layout's elements in row-major order.
std::vector<int64_t> Addresses(const Layout& layout) {
  std::vector<int64_t> addresses;
  for (const Index& index : Indices(layout.shape)) {
    int64_t address = layout.offset;
    for (size_t d = 0; d < index.size(); ++d) address += index[d] * layout.strides[d];
    addresses.push_back(address);
  }
  return addresses;
}

// The number of an element in row-major order.
size_t Position(const Dims& shape, const Index& index) {
  int64_t position = 0;
  for (size_t d = 0; d < shape.size(); ++d) position = position * shape[d] + index[d];
  return static_cast<size_t>(position);
}

// A view op, and for each index of its result the index of x that it shows.
struct Case {
  Instruction instruction;
  std::function<Index(const Index&)> source;  // null: the elements in row-major order stay
};

class ViewTest : public testing::Test {
 protected:
  int64_t Below(int64_t n) { return static_cast<int64_t>(generator_() % static_cast<uint64_t>(n)); }

  // A random view op that is valid for `shape`.
  Case Random(const Dims& shape) {
    const auto rank = static_cast<int32_t>(shape.size());
    Case c;
    ViewAttributes a;
    switch (Below(8)) {
      case 0: {  // permute
        c.instruction.op = Op::kPermute;
        std::vector<int32_t> order(shape.size());
        for (int32_t i = 0; i < rank; ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), generator_);
        for (const int32_t axis : order) a.axes.push_back(Below(2) == 0 ? axis : axis - rank);
        c.source = [order](const Index& out) {
          Index in(out.size());
          for (size_t i = 0; i < out.size(); ++i) in[order[i]] = out[i];
          return in;
        };
        break;
      }
      case 1: {  // slice: every axis, any step
        c.instruction.op = Op::kSlice;
        Index starts, steps;
        for (int32_t i = 0; i < rank; ++i) {
          int64_t step = Below(7) - 3;
          if (step == 0) step = 1;
          const int64_t first = shape[i] == 0 ? 0 : Below(shape[i]);
          a.axes.push_back(i);
          a.starts.push_back(Below(2) == 0 ? first : first - shape[i]);
          a.stops.push_back(step > 0 ? shape[i] : -shape[i] - 1);
          a.steps.push_back(step);
          starts.push_back(first);
          steps.push_back(step);
        }
        c.source = [starts, steps](const Index& out) {
          Index in;
          for (size_t i = 0; i < out.size(); ++i) in.push_back(starts[i] + out[i] * steps[i]);
          return in;
        };
        break;
      }
      case 2: {  // squeeze
        c.instruction.op = Op::kSqueeze;
        std::vector<bool> gone;
        for (int32_t i = 0; i < rank; ++i) {
          gone.push_back(shape[i] == 1 && Below(2) == 0);
          if (gone.back()) a.axes.push_back(Below(2) == 0 ? i : i - rank);
        }
        c.source = [gone](const Index& out) {
          Index in;
          size_t next = 0;
          for (const bool g : gone) in.push_back(g ? 0 : out[next++]);
          return in;
        };
        break;
      }
      case 3: {  // unsqueeze
        c.instruction.op = Op::kUnsqueeze;
        const auto place = static_cast<int32_t>(Below(rank + 1));
        a.axes.push_back(Below(2) == 0 ? place : place - rank - 1);
        c.source = [place](const Index& out) {
          Index in = out;
          in.erase(in.begin() + place);
          return in;
        };
        break;
      }
      case 4: {  // expand
        c.instruction.op = Op::kExpand;
        const int64_t added = Below(2);
        for (int64_t i = 0; i < added; ++i) a.shape.push_back(1 + Below(3));
        for (const int64_t size : shape)
          a.shape.push_back(size == 1 && Below(2) == 0 ? Below(4) : Below(2) == 0 ? size : -1);
        c.source = [added, shape](const Index& out) {
          Index in(out.begin() + added, out.end());
          for (size_t i = 0; i < in.size(); ++i) in[i] = shape[i] == 1 ? 0 : in[i];
          return in;
        };
        break;
      }
      case 5: {  // diagonal
        if (rank < 2) return Random(shape);
        c.instruction.op = Op::kDiagonal;
        const auto first = static_cast<int32_t>(Below(rank));
        auto second = static_cast<int32_t>(Below(rank - 1));
        if (second >= first) ++second;
        const int64_t offset = Below(7) - 3;
        a.axes = {first, second - rank};
        a.diagonal = offset;
        c.source = [first, second, offset](const Index& out) {
          Index in;
          size_t next = 0;
          for (size_t i = 0; i < out.size() + 1; ++i) {
            if (i == static_cast<size_t>(first)) {
              in.push_back(out.back() + std::max<int64_t>(0, -offset));
            } else if (i == static_cast<size_t>(second)) {
              in.push_back(out.back() + std::max<int64_t>(0, offset));
            } else {
              in.push_back(out[next++]);
            }
          }
          return in;
        };
        break;
      }
      case 6: {  // flatten
        if (rank == 0) return Random(shape);
        c.instruction.op = Op::kFlatten;
        const auto first = static_cast<int32_t>(Below(rank));
        a.axes = {first, static_cast<int32_t>(first + Below(rank - first))};
        break;
      }
      default: {  // reshape: sizes from the prime factors, in random groups
        c.instruction.op = Op::kReshape;
        int64_t rest = NumElements(shape);
        if (rest == 0) {
          a.shape = {Below(3), 0};
          break;
        }
        for (int64_t p = 2; rest > 1;) {
          if (rest % p != 0) {
            ++p;
            continue;
          }
          rest /= p;
          if (!a.shape.empty() && Below(2) == 0) {
            a.shape.back() *= p;
          } else {
            a.shape.push_back(p);
          }
          if (Below(4) == 0) a.shape.push_back(1);
        }
        std::shuffle(a.shape.begin(), a.shape.end(), generator_);
      }
    }
    c.instruction.attributes = a;
    return c;
  }

  std::mt19937_64 generator_{17};  // NOLINT: the same cases every time
};

// Whether any strides give these addresses for this shape: they are fixed by the neighbours of the first element.
bool StridesExist(const std::vector<int64_t>& addresses, const Dims& shape) {
  if (addresses.empty()) return true;
  Layout layout{shape, {}, addresses[0]};
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t behind = 1;
    for (size_t e = d + 1; e < shape.size(); ++e) behind *= shape[e];
    layout.strides.push_back(shape[d] > 1 ? addresses[static_cast<size_t>(behind)] - addresses[0] : 0);
  }
  return Addresses(layout) == addresses;
}

TEST_F(ViewTest, ChainsOfViewsShowTheRightElements) {
  int copies = 0;
  int uncopied_reshapes = 0;
  for (int round = 0; round < 3000; ++round) {
    Dims shape;
    for (int64_t i = Below(5); i > 0; --i) shape.push_back(Below(12) == 0 ? 0 : 1 + Below(4));
    Layout layout = Layout::Contiguous(shape);
    const int64_t buffer = NumElements(shape);
    for (int step = 0; step < 4; ++step) {
      if (NumElements(layout.shape) > 600) break;
      const Case c = Random(layout.shape);
      const TensorType type{Dtype::kInt8, layout.shape};
      const OperandType operand{.tensor = &type};
      const absl::StatusOr<Inference> inference = Infer(c.instruction, {&operand, 1});
      ASSERT_TRUE(inference.ok()) << inference.status() << " for " << type.ToString();
      const Dims& result = inference->outputs[0].shape;

      // Where the elements of the result are to be found.
      const std::vector<int64_t> before = Addresses(layout);
      std::vector<int64_t> expected;
      if (c.source) {
        for (const Index& index : Indices(result)) expected.push_back(before[Position(layout.shape, c.source(index))]);
      } else {
        expected = before;
      }
      const std::optional<Layout> view = ViewLayout(c.instruction, layout, result);
      if (!view) {
        ASSERT_TRUE(c.instruction.op == Op::kReshape || c.instruction.op == Op::kFlatten);
        ASSERT_FALSE(layout.contiguous());
        ASSERT_FALSE(StridesExist(expected, result))
            << ShapeText(layout.shape) << ShapeText(layout.strides) << ShapeText(result);
        ++copies;
        break;
      }
      uncopied_reshapes += !c.source && !layout.contiguous();
      ASSERT_EQ(view->shape, result);
      ASSERT_EQ(view->strides.size(), result.size());
      ASSERT_EQ(Addresses(*view), expected)
          << RowOf(c.instruction.op).name << " of " << ShapeText(layout.shape) << " by " << ShapeText(layout.strides);
      for (const int64_t address : Addresses(*view)) {
        ASSERT_GE(address, 0);
        ASSERT_LT(address, buffer);
      }
      // An empty view points into the buffer too, or to its end.
      ASSERT_GE(view->offset, 0);
      ASSERT_LE(view->offset, buffer);
      layout = *view;
    }
  }
  EXPECT_GT(copies, 30);
  EXPECT_GT(uncopied_reshapes, 30);
}

Instruction Reshape(std::vector<int64_t> shape) {
  Instruction instruction;
  instruction.op = Op::kReshape;
  ViewAttributes a;
  a.shape.assign(shape.begin(), shape.end());
  instruction.attributes = a;
  return instruction;
}

TEST(ViewLayout, ReshapeOfWhatHasNoGaps) {
  // Columns 0 and 1 of a [3,4] matrix: rows are apart, so they can be split but not joined.
  const Layout columns{{3, 2}, {4, 1}, 0};
  EXPECT_EQ(ViewLayout(Reshape({3, 1, 2}), columns, {3, 1, 2})->strides[0], 4);
  EXPECT_FALSE(ViewLayout(Reshape({6}), columns, {6}).has_value());
  EXPECT_FALSE(ViewLayout(Reshape({2, 3}), columns, {2, 3}).has_value());
  // Every second element: one stride.
  EXPECT_EQ(*ViewLayout(Reshape({2, 3}), {{6}, {2}, 1}, {2, 3}), (Layout{{2, 3}, {6, 2}, 1}));
  // Reversed.
  EXPECT_EQ(*ViewLayout(Reshape({2, 3}), {{6}, {-1}, 5}, {2, 3}), (Layout{{2, 3}, {-3, -1}, 5}));
  // Repeated.
  EXPECT_EQ(*ViewLayout(Reshape({2, 3}), {{6}, {0}, 0}, {2, 3}), (Layout{{2, 3}, {0, 0}, 0}));
}

TEST(ViewLayout, HugeStepsDoNotOverflow) {
  Instruction slice;
  slice.op = Op::kSlice;
  ViewAttributes a;
  a.axes = {0};
  a.starts = {1};
  a.stops = {2};
  a.steps = {INT64_MAX};
  slice.attributes = a;
  EXPECT_EQ(*ViewLayout(slice, {{4}, {8}, 0}, {1}), (Layout{{1}, {8}, 8}));
}

TEST(ViewLayout, OtherOpsAreNoViews) {
  Instruction add;
  add.op = Op::kAdd;
  EXPECT_FALSE(ViewLayout(add, Layout::Contiguous({2}), {2}).has_value());
}

}  // namespace
}  // namespace tensord
