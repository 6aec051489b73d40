// Every Unary, Binary and Compare row, on every dtype it takes, on every kind of operand, against the oracle. Cases follow from the op table: a new row is tried
// without an edit here.
#include "kernels/ops/infer.h"
#include "tests/conformance/harness.h"
#include "tests/oracle/elementwise.h"

namespace tensord::conformance {
namespace {

using oracle::Array;

constexpr Dtype kDtypes[] = {
#define TENSORD_DTYPE(name, Enum, ctype, number, bytes, Kind) Dtype::Enum,
#include "kernels/core/dtype.def"
#undef TENSORD_DTYPE
};

std::vector<Op> OpsOf(std::initializer_list<Family> families) {
  std::vector<Op> ops;
  for (int i = 1; i <= kOpCount; ++i) {
    const auto op = static_cast<Op>(i);
    if (std::find(families.begin(), families.end(), RowOf(op).family) != families.end()) ops.push_back(op);
  }
  return ops;
}

// What the row's type rule says, written out again.
bool Takes(TypeRule rule, Dtype dtype) {
  if (IsComplex(dtype)) return false;
  switch (rule) {
    case TypeRule::kNumeric:
    case TypeRule::kNumericToBool:
    case TypeRule::kNumericToIndex:
      return dtype != Dtype::kBool;
    case TypeRule::kInteger:
      return IsInteger(dtype);
    case TypeRule::kBoolOrInteger:
      return IsInteger(dtype) || dtype == Dtype::kBool;
    case TypeRule::kReal:
    case TypeRule::kRealToBool:
      return IsReal(dtype);
    default:
      return true;
  }
}

Dtype ResultDtype(TypeRule rule, Dtype dtype) {
  return rule == TypeRule::kAnyToBool || rule == TypeRule::kNumericToBool || rule == TypeRule::kRealToBool
             ? Dtype::kBool
             : dtype;
}

// float16 and bfloat16 are computed in float32 and rounded: half a unit of float32 may tip the rounding.
double Tolerance(const oracle::ElementwiseOracle& meaning, Dtype dtype) {
  return ItemSize(dtype) == 2 ? std::max(meaning.ulps > 0 ? 1.0 : 0.0, meaning.ulps / 1000) : meaning.ulps;
}

// Operands of one shape after broadcasting, with the instructions on the daemon that make them.
struct Layouts {
  const char* name;
  Dims shape;  // what is uploaded
  std::vector<std::pair<Op, ViewAttributes>> views;
  Dims result;
  // Where element `flat` of the result lies in what was uploaded.
  std::function<int64_t(int64_t)> source;
};

std::vector<Layouts> Kinds() {
  ViewAttributes permute;
  permute.axes = {1, 0};
  ViewAttributes reversed;
  reversed.axes = {0, 1};
  reversed.starts = {8, 0};
  reversed.stops = {-10, 70};
  reversed.steps = {-1, 2};
  ViewAttributes expand;
  expand.shape = {9, 35};
  return {
      {"contiguous", {9, 35}, {}, {9, 35}, [](int64_t i) { return i; }},
      {"transposed", {35, 9}, {{Op::kPermute, permute}}, {9, 35}, [](int64_t i) { return i % 35 * 9 + i / 35; }},
      {"reversed",
       {9, 70},
       {{Op::kSlice, reversed}},
       {9, 35},
       [](int64_t i) { return (8 - i / 35) * 70 + i % 35 * 2; }},
      {"row", {1, 35}, {{Op::kExpand, expand}}, {9, 35}, [](int64_t i) { return i % 35; }},
      {"column", {9, 1}, {{Op::kExpand, expand}}, {9, 35}, [](int64_t i) { return i / 35; }},
  };
}

class ElementwiseTest : public ConformanceTest {
 protected:
  uint64_t Make(const Array& base, const Layouts& kind, const std::string& device) {
    uint64_t id = session().Put(base, device);
    for (const auto& [op, attributes] : kind.views) {
      const uint64_t view = session().MustRun(op, {id}, attributes);
      session().Free({id});
      id = view;
    }
    return id;
  }
  static Array Logical(const Array& base, const Layouts& kind) {
    Array out = Array::Zeros(base.type.dtype, kind.result);
    for (int64_t i = 0; i < out.size(); ++i) out.Set(i, base.At(kind.source(i)));
    return out;
  }
  // Runs on both devices; they must agree to the bit, and with the oracle within its tolerance.
  void Check(Op op, const std::vector<std::pair<Array, Layouts>>& operands, const Array& expected, double ulps,
             double absolute, const std::string& what) {
    std::string cpu;
    for (const std::string device : {"cpu", "cuda:0"}) {
      std::vector<TestSession::Operand> ids;
      std::vector<uint64_t> used;
      for (const auto& [base, kind] : operands) {
        used.push_back(Make(base, kind, device));
        ids.emplace_back(used.back());
      }
      const auto id = session().Run(op, ids);
      ASSERT_TRUE(id.ok()) << RowOf(op).name << " " << what << ": " << id.status();
      const Array got = session().MustGet(*id);
      EXPECT_EQ(oracle::Compare(got, expected, ulps, absolute), "")
          << RowOf(op).name << " " << what << " on " << device;
      if (device == "cpu") {
        cpu = got.bytes;
      } else if (!IsFloating(got.type.dtype)) {  // reals are held to the oracle on every device
        EXPECT_TRUE(cpu == got.bytes) << RowOf(op).name << " " << what << ": the devices differ";
      }
      used.push_back(*id);
      session().Free(used);
    }
  }
};

TEST_P(ElementwiseTest, EveryRowHasAnOracle) {
  for (const Op op : OpsOf({Family::kUnary, Family::kBinary, Family::kCompare})) {
    const auto it = oracle::Elementwise().find(std::string(RowOf(op).name));
    ASSERT_NE(it, oracle::Elementwise().end()) << RowOf(op).name;
    EXPECT_TRUE(RowOf(op).family == Family::kUnary ? it->second.unary != nullptr : it->second.binary != nullptr)
        << RowOf(op).name;
  }
}

TEST_P(ElementwiseTest, Unary) {
  const auto kinds = Kinds();
  for (const Op op : OpsOf({Family::kUnary})) {
    const OpRow& row = RowOf(op);
    const auto& meaning = oracle::Elementwise().at(std::string(row.name));
    size_t turn = 0;
    for (const Dtype dtype : kDtypes) {
      if (!Takes(row.types, dtype)) continue;
      const Layouts& kind = kinds[turn++ % kinds.size()];
      const Array base = oracle::Sample(dtype, kind.shape, static_cast<uint64_t>(op));
      const Array logical = Logical(base, kind);
      Array expected = Array::Zeros(ResultDtype(row.types, dtype), kind.result);
      for (int64_t i = 0; i < expected.size(); ++i) expected.Set(i, meaning.unary(logical.At(i), dtype));
      Check(op, {{base, kind}}, expected, Tolerance(meaning, dtype), meaning.epsilons * oracle::Epsilon(dtype),
            std::string(DtypeName(dtype)) + " " + kind.name);
    }
  }
}

TEST_P(ElementwiseTest, BinaryAndCompare) {
  const auto kinds = Kinds();
  size_t turn = 0;
  for (const Op op : OpsOf({Family::kBinary, Family::kCompare})) {
    const OpRow& row = RowOf(op);
    const auto& meaning = oracle::Elementwise().at(std::string(row.name));
    for (const Dtype dtype : kDtypes) {
      if (!Takes(row.types, dtype)) continue;
      ++turn;
      const Layouts& left = kinds[turn % kinds.size()];
      const Layouts& right = kinds[turn / kinds.size() % kinds.size()];
      const Array a = oracle::Sample(dtype, left.shape, turn);
      const Array b = oracle::Sample(dtype, right.shape, turn + 1000);
      const Array la = Logical(a, left);
      const Array lb = Logical(b, right);
      Array expected = Array::Zeros(ResultDtype(row.types, dtype), left.result);
      for (int64_t i = 0; i < expected.size(); ++i) expected.Set(i, meaning.binary(la.At(i), lb.At(i), dtype));
      Check(op, {{a, left}, {b, right}}, expected, Tolerance(meaning, dtype), meaning.epsilons * oracle::Epsilon(dtype),
            std::string(DtypeName(dtype)) + " " + left.name + " x " + right.name);
    }
  }
}

TEST_P(ElementwiseTest, RefusesDtypesThatTheRowDoesNotTake) {
  for (const Op op : OpsOf({Family::kUnary, Family::kBinary, Family::kCompare})) {
    for (const Dtype dtype : kDtypes) {
      if (Takes(RowOf(op).types, dtype) || IsComplex(dtype)) continue;
      const uint64_t x = session().Put(Array::Zeros(dtype, {2}), "cpu");
      std::vector<TestSession::Operand> operands{x};
      if (RowOf(op).family != Family::kUnary) operands.emplace_back(x);
      ExpectReason(session().Run(op, operands).status(), Reason::kDtypeMismatch, {"op", "dtypes"});
      session().Free({x});
    }
  }
}

TEST_P(ElementwiseTest, ScalarsZeroDimensionsAndNoElements) {
  for (const std::string& device : DeviceNames()) {
    const uint64_t x = session().Put(ArrayOf(Dtype::kFloat32, {}, {2.5}), device);
    EXPECT_EQ(
        oracle::Compare(session().MustGet(session().MustRun(Op::kMultiply, {x, 2})), ArrayOf(Dtype::kFloat32, {}, {5})),
        "");
    const uint64_t empty = session().Put(ArrayOf(Dtype::kInt32, {0, 3}, {}), device);
    EXPECT_EQ(
        oracle::Compare(session().MustGet(session().MustRun(Op::kAdd, {1, empty})), ArrayOf(Dtype::kInt32, {0, 3}, {})),
        "");
    const uint64_t bytes = session().Put(ArrayOf(Dtype::kUint8, {2}, {3, 250}), device);
    EXPECT_EQ(oracle::Compare(session().MustGet(session().MustRun(Op::kSubtract, {bytes, 4})),
                              ArrayOf(Dtype::kUint8, {2}, {255, 246})),
              "");
    ExpectReason(session().Run(Op::kAdd, {bytes, 300}).status(), Reason::kScalarRange, {"value", "dtype"});
    ExpectReason(session().Run(Op::kAdd, {bytes, 1.5}).status(), Reason::kDtypeMismatch, {"op", "dtypes"});
  }
}

INSTANTIATE_CONFORMANCE(ElementwiseTest);

}  // namespace
}  // namespace tensord::conformance
