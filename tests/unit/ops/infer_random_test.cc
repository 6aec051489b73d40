// Random instructions: inference answers each with a result that can exist, or with a refusal of the catalogue.
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "tests/unit/ops/infer_testing.h"

namespace tensord {
namespace {

class Random {
 public:
  int64_t Below(int64_t n) { return static_cast<int64_t>(generator_() % static_cast<uint64_t>(n)); }

  // Mostly small, sometimes at the edges.
  int64_t Number() {
    switch (Below(10)) {
      case 0:
        return std::numeric_limits<int64_t>::min() + Below(3);
      case 1:
        return std::numeric_limits<int64_t>::max() - Below(3);
      case 2:
        return int64_t{1} << Below(63);
      case 3:
        return -Below(5);
      default:
        return Below(5);
    }
  }
  int32_t Axis() { return Below(12) == 0 ? static_cast<int32_t>(generator_()) : static_cast<int32_t>(Below(7) - 3); }
  Dims Numbers() {
    Dims list(static_cast<size_t>(Below(5)), 0);
    for (int64_t& n : list) n = Number();
    return list;
  }
  Axes AxesList() {
    Axes list(static_cast<size_t>(Below(4)), 0);
    for (int32_t& axis : list) axis = Axis();
    return list;
  }
  Dtype AnyDtype() { return static_cast<Dtype>(Below(kDtypeCount + 1)); }
  double Real() {
    constexpr std::array kReals{0.0,
                                -1.0,
                                0.5,
                                1e300,
                                -1e300,
                                1e-300,
                                std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN()};
    return kReals[static_cast<size_t>(Below(kReals.size()))];
  }
  Scalar AnyScalar() {
    Scalar scalar;
    switch (Below(6)) {
      case 0:
        break;
      case 1:
        scalar.value = Below(2) == 0;
        break;
      case 2:
        scalar.value = static_cast<uint64_t>(Number());
        break;
      case 3:
        scalar.value = Real();
        break;
      default:
        scalar.value = Number();
    }
    if (!scalar.absent() && Below(4) == 0) scalar.dtype = AnyDtype();
    return scalar;
  }
  // A type that can exist: as the operands of an instruction are.
  TensorType AnyType() {
    TensorType type;
    do {
      type.dtype = static_cast<Dtype>(1 + Below(13));
      type.shape = Dims(static_cast<size_t>(Below(5)), 0);
      for (int64_t& size : type.shape) size = Below(20) == 0 ? int64_t{1} << Below(62) : Below(4);
    } while (!CheckedBytes(type.dtype, type.shape).ok());
    return type;
  }
  Attributes AnyAttributes() {
    switch (Below(11)) {
      case 0: {
        CreateAttributes a;
        a.spec.type = {AnyDtype(), Numbers()};
        a.diagonal = Number();
        if (Below(2) == 0) a.seed = 1;
        return a;
      }
      case 1: {
        ConstantAttributes a;
        a.spec.type = {AnyDtype(), Numbers()};
        a.data = std::string(static_cast<size_t>(Below(64)), '\1');
        return a;
      }
      case 2: {
        ConvertAttributes a;
        a.dtype = AnyDtype();
        if (Below(2) == 0) a.device = "cpu";
        return a;
      }
      case 3: {
        ReduceAttributes a;
        a.axes = AxesList();
        a.all_axes = Below(4) == 0;
        a.keepdims = Below(2) == 0;
        if (Below(4) == 0) a.dtype = AnyDtype();
        if (Below(4) == 0) a.correction = Real();
        return a;
      }
      case 4:
      case 5: {
        ViewAttributes a;
        if (Below(2) == 0) a.shape = Numbers();
        if (Below(2) == 0) a.axes = AxesList();
        if (Below(2) == 0) {
          for (size_t i = 0; i < a.axes.size(); ++i) {
            a.starts.push_back(Number());
            a.stops.push_back(Number());
            if (Below(2) == 0) a.steps.push_back(Number());
          }
        }
        if (Below(4) == 0) a.diagonal = Number();
        return a;
      }
      case 6:
        return JoinAttributes{Axis()};
      case 7:
        return IndexAttributes{Axis()};
      case 8: {
        MatmulAttributes a;
        a.transpose_a = Below(2) == 0;
        a.transpose_b = Below(2) == 0;
        return a;
      }
      case 9: {
        WindowAttributes a;
        for (Dims* list : {&a.sizes, &a.strides, &a.dilations, &a.pads_begin, &a.pads_end}) {
          if (Below(2) == 0) *list = Numbers();
        }
        if (Below(2) == 0) a.groups = Number();
        a.ceil_mode = Below(2) == 0;
        return a;
      }
      default:
        return NormAttributes{Axis(), Real()};
    }
  }

