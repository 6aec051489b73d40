// The op table itself.
#include "kernels/ops/op.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernels/ops/attributes.h"

namespace tensord {
namespace {

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = text.find(',');
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

TEST(OpTable, EveryNameIsFoundOnce) {
  std::set<std::string_view> names;
  for (int i = 1; i <= kOpCount; ++i) {
    const OpRow& row = RowOf(static_cast<Op>(i));
    EXPECT_EQ(static_cast<int>(row.op), i);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(FindOp(row.name), row.op);
    EXPECT_FALSE(row.summary.empty()) << row.name;
    EXPECT_TRUE(row.summary.ends_with('.')) << row.name;
    EXPECT_NE(row.family, Family::kNone);
    for (const char c : row.name) EXPECT_TRUE((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_') << row.name;
  }
}

TEST(OpTable, UnknownNames) {
  for (const char* name : {"", "Add", "add ", "none", "einsum"}) EXPECT_EQ(FindOp(name), Op::kNone) << name;
  EXPECT_EQ(RowOf(Op::kNone).name, "");
  EXPECT_EQ(RowOf(static_cast<Op>(60000)).op, Op::kNone);
}

TEST(OpTable, ArityFollowsFromOperands) {
  const auto arity = [](Op op) { return std::pair(RowOf(op).min_operands, RowOf(op).max_operands); };
  EXPECT_EQ(arity(Op::kZeros), std::pair(0, 0));
  EXPECT_EQ(arity(Op::kArange), std::pair(1, 3));
  EXPECT_EQ(arity(Op::kExp), std::pair(1, 1));
  EXPECT_EQ(arity(Op::kAdd), std::pair(2, 2));
  EXPECT_EQ(arity(Op::kWhere), std::pair(3, 3));
  EXPECT_EQ(arity(Op::kClip), std::pair(1, 3));
  EXPECT_EQ(arity(Op::kLinear), std::pair(2, 3));
  EXPECT_EQ(arity(Op::kBatchNorm), std::pair(3, 5));
  EXPECT_EQ(arity(Op::kConcat), std::pair(0, -1));
}

// Operands that may be left out come last: inference and kernels count on it.
TEST(OpTable, OptionalOperandsComeLast) {
  for (int i = 1; i <= kOpCount; ++i) {
    bool optional = false;
    for (const std::string& name : Split(RowOf(static_cast<Op>(i)).operands)) {
      EXPECT_FALSE(optional && !name.ends_with('?')) << RowOf(static_cast<Op>(i)).name;
      optional |= name.ends_with('?');
    }
  }
}

// The fields that a row names are those of its family's message.
TEST(OpTable, FieldsBelongToTheFamily) {
  const std::map<std::string_view, std::set<std::string>> known = {
      {"create", {"spec", "seed", "seed_offset", "diagonal", "exclude_stop"}},
      {"constant", {}},
      {"convert", {"dtype", "device", "copy"}},
      {"reduce", {"axes", "all_axes", "keepdims", "dtype", "correction", "last_index"}},
      {"view", {"shape", "axes", "starts", "stops", "steps", "diagonal"}},
      {"join", {"axis"}},
      {"index", {"axis"}},
      {"matmul", {"transpose_a", "transpose_b", "precision"}},
      {"window",
       {"sizes", "strides", "dilations", "pads_begin", "pads_end", "groups", "ceil_mode", "count_pads", "precision"}},
      {"norm", {"axis", "epsilon"}},
      {"call", {"program", "model"}},
      {"", {}},
  };
  for (int i = 1; i <= kOpCount; ++i) {
    const OpRow& row = RowOf(static_cast<Op>(i));
    const auto it = known.find(FamilyAttributes(row.family));
    ASSERT_NE(it, known.end()) << row.name;
    for (const std::string& field : Split(row.fields))
      EXPECT_TRUE(it->second.contains(field)) << row.name << " " << field;
  }
}

TEST(OpTable, FamilyNames) {
  EXPECT_EQ(FamilyName(Family::kUnary), "unary");
  EXPECT_EQ(FamilyName(Family::kSoftmax), "softmax");
  EXPECT_EQ(FamilyAttributes(Family::kSoftmax), "reduce");
  EXPECT_EQ(FamilyAttributes(Family::kBinary), "");
}

}  // namespace
}  // namespace tensord
