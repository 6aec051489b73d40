// What the converter needs to know of the process it runs in: the daemon's version (for FIELD_UNKNOWN, OP_UNKNOWN,
// NOT_OFFERED) and the bounds that requests are held to.
//
//   wire::SetDaemonVersion("0.1.0");
//   wire::SetLimits(options.limits);      // both before the server starts; defaults otherwise
//
// Thread safe: readers see the old or the new value, whole. A client needs neither: responses are not bounded here.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/engine/types.h"

namespace tensord::wire {

void SetDaemonVersion(std::string_view version);
// "0.1.0" until set. Lives as long as the process.
const std::string& DaemonVersion();

void SetLimits(const Limits& limits);
// Limits{} until set. Lives as long as the process.
const Limits& RequestLimits();

// NOT_OFFERED: `what` is "complex scalars", "MonitorOps" …
absl::Status NotOffered(std::string_view what);
// FEATURE_UNAVAILABLE for an optional feature ("shared-memory") that this daemon does not have.
absl::Status FeatureUnavailable(std::string_view feature);

}  // namespace tensord::wire