 private:
  std::mt19937_64 generator_{23};  // NOLINT: the same cases every time
};

// Of the op's own family half of the time, so that more than the first check is met.
Attributes Suitable(Random& random, Family family) {
  const std::string_view wanted = FamilyAttributes(family);
  for (int attempt = 0; attempt < 12; ++attempt) {
    Attributes attributes = random.AnyAttributes();
    constexpr std::string_view kNames[] = {"",     "create", "constant", "convert", "reduce", "view",
                                           "join", "index",  "matmul",   "window",  "norm",   "call"};
    if (kNames[attributes.index()] == wanted) return attributes;
  }
  return {};
}

TEST(Infer, RandomInstructionsGetAResultOrARefusal) {
  Random random;
  int accepted = 0;
  for (int i = 0; i < 60000; ++i) {
    Instruction instruction;
    instruction.op = static_cast<Op>(1 + random.Below(kOpCount));
    const OpRow& row = RowOf(instruction.op);
    if (row.family == Family::kCall) continue;
    instruction.attributes = Suitable(random, row.family);
    std::vector<TensorType> tensors(6);
    std::vector<Scalar> scalars(6);
    std::vector<OperandType> operands;
    const int64_t count = random.Below(8) == 0   ? random.Below(6)
                          : row.max_operands < 0 ? 1 + random.Below(3)
                                                 : row.max_operands;
    for (int64_t k = 0; k < count; ++k) {
      const auto n = static_cast<size_t>(k);
      const bool scalar =
          random.Below(row.family == Family::kCreate ? 10 : 5) < (row.family == Family::kCreate ? 9 : 1);
      if (scalar) {
        scalars[n] = random.AnyScalar();
        operands.push_back({.scalar = &scalars[n]});
      } else {
        // Often the same type again, so that operands fit.
        const bool again = n > 0 && IsValid(tensors[n - 1].dtype) && random.Below(2) == 0;
        tensors[n] = again ? tensors[n - 1] : random.AnyType();
        operands.push_back({.tensor = &tensors[n]});
      }
    }
    const absl::StatusOr<Inference> inference = Infer(instruction, operands);
    if (!inference.ok()) {
      const ErrorDetails details = DetailsOf(inference.status());
      ASSERT_NE(details.reason, Reason::kNone) << row.name;
      ASSERT_NE(details.reason, Reason::kInternal) << row.name;
      ASSERT_EQ(details.Get("op"), row.name) << inference.status();
      ASSERT_EQ(std::string(inference.status().message()).find('?'), std::string::npos) << inference.status();
      continue;
    }
    ++accepted;
    ASSERT_EQ(inference->outputs.size(), 1u);
    const TensorType& out = inference->outputs[0];
    ASSERT_TRUE(IsValid(out.dtype) && !IsComplex(out.dtype)) << row.name << " " << out.ToString();
    ASSERT_TRUE(CheckedBytes(out.dtype, out.shape).ok()) << row.name << " " << out.ToString();
    ASSERT_FALSE(IsComplex(inference->compute));
  }
  EXPECT_GT(accepted, 6000);
}

}  // namespace
}  // namespace tensord
