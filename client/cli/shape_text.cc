#include "client/cli/shape_text.h"

#include <charconv>

#include "kernels/core/error.h"

namespace tensord::cli {

absl::StatusOr<Dims> ParseShape(std::string_view text) {
  Dims shape;
  std::string_view rest = text;
  if ((rest.starts_with('(') && rest.ends_with(')')) || (rest.starts_with('[') && rest.ends_with(']'))) {
    rest.remove_prefix(1);
    rest.remove_suffix(1);
    if (rest.ends_with(',')) rest.remove_suffix(1);
  }
  if (rest.empty() || rest == "scalar") return shape;
  while (true) {
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    int64_t size = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    if (error != std::errc() || size < 0 || (!rest.empty() && rest.front() != ',')) {
      return Error(Reason::kFieldInvalid)
          .Say("field", "--shape")
          .With("value", StrCat("\"", text, "\""))
          .With("allowed", "sizes >= 0 with commas between them, as 2,3; () for a single number");
    }
    if (shape.size() == kMaxRank)
      return Error(Reason::kLimitExceeded).With("limit", "max_rank").With("maximum", kMaxRank).With("value", "more");
    shape.push_back(size);
    if (rest.empty()) return shape;
    rest.remove_prefix(1);
  }
}

absl::StatusOr<Dtype> ParseDtypeOption(std::string_view text) {
  if (const std::optional<Dtype> dtype = ParseDtype(text)) return *dtype;
  return Error(Reason::kDtypeUnknown).With("value", StrCat("\"", text, "\"")).With("known", KnownDtypes());
}

}  // namespace tensord::cli
