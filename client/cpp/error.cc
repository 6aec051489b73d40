#include "tensord/error.h"

#include "kernels/core/error.h"

namespace tensord::client {

std::string reason_of(const absl::Status& status) { return DetailsOf(status).reason_name; }

std::map<std::string, std::string> metadata_of(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  return {details.metadata.begin(), details.metadata.end()};
}

std::string advice_of(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  return reason == Reason::kNone ? "" : std::string(RowOf(reason).advice);
}

std::optional<Origin> origin_of(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  if (!details.origin) return std::nullopt;
  return Origin{details.origin->op, details.origin->label, details.origin->distance};
}

}  // namespace tensord::client
