#include "kernels/core/nearest.h"

#include <algorithm>
#include <vector>

#include "kernels/core/text.h"

namespace tensord {
namespace {

// Edit distance where a transposition of neighbours counts as one.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string NearestNames(std::string_view name, absl::Span<const std::string_view> known) {
  constexpr size_t kLongest = 64;  // longer names are no typing errors, and the table is quadratic
  constexpr size_t kMost = 3;
  if (name.size() > kLongest) return "";
  std::vector<std::pair<size_t, std::string_view>> near;
  for (const std::string_view candidate : known) {
    if (candidate.size() > kLongest) continue;
    const size_t bound = std::max(name.size(), candidate.size()) / 3 + 1;
    if (const size_t d = Distance(name, candidate); d <= bound) near.emplace_back(d, candidate);
  }
  std::sort(near.begin(), near.end());
  if (near.size() > kMost) near.resize(kMost);
  std::vector<std::string_view> names;
  for (const auto& [distance, candidate] : near) names.push_back(candidate);
  return StrJoin(names, ", ");
}

}  // namespace tensord
