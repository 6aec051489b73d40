// Sessions, limits, quota (session.proto, limits.proto). See convert.h.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/engine/types.h"
#include "tensord/v1/limits.pb.h"
#include "tensord/v1/session.pb.h"

namespace tensord::wire {

// Requests. Errors: FIELD_UNKNOWN, FIELD_INVALID, LIMIT_EXCEEDED.
absl::StatusOr<OpenSessionRequest> FromProto(const v1::OpenSessionRequest& proto);
v1::OpenSessionRequest ToProto(const OpenSessionRequest& request);
absl::Status FromProto(const v1::KeepAliveRequest& proto);
absl::Status FromProto(const v1::CloseSessionRequest& proto);
absl::StatusOr<PageRequest> FromProto(const v1::ListSessionsRequest& proto);
v1::ListSessionsRequest ListSessionsRequestToProto(const PageRequest& page);
// The session's public id.
absl::StatusOr<std::string> FromProto(const v1::KillSessionRequest& proto);
v1::KillSessionRequest KillSessionRequestToProto(const std::string& session);

// Responses.
absl::StatusOr<OpenSessionResponse> FromProto(const v1::OpenSessionResponse& proto);
v1::OpenSessionResponse ToProto(const OpenSessionResponse& response);
absl::StatusOr<KeepAliveResponse> FromProto(const v1::KeepAliveResponse& proto);
v1::KeepAliveResponse ToProto(const KeepAliveResponse& response);
absl::StatusOr<FreedSession> FromProto(const v1::CloseSessionResponse& proto);
v1::CloseSessionResponse CloseSessionResponseToProto(const FreedSession& freed);
absl::StatusOr<FreedSession> FromProto(const v1::KillSessionResponse& proto);
v1::KillSessionResponse KillSessionResponseToProto(const FreedSession& freed);
absl::StatusOr<ListSessionsResponse> FromProto(const v1::ListSessionsResponse& proto);
v1::ListSessionsResponse ToProto(const ListSessionsResponse& response);

// 0 on the wire means that the daemon is older than the field: the default of Limits then stays.
absl::StatusOr<Limits> FromProto(const v1::Limits& proto);
v1::Limits ToProto(const Limits& limits);
absl::StatusOr<Quota> FromProto(const v1::Quota& proto);
v1::Quota ToProto(const Quota& quota);

}  // namespace tensord::wire
