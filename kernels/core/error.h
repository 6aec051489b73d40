// Refusals: every error the daemon gives is a row of errors.def, filled with its numbers.
//
//   return Error(Reason::kDeviceUnknown).With("device", "cuda:7").With("known", "cpu, cuda:0").At("spec.device");
//
// The result converts to absl::Status (and so to absl::StatusOr). Its code and message come from the row; the pairs
// given to With become metadata (google.rpc.ErrorInfo.metadata on the wire) and fill the {placeholders} of the row's
// message; Say fills a placeholder without becoming metadata. Details ride in the status as a payload; proto/wire turns
// them into google.rpc details.
//
// A placeholder nobody filled is cut out together with the text between the `[[` and `]]` around it; outside such
// brackets it becomes "?".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/core/text.h"

namespace tensord {

// The rows of errors.def.
enum class Reason : uint16_t {
  kNone = 0,
#define TENSORD_ERROR(Enum, NAME, CODE, message, advice, retry) Enum,
#include "kernels/core/errors.def"
#undef TENSORD_ERROR
};

// A row, for `explain` and for tests.
struct ErrorRow {
  Reason reason;
  std::string_view name;  // "DEVICE_MISMATCH"
  absl::StatusCode code;
  std::string_view message;  // template with {placeholders}
  std::string_view advice;
  bool retry;  // carries RetryInfo
};

absl::Span<const ErrorRow> ErrorRows();
const ErrorRow& RowOf(Reason reason);
// Empty where no row has that name.
std::optional<Reason> ParseReason(std::string_view name);

// Where the cause lies in an earlier instruction (tensord.v1.Origin).
struct ErrorOrigin {
  uint64_t id = 0;
  std::string op;
  uint64_t sequence = 0;
  uint32_t instruction = 0;
  std::string label;
  uint32_t distance = 0;
};

// The numbers of an out-of-memory refusal, bytes (tensord.v1.MemoryShortage).
struct ErrorShortage {
  struct Holder {
    std::string session;  // public id, or empty
    std::string name;     // published name, or empty; both empty: everybody else
    std::string principal;
    uint64_t bytes = 0;
    uint64_t tensors = 0;
  };
  std::string device;
  uint64_t requested = 0;
  uint64_t free = 0;
  uint64_t cached = 0;
  uint64_t largest_free = 0;
  uint64_t limit = 0;
  std::vector<Holder> holders;
};

// What rides in a status beside code and message.
struct ErrorDetails {
  Reason reason = Reason::kNone;
  // ErrorInfo.reason as text: also what a newer daemon says that we have no row for.
  std::string reason_name;
  std::vector<std::pair<std::string, std::string>> metadata;  // in the order of With
  std::vector<std::pair<std::string, std::string>> fields;    // path, description
  std::optional<int64_t> retry_ms;
  std::optional<ErrorOrigin> origin;
  std::optional<ErrorShortage> shortage;

  // The value of a metadata key, or "".
  std::string_view Get(std::string_view key) const;
};

// Builds a status from a row. Cheap to move; not thread safe.
class Error {
 public:
  explicit Error(Reason reason);

  Error(const Error&) = default;
  Error(Error&&) = default;
  Error& operator=(const Error&) = default;
  // `error = std::move(error).With(…)` moves an error to itself, so copy: refusals are rare.
  Error& operator=(Error&& other) noexcept { return *this = other; }  // NOLINT(performance-move-constructor-init)

  template <class T>
  Error&& With(std::string_view key, const T& value) && {
    Add(key, StrCat(value), /*metadata=*/true);
    return std::move(*this);
  }
  template <class T>
  Error& With(std::string_view key, const T& value) & {
    Add(key, StrCat(value), /*metadata=*/true);
    return *this;
  }
  template <class T>
  Error&& Say(std::string_view key, const T& value) && {
    Add(key, StrCat(value), /*metadata=*/false);
    return std::move(*this);
  }
  template <class T>
  Error& Say(std::string_view key, const T& value) & {
    Add(key, StrCat(value), /*metadata=*/false);
    return *this;
  }
  // The request field at fault. The description is the message.
  Error&& At(std::string_view field_path) &&;
  Error&& RetryAfterMs(int64_t ms) &&;
  Error&& Shortage(ErrorShortage shortage) &&;

  absl::Status ToStatus() const;
  operator absl::Status() const { return ToStatus(); }  // NOLINT(google-explicit-constructor)
  template <class T>
  operator absl::StatusOr<T>() const {  // NOLINT(google-explicit-constructor)
    return ToStatus();
  }

 private:
  void Add(std::string_view key, std::string value, bool metadata);
  ErrorDetails details_;
  std::vector<std::pair<std::string, std::string>> said_;  // all placeholders
};

// The details of a status made by Error (or by StatusWithDetails). A status from elsewhere has reason kNone.
ErrorDetails DetailsOf(const absl::Status& status);
// The reason alone: kNone for OK and for a status from elsewhere.
Reason ReasonOf(const absl::Status& status);
// A status of any code with given details: how the wire rebuilds what a daemon sent.
absl::Status StatusWithDetails(absl::StatusCode code, std::string_view message, const ErrorDetails& details);

// Puts `prefix` before every field path, so that "shape" becomes "program.instructions[3].create.spec.shape".
absl::Status AtPath(const absl::Status& status, std::string_view prefix);
// Adds metadata to a status that has details ("op", "label", "instruction"); keeps what is there.
absl::Status WithMetadata(const absl::Status& status, std::string_view key, std::string_view value);
// The same status as seen by who depends on it: origin set where there is none, else its distance one more.
absl::Status WithOrigin(const absl::Status& status, const ErrorOrigin& origin);

}  // namespace tensord

// Returns the status from the calling function unless it is OK.
#define TENSORD_RETURN_IF_ERROR(expr)                                                         \
  do {                                                                                        \
    if (absl::Status tensord_status_ = (expr); !tensord_status_.ok()) return tensord_status_; \
  } while (false)

#define TENSORD_CONCAT_INNER_(a, b) a##b
#define TENSORD_CONCAT_(a, b) TENSORD_CONCAT_INNER_(a, b)
// TENSORD_ASSIGN_OR_RETURN(auto x, F()); takes the value of a StatusOr, or returns its status.
#define TENSORD_ASSIGN_OR_RETURN(lhs, expr) \
  TENSORD_ASSIGN_OR_RETURN_IMPL_(TENSORD_CONCAT_(tensord_statusor_, __LINE__), lhs, expr)
#define TENSORD_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                                   \
  if (!tmp.ok()) return std::move(tmp).status();       \
  lhs = *std::move(tmp)
