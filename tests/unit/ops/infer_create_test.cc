#include <cmath>
#include <limits>

#include "tests/unit/ops/infer_testing.h"

namespace tensord {
namespace {

CreateAttributes Spec(Dtype dtype, Dims shape) {
  CreateAttributes attributes;
  attributes.spec.type = {dtype, std::move(shape)};
  return attributes;
}

TEST(InferCreate, Defaults) {
  EXPECT_EQ(Ask("zeros", {}, Spec(Dtype::kNone, {2, 3})), "float32[2,3]");
  EXPECT_EQ(Ask("ones", {}, Spec(Dtype::kBool, {2})), "bool[2]");
  EXPECT_EQ(Ask("zeros", {}), "float32[]");
  EXPECT_EQ(Ask("rand", {}, Spec(Dtype::kNone, {2})), "float32[2]");
  EXPECT_EQ(Ask("randn", {}, Spec(Dtype::kBfloat16, {2})), "bfloat16[2]");
  EXPECT_EQ(Ask("rand", {}, Spec(Dtype::kInt32, {2})), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("upload", {}, Spec(Dtype::kInt8, {2})), "int8[2]");
  EXPECT_EQ(Ask("upload", {}, Spec(Dtype::kNone, {2})), "DTYPE_UNKNOWN");
  EXPECT_EQ(Path("upload", {}, Spec(Dtype::kNone, {2})), "create.spec.dtype");
  EXPECT_EQ(Ask("zeros", {}, Spec(static_cast<Dtype>(99), {2})), "DTYPE_UNKNOWN");
}

TEST(InferCreate, HostileShapes) {
  EXPECT_EQ(Ask("zeros", {}, Spec(Dtype::kFloat32, {-1, 4})), "SHAPE_INVALID");
  EXPECT_EQ(Ask("zeros", {}, Spec(Dtype::kFloat32, {int64_t{1} << 62, 4})), "SHAPE_INVALID");
  EXPECT_EQ(Ask("zeros", {}, Spec(Dtype::kFloat32, {int64_t{1} << 33, int64_t{1} << 31})), "SHAPE_INVALID");
  EXPECT_EQ(Ask("zeros", {}, Spec(Dtype::kFloat32, Dims(65, 1))), "LIMIT_EXCEEDED");
  EXPECT_EQ(Path("zeros", {}, Spec(Dtype::kFloat32, {-1, 4})), "create.spec.shape");
}

TEST(InferCreate, Full) {
  EXPECT_EQ(Ask("full", {2.5}, Spec(Dtype::kNone, {2})), "float32[2]");
  EXPECT_EQ(Ask("full", {3}, Spec(Dtype::kNone, {2})), "int64[2]");
  EXPECT_EQ(Ask("full", {true}, Spec(Dtype::kNone, {2})), "bool[2]");
  EXPECT_EQ(Ask("full", {Scalar{2.5, Dtype::kFloat64}}, Spec(Dtype::kNone, {2})), "float64[2]");
  EXPECT_EQ(Ask("full", {3}, Spec(Dtype::kFloat16, {2})), "float16[2]");
  EXPECT_EQ(Ask("full", {2.5}, Spec(Dtype::kInt32, {2})), "SCALAR_RANGE");
  EXPECT_EQ(Ask("full", {300}, Spec(Dtype::kInt8, {2})), "SCALAR_RANGE");
  EXPECT_EQ(Ask("full", {"float32[]"}, Spec(Dtype::kNone, {2})), "ARITY_INVALID") << "a constant is a literal";
  EXPECT_EQ(Ask("full", {}, Spec(Dtype::kNone, {2})), "ARITY_INVALID");
  EXPECT_EQ(Ask("full", {"-"}, Spec(Dtype::kNone, {2})), "ARITY_INVALID");
}

TEST(InferCreate, ArangeCounts) {
  EXPECT_EQ(Ask("arange", {5}), "int64[5]");
  EXPECT_EQ(Ask("arange", {2, 5}), "int64[3]");
  EXPECT_EQ(Ask("arange", {0, 10, 3}), "int64[4]");
  EXPECT_EQ(Ask("arange", {0, 9, 3}), "int64[3]");
  EXPECT_EQ(Ask("arange", {10, 0, -3}), "int64[4]");
  EXPECT_EQ(Ask("arange", {5, 0}), "int64[0]");
  EXPECT_EQ(Ask("arange", {0, 5, -1}), "int64[0]");
  EXPECT_EQ(Ask("arange", {3, 3}), "int64[0]");
  EXPECT_EQ(Ask("arange", {0.0, 1.0, 0.1}), "float32[10]");
  EXPECT_EQ(Ask("arange", {0, 1, 0.3}), "float32[4]");
  EXPECT_EQ(Ask("arange", {1.0, 0.0, -0.25}), "float32[4]");
  EXPECT_EQ(Ask("arange", {2.5}), "float32[3]");
  EXPECT_EQ(Ask("arange", {5, "-", 2}), "int64[3]");
  EXPECT_EQ(Ask("arange", {0, 5}, Spec(Dtype::kFloat64, {})), "float64[5]");
}

TEST(InferCreate, ArangeAtTheEdgesOfIntegers) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Ask("arange", {kMin, kMax, int64_t{1} << 62}), "int64[4]");
  EXPECT_EQ(Ask("arange", {kMin, kMax}), "SHAPE_INVALID");
  EXPECT_EQ(Ask("arange", {0, kMax}, Spec(Dtype::kInt64, {})), "SHAPE_INVALID") << "8 bytes each";
  EXPECT_EQ(Ask("arange", {kMax, kMin, kMin}), "int64[2]");
  EXPECT_EQ(Ask("arange", {uint64_t{1} << 63, (uint64_t{1} << 63) + 3}, Spec(Dtype::kUint64, {})), "uint64[3]");
  EXPECT_EQ(Ask("arange", {0, 256}, Spec(Dtype::kUint8, {})), "uint8[256]") << "the stop itself need not fit";
  EXPECT_EQ(Ask("arange", {0, 257}, Spec(Dtype::kUint8, {})), "SCALAR_RANGE");
  EXPECT_EQ(Ask("arange", {10, 0, -1}, Spec(Dtype::kUint8, {})), "uint8[10]");
  EXPECT_EQ(Ask("arange", {10, -2, -1}, Spec(Dtype::kUint8, {})), "SCALAR_RANGE");
}

