// Operands of any strides, sizes around every threshold, outputs in place of inputs: the block executor.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "kernels/cpu/families.h"
#include "kernels/cpu/team.h"
#include "tests/unit/cpu_elementwise/harness.h"

namespace tensord::testing {
namespace {

constexpr size_t kItem = sizeof(int32_t);

// A tensor with element i equal to i * 7919 modulo 2^32: no two near each other are alike.
Tensor Counted(Dtype dtype, int64_t n) {
  Tensor t(dtype, {n});
  for (int64_t i = 0; i < n; ++i) t.Set(i, Number::Of(i * 7919));
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

// `view` as if expanded to `shape`.
Number Broadcast(const TensorView& view, const Dims& index) {
  Dims own(view.shape.size(), 0);
  const size_t missing = index.size() - own.size();
  for (size_t d = 0; d < own.size(); ++d) own[d] = view.shape[d] == 1 ? 0 : index[missing + d];
  return ElementOf(view, own);
}

void ExpectAdd(const TensorView& a, const TensorView& b, const Dims& shape, const char* what) {
  const Tensor got = RunOp(Op::kAdd, {In(a), In(b)}, {a.dtype, shape}, a.dtype);
  const int bits = static_cast<int>(ItemSize(a.dtype)) * 8;
  int wrong = 0;
  ForEachIndex(shape, [&](const Dims& index, int64_t i) {
    const int128 sum = Broadcast(a, index).integer + Broadcast(b, index).integer;
    const int128 difference = got.At(i).integer - sum;
    if (difference % (int128{1} << bits) != 0 && ++wrong <= 3)
      ADD_FAILURE() << what << ": element " << i << " is wrong";
  });
}

TEST(Layout, SizesAroundUnitsBlocksAndChunks) {
  for (const int64_t n :
       {0, 1, 2, 63, 64, 65, 127, 1000, 1023, 1024, 1025, 1087, 1088, 2048, 65535, 65536, 65537, 131072, 200001}) {
    const Tensor a = Counted(Dtype::kInt32, n);
    const Tensor b = Counted(Dtype::kInt32, n);
    ExpectAdd(a.view, b.view, {n}, "contiguous");
    ExpectAdd(a.view, View(b, {n}, {-1}, n > 0 ? n - 1 : 0), {n}, "reversed");
  }
}

TEST(Layout, WritesNothingBeyondTheEnd) {
  for (const int64_t n : {1, 63, 65, 1025, 65537}) {
    const Tensor a = Counted(Dtype::kInt32, n);
    std::vector<int32_t> memory(static_cast<size_t>(n) + 64, 0x7e7e7e7e);
    TensorView out = a.view;
    out.data = memory.data();
    const KernelOperand operand = In(a);
    const Attributes none;
    KernelCall call{Op::kNegative, &none, Dtype::kInt32, absl::MakeConstSpan(&operand, 1),
                    absl::MakeConstSpan(&out, 1)};
    ASSERT_TRUE(Cpu().Run(call, 0, Cpu().memory()).ok());
    for (size_t i = static_cast<size_t>(n); i < memory.size(); ++i) ASSERT_EQ(memory[i], 0x7e7e7e7e) << n << " " << i;
    EXPECT_EQ(memory[static_cast<size_t>(n) - 1], -static_cast<int32_t>((n - 1) * 7919));
  }
}

TEST(Layout, Broadcasting) {
  const Tensor base = Counted(Dtype::kInt32, 1 << 18);
  struct Case {
    Dims a;
    Dims b;
    Dims out;
  };
  for (const Case& c :
       {Case{{3, 4}, {4}, {3, 4}}, Case{{3, 1}, {1, 4}, {3, 4}}, Case{{500, 3}, {3}, {500, 3}},
        Case{{500, 3}, {500, 1}, {500, 3}}, Case{{300, 257}, {257}, {300, 257}}, Case{{300, 257}, {300, 1}, {300, 257}},
        Case{{2, 1, 700}, {3, 1}, {2, 3, 700}}, Case{{20, 1024}, {1024}, {20, 1024}},
        Case{{20, 1025}, {1025}, {20, 1025}}, Case{{5, 2, 3, 4}, {2, 1, 4}, {5, 2, 3, 4}},
        Case{{40, 30, 50}, {30, 1}, {40, 30, 50}}, Case{{}, {7, 5}, {7, 5}}, Case{{}, {}, {}},
        Case{{1}, {1, 1}, {1, 1}}, Case{{0, 3}, {1, 3}, {0, 3}}, Case{{2, 0}, {2, 1}, {2, 0}}}) {
    const TensorView a = View(base, c.a, ContiguousStrides(c.a), 5);
    const TensorView b = View(base, c.b, ContiguousStrides(c.b), 1000);
    ExpectAdd(a, b, c.out, "broadcast");
    ExpectAdd(b, a, c.out, "broadcast, other way");
  }
}

TEST(Layout, StridedTransposedAndReversed) {
  for (const Dtype dtype : {Dtype::kInt8, Dtype::kInt16, Dtype::kInt32, Dtype::kInt64}) {
    const Tensor base = Counted(dtype, 1 << 18);
    const TensorView square = View(base, {300, 400}, {400, 1});
    ExpectAdd(square, View(base, {300, 400}, {1, 300}), {300, 400}, "transposed");
    ExpectAdd(View(base, {300, 400}, {1, 300}), View(base, {300, 400}, {1, 300}, 9), {300, 400}, "both transposed");
    ExpectAdd(square, View(base, {300, 400}, {-400, -1}, 300 * 400 - 1), {300, 400}, "reversed twice");
    ExpectAdd(square, View(base, {300, 400}, {500, 1}), {300, 400}, "rows with gaps");
    ExpectAdd(View(base, {100, 200}, {800, 2}), View(base, {100, 200}, {3, 900}), {100, 200}, "steps");
    ExpectAdd(View(base, {7, 64, 33}, {64 * 33, 1, 64}), View(base, {7, 64, 33}, {33, 33 * 7, 1}), {7, 64, 33},
              "permuted");
    ExpectAdd(View(base, {9, 9}, {1, 9}), View(base, {9, 9}, {9, 1}), {9, 9}, "small transposed");
    ExpectAdd(View(base, {8, 20000}, {1, 8}), View(base, {8, 20000}, {20000, 1}), {8, 20000}, "wide transposed");
    ExpectAdd(View(base, {20000, 8}, {1, 20000}), View(base, {20000, 8}, {8, 1}), {20000, 8}, "tall transposed");
    ExpectAdd(View(base, {100, 100}, {101, 1}), View(base, {100}, {101}), {100, 100}, "diagonal broadcast");
  }
}

TEST(Layout, RankEight) {
  const Tensor base = Counted(Dtype::kInt32, 1 << 16);
  const Dims shape{2, 3, 2, 3, 2, 3, 2, 3};
  Dims strides = ContiguousStrides(shape);
  Dims permuted = strides;
  std::reverse(permuted.begin(), permuted.end());  // any strides will do: the sizes need not fit
  ExpectAdd(View(base, shape, strides), View(base, shape, permuted), shape, "rank 8");
  Dims deep(64, 1);
  deep[5] = 4;
  deep[40] = 300;
  ExpectAdd(View(base, deep, ContiguousStrides(deep)), View(base, {300}, {3}), deep, "rank 64");
}

TEST(Layout, RandomViews) {
  std::mt19937 generator(17);
  const Tensor base = Counted(Dtype::kInt32, 1 << 20);
  for (int round = 0; round < 300; ++round) {
    const int rank = 1 + static_cast<int>(generator() % 4);
    Dims shape;
    for (int d = 0; d < rank; ++d) shape.push_back(1 + static_cast<int64_t>(generator() % (rank < 3 ? 150 : 20)));
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
    ExpectAdd(view(), view(), shape, "random");
    if (HasFailure()) break;
  }
}

TEST(Layout, InPlaceOfEitherInput) {
  for (const int64_t n : {5, 1000, 1024, 70000}) {
    for (const bool first : {true, false}) {
      Tensor a = Counted(Dtype::kInt32, n);
      const Tensor b = Counted(Dtype::kInt32, n);
      const KernelOperand operands[2] = {first ? In(a) : In(b), first ? In(b) : In(a)};
      const Attributes none;
      KernelCall call{Op::kSubtract, &none, Dtype::kInt32, operands, absl::MakeConstSpan(&a.view, 1)};
      ASSERT_TRUE(Cpu().Run(call, 0, Cpu().memory()).ok());
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(a.At(i).integer, 0) << n << " " << i;
    }
  }
  // Half precision has loops around the op, and clip two ops: all of them behind the input.
  Tensor h(Dtype::kFloat16, {3000});
  for (int64_t i = 0; i < 3000; ++i) h.Set(i, Number::Real(static_cast<long double>(i % 50)));
  const Scalar low{int64_t{10}, Dtype::kNone};
  const Scalar high{int64_t{20}, Dtype::kNone};
  const KernelOperand operands[3] = {In(h), In(low), In(high)};
  const Attributes none;
  KernelCall call{Op::kClip, &none, Dtype::kFloat16, operands, absl::MakeConstSpan(&h.view, 1)};
  ASSERT_TRUE(Cpu().Run(call, 0, Cpu().memory()).ok());
  for (int64_t i = 0; i < 3000; ++i) ASSERT_EQ(h.At(i).value, std::min(std::max(i % 50, int64_t{10}), int64_t{20}));
}

TEST(Layout, AnInputThatTheOutputWouldOverwriteIsCopied) {
  Tensor x = Counted(Dtype::kInt32, 200 * 200);
  const std::vector<std::byte> before = x.memory;
  const TensorView rows = View(x, {200, 200}, {200, 1});
  const TensorView columns = View(x, {200, 200}, {1, 200});
  const KernelOperand operands[2] = {In(rows), In(columns)};
  const Attributes none;
  KernelCall call{Op::kAdd, &none, Dtype::kInt32, operands, absl::MakeConstSpan(&rows, 1)};
  ASSERT_TRUE(Cpu().Run(call, 0, Cpu().memory()).ok());
  const auto at = [&before](int64_t i) { return Read(Dtype::kInt32, before.data() + i * int64_t{kItem}).integer; };
  for (int64_t r = 0; r < 200; ++r) {
    for (int64_t c = 0; c < 200; ++c) {
      ASSERT_EQ(static_cast<int32_t>(x.At(r * 200 + c).integer),
                static_cast<int32_t>(at(r * 200 + c) + at(c * 200 + r)));
    }
  }
}

TEST(Layout, PlainCopiesOfEveryWidth) {
  for (const Dtype dtype : {Dtype::kBool, Dtype::kFloat16, Dtype::kUint32, Dtype::kFloat64}) {
    Tensor base(dtype, {90000});
    for (int64_t i = 0; i < 90000; ++i)
      base.Set(i, dtype == Dtype::kBool ? Number::Of(i % 3 == 0) : Number::Of(i % 2000));
    for (const TensorView& view :
         {View(base, {300, 300}, {1, 300}), View(base, {90000}, {-1}, 89999), View(base, {300, 300}, {300, 1}),
          View(base, {300, 300}, {0, 1}), View(base, {300, 300}, {1, 0}), View(base, {40000}, {0}),
          View(base, {40000}, {2}), View(base, {70, 70, 18}, {1, 70, 4900})}) {
      cpu::Context context{Cpu().memory(), 0};
      Tensor out(dtype, view.shape);
      ASSERT_TRUE(cpu::CopyStrided(view, out.view, context).ok());
      int wrong = 0;
      ForEachIndex(view.shape,
                   [&](const Dims& index, int64_t i) { wrong += !Same(dtype, out.At(i), ElementOf(view, index), 0); });
      EXPECT_EQ(wrong, 0) << DtypeName(dtype) << ShapeText(view.shape) << ShapeText(view.strides);
    }
  }
}

TEST(Layout, DenseIsTheSameMemoryWhereItCan) {
  const Tensor base = Counted(Dtype::kInt32, 600);
  cpu::Context context{Cpu().memory(), 0};
  const auto same = cpu::ToDense(base.view, Dtype::kInt32, context);
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->view.data, base.view.data);
  const int64_t used = Cpu().memory().Stats().used;
  {
    const auto dense = cpu::ToDense(View(base, {20, 30}, {1, 20}), Dtype::kFloat64, context);
    ASSERT_TRUE(dense.ok());
    EXPECT_TRUE(dense->view.contiguous());
    EXPECT_EQ(dense->view.as<double>()[1], 20 * 7919);
    EXPECT_GT(Cpu().memory().Stats().used, used);
  }
  EXPECT_EQ(Cpu().memory().Stats().used, used);
}

TEST(Layout, ThreadsDoNotChangeBits) {
  const int threads = cpu::Threads();
  Tensor x(Dtype::kFloat32, {300001});
  for (int64_t i = 0; i < 300001; ++i) x.Set(i, Number::Real(static_cast<long double>(i % 997) / 31));
  std::vector<std::byte> first;
  for (const int n : {1, 2, 5}) {
    cpu::SetThreads(n);
    const Tensor got = RunOp(Op::kSin, {In(x)}, x.view.type(), Dtype::kFloat32);
    if (first.empty()) first = got.memory;
    EXPECT_EQ(got.memory, first);
  }
  cpu::SetThreads(threads);
}

TEST(Layout, WhereAnElementLiesDoesNotChangeItsBits) {
  for (const Op op : {Op::kExp, Op::kTanh, Op::kSigmoid, Op::kLog1p}) {
    Tensor x(Dtype::kFloat32, {2000});
    for (int64_t i = 0; i < 2000; ++i) x.Set(i, Number::Real(0.73L));
    const Tensor got = RunOp(op, {In(x)}, x.view.type(), Dtype::kFloat32);
    for (int64_t i = 1; i < 2000; ++i) ASSERT_EQ(got.At(i).value, got.At(0).value) << RowOf(op).name << " " << i;
  }
}

}  // namespace
}  // namespace tensord::testing
