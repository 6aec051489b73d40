// Promotion, weak scalars, type rules, broadcasting: the elementwise families.
#include <array>
#include <random>
#include <sstream>

#include "tests/unit/ops/infer_testing.h"

namespace tensord {
namespace {

TEST(Promote, IsTheTable) {
  // Rows and columns in the order of the first line; "." is refused. From the array API standard 2024.12 for one kind
  // and for mixed integers; real beside integer where numpy.promote_types and torch.promote_types agree.
  std::istringstream table(R"(
      bool     int8    int16   int32   int64   uint8   uint16  uint32  uint64  float16 bfloat16 float32 float64
      bool     int8    int16   int32   int64   uint8   uint16  uint32  uint64  float16 bfloat16 float32 float64
      int8     int8    int16   int32   int64   int16   int32   int64   .       float16 .        float32 float64
      int16    int16   int16   int32   int64   int16   int32   int64   .       .       .        float32 float64
      int32    int32   int32   int32   int64   int32   int32   int64   .       .       .        .       float64
      int64    int64   int64   int64   int64   int64   int64   int64   .       .       .        .       float64
      uint8    int16   int16   int32   int64   uint8   uint16  uint32  uint64  float16 .        float32 float64
      uint16   int32   int32   int32   int64   uint16  uint16  uint32  uint64  .       .        float32 float64
      uint32   int64   int64   int64   int64   uint32  uint32  uint32  uint64  .       .        .       float64
      uint64   .       .       .       .       uint64  uint64  uint64  uint64  .       .        .       float64
      float16  float16 .       .       .       float16 .       .       .       float16 float32  float32 float64
      bfloat16 .       .       .       .       .       .       .       .       float32 bfloat16 float32 float64
      float32  float32 float32 .       .       float32 float32 .       .       float32 float32  float32 float64
      float64  float64 float64 float64 float64 float64 float64 float64 float64 float64 float64  float64 float64
  )");
  constexpr size_t kDtypes = 13;
  std::array<Dtype, kDtypes> order{};
  std::string word;
  for (Dtype& dtype : order) {
    table >> word;
    dtype = *ParseDtype(word);
  }
  for (const Dtype a : order) {
    for (const Dtype b : order) {
      ASSERT_TRUE(table >> word);
      EXPECT_EQ(Promote(a, b), word == "." ? Dtype::kNone : *ParseDtype(word)) << DtypeName(a) << " " << DtypeName(b);
      EXPECT_EQ(Promote(a, b), Promote(b, a));
    }
  }
}

TEST(Promote, ComplexAndNoneAreRefused) {
  EXPECT_EQ(Promote(Dtype::kComplex64, Dtype::kComplex64), Dtype::kNone);
  EXPECT_EQ(Promote(Dtype::kNone, Dtype::kFloat32), Dtype::kNone);
  EXPECT_EQ(Promote(static_cast<Dtype>(77), Dtype::kFloat32), Dtype::kNone);
}

TEST(InferBinary, Tensors) {
  EXPECT_EQ(Ask("add", {"float32[2,3]", "float32[2,3]"}), "float32[2,3]");
  EXPECT_EQ(Ask("add", {"int8[2]", "uint8[2]"}), "int16[2]");
  EXPECT_EQ(Ask("multiply", {"float32[2]", "bool[2]"}), "float32[2]");
  EXPECT_EQ(Ask("add", {"float32[2]", "int64[2]"}), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("add", {"bool[2]", "bool[2]"}), "DTYPE_MISMATCH");
  EXPECT_EQ(Compute("add", {"float16[2]", "bfloat16[2]"}), "float32");
}

TEST(InferBinary, RefusalsNameBothDtypesAndTheCast) {
  EXPECT_EQ(
      Message("add", {"float32[2]", "int64[2]"}),
      "add: does not take float32 and int64: what an integer this wide makes beside a real is left open; cast the "
      "int64 operand to float32 first");
  EXPECT_EQ(
      Message("add", {"int64[2]", "float32[2]"}),
      "add: does not take int64 and float32: what an integer this wide makes beside a real is left open; cast the "
      "int64 operand to float32 first");
  EXPECT_EQ(
      Message("add", {"int32[2]", "uint64[2]"}),
      "add: does not take int32 and uint64: no integer dtype holds both; cast one operand first, for example uint64 "
      "to int64");
  EXPECT_EQ(DetailsOf(InferOp("add", {"int32[2]", "uint64[2]"}).status()).Get("dtypes"), "int32 and uint64");
}

TEST(InferBinary, Compare) {
  EXPECT_EQ(Ask("less", {"int8[2]", "int64[2,1]"}), "bool[2,2]");
  EXPECT_EQ(Compute("less", {"int8[2]", "int64[2,1]"}), "int64");
  EXPECT_EQ(Ask("equal", {"bool[2]", "bool[2]"}), "bool[2]");
  EXPECT_EQ(Ask("less", {"bool[2]", "bool[2]"}), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("logical_and", {"float32[2]", "bool[2]"}), "bool[2]");
}

TEST(InferBinary, WeakScalarsTakeTheTensorsDtype) {
  for (const char* dtype : {"float16[2]", "bfloat16[2]", "float32[2]", "float64[2]"}) {
    EXPECT_EQ(Ask("add", {dtype, 1}), dtype);
    EXPECT_EQ(Ask("add", {2.5, dtype}), dtype);
    EXPECT_EQ(Ask("add", {dtype, true}), dtype);
  }
  for (const char* dtype :
       {"int8[2]", "int16[2]", "int32[2]", "int64[2]", "uint8[2]", "uint16[2]", "uint32[2]", "uint64[2]"}) {
    EXPECT_EQ(Ask("subtract", {dtype, 1}), dtype);
    EXPECT_EQ(Ask("subtract", {true, dtype}), dtype);
    EXPECT_EQ(Ask("subtract", {dtype, 2.5}), "DTYPE_MISMATCH");
    EXPECT_EQ(Ask("subtract", {dtype, 2.0}), "DTYPE_MISMATCH") << "the kind counts, not the value";
  }
  // NumPy and PyTorch agree on int64 here, and on nothing for a real number.
  EXPECT_EQ(Ask("add", {"bool[2]", 1}), "int64[2]");
  EXPECT_EQ(Ask("add", {"bool[2]", 1.5}), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("equal", {"bool[2]", true}), "bool[2]");
}

TEST(InferBinary, WeakScalarsMustFit) {
  EXPECT_EQ(Ask("add", {"int8[2]", 300}), "SCALAR_RANGE");
  EXPECT_EQ(Ask("add", {"uint8[2]", -1}), "SCALAR_RANGE");
  EXPECT_EQ(Ask("add", {"int64[2]", uint64_t{1} << 63}), "SCALAR_RANGE");
  EXPECT_EQ(Ask("add", {"uint64[2]", uint64_t{1} << 63}), "uint64[2]");
  EXPECT_EQ(Ask("add", {"float16[2]", 1e6}), "SCALAR_RANGE");
  EXPECT_EQ(Ask("add", {"float16[2]", 70000}), "SCALAR_RANGE");
  EXPECT_EQ(Message("add", {"int8[2]", 300}), "300 does not fit int8, which holds -128 to 127");
  EXPECT_EQ(Path("add", {"int8[2]", 300}), "scalars[0]");
  EXPECT_EQ(Path("clip", {"int8[2]", 1, 300}), "scalars[1]");
}

TEST(InferBinary, WeakScalarMessage) {
  EXPECT_EQ(Message("multiply", {"int64[3]", 2.5}),
            "multiply: does not take int64 and the real number 2.5: a real number goes beside a real tensor; cast the "
            "tensor to float32 first");
}

TEST(InferBinary, ScalarsWithADtypeCountAsTensors) {
  EXPECT_EQ(Ask("add", {"int8[2]", Scalar{int64_t{300}, Dtype::kInt16}}), "int16[2]");
  EXPECT_EQ(Ask("add", {"float32[2]", Scalar{1.0, Dtype::kFloat64}}), "float64[2]");
  EXPECT_EQ(Ask("add", {"float32[2]", Scalar{int64_t{1}, Dtype::kInt64}}), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("add", {"int8[2]", Scalar{int64_t{300}, Dtype::kInt8}}), "SCALAR_RANGE");
  EXPECT_EQ(Ask("add", {"int8[2]", Scalar{1.5, Dtype::kInt8}}), "SCALAR_RANGE");
  EXPECT_EQ(Ask("equal", {"bool[2]", Scalar{int64_t{3}, Dtype::kBool}}), "SCALAR_RANGE");
  EXPECT_EQ(Ask("equal", {"bool[2]", Scalar{int64_t{1}, Dtype::kBool}}), "bool[2]");
  EXPECT_EQ(Ask("add", {"float32[2]", Scalar{1.0, Dtype::kComplex64}}), "OP_UNSUPPORTED");
}

TEST(InferBinary, ScalarsAlone) {
  EXPECT_EQ(Ask("add", {1, 2}), "int64[]");
  EXPECT_EQ(Ask("add", {1, 2.5}), "float32[]");
  EXPECT_EQ(Ask("add", {true, 2}), "int64[]");
  EXPECT_EQ(Ask("logical_and", {true, false}), "bool[]");
  EXPECT_EQ(Ask("add", {1, uint64_t{1} << 63}), "SCALAR_RANGE");
  EXPECT_EQ(Ask("divide", {1, 2}), "DTYPE_MISMATCH") << "division is of real numbers";
  EXPECT_EQ(Ask("add", {1, Scalar{int64_t{2}, Dtype::kInt8}}), "int8[]");
}

TEST(InferUnary, TypeRules) {
  EXPECT_EQ(Ask("exp", {"float16[2]"}), "float16[2]");
  EXPECT_EQ(Ask("exp", {"int32[2]"}), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("exp", {2.0}), "float32[]");
  EXPECT_EQ(Ask("abs", {"int32[2]"}), "int32[2]");
  EXPECT_EQ(Ask("abs", {"bool[2]"}), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("isnan", {"bool[2]"}), "bool[2]");
  EXPECT_EQ(Ask("isnan", {"float32[]"}), "bool[]");
  EXPECT_EQ(Compute("isnan", {"float64[2]"}), "float64");
  EXPECT_EQ(Ask("signbit", {"int8[2]"}), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("logical_not", {"int8[2]"}), "bool[2]");
  EXPECT_EQ(Ask("bitwise_invert", {"bool[2]"}), "bool[2]");
  EXPECT_EQ(Ask("bitwise_invert", {"float32[2]"}), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("bitwise_left_shift", {"bool[2]", "bool[2]"}), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("bitwise_left_shift", {"uint8[2]", 3}), "uint8[2]");
  EXPECT_EQ(Message("exp", {"int32[2]"}), "exp: does not take int32: it takes real numbers; cast to float32 first");
  EXPECT_EQ(Message("add", {"bool[2]", "bool[2]"}), "add: does not take bool: it takes numbers; cast to int64 first");
}

TEST(Infer, ComplexIsRefusedEverywhere) {
  EXPECT_EQ(Ask("abs", {"complex64[2]"}), "OP_UNSUPPORTED");
  EXPECT_EQ(Ask("add", {"complex64[2]", "float32[2]"}), "OP_UNSUPPORTED");
  EXPECT_EQ(Ask("reshape", {"complex128[2]"}, With<ViewAttributes>([](auto& a) { a.shape = {2}; })), "OP_UNSUPPORTED");
  EXPECT_EQ(Ask("zeros", {}, With<CreateAttributes>([](auto& a) {
                  a.spec.type = {Dtype::kComplex64, {2}};
                })),
            "OP_UNSUPPORTED");
  EXPECT_EQ(Ask("cast", {"float32[2]"}, With<ConvertAttributes>([](auto& a) { a.dtype = Dtype::kComplex64; })),
            "OP_UNSUPPORTED");
  const absl::Status status = InferOp("abs", {"complex64[2]"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
}

TEST(Infer, Arity) {
  EXPECT_EQ(Ask("add", {"float32[2]"}), "ARITY_INVALID");
  EXPECT_EQ(Ask("add", {"float32[2]", "float32[2]", "float32[2]"}), "ARITY_INVALID");
  EXPECT_EQ(Ask("add", {"float32[2]", "-"}), "ARITY_INVALID");
  EXPECT_EQ(Ask("exp", {}), "ARITY_INVALID");
  EXPECT_EQ(Ask("where", {"bool[2]", "float32[2]"}), "ARITY_INVALID");
  EXPECT_EQ(Ask("sum", {3}), "ARITY_INVALID") << "a reduction is of a tensor";
  EXPECT_EQ(Message("add", {"float32[2]"}), "add: takes 2 operands, got 1");
  EXPECT_EQ(Message("add", {"float32[2]", "-"}), "add: takes x2 (operand 1), got none");
  EXPECT_EQ(Message("clip", {}), "clip: takes 1 to 3 operands, got 0");
  EXPECT_EQ(Path("add", {"float32[2]", "-"}), "inputs[1]");
  Instruction two;
  two.op = Op::kExp;
  two.output_count = 2;
  const TensorType x{Dtype::kFloat32, {2}};
  EXPECT_EQ(ReasonOf(Infer(two, {{.tensor = &x}}).status()), Reason::kArityInvalid);
}

TEST(Infer, AttributesOfAnotherFamily) {
  const Attributes reduce = With<ReduceAttributes>([](auto& a) { a.keepdims = true; });
  const Attributes view = With<ViewAttributes>([](auto& a) { a.diagonal = 1; });
  EXPECT_EQ(Ask("add", {"float32[2]", "float32[2]"}, reduce), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("sum", {"float32[2]"}, view), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Path("sum", {"float32[2]"}, view), "view");
}

TEST(Infer, AnInstructionThatCouldNotBeDecodedFailsWithItsOwnStatus) {
  Instruction instruction;
  instruction.op = Op::kExp;
  instruction.invalid = Error(Reason::kOpUnknown).With("name", "exq").With("daemon_version", "0");
  EXPECT_EQ(ReasonOf(Infer(instruction, {}).status()), Reason::kOpUnknown);
  instruction = {};
  EXPECT_TRUE(Infer(instruction, {})->outputs.empty()) << "no op: nothing is computed";
}

TEST(Broadcast, ByHand) {
  EXPECT_EQ(Ask("add", {"float32[2,3]", "float32[3]"}), "float32[2,3]");
  EXPECT_EQ(Ask("add", {"float32[2,1]", "float32[1,3]"}), "float32[2,3]");
  EXPECT_EQ(Ask("add", {"float32[]", "float32[2,3]"}), "float32[2,3]");
  EXPECT_EQ(Ask("add", {"float32[0]", "float32[1]"}), "float32[0]");
  EXPECT_EQ(Ask("add", {"float32[8,1,6,1]", "float32[7,1,5]"}), "float32[8,7,6,5]");
  EXPECT_EQ(Ask("add", {"float32[0]", "float32[3]"}), "SHAPE_MISMATCH");
  EXPECT_EQ(MismatchAxis("add", {"float32[2,3]", "float32[2,4]"}), "1");
  EXPECT_EQ(MismatchAxis("add", {"float32[2,3]", "float32[2]"}), "1");
  EXPECT_EQ(MismatchAxis("add", {"float32[2,3,4]", "float32[3,1,4]"}), "0");
  EXPECT_EQ(Message("add", {"float32[2,3]", "float32[2]"}),
            "add: shapes [2,3] and [2] do not fit at axis 1: sizes are 3 and 2");
  EXPECT_EQ(Message("add", {"float32[2]", "float32[2,3]"}),
            "add: shapes [2] and [2,3] do not fit at axis 1: sizes are 2 and 3");
}

TEST(Broadcast, TheResultMustBeATensor) {
  EXPECT_EQ(
      Ask("add", {TensorType{Dtype::kInt8, {int64_t{1} << 40, 1}}, TensorType{Dtype::kInt8, {1, int64_t{1} << 40}}}),
      "SHAPE_INVALID");
  EXPECT_EQ(Ask("add", {TensorType{Dtype::kInt8, Dims(64, 1)}, TensorType{Dtype::kInt8, Dims(64, 1)}}),
            (TensorType{Dtype::kInt8, Dims(64, 1)}).ToString());
}

// By the rule's text: aligned from the right, each pair of sizes is equal or one is 1.
TEST(Broadcast, RandomShapesByDefinition) {
  std::mt19937 generator(5);  // NOLINT
  int fits = 0;
  for (int i = 0; i < 20000; ++i) {
    Dims a(generator() % 5, 0);
    Dims b(generator() % 5, 0);
    for (int64_t& size : a) size = static_cast<int64_t>(generator() % 4 == 0 ? generator() % 3 : 1 + generator() % 2);
    for (int64_t& size : b) size = static_cast<int64_t>(generator() % 4 == 0 ? generator() % 3 : 1 + generator() % 2);
    Dims expected;
    bool ok = true;
    for (size_t k = 1; k <= std::max(a.size(), b.size()); ++k) {
      const int64_t x = k <= a.size() ? a[a.size() - k] : 1;
      const int64_t y = k <= b.size() ? b[b.size() - k] : 1;
      ok &= x == y || x == 1 || y == 1;
      expected.insert(expected.begin(), x == 1 ? y : x);
    }
    const absl::StatusOr<Dims> got = Broadcast("add", a, b);
    ASSERT_EQ(got.ok(), ok) << ShapeText(a) << ShapeText(b);
    if (!ok) continue;
    ++fits;
    ASSERT_EQ(*got, expected) << ShapeText(a) << ShapeText(b);
  }
  EXPECT_GT(fits, 1000);
}

TEST(InferSelect, Where) {
  EXPECT_EQ(Ask("where", {"bool[3]", "float32[2,1]", "float32[]"}), "float32[2,3]");
  EXPECT_EQ(Ask("where", {"bool[2]", "int8[2]", "int16[2]"}), "int16[2]");
  EXPECT_EQ(Compute("where", {"bool[2]", "int8[2]", "int16[2]"}), "int16");
  EXPECT_EQ(Ask("where", {"bool[2]", "float32[2]", 0}), "float32[2]");
  EXPECT_EQ(Ask("where", {"bool[2]", 1.0, 0}), "float32[2]");
  EXPECT_EQ(Ask("where", {"bool[2]", 1, 0}), "int64[2]");
  EXPECT_EQ(Ask("where", {true, "float32[2]", "float32[3]"}), "SHAPE_MISMATCH");
  EXPECT_EQ(Ask("where", {true, "float32[2]", "float32[2]"}), "float32[2]");
  EXPECT_EQ(Ask("where", {"int8[2]", "float32[2]", "float32[2]"}), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("where", {1, "float32[2]", "float32[2]"}), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("where", {"bool[2]", "bool[2]", "bool[2]"}), "bool[2]");
}

TEST(InferSelect, Clip) {
  EXPECT_EQ(Ask("clip", {"float32[2]", 0, 6}), "float32[2]");
  EXPECT_EQ(Ask("clip", {"float32[2]", "-", 6.0}), "float32[2]");
  EXPECT_EQ(Ask("clip", {"float32[2]"}), "float32[2]");
  EXPECT_EQ(Ask("clip", {"float32[2]", "float32[3,1]", "-"}), "float32[3,2]");
  EXPECT_EQ(Ask("clip", {"int8[2]", 0, 300}), "SCALAR_RANGE");
  EXPECT_EQ(Ask("clip", {"int8[2]", 0.5}), "DTYPE_MISMATCH");
}

// Three operands: the order does not matter, though pairs of them may not go together.
TEST(InferSelect, PromotionDoesNotDependOnTheOrder) {
  EXPECT_EQ(Ask("clip", {"int64[2]", "float32[2]", "float64[2]"}), "float64[2]");
  EXPECT_EQ(Ask("clip", {"float64[2]", "uint64[2]", "int8[2]"}), "float64[2]");
  EXPECT_EQ(Ask("clip", {"uint64[2]", "int8[2]", "float64[2]"}), "float64[2]");
  EXPECT_EQ(Ask("clip", {"uint64[2]", "int8[2]", "float32[2]"}), "DTYPE_MISMATCH");
}

TEST(InferConvert, Cast) {
  const auto to = [](Dtype dtype) { return With<ConvertAttributes>([&](auto& a) { a.dtype = dtype; }); };
  EXPECT_EQ(Ask("cast", {"float32[2,3]"}, to(Dtype::kInt8)), "int8[2,3]");
  EXPECT_EQ(Compute("cast", {"float32[2,3]"}, to(Dtype::kInt8)), "float32");
  EXPECT_EQ(Ask("cast", {3}, to(Dtype::kBool)), "bool[]");
  EXPECT_EQ(Ask("cast", {"float32[2]"}), "DTYPE_UNKNOWN");
  EXPECT_EQ(Path("cast", {"float32[2]"}), "convert.dtype");
  EXPECT_EQ(Ask("cast", {"float32[2]"}, With<ConvertAttributes>([](auto& a) {
                  a.dtype = Dtype::kInt8;
                  a.device = "cpu";
                })),
            "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("cast", {TensorType{Dtype::kInt8, {int64_t{1} << 61}}}, to(Dtype::kFloat64)), "SHAPE_INVALID");
}

TEST(InferConvert, To) {
  const auto to = [](const char* device) { return With<ConvertAttributes>([&](auto& a) { a.device = device; }); };
  EXPECT_EQ(Ask("to", {"int8[2,3]"}, to("cuda:0")), "int8[2,3]");
  EXPECT_EQ(Ask("to", {"int8[2,3]"}, to("anything: placement knows")), "int8[2,3]");
  EXPECT_EQ(Ask("to", {"int8[2,3]"}), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("to", {3}, to("cpu")), "ARITY_INVALID");
}

}  // namespace
}  // namespace tensord
