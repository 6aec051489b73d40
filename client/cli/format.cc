#include "client/cli/format.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "client/cli/json.h"
#include "client/cpp/expr/problem.h"
#include "kernels/core/error.h"

namespace tensord::cli {
namespace {

// Characters, not bytes; names may be UTF-8.
size_t Width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string Clean(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return out;
}

std::string Fixed(double value, const char* unit) {
  std::array<char, 32> buffer;
  const int n = std::snprintf(buffer.data(), buffer.size(),
                              value < 10 && value != static_cast<int>(value) ? "%.1f %s" : "%.0f %s", value, unit);
  return {buffer.data(), static_cast<size_t>(n)};
}

std::string ReasonText(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  return details.reason_name;
}

}  // namespace

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += Clean(row[i]);
      if (i + 1 < row.size()) line += std::string(widths[i] - Width(row[i]) + 2, ' ');
    }
    while (line.ends_with(' ')) line.pop_back();
    out += line + "\n";
  }
  return out;
}

std::string BytesText(uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return Fixed(value, kUnits[unit]);
}

std::string TimeText(absl::Time time) { return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone()); }

std::string AgeText(absl::Time time, absl::Time now) {
  const double seconds = std::max(0.0, absl::ToDoubleSeconds(now - time));
  if (seconds < 120) return Fixed(seconds < 1 ? 0 : static_cast<int>(seconds), "s ago");
  if (seconds < 7200) return Fixed(static_cast<int>(seconds / 60), "min ago");
  if (seconds < 172800) return Fixed(static_cast<int>(seconds / 3600), "h ago");
  return Fixed(static_cast<int>(seconds / 86400), "d ago");
}

std::string AdviceFor(const absl::Status& status) {
  const std::string reason = ReasonText(status);
  if (reason == expr::kExpressionInvalid) return std::string(expr::kExpressionAdvice);
  const std::optional<Reason> row = ParseReason(reason);
  return row ? std::string(RowOf(*row).advice) : "";
}

std::string ErrorText(const absl::Status& status) {
  const std::string reason = ReasonText(status);
  std::string text = StrCat("error ", absl::StatusCodeToString(status.code()), reason.empty() ? "" : " ", reason, ": ",
                            std::string(status.message()), "\n");
  text += expr::CaretLines(status);
  const ErrorDetails details = DetailsOf(status);
  if (details.shortage) {
    for (const ErrorShortage::Holder& holder : details.shortage->holders) {
      const std::string who = !holder.name.empty()     ? holder.name
                              : holder.session.empty() ? "others"
                                                       : StrCat("session ", holder.session);
      text += StrCat("    ", who, " holds ", BytesText(holder.bytes), " in ", holder.tensors, " tensors\n");
    }
  }
  if (const std::string advice = AdviceFor(status); !advice.empty()) text += StrCat("next: ", advice, "\n");
  return text;
}

std::string ErrorJson(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  JsonObject metadata;
  for (const auto& [key, value] : details.metadata) metadata.Text(key, value);
  JsonObject error;
  error.Text("code", absl::StatusCodeToString(status.code()));
  error.Text("reason", details.reason_name);
  error.Text("message", std::string(status.message()));
  error.Raw("metadata", metadata.Done());
  error.Text("advice", AdviceFor(status));
  return JsonObject().Raw("error", error.Done()).Done();
}

int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 3;
    case absl::StatusCode::kNotFound:
      return 4;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
      return 5;
    case absl::StatusCode::kResourceExhausted:
      return 6;
    case absl::StatusCode::kUnimplemented:
      return 7;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
      return 8;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return 9;
    default:
      return 1;
  }
}

}  // namespace tensord::cli
