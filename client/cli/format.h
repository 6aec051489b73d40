// Text for people: tables, sizes, times, errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tensord::cli {

// Columns as wide as their longest cell, two spaces between them; the first row is the head. Control characters in
// cells are shown as ?.
std::string Table(const std::vector<std::vector<std::string>>& rows);

// "24 B", "1.5 KiB", "64 GiB".
std::string BytesText(uint64_t bytes);
// "2026-01-31T12:00:00Z".
std::string TimeText(absl::Time time);
// "3 s ago", "2 h ago".
std::string AgeText(absl::Time time, absl::Time now);

// What the user sees of a status:
//   error NOT_FOUND NAME_UNKNOWN: no tensor is called Q; nearest: X
//   next: list the workspace to see what there is
// with a caret under the place for a malformed expression, and the holders of memory where it ran out.
std::string ErrorText(const absl::Status& status);
// {"error":{"code":…,"reason":…,"message":…,"metadata":{…},"advice":…}}.
std::string ErrorJson(const absl::Status& status);
// The row's advice, or "".
std::string AdviceFor(const absl::Status& status);

// How the process ends: 0 for OK, else by the class of the status (README.md).
int ExitCode(const absl::Status& status);
inline constexpr int kExitUsage = 2;

}  // namespace tensord::cli
