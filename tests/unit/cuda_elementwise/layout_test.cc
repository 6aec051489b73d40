// Operands of any strides, outputs in place of inputs, copies of every kind.
#include "kernels/cuda/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "kernels/core/text.h"
#include "kernels/cuda/layout_copy.h"
#include "kernels/cuda/layout_index.cuh"
#include "kernels/cuda/program.cuh"
#include "tests/unit/cuda_elementwise/device.h"

namespace tensord::testing {
namespace {

// Element i is i * 7919, modulo the dtype's range: no two near each other are alike.
Tensor Counted(Dtype dtype, int64_t n) {
  Tensor t(dtype, {n});
  for (int64_t i = 0; i < n; ++i)
    t.Set(i, Number::Of(dtype == Dtype::kBool ? i % 3 : IsHalfDtype(dtype) ? i % 251 : i * 7919));
  return t;
}

TensorView View(const Tensor& base, Dims shape, Dims strides, int64_t offset = 0) {
  TensorView view;
  view.dtype = base.view.dtype;
  view.shape = std::move(shape);
  view.strides = std::move(strides);
  view.data = const_cast<std::byte*>(base.memory.data()) + offset * static_cast<int64_t>(ItemSize(view.dtype));
  return view;
}

std::string Text(const TensorView& view) {
  return StrCat(DtypeName(view.dtype), ShapeText(view.shape), ShapeText(view.strides));
}

// `view` as if expanded to `shape`.
Number Broadcast(const TensorView& view, const Dims& index) {
  Dims own(view.shape.size(), 0);
  const size_t missing = index.size() - own.size();
  for (size_t d = 0; d < own.size(); ++d) own[d] = view.shape[d] == 1 ? 0 : index[missing + d];
  return ElementOf(view, own);
}

void ExpectAdd(Device& device, const TensorView& a, const TensorView& b, const Dims& shape) {
  const Tensor got = device.Run(Op::kAdd, {In(a), In(b)}, {a.dtype, shape}, a.dtype);
  Tensor want(a.dtype, shape);
  ForEachIndex(shape, [&](const Dims& index, int64_t i) {
    want.Set(i, Number::Of(Broadcast(a, index).integer + Broadcast(b, index).integer));
  });
  ExpectSame(got, want, StrCat(Text(a), " + ", Text(b)));
}

// Devices with aligned memory, with memory that is not, and in odd orders.
class CudaLayout : public ::testing::TestWithParam<int> {
 protected:
  static Device::Options Parameter() {
    Device::Options options = AllOrders()[static_cast<size_t>(GetParam())];
    options.multiprocessors = 1;
    return options;
  }
  Device device_{Parameter()};
};
INSTANTIATE_TEST_SUITE_P(Orders, CudaLayout, ::testing::Range(0, 5));

TEST_P(CudaLayout, Broadcasting) {
  const Tensor base = Counted(Dtype::kInt32, 1 << 14);
  struct Case {
    Dims a, b, out;
  };
  for (const Case& c :
       {Case{{3, 4}, {4}, {3, 4}}, Case{{3, 1}, {1, 4}, {3, 4}}, Case{{500, 3}, {3}, {500, 3}},
        Case{{500, 3}, {500, 1}, {500, 3}}, Case{{30, 257}, {257}, {30, 257}}, Case{{30, 257}, {30, 1}, {30, 257}},
        Case{{2, 1, 70}, {3, 1}, {2, 3, 70}}, Case{{4, 1024}, {1024}, {4, 1024}},
        Case{{5, 2, 3, 4}, {2, 1, 4}, {5, 2, 3, 4}}, Case{{4, 3, 5}, {3, 1}, {4, 3, 5}}, Case{{}, {7, 5}, {7, 5}},
        Case{{}, {}, {}}, Case{{1}, {1, 1}, {1, 1}}, Case{{0, 3}, {1, 3}, {0, 3}}, Case{{2, 0}, {2, 1}, {2, 0}},
        Case{{33}, {1}, {33}}}) {
    const TensorView a = View(base, c.a, ContiguousStrides(c.a), 5);
    const TensorView b = View(base, c.b, ContiguousStrides(c.b), 1000);
    ExpectAdd(device_, a, b, c.out);
    ExpectAdd(device_, b, a, c.out);
  }
}

TEST_P(CudaLayout, StridedTransposedAndReversed) {
  for (const Dtype dtype : {Dtype::kInt8, Dtype::kInt16, Dtype::kInt32, Dtype::kInt64}) {
    const Tensor base = Counted(dtype, 1 << 14);
    const TensorView square = View(base, {30, 41}, {41, 1});
    ExpectAdd(device_, square, View(base, {30, 41}, {1, 30}), {30, 41});
    ExpectAdd(device_, View(base, {30, 41}, {1, 30}), View(base, {30, 41}, {1, 30}, 9), {30, 41});
    ExpectAdd(device_, square, View(base, {30, 41}, {-41, -1}, 30 * 41 - 1), {30, 41});
    ExpectAdd(device_, square, View(base, {30, 41}, {50, 1}), {30, 41});
    ExpectAdd(device_, View(base, {10, 20}, {80, 2}), View(base, {10, 20}, {3, 90}), {10, 20});
    ExpectAdd(device_, View(base, {7, 6, 5}, {30, 1, 6}), View(base, {7, 6, 5}, {5, 35, 1}), {7, 6, 5});
    ExpectAdd(device_, View(base, {2, 2000}, {1, 2}), View(base, {2, 2000}, {2000, 1}), {2, 2000});
    ExpectAdd(device_, View(base, {2000, 2}, {1, 2000}), View(base, {2000, 2}, {2, 1}), {2000, 2});
    ExpectAdd(device_, View(base, {50, 50}, {51, 1}), View(base, {50}, {51}), {50, 50});
    ExpectAdd(device_, View(base, {5, 1, 7}, {7, 999, 1}), View(base, {5, 1, 7}, {7, -3, 1}), {5, 1, 7});
  }
}

TEST_P(CudaLayout, RandomViews) {
  std::mt19937 generator(17);
  const Tensor base = Counted(Dtype::kInt16, 1 << 16);
  for (int round = 0; round < 120 && !HasFailure(); ++round) {
    const int rank = 1 + static_cast<int>(generator() % 5);
    Dims shape;
    for (int d = 0; d < rank; ++d) shape.push_back(1 + static_cast<int64_t>(generator() % (rank < 3 ? 40 : 6)));
    const auto view = [&]() {
      Dims own = shape;
      Dims strides(shape.size(), 0);
      int64_t offset = 0;
      std::vector<size_t> order(shape.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::shuffle(order.begin(), order.end(), generator);
      int64_t stride = 1 + static_cast<int64_t>(generator() % 2);
      for (const size_t d : order) {
        if (generator() % 5 == 0) own[d] = 1;
        strides[d] = stride;
        if (generator() % 4 == 0) {
          strides[d] = -stride;
          offset += stride * (shape[d] - 1);
        } else if (generator() % 6 == 0) {
          strides[d] = 0;
        }
        stride *= shape[d];
      }
      return View(base, own, strides, offset);
    };
    ExpectAdd(device_, view(), view(), shape);
  }
}

TEST_P(CudaLayout, ManyDimensions) {
  const Tensor base = Counted(Dtype::kInt32, 1 << 12);
  // Reversed strides: nothing can be joined. More dimensions than a program has, so inputs are made dense first.
  for (const size_t rank : {size_t{8}, size_t{9}, size_t{12}}) {
    const Dims shape(rank, 2);
    const Dims strides = ContiguousStrides(shape);
    Dims reversed = strides;
    std::reverse(reversed.begin(), reversed.end());
    ExpectAdd(device_, View(base, shape, strides), View(base, shape, reversed), shape);
    Dims half = shape;
    half[1] = half[4] = 1;
    ExpectAdd(device_, View(base, half, reversed), View(base, {}, {}, 7), shape);
  }
  Dims deep(64, 1);
  deep[5] = 4;
  deep[40] = 300;
  ExpectAdd(device_, View(base, deep, ContiguousStrides(deep)), View(base, {300}, {3}), deep);
}

TEST_P(CudaLayout, InPlaceOfAnInput) {
  for (const int64_t n : {1, 5, 1000, 5000}) {
    const Tensor a = Counted(Dtype::kInt32, n);
    const Tensor b = Counted(Dtype::kInt32, n);
    const Tensor got = device_.RunInPlace(Op::kSubtract, {In(a), In(b)}, Dtype::kInt32, Dtype::kInt32);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(got.At(i).integer, 0) << n << " " << i;
    // Another dtype of the same width takes the place, too.
    const Tensor reals = device_.RunInPlace(Op::kCast, {In(a)}, Dtype::kFloat32, Dtype::kInt32);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(reals.At(i).value, static_cast<float>(a.At(i).integer));
  }
  const Tensor h = Counted(Dtype::kFloat16, 3000);
  const Scalar low{int64_t{10}, Dtype::kNone};
  const Scalar high{int64_t{20}, Dtype::kNone};
  const Tensor got = device_.RunInPlace(Op::kClip, {In(h), In(low), In(high)}, Dtype::kFloat16, Dtype::kFloat16);
  for (int64_t i = 0; i < 3000; ++i) ASSERT_EQ(got.At(i).value, std::clamp(h.At(i).value, 10.0L, 20.0L));
}

TEST_P(CudaLayout, AnInputThatTheOutputWouldOverwriteIsCopied) {
  const Tensor x = Counted(Dtype::kInt32, 50 * 50);
  const TensorView rows = device_.Upload(View(x, {50, 50}, {50, 1}));
  TensorView columns = rows;
  columns.strides = {1, 50};
  const TensorView reversed{rows.dtype, {2500}, {-1}, rows.as<int32_t>() + 2499};
  const KernelOperand operands[2] = {In(rows), In(columns)};
  const Attributes none;
  const KernelCall call{Op::kAdd, &none, Dtype::kInt32, operands, absl::MakeConstSpan(&rows, 1)};
  ASSERT_TRUE(cuda::RunElementwise(call, device_.context()).ok());
  const Tensor sums = device_.Download(rows);
  for (int64_t r = 0; r < 50; ++r) {
    for (int64_t c = 0; c < 50; ++c)
      ASSERT_EQ(sums.At(r * 50 + c).integer, x.At(r * 50 + c).integer + x.At(c * 50 + r).integer);
  }
  // Copies onto themselves: reversed, and as they are.
  TensorView flat = rows;
  flat.shape = {2500};
  flat.strides = {1};
  ASSERT_TRUE(cuda::CopyStrided(reversed, flat, device_.context()).ok());
  ASSERT_TRUE(cuda::CopyStrided(flat, flat, device_.context()).ok());
  const Tensor turned = device_.Download(flat);
  for (int64_t i = 0; i < 2500; ++i) ASSERT_EQ(turned.At(i).integer, sums.At(2499 - i).integer);
  // A transpose onto itself.
  ASSERT_TRUE(cuda::CopyStrided(columns, rows, device_.context()).ok());
  const Tensor transposed = device_.Download(rows);
  for (int64_t i = 0; i < 2500; ++i) ASSERT_EQ(transposed.At(i).integer, turned.At(i % 50 * 50 + i / 50).integer);
  EXPECT_EQ(device_.scratch().live, 0);
}

TEST_P(CudaLayout, CopiesOfEveryWidthAndKind) {
  for (const Dtype dtype : {Dtype::kBool, Dtype::kFloat16, Dtype::kUint32, Dtype::kFloat64}) {
    const Tensor base = Counted(dtype, 9600);
    for (const TensorView& view : {View(base, {30, 300}, {1, 30}),
                                   View(base, {90, 90}, {1, 90}),
                                   View(base, {9600}, {-1}, 9599),
                                   View(base, {90, 100}, {100, 1}),
                                   View(base, {90, 90}, {0, 1}),
                                   View(base, {90, 90}, {1, 0}),
                                   View(base, {900}, {0}),
                                   View(base, {4000}, {2}),
                                   View(base, {7, 7, 18}, {1, 7, 490}),
                                   View(base, {3, 33, 9}, {300, 1, 33}),
                                   View(base, {33, 3, 40}, {1, 2000, 33}),
                                   View(base, {60, 64}, {128, 1}),
                                   View(base, {60, 64}, {132, 1}, 4),
                                   View(base, {60, 62}, {130, 1}, 2),
                                   View(base, {60, 63}, {129, 1}, 1),
                                   View(base, {8, 8}, {1, 8}),
                                   View(base, {7, 9}, {1, 7}),
                                   View(base, {2, 40, 3, 40}, {4800, 1, 40, 120}),
                                   View(base, {9, 1}, {1, 55}),
                                   View(base, {}, {}, 3),
                                   View(base, {0, 5}, {5, 1})}) {
      const TensorView from = device_.Upload(view);
      const TensorView to = device_.Allocate(view.type());
      ASSERT_TRUE(cuda::CopyStrided(from, to, device_.context()).ok());
      const Tensor got = device_.Download(to);
      Tensor want(dtype, view.shape);
      ForEachIndex(view.shape, [&](const Dims& index, int64_t i) { want.Set(i, ElementOf(view, index)); });
      EXPECT_EQ(got.memory, want.memory) << Text(view);
      device_.Free();
    }
  }
}

TEST_P(CudaLayout, CopiesBetweenStridedPlaces) {
  const Tensor base = Counted(Dtype::kInt16, 4000);
  const TensorView view = View(base, {12, 10, 30}, {1, 12, 120});
  const TensorView from = device_.Upload(view);
  // Every second place of rows with a gap, the others stay.
  const TensorView to = device_.Allocate({Dtype::kInt16, {12, 10, 64}});
  const Dims strides = {640, 64, 2};
  ASSERT_TRUE(cuda::CopyBits(from, to.data, strides, device_.context()).ok());
  const Tensor got = device_.Download(to);
  ForEachIndex({12, 10, 64}, [&](const Dims& index, int64_t i) {
    const bool written = index[2] % 2 == 0 && index[2] < 60;
    const Number want = written ? ElementOf(view, {index[0], index[1], index[2] / 2}) : Number::Of(0x5a5a);
    ASSERT_EQ(got.At(i).integer, want.integer) << i;
  });
}

TEST_P(CudaLayout, DenseIsTheSameMemoryWhereItCan) {
  const Tensor base = Counted(Dtype::kInt32, 600);
  const TensorView all = device_.Upload(base.view);
  const auto same = cuda::ToDense(all, Dtype::kInt32, device_.context());
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->view.data, all.data);
  EXPECT_FALSE(same->owned.has_value());
  {
    const TensorView columns{Dtype::kInt32, {20, 30}, {1, 20}, all.data};
    const auto dense = cuda::ToDense(columns, Dtype::kFloat64, device_.context());
    ASSERT_TRUE(dense.ok());
    EXPECT_EQ(device_.scratch().live, 1);
    EXPECT_TRUE(dense->view.contiguous());
    EXPECT_EQ(device_.Download(dense->view).At(1).value, 20 * 7919);
  }
  EXPECT_EQ(device_.scratch().live, 0);
}

TEST(CudaIndexing, BeyondThirtyTwoBits) {
  std::mt19937_64 generator(3);
  for (int round = 0; round < 2000; ++round) {
    const auto i = static_cast<int64_t>(generator() >> (1 + generator() % 63));
    const auto size = std::max<int64_t>(static_cast<int64_t>(generator() >> (1 + generator() % 63)), 1);
    int64_t rest = i;
    EXPECT_EQ(cuda::TakeIndex(rest, size), i % size);
    EXPECT_EQ(rest, i / size);
  }
}

TEST(CudaCollapse, JoinsWhatAllPassEvenly) {
  Dims shape = {2, 1, 3, 4};
  Dims strides[2] = {{12, 99, 4, 1}, {24, 7, 8, 2}};
  cuda::Collapse(shape, absl::MakeSpan(strides));
  EXPECT_EQ(shape, (Dims{24}));
  EXPECT_EQ(strides[1], (Dims{2}));
  shape = {2, 3, 4};
  Dims other[2] = {{12, 4, 1}, {0, 4, 1}};
  cuda::Collapse(shape, absl::MakeSpan(other));
  EXPECT_EQ(shape, (Dims{2, 12}));
  EXPECT_EQ(other[1], (Dims{0, 1}));
  shape = {1, 1};
  Dims one[1] = {{5, 6}};
  cuda::Collapse(shape, absl::MakeSpan(one));
  EXPECT_EQ(shape, (Dims{1}));
  EXPECT_EQ(one[0], (Dims{0}));
  shape = {};
  Dims none[1] = {{}};
  cuda::Collapse(shape, absl::MakeSpan(none));
  EXPECT_EQ(shape, (Dims{1}));
}

}  // namespace
}  // namespace tensord::testing
