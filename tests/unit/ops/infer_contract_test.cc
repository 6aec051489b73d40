// Matrix products, windows, normalisations, joins and indexing.
#include <limits>

#include "tests/unit/ops/infer_testing.h"

namespace tensord {
namespace {

TEST(InferMatmul, Shapes) {
  EXPECT_EQ(Ask("matmul", {"float32[2,3]", "float32[3,4]"}), "float32[2,4]");
  EXPECT_EQ(Ask("matmul", {"float32[3]", "float32[3]"}), "float32[]");
  EXPECT_EQ(Ask("matmul", {"float32[3]", "float32[3,4]"}), "float32[4]");
  EXPECT_EQ(Ask("matmul", {"float32[2,3]", "float32[3]"}), "float32[2]");
  EXPECT_EQ(Ask("matmul", {"float32[5,2,3]", "float32[3,4]"}), "float32[5,2,4]");
  EXPECT_EQ(Ask("matmul", {"float32[5,1,2,3]", "float32[7,3,4]"}), "float32[5,7,2,4]");
  EXPECT_EQ(Ask("matmul", {"float32[5,2,3]", "float32[3]"}), "float32[5,2]");
  EXPECT_EQ(Ask("matmul", {"float32[3]", "float32[5,3,4]"}), "float32[5,4]");
  EXPECT_EQ(Ask("matmul", {"int64[5,0]", "int64[0,5]"}), "int64[5,5]");
  EXPECT_EQ(Ask("matmul", {"float32[0,3,4]", "float32[0,4,5]"}), "float32[0,3,5]");
}

TEST(InferMatmul, Transposed) {
  const auto flags = [](bool a, bool b) {
    return With<MatmulAttributes>([&](auto& m) {
      m.transpose_a = a;
      m.transpose_b = b;
    });
  };
  EXPECT_EQ(Ask("matmul", {"float32[3,2]", "float32[3,4]"}, flags(true, false)), "float32[2,4]");
  EXPECT_EQ(Ask("matmul", {"float32[2,3]", "float32[4,3]"}, flags(false, true)), "float32[2,4]");
  EXPECT_EQ(Ask("matmul", {"float32[9,3,2]", "float32[4,3]"}, flags(true, true)), "float32[9,2,4]");
  EXPECT_EQ(Ask("matmul", {"float32[3]", "float32[3,4]"}, flags(true, false)), "ATTRIBUTE_INVALID");
  EXPECT_EQ(MismatchAxis("matmul", {"float32[3,2]", "float32[4,5]"}, flags(true, false)), "0");
}

TEST(InferMatmul, Refusals) {
  EXPECT_EQ(MismatchAxis("matmul", {"float32[2,3]", "float32[4,5]"}), "1");
  EXPECT_EQ(Message("matmul", {"float32[2,3]", "float32[4,5]"}),
            "matmul: shapes [2,3] and [4,5] do not fit at axis 1: x1 has 3 there, x2 has 4 at axis 0");
  EXPECT_EQ(MismatchAxis("matmul", {"float32[2,2,3]", "float32[5,3,4]"}), "0");
  EXPECT_EQ(Ask("matmul", {"float32[]", "float32[3,4]"}), "SHAPE_MISMATCH");
  EXPECT_EQ(Ask("matmul", {"float32[2,3]", 2.0}), "ARITY_INVALID");
  EXPECT_EQ(Ask("matmul", {"bool[2,3]", "bool[3,4]"}), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("matmul", {"float32[2,3]", "int64[3,4]"}), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("matmul", {"int8[2,3]", "int16[3,4]"}), "int16[2,4]");
  EXPECT_EQ(
      Ask("matmul", {TensorType{Dtype::kInt8, {int64_t{1} << 40, 1}}, TensorType{Dtype::kInt8, {1, int64_t{1} << 40}}}),
      "SHAPE_INVALID");
  EXPECT_EQ(Ask("matmul", {"float32[2,3]", "float32[3,4]"},
                With<MatmulAttributes>([](auto& m) { m.precision = static_cast<Precision>(9); })),
            "ATTRIBUTE_INVALID");
}

TEST(InferLinear, Shapes) {
  EXPECT_EQ(Ask("linear", {"float32[2,3]", "float32[4,3]"}), "float32[2,4]");
  EXPECT_EQ(Ask("linear", {"float32[2,3]", "float32[4,3]", "float32[4]"}), "float32[2,4]");
  EXPECT_EQ(Ask("linear", {"float32[2,3]", "float32[4,3]", "-"}), "float32[2,4]");
  EXPECT_EQ(Ask("linear", {"float32[3]", "float32[4,3]"}), "float32[4]");
  EXPECT_EQ(Ask("linear", {"float32[5,6,3]", "float32[4,3]"}), "float32[5,6,4]");
  EXPECT_EQ(MismatchAxis("linear", {"float32[2,5]", "float32[4,3]"}), "1");
  EXPECT_EQ(Message("linear", {"float32[2,5]", "float32[4,3]"}),
            "linear: shapes [2,5] and [4,3] do not fit at axis 1: x has 5 there, weight takes 3");
  EXPECT_EQ(Ask("linear", {"float32[2,3]", "float32[4,3]", "float32[3]"}), "SHAPE_MISMATCH");
  EXPECT_EQ(Ask("linear", {"float32[2,3]", "float32[3]"}), "SHAPE_MISMATCH");
  EXPECT_EQ(Ask("linear", {"float32[]", "float32[4,3]"}), "SHAPE_MISMATCH");
  EXPECT_EQ(Ask("linear", {"int32[2,3]", "int32[4,3]"}), "DTYPE_MISMATCH");
  EXPECT_EQ(
      Ask("linear", {"float32[2,3]", "float32[4,3]"}, With<MatmulAttributes>([](auto& m) { m.transpose_b = true; })),
      "ATTRIBUTE_INVALID");
}

// A window's attributes; both pads are the same.
struct Window {
  std::vector<int64_t> sizes = {};
  std::vector<int64_t> strides = {};
  std::vector<int64_t> dilations = {};
  std::vector<int64_t> pads = {};
  int64_t groups = 0;
  bool ceil_mode = false;
  bool count_pads = false;
  operator Attributes() const {  // NOLINT(google-explicit-constructor)
    WindowAttributes a;
    a.sizes.assign(sizes.begin(), sizes.end());
    a.strides.assign(strides.begin(), strides.end());
    a.dilations.assign(dilations.begin(), dilations.end());
    a.pads_begin.assign(pads.begin(), pads.end());
    a.pads_end.assign(pads.begin(), pads.end());
    a.groups = groups;
    a.ceil_mode = ceil_mode;
    a.count_pads = count_pads;
    return a;
  }
};

Window Strides(std::vector<int64_t> strides) { return {.strides = std::move(strides)}; }
Window Pads(std::vector<int64_t> pads) { return {.pads = std::move(pads)}; }

TEST(InferConv, Sizes) {
  // torch.nn.Conv2d's formula, worked by hand.
  EXPECT_EQ(Ask("conv", {"float32[1,3,32,32]", "float32[8,3,3,3]"}), "float32[1,8,30,30]");
  EXPECT_EQ(Ask("conv", {"float32[1,3,32,32]", "float32[8,3,3,3]"}, Pads({1, 1})), "float32[1,8,32,32]");
  EXPECT_EQ(Ask("conv", {"float32[1,3,32,32]", "float32[8,3,3,3]"}, Strides({2, 3})), "float32[1,8,15,10]");
  Window dilated;
  dilated.dilations = {2, 1};
  EXPECT_EQ(Ask("conv", {"float32[1,3,32,32]", "float32[8,3,3,3]"}, dilated), "float32[1,8,28,30]");
  EXPECT_EQ(Ask("conv", {"float32[2,1,5]", "float32[4,1,2]"}), "float32[2,4,4]");
  EXPECT_EQ(Ask("conv", {"float32[2,1,5,5,5]", "float32[4,1,2,2,2]", "float32[4]"}), "float32[2,4,4,4,4]");
  EXPECT_EQ(Ask("conv", {"float32[0,3,8,8]", "float32[8,3,3,3]"}), "float32[0,8,6,6]");
}

TEST(InferConv, Groups) {
  Window two;
  two.groups = 2;
  EXPECT_EQ(Ask("conv", {"float32[1,4,8,8]", "float32[6,2,3,3]"}, two), "float32[1,6,6,6]");
  EXPECT_EQ(MismatchAxis("conv", {"float32[1,4,8,8]", "float32[6,4,3,3]"}, two), "1");
  EXPECT_EQ(MismatchAxis("conv", {"float32[1,4,8,8]", "float32[5,2,3,3]"}, two), "0");
  EXPECT_EQ(MismatchAxis("conv", {"float32[1,3,8,8]", "float32[6,1,3,3]"}, two), "1");
  two.groups = -1;
  EXPECT_EQ(Ask("conv", {"float32[1,4,8,8]", "float32[6,2,3,3]"}, two), "ATTRIBUTE_INVALID");
}

TEST(InferConv, Refusals) {
  EXPECT_EQ(MismatchAxis("conv", {"float32[1,3,8,8]", "float32[8,2,3,3]"}), "1");
  EXPECT_EQ(MismatchAxis("conv", {"float32[1,3,2,8]", "float32[8,3,3,3]"}), "2");
  EXPECT_EQ(Ask("conv", {"float32[3,8]", "float32[8,3]"}), "SHAPE_MISMATCH");
  EXPECT_EQ(Ask("conv", {"float32[1,3,8,8]", "float32[8,3,3]"}), "SHAPE_MISMATCH");
  EXPECT_EQ(Ask("conv", {"float32[1,3,8,8]", "float32[8,3,0,3]"}), "SHAPE_MISMATCH");
  EXPECT_EQ(Ask("conv", {"float32[1,0,8,8]", "float32[8,0,3,3]"}), "SHAPE_MISMATCH");
  EXPECT_EQ(Ask("conv", {"float32[1,3,8,8]", "float32[8,3,3,3]", "float32[7]"}), "SHAPE_MISMATCH");
  EXPECT_EQ(Ask("conv", {"float32[1,3,8,8]", "float32[8,3,3,3]"}, Strides({0, 1})), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("conv", {"float32[1,3,8,8]", "float32[8,3,3,3]"}, Strides({1})), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("conv", {"float32[1,3,8,8]", "float32[8,3,3,3]"}, Pads({-1, 0})), "ATTRIBUTE_INVALID");
  Window sizes;
  sizes.sizes = {3, 3};
  EXPECT_EQ(Ask("conv", {"float32[1,3,8,8]", "float32[8,3,3,3]"}, sizes), "float32[1,8,6,6]");
  sizes.sizes = {3, 5};
  EXPECT_EQ(Ask("conv", {"float32[1,3,8,8]", "float32[8,3,3,3]"}, sizes), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("conv", {"int8[1,3,8,8]", "int8[8,3,3,3]"}), "DTYPE_MISMATCH");
  // Numbers whose products do not fit 64 bits.
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  Window huge;
  huge.dilations = {kHuge, kHuge};
  EXPECT_EQ(MismatchAxis("conv", {"float32[1,3,8,8]", "float32[8,3,3,3]"}, huge), "2");
  EXPECT_EQ(Ask("conv", {"float32[1,3,8,8]", "float32[8,3,3,3]"}, Pads({kHuge, kHuge})), "SHAPE_INVALID");
  EXPECT_EQ(Ask("conv", {"float32[1,3,8,8]", "float32[8,3,3,3]"}, Strides({kHuge, kHuge})), "float32[1,8,1,1]");
}

TEST(InferPool, Sizes) {
  Window w;
  w.sizes = {2, 2};
  EXPECT_EQ(Ask("max_pool", {"float32[1,3,8,8]"}, w), "float32[1,3,4,4]") << "the stride of a pool is its size";
  EXPECT_EQ(Ask("avg_pool", {"float32[1,3,7,8]"}, w), "float32[1,3,3,4]");
  w.ceil_mode = true;
  EXPECT_EQ(Ask("max_pool", {"float32[1,3,7,8]"}, w), "float32[1,3,4,4]");
  w.strides = {1, 1};
  EXPECT_EQ(Ask("max_pool", {"float32[1,3,7,8]"}, w), "float32[1,3,6,7]");
  w = {};
  w.sizes = {3};
  w.dilations = {2};
  EXPECT_EQ(Ask("max_pool", {"float32[1,3,9]"}, w), "float32[1,3,2]");
  EXPECT_EQ(Ask("avg_pool", {"float32[1,3,9]"}, w), "ATTRIBUTE_INVALID") << "avg_pool has no dilations";
}

// torch.nn.functional.max_pool1d(ceil_mode=True): a last window that would begin in the padding behind the input is
// left out.
TEST(InferPool, CeilModeLeavesOutWindowsBeyondTheInput) {
  Window w;
  w.sizes = {2};
  w.strides = {3};
  w.pads = {1};
  w.ceil_mode = true;
  // size 6: floor((6+2-2)/3)+1 = 3, ceil the same; the third begins at 6 >= 6 + 1? no, so it stays.
  EXPECT_EQ(Ask("max_pool", {"float32[1,1,6]"}, w), "float32[1,1,3]");
  // size 5: ceil((5+2-2)/3)+1 = 3; the third begins at 6 >= 5 + 1, so it goes.
  EXPECT_EQ(Ask("max_pool", {"float32[1,1,5]"}, w), "float32[1,1,2]");
  w = {};
  w.sizes = {3};
  w.strides = {2};
  w.ceil_mode = true;
  EXPECT_EQ(Ask("max_pool", {"float32[1,1,6]"}, w), "float32[1,1,3]");
  EXPECT_EQ(Ask("max_pool", {"float32[1,1,7]"}, w), "float32[1,1,3]");
}

TEST(InferPool, Refusals) {
  Window w;
  EXPECT_EQ(Ask("max_pool", {"float32[1,3,8,8]"}, w), "ATTRIBUTE_INVALID") << "a pool needs its size";
  w.sizes = {2};
  EXPECT_EQ(Ask("max_pool", {"float32[1,3,8,8]"}, w), "ATTRIBUTE_INVALID");
  w.sizes = {9, 2};
  EXPECT_EQ(MismatchAxis("max_pool", {"float32[1,3,8,8]"}, w), "2");
  w.sizes = {2, 2};
  w.pads = {2, 0};
  EXPECT_EQ(Ask("max_pool", {"float32[1,3,8,8]"}, w), "ATTRIBUTE_INVALID") << "a window in the padding alone";
  w = {};
  w.sizes = {2, 2};
  w.groups = 2;
  EXPECT_EQ(Ask("max_pool", {"float32[1,3,8,8]"}, w), "ATTRIBUTE_INVALID");
  w = {};
  w.sizes = {2, 2};
  w.count_pads = true;
  EXPECT_EQ(Ask("max_pool", {"float32[1,3,8,8]"}, w), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("avg_pool", {"float32[1,3,8,8]"}, w), "float32[1,3,4,4]");
  EXPECT_EQ(Ask("max_pool", {"int32[1,3,8,8]"}, Window{.sizes = {2, 2}}), "DTYPE_MISMATCH");
}

TEST(InferNorm, BatchNorm) {
  EXPECT_EQ(Ask("batch_norm", {"float32[2,3]", "float32[3]", "float32[3]"}), "float32[2,3]");
  EXPECT_EQ(Ask("batch_norm", {"float32[2,3,4,4]", "float32[3]", "float32[3]", "float32[3]", "float32[3]"}),
            "float32[2,3,4,4]");
  EXPECT_EQ(Ask("batch_norm", {"float32[2,3]", "float32[3]", "float32[3]", "-", "float32[3]"}), "float32[2,3]");
  EXPECT_EQ(MismatchAxis("batch_norm", {"float32[2,3]", "float32[2]", "float32[3]"}), "1");
  EXPECT_EQ(Ask("batch_norm", {"float32[3]", "float32[3]", "float32[3]"}), "SHAPE_MISMATCH");
  EXPECT_EQ(Ask("batch_norm", {"float32[2,3]", "float32[3]"}), "ARITY_INVALID");
  EXPECT_EQ(Ask("batch_norm", {"float32[2,3]", "float32[3]", "float32[3]"}, NormAttributes{1, 0}), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("batch_norm", {"float32[2,3]", "float32[3]", "float32[3]"}, NormAttributes{0, -1}),
            "ATTRIBUTE_INVALID");
}

TEST(InferNorm, LayerNorm) {
  EXPECT_EQ(Ask("layer_norm", {"float32[2,3,4]"}, NormAttributes{-1, 1e-5}), "float32[2,3,4]");
  EXPECT_EQ(Ask("layer_norm", {"float32[2,3,4]", "float32[3,4]", "float32[3,4]"}, NormAttributes{-2, 1e-5}),
            "float32[2,3,4]");
  EXPECT_EQ(MismatchAxis("layer_norm", {"float32[2,3,4]", "float32[4]"}, NormAttributes{1, 1e-5}), "1");
  EXPECT_EQ(Ask("layer_norm", {"float32[2,3,4]"}, NormAttributes{3, 1e-5}), "AXIS_INVALID");
  EXPECT_EQ(Path("layer_norm", {"float32[2,3,4]"}, NormAttributes{3, 1e-5}), "norm.axis");
  EXPECT_EQ(Ask("layer_norm", {"float32[]"}), "AXIS_INVALID");
  EXPECT_EQ(Ask("layer_norm", {"int32[2]"}), "DTYPE_MISMATCH");
}

TEST(InferJoin, Concat) {
  EXPECT_EQ(Ask("concat", {"float32[2,3]", "float32[4,3]"}), "float32[6,3]");
  EXPECT_EQ(Ask("concat", {"float32[2,3]", "float32[2,0]", "float32[2,1]"}, JoinAttributes{-1}), "float32[2,4]");
  EXPECT_EQ(Ask("concat", {"int8[2]", "float32[1]"}), "float32[3]");
  EXPECT_EQ(Compute("concat", {"int8[2]", "float32[1]"}), "float32");
  EXPECT_EQ(Ask("concat", {"float32[2]"}), "float32[2]");
  EXPECT_EQ(Ask("concat", {}), "ARITY_INVALID");
  EXPECT_EQ(MismatchAxis("concat", {"float32[2,3]", "float32[4,5]"}), "1");
  EXPECT_EQ(Ask("concat", {"float32[2]", "float32[2,1]"}), "SHAPE_MISMATCH");
  EXPECT_EQ(Ask("concat", {"float32[]", "float32[]"}), "AXIS_INVALID");
  EXPECT_EQ(Ask("concat", {"float32[2]", "float32[2]"}, JoinAttributes{1}), "AXIS_INVALID");
  EXPECT_EQ(Path("concat", {"float32[2]", "float32[2]"}, JoinAttributes{1}), "join.axis");
  EXPECT_EQ(Ask("concat", {"float32[2]", 1.0}), "ARITY_INVALID");
  EXPECT_EQ(Ask("concat", {"float32[2]", "int64[2]"}), "DTYPE_MISMATCH");
  const TensorType half{Dtype::kInt8, {int64_t{1} << 62}};
  EXPECT_EQ(Ask("concat", {half, half}), "SHAPE_INVALID");
}

TEST(InferJoin, Stack) {
  EXPECT_EQ(Ask("stack", {"float32[2,3]", "float32[2,3]"}), "float32[2,2,3]");
  EXPECT_EQ(Ask("stack", {"float32[2,3]", "float32[2,3]", "float32[2,3]"}, JoinAttributes{-1}), "float32[2,3,3]");
  EXPECT_EQ(Ask("stack", {"float32[]", "float32[]"}), "float32[2]");
  EXPECT_EQ(MismatchAxis("stack", {"float32[2,3]", "float32[2,4]"}), "1");
  EXPECT_EQ(Ask("stack", {"float32[2]"}, JoinAttributes{2}), "AXIS_INVALID");
  EXPECT_EQ(Ask("stack", {TensorType{Dtype::kInt8, Dims(64, 1)}}), "LIMIT_EXCEEDED");
}

TEST(InferIndex, Take) {
  EXPECT_EQ(Ask("take", {"float32[5,3]", "int64[2]"}), "float32[2,3]");
  EXPECT_EQ(Ask("take", {"float32[5,3]", "uint8[2,7]"}, IndexAttributes{1}), "float32[5,2,7]");
  EXPECT_EQ(Ask("take", {"float32[5,3]", "int32[]"}, IndexAttributes{-1}), "float32[5]");
  EXPECT_EQ(Compute("take", {"bool[5]", "int32[2]"}), "bool");
  EXPECT_EQ(Ask("take", {"float32[5]", "float32[2]"}), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("take", {"float32[5]", "bool[2]"}), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("take", {"float32[5]", "int64[2]"}, IndexAttributes{1}), "AXIS_INVALID");
  EXPECT_EQ(Ask("take", {"float32[]", "int64[2]"}), "AXIS_INVALID");
  EXPECT_EQ(Ask("take", {TensorType{Dtype::kInt8, {int64_t{1} << 40, 1}}, TensorType{Dtype::kInt8, {int64_t{1} << 40}}},
                IndexAttributes{1}),
            "SHAPE_INVALID");
}

}  // namespace
}  // namespace tensord
