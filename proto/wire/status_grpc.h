// The status of a call: absl::Status <-> grpc::Status. The google.rpc.Status travels in the standard binary trailer
// (grpc-status-details-bin).
//
//   return reactor->Finish(wire::ToGrpc(status));
//   return wire::FromGrpc(stub->OpenSession(&context, request, &response));
#pragma once

#include "absl/status/status.h"

namespace grpc {
class Status;
}

namespace tensord::wire {

// Cut so that message and trailer stay below the 8 KiB of metadata that a peer takes by default.
grpc::Status ToGrpc(const absl::Status& status);

// A status without details comes from gRPC itself. DEADLINE_EXCEEDED and CANCELLED get the catalogue's reason; all
// others (UNAVAILABLE where nobody answers, UNIMPLEMENTED where the server has no such method) keep code and text, and
// have no reason.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace tensord::wire
