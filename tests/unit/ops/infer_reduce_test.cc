#include <cmath>

#include "tests/unit/ops/infer_testing.h"

namespace tensord {
namespace {

ReduceAttributes Over(Axes axes, bool keepdims = false) {
  ReduceAttributes attributes;
  attributes.axes = std::move(axes);
  attributes.keepdims = keepdims;
  return attributes;
}

ReduceAttributes OverAll(bool keepdims = false) {
  ReduceAttributes attributes;
  attributes.all_axes = true;
  attributes.keepdims = keepdims;
  return attributes;
}

TEST(InferReduce, Shapes) {
  EXPECT_EQ(Ask("sum", {"float32[2,3,4]"}, OverAll()), "float32[]");
  EXPECT_EQ(Ask("sum", {"float32[2,3,4]"}, OverAll(true)), "float32[1,1,1]");
  EXPECT_EQ(Ask("sum", {"float32[2,3,4]"}, Over({1})), "float32[2,4]");
  EXPECT_EQ(Ask("sum", {"float32[2,3,4]"}, Over({-1, 0})), "float32[3]");
  EXPECT_EQ(Ask("sum", {"float32[2,3,4]"}, Over({-1, 0}, true)), "float32[1,3,1]");
  EXPECT_EQ(Ask("sum", {"float32[2,3]"}), "float32[2,3]") << "no axes: nothing is reduced";
  EXPECT_EQ(Ask("sum", {"float32[]"}, OverAll()), "float32[]");
  EXPECT_EQ(Ask("sum", {TensorType{Dtype::kInt8, Dims(64, 1)}}, OverAll()), "int64[]");
}

TEST(InferReduce, Dtypes) {
  EXPECT_EQ(Ask("sum", {"uint8[2]"}, OverAll()), "uint64[]");
  EXPECT_EQ(Compute("sum", {"uint8[2]"}, OverAll()), "uint64");
  EXPECT_EQ(Ask("sum", {"int16[2]"}, OverAll()), "int64[]");
  EXPECT_EQ(Ask("sum", {"bool[2]"}, OverAll()), "int64[]");
  EXPECT_EQ(Ask("prod", {"float16[2]"}, OverAll()), "float16[]");
  EXPECT_EQ(Ask("mean", {"float32[2]"}, OverAll()), "float32[]");
  EXPECT_EQ(Ask("mean", {"int32[2]"}, OverAll()), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("var", {"bool[2]"}, OverAll()), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("max", {"int8[2]"}, OverAll()), "int8[]");
  EXPECT_EQ(Ask("max", {"bool[2]"}, OverAll()), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("all", {"float32[2]"}, OverAll()), "bool[]");
  EXPECT_EQ(Compute("any", {"int8[2]"}, OverAll()), "int8");
  EXPECT_EQ(Ask("argmax", {"float16[2]"}, OverAll()), "int64[]");
  EXPECT_EQ(Compute("argmax", {"float16[2]"}, OverAll()), "float16");
}

TEST(InferReduce, AskedDtype) {
  const auto as = [](Dtype dtype) {
    ReduceAttributes attributes = OverAll();
    attributes.dtype = dtype;
    return attributes;
  };
  EXPECT_EQ(Ask("sum", {"int8[2]"}, as(Dtype::kInt8)), "int8[]");
  EXPECT_EQ(Compute("sum", {"int8[2]"}, as(Dtype::kInt8)), "int8");
  EXPECT_EQ(Ask("sum", {"float32[2]"}, as(Dtype::kFloat64)), "float64[]");
  EXPECT_EQ(Ask("sum", {"int8[2]"}, as(Dtype::kBool)), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("sum", {"int8[2]"}, as(Dtype::kComplex64)), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("max", {"int8[2]"}, as(Dtype::kInt8)), "ATTRIBUTE_INVALID") << "max has no such field";
}

TEST(InferReduce, Axes) {
  EXPECT_EQ(Ask("sum", {"float32[2,3]"}, Over({2})), "AXIS_INVALID");
  EXPECT_EQ(Ask("sum", {"float32[2,3]"}, Over({-3})), "AXIS_INVALID");
  EXPECT_EQ(Ask("sum", {"float32[2,3]"}, Over({1, -1})), "AXIS_INVALID");
  EXPECT_EQ(Ask("sum", {"float32[]"}, Over({0})), "AXIS_INVALID");
  EXPECT_EQ(Ask("sum", {"float32[2,3]"}, Over({INT32_MIN})), "AXIS_INVALID");
  EXPECT_EQ(Message("sum", {"float32[2,3]"}, Over({2})), "sum: axis 2 is not valid for rank 2");
  EXPECT_EQ(Message("sum", {"float32[2,3]"}, Over({0, -2})), "sum: axis -2 is not valid for rank 2: it is given twice");
  EXPECT_EQ(Path("sum", {"float32[2,3]"}, Over({0, 5})), "reduce.axes[1]");
  ReduceAttributes both = OverAll();
  both.axes = {0};
  EXPECT_EQ(Ask("sum", {"float32[2,3]"}, both), "ATTRIBUTE_INVALID");
}

TEST(InferReduce, PositionsTakeOneAxisOrAll) {
  EXPECT_EQ(Ask("argmax", {"float32[2,3]"}, Over({1})), "int64[2]");
  EXPECT_EQ(Ask("argmin", {"float32[2,3]"}, Over({0}, true)), "int64[1,3]");
  EXPECT_EQ(Ask("argmin", {"float32[2,3]"}, OverAll(true)), "int64[1,1]");
  EXPECT_EQ(Ask("argmax", {"float32[2,3]"}, Over({0, 1})), "AXIS_INVALID");
  EXPECT_EQ(Ask("argmax", {"float32[2,3]"}), "AXIS_INVALID");
}

TEST(InferReduce, NoElements) {
  for (const char* op : {"max", "min", "argmax", "argmin"}) {
    EXPECT_EQ(MismatchAxis(op, {"float32[2,0]"}, Over({1})), "1") << op;
    EXPECT_EQ(Ask(op, {"float32[2,0]"}, OverAll()), "SHAPE_MISMATCH") << op;
    EXPECT_EQ(Ask(op, {"float32[0]"}, OverAll()), "SHAPE_MISMATCH") << op;
    // Each result has elements to choose from; there are no results.
    EXPECT_TRUE(InferOp(op, {"float32[2,0]"}, Over({0})).ok()) << op;
  }
  for (const char* op : {"sum", "prod", "mean", "var", "std", "all", "any"}) {
    EXPECT_TRUE(InferOp(op, {"float32[2,0]"}, Over({1})).ok()) << op;
  }
  EXPECT_EQ(Message("max", {"float32[2,0]"}, Over({1})),
            "max: shapes [2,0] do not fit at axis 1: there are no elements to choose from");
}

TEST(InferReduce, FieldsOfOtherOps) {
  EXPECT_EQ(Ask("sum", {"float32[2]"}, With<ReduceAttributes>([](auto& a) { a.correction = 1; })), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("var", {"float32[2]"}, With<ReduceAttributes>([](auto& a) { a.correction = 1; })), "float32[2]");
  EXPECT_EQ(Ask("var", {"float32[2]"}, With<ReduceAttributes>([](auto& a) { a.correction = std::nan(""); })),
            "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("max", {"float32[2]"}, With<ReduceAttributes>([](auto& a) { a.last_index = true; })),
            "ATTRIBUTE_INVALID");
}

TEST(InferSoftmax, OneAxis) {
  EXPECT_EQ(Ask("softmax", {"float32[2,3]"}, Over({-1})), "float32[2,3]");
  EXPECT_EQ(Ask("softmax", {"float32[2,0]"}, Over({1})), "float32[2,0]");
  EXPECT_EQ(Ask("log_softmax", {"bfloat16[2,3]"}, Over({0})), "bfloat16[2,3]");
  EXPECT_EQ(Ask("softmax", {"float32[2,3]"}), "AXIS_INVALID");
  EXPECT_EQ(Ask("softmax", {"float32[2,3]"}, Over({0, 1})), "AXIS_INVALID");
  EXPECT_EQ(Ask("softmax", {"float32[2,3]"}, Over({2})), "AXIS_INVALID");
  EXPECT_EQ(Ask("softmax", {"int32[2,3]"}, Over({1})), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("softmax", {"float32[2,3]"}, OverAll()), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("softmax", {"float32[2,3]"}, Over({1}, true)), "ATTRIBUTE_INVALID");
}

}  // namespace
}  // namespace tensord
