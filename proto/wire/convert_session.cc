#include "proto/wire/convert_session.h"

#include <utility>

#include "proto/wire/parts.h"

namespace tensord::wire {
namespace {

// Both messages have the same two fields.
template <class P>
FreedSession DecodeFreed(const P& proto) {
  return {proto.freed_handles(), proto.freed_bytes()};
}
template <class P>
P EncodeFreed(const FreedSession& freed) {
  P proto;
  proto.set_freed_handles(freed.handles);
  proto.set_freed_bytes(freed.bytes);
  return proto;
}

Limits DecodeLimits(const v1::Limits& proto) {
  Limits limits;
  const auto take = [](auto& out, auto value) {
    if (value != 0) out = value;
  };
  take(limits.max_rank, proto.max_rank());
  take(limits.max_message_bytes, proto.max_message_bytes());
  take(limits.max_chunk_bytes, proto.max_chunk_bytes());
  take(limits.max_inline_bytes, proto.max_inline_bytes());
  take(limits.max_message_instructions, proto.max_message_instructions());
  take(limits.max_program_instructions, proto.max_program_instructions());
  take(limits.max_program_depth, proto.max_program_depth());
  take(limits.max_operands, proto.max_operands());
  take(limits.max_text_bytes, proto.max_text_bytes());
  take(limits.max_name_bytes, proto.max_name_bytes());
  take(limits.stream_window_instructions, proto.stream_window_instructions());
  take(limits.stream_window_bytes, proto.stream_window_bytes());
  take(limits.max_pending_reads, proto.max_pending_reads());
  take(limits.max_transfers, proto.max_transfers());
  take(limits.max_segment_bytes, proto.max_segment_bytes());
  take(limits.max_programs, proto.max_programs());
  take(limits.max_page_size, proto.max_page_size());
  return limits;
}

// Devices of kinds that this version does not know are left out.
Quota DecodeQuota(const v1::Quota& proto) {
  Quota quota;
  for (const v1::DeviceQuota& device : proto.devices()) {
    if (const auto id = DecodeDevice(device.device())) {
      quota.devices.push_back({*id, device.limit_bytes(), device.used_bytes()});
    }
  }
  quota.handle_limit = proto.handle_limit();
  quota.handle_used = proto.handle_used();
  quota.session_limit = proto.session_limit();
  quota.session_used = proto.session_used();
  quota.request_limit = proto.request_limit();
  quota.upload_limit_bytes = proto.upload_limit_bytes();
  return quota;
}

SessionInfo DecodeSession(const v1::Session& proto) {
  SessionInfo session;
  session.session = proto.session();
  session.principal = proto.principal();
  session.client = proto.client();
  session.peer = proto.peer();
  session.workspace = proto.workspace();
  session.open_time = DecodeTime(proto.open_time());
  if (proto.has_expire_time()) session.expire_time = DecodeTime(proto.expire_time());
  session.handles = proto.handles();
  session.bytes.insert(proto.bytes().begin(), proto.bytes().end());
  session.queued_instructions = proto.queued_instructions();
  session.done_instructions = proto.done_instructions();
  return session;
}

void EncodeSession(const SessionInfo& session, v1::Session* proto) {
  proto->set_session(session.session);
  proto->set_principal(session.principal);
  proto->set_client(session.client);
  proto->set_peer(session.peer);
  proto->set_workspace(session.workspace);
  *proto->mutable_open_time() = EncodeTime(session.open_time);
  if (session.expire_time) *proto->mutable_expire_time() = EncodeTime(*session.expire_time);
  proto->set_handles(session.handles);
  proto->mutable_bytes()->insert(session.bytes.begin(), session.bytes.end());
  proto->set_queued_instructions(session.queued_instructions);
  proto->set_done_instructions(session.done_instructions);
}

}  // namespace

absl::StatusOr<OpenSessionRequest> FromProto(const v1::OpenSessionRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  OpenSessionRequest request;
  request.min_version = proto.min_version();
  request.max_version = proto.max_version();
  request.required_features = CopyOf<std::vector<std::string>>(proto.required_features());
  request.wanted_features = CopyOf<std::vector<std::string>>(proto.wanted_features());
  request.client = proto.client();
  request.workspace = proto.workspace();
  if (proto.has_lease()) {
    TENSORD_ASSIGN_OR_RETURN(request.lease, RequestDuration(proto.lease(), "lease"));
  }
  if (proto.has_grace()) {
    TENSORD_ASSIGN_OR_RETURN(request.grace, RequestDuration(proto.grace(), "grace"));
  }
  request.resume_token = proto.resume_token();
  request.incarnation = proto.incarnation();
  return request;
}

v1::OpenSessionRequest ToProto(const OpenSessionRequest& request) {
  v1::OpenSessionRequest proto;
  proto.set_min_version(request.min_version);
  proto.set_max_version(request.max_version);
  for (const std::string& feature : request.required_features) proto.add_required_features(feature);
  for (const std::string& feature : request.wanted_features) proto.add_wanted_features(feature);
  proto.set_client(request.client);
  proto.set_workspace(request.workspace);
  if (request.lease) *proto.mutable_lease() = EncodeDuration(*request.lease);
  if (request.grace) *proto.mutable_grace() = EncodeDuration(*request.grace);
  proto.set_resume_token(request.resume_token);
  proto.set_incarnation(request.incarnation);
  return proto;
}

absl::Status FromProto(const v1::KeepAliveRequest& proto) { return CheckRequest(proto); }
absl::Status FromProto(const v1::CloseSessionRequest& proto) { return CheckRequest(proto); }

absl::StatusOr<PageRequest> FromProto(const v1::ListSessionsRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  return PageRequest{proto.page_size(), proto.page_token()};
}

v1::ListSessionsRequest ListSessionsRequestToProto(const PageRequest& page) {
  v1::ListSessionsRequest proto;
  proto.set_page_size(page.page_size);
  proto.set_page_token(page.page_token);
  return proto;
}

absl::StatusOr<std::string> FromProto(const v1::KillSessionRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  return proto.session();
}

v1::KillSessionRequest KillSessionRequestToProto(const std::string& session) {
  v1::KillSessionRequest proto;
  proto.set_session(session);
  return proto;
}

absl::StatusOr<OpenSessionResponse> FromProto(const v1::OpenSessionResponse& proto) {
  OpenSessionResponse response;
  response.session = proto.session();
  response.token = proto.token();
  response.version = proto.version();
  response.features = CopyOf<std::vector<std::string>>(proto.features());
  response.daemon_version = proto.daemon_version();
  response.incarnation = proto.incarnation();
  response.lease = DecodeDuration(proto.lease());
  response.grace = DecodeDuration(proto.grace());
  response.limits = DecodeLimits(proto.limits());
  response.quota = DecodeQuota(proto.quota());
  response.resumed = proto.resumed();
  response.next_sequence = proto.next_sequence();
  response.highest_id = proto.highest_id();
  response.principal = proto.principal();
  return response;
}

v1::OpenSessionResponse ToProto(const OpenSessionResponse& response) {
  v1::OpenSessionResponse proto;
  proto.set_session(response.session);
  proto.set_token(response.token);
  proto.set_version(response.version);
  for (const std::string& feature : response.features) proto.add_features(feature);
  proto.set_daemon_version(response.daemon_version);
  proto.set_incarnation(response.incarnation);
  *proto.mutable_lease() = EncodeDuration(response.lease);
  *proto.mutable_grace() = EncodeDuration(response.grace);
  *proto.mutable_limits() = ToProto(response.limits);
  *proto.mutable_quota() = ToProto(response.quota);
  proto.set_resumed(response.resumed);
  proto.set_next_sequence(response.next_sequence);
  proto.set_highest_id(response.highest_id);
  proto.set_principal(response.principal);
  return proto;
}

absl::StatusOr<KeepAliveResponse> FromProto(const v1::KeepAliveResponse& proto) {
  return KeepAliveResponse{DecodeDuration(proto.lease()), DecodeQuota(proto.quota())};
}

v1::KeepAliveResponse ToProto(const KeepAliveResponse& response) {
  v1::KeepAliveResponse proto;
  *proto.mutable_lease() = EncodeDuration(response.lease);
  *proto.mutable_quota() = ToProto(response.quota);
  return proto;
}

absl::StatusOr<FreedSession> FromProto(const v1::CloseSessionResponse& proto) { return DecodeFreed(proto); }
v1::CloseSessionResponse CloseSessionResponseToProto(const FreedSession& freed) {
  return EncodeFreed<v1::CloseSessionResponse>(freed);
}

absl::StatusOr<FreedSession> FromProto(const v1::KillSessionResponse& proto) { return DecodeFreed(proto); }
v1::KillSessionResponse KillSessionResponseToProto(const FreedSession& freed) {
  return EncodeFreed<v1::KillSessionResponse>(freed);
}

absl::StatusOr<ListSessionsResponse> FromProto(const v1::ListSessionsResponse& proto) {
  ListSessionsResponse response;
  for (const v1::Session& session : proto.sessions()) response.sessions.push_back(DecodeSession(session));
  response.next_page_token = proto.next_page_token();
  return response;
}

v1::ListSessionsResponse ToProto(const ListSessionsResponse& response) {
  v1::ListSessionsResponse proto;
  for (const SessionInfo& session : response.sessions) EncodeSession(session, proto.add_sessions());
  proto.set_next_page_token(response.next_page_token);
  return proto;
}

absl::StatusOr<Limits> FromProto(const v1::Limits& proto) { return DecodeLimits(proto); }

v1::Limits ToProto(const Limits& limits) {
  v1::Limits proto;
  proto.set_max_rank(limits.max_rank);
  proto.set_max_message_bytes(limits.max_message_bytes);
  proto.set_max_chunk_bytes(limits.max_chunk_bytes);
  proto.set_max_inline_bytes(limits.max_inline_bytes);
  proto.set_max_message_instructions(limits.max_message_instructions);
  proto.set_max_program_instructions(limits.max_program_instructions);
  proto.set_max_program_depth(limits.max_program_depth);
  proto.set_max_operands(limits.max_operands);
  proto.set_max_text_bytes(limits.max_text_bytes);
  proto.set_max_name_bytes(limits.max_name_bytes);
  proto.set_stream_window_instructions(limits.stream_window_instructions);
  proto.set_stream_window_bytes(limits.stream_window_bytes);
  proto.set_max_pending_reads(limits.max_pending_reads);
  proto.set_max_transfers(limits.max_transfers);
  proto.set_max_segment_bytes(limits.max_segment_bytes);
  proto.set_max_programs(limits.max_programs);
  proto.set_max_page_size(limits.max_page_size);
  return proto;
}

absl::StatusOr<Quota> FromProto(const v1::Quota& proto) { return DecodeQuota(proto); }

v1::Quota ToProto(const Quota& quota) {
  v1::Quota proto;
  for (const DeviceQuota& device : quota.devices) {
    v1::DeviceQuota* out = proto.add_devices();
    out->set_device(device.device.ToString());
    out->set_limit_bytes(device.limit_bytes);
    out->set_used_bytes(device.used_bytes);
  }
  proto.set_handle_limit(quota.handle_limit);
  proto.set_handle_used(quota.handle_used);
  proto.set_session_limit(quota.session_limit);
  proto.set_session_used(quota.session_used);
  proto.set_request_limit(quota.request_limit);
  proto.set_upload_limit_bytes(quota.upload_limit_bytes);
  return proto;
}

}  // namespace tensord::wire
