#include "kernels/ops/op.h"

#include <array>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace tensord {
namespace {

constexpr int CountOperands(std::string_view text, bool required) {
  int count = 0;
  bool any_number = false;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view name = text.substr(0, comma);
    if (name.ends_with('*')) {
      any_number = true;
    } else if (!required || !name.ends_with('?')) {
      ++count;
    }
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return any_number && !required ? -1 : count;
}

constexpr OpRow MakeRow(Op op, std::string_view name, Family family, TypeRule types, std::string_view operands,
                        std::string_view results, std::string_view fields, std::string_view summary) {
  OpRow row{op, name, family, types, operands, results.empty() ? "out" : results, fields, summary};
  row.min_operands = CountOperands(operands, true);
  row.max_operands = CountOperands(operands, false);
  return row;
}

constexpr std::array<OpRow, kOpCount + 1> kRows = {
    OpRow{},
#define TENSORD_OP(Enum, name, Family_, Types, operands, results, fields, summary) \
  MakeRow(Op::k##Enum, #name, Family::Family_, TypeRule::Types, operands, results, fields, summary),
#include "kernels/ops/ops.def"
#undef TENSORD_OP
};

struct FamilyRow {
  std::string_view name;
  std::string_view attributes;
};

constexpr auto kFamilies = std::to_array<FamilyRow>({
    {"", ""},
#define TENSORD_FAMILY(Enum, name, attributes) {#name, attributes},
#include "kernels/ops/families.def"
#undef TENSORD_FAMILY
});

}  // namespace

const OpRow& RowOf(Op op) {
  const auto i = static_cast<size_t>(op);
  return i < kRows.size() ? kRows[i] : kRows[0];
}

Op FindOp(std::string_view name) {
  static const auto* const kByName = [] {
    auto* map = new absl::flat_hash_map<std::string_view, Op>();
    for (const OpRow& row : kRows) {
      if (row.op != Op::kNone) map->emplace(row.name, row.op);
    }
    return map;
  }();
  const auto it = kByName->find(name);
  return it == kByName->end() ? Op::kNone : it->second;
}

std::string_view FamilyName(Family family) { return kFamilies[static_cast<size_t>(family)].name; }

std::string_view FamilyAttributes(Family family) { return kFamilies[static_cast<size_t>(family)].attributes; }

}  // namespace tensord
