// Statuses: absl::Status with the details of kernels/core/error.h <-> google.rpc.Status.
//
// Details stand in the order that error.proto fixes: ErrorInfo, RetryInfo, BadRequest, Origin, MemoryShortage. A reason
// that this version has no row for keeps its name (ErrorDetails::reason_name, reason kNone). A status without a reason
// has no details. Thread safe, no state.
#pragma once

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace tensord::wire {

// Code 0 and no details for OK.
google::rpc::Status ToRpcStatus(const absl::Status& status);
// As it is, cut so that it serialises to at most `max_bytes` (at least 256): long texts first, then holders, field
// paths and metadata from the end. The code, the reason and the beginning of the message always stay.
google::rpc::Status ToRpcStatus(const absl::Status& status, size_t max_bytes);

// Unknown details are skipped; a code outside 0 to 16 is UNKNOWN.
absl::Status FromRpcStatus(const google::rpc::Status& status);

}  // namespace tensord::wire