TEST(InferCreate, ArangeRefusals) {
  EXPECT_EQ(Ask("arange", {0, 5, 0}), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("arange", {0, 5, 0.0}), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("arange", {0.0, std::nan("")}), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("arange", {0.0, std::numeric_limits<double>::infinity()}), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("arange", {0.0, 1e300}), "SHAPE_INVALID");
  EXPECT_EQ(Ask("arange", {0.0, 1.0, 1e-300}), "SHAPE_INVALID");
  EXPECT_EQ(Ask("arange", {-1.7e308, 1.7e308, 1.0}, Spec(Dtype::kFloat64, {})), "SHAPE_INVALID");
  EXPECT_EQ(Ask("arange", {0, 1, 0.5}, Spec(Dtype::kInt32, {})), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("arange", {3}, Spec(Dtype::kBool, {})), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("arange", {3}, Spec(Dtype::kInt32, {3})), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("arange", {"int64[]"}), "ARITY_INVALID");
  EXPECT_EQ(Message("arange", {0, 5, 0}), "arange: step is 0; allowed: any number but 0");
}

TEST(InferCreate, LinspaceAndEye) {
  EXPECT_EQ(Ask("linspace", {0, 1}, Spec(Dtype::kNone, {5})), "float32[5]");
  EXPECT_EQ(Ask("linspace", {0.0, 1.0}, Spec(Dtype::kFloat64, {0})), "float64[0]");
  EXPECT_EQ(Ask("linspace", {0, 1}, Spec(Dtype::kInt32, {5})), "DTYPE_MISMATCH");
  EXPECT_EQ(Ask("linspace", {0, 1}, Spec(Dtype::kNone, {5, 2})), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("linspace", {0, 1}, Spec(Dtype::kNone, {})), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("linspace", {0}, Spec(Dtype::kNone, {5})), "ARITY_INVALID");
  EXPECT_EQ(Ask("eye", {}, Spec(Dtype::kNone, {3, 4})), "float32[3,4]");
  EXPECT_EQ(Ask("eye", {}, Spec(Dtype::kBool, {3, 3})), "bool[3,3]");
  EXPECT_EQ(Ask("eye", {}, Spec(Dtype::kNone, {3})), "ATTRIBUTE_INVALID");
}

TEST(InferCreate, UnusedAttributesAreRefused) {
  EXPECT_EQ(Ask("zeros", {}, With<CreateAttributes>([](auto& a) { a.seed = 1; })), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("zeros", {}, With<CreateAttributes>([](auto& a) { a.diagonal = 1; })), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("rand", {}, With<CreateAttributes>([](auto& a) { a.exclude_stop = true; })), "ATTRIBUTE_INVALID");
  EXPECT_EQ(Ask("rand", {}, With<CreateAttributes>([](auto& a) {
                  a.seed = 1;
                  a.seed_offset = 7;
                })),
            "float32[]");
  EXPECT_EQ(Path("zeros", {}, With<CreateAttributes>([](auto& a) { a.seed_offset = 1; })), "create.seed_offset");
}

TEST(InferConstant, DataMustFit) {
  const auto constant = [](Dtype dtype, Dims shape, std::string data) {
    ConstantAttributes attributes;
    attributes.spec.type = {dtype, std::move(shape)};
    attributes.data = std::move(data);
    return attributes;
  };
  EXPECT_EQ(Ask("constant", {}, constant(Dtype::kFloat32, {3}, std::string(12, '\1'))), "float32[3]");
  EXPECT_EQ(Ask("constant", {}, constant(Dtype::kFloat32, {3}, std::string(16, '\1'))), "DATA_INVALID");
  EXPECT_EQ(Ask("constant", {}, constant(Dtype::kFloat32, {3}, "")), "DATA_INVALID");
  EXPECT_EQ(Ask("constant", {}, constant(Dtype::kFloat32, {0, 5}, "")), "float32[0,5]");
  EXPECT_EQ(Ask("constant", {}, constant(Dtype::kFloat32, {-1}, "")), "SHAPE_INVALID");
  EXPECT_EQ(Ask("constant", {}, constant(Dtype::kFloat32, {int64_t{1} << 33, int64_t{1} << 31}, "")), "SHAPE_INVALID");
  EXPECT_EQ(Ask("constant", {}, constant(Dtype::kNone, {1}, "")), "DTYPE_UNKNOWN");
  EXPECT_EQ(Ask("constant", {}, constant(Dtype::kBool, {3}, std::string("\0\1\0", 3))), "bool[3]");
  EXPECT_EQ(Message("constant", {}, constant(Dtype::kBool, {3}, std::string("\0\1\2", 3))),
            "values do not fit the tensor: expected 3 bytes, got 3; element 2: a bool is byte 0 or 1, not 2");
  EXPECT_EQ(Message("constant", {}, constant(Dtype::kFloat32, {3}, std::string(16, '\1'))),
            "values do not fit the tensor: expected 12 bytes, got 16");
}

}  // namespace
}  // namespace tensord
