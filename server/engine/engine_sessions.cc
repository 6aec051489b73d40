// Life of the engine and of sessions.
#include <algorithm>
#include <utility>

#include "kernels/core/error.h"
#include "server/engine/engine_impl.h"
#include "server/engine/stream.h"

namespace tensord {
namespace {

// Versions of the protocol that this daemon speaks.
constexpr uint32_t kMinVersion = 1;
constexpr uint32_t kMaxVersion = 1;

constexpr absl::Duration kMinLease = absl::Seconds(1);
constexpr absl::Duration kMaxLease = absl::Hours(24);
constexpr absl::Duration kMaxGrace = absl::Hours(1);

absl::Status CheckVersion(const OpenSessionRequest& request) {
  if (request.min_version < 1 || request.max_version < request.min_version) {
    return Error(Reason::kFieldInvalid)
        .With("value", StrCat(request.min_version, " to ", request.max_version))
        .With("allowed", "1 <= min_version <= max_version")
        .At("min_version");
  }
  if (request.min_version <= kMaxVersion && request.max_version >= kMinVersion) return absl::OkStatus();
  return Error(Reason::kVersionMismatch)
      .With("client_min", request.min_version)
      .With("client_max", request.max_version)
      .With("daemon_min", kMinVersion)
      .With("daemon_max", kMaxVersion)
      .With("upgrade", request.min_version > kMaxVersion ? "daemon" : "client");
}

}  // namespace

std::unique_ptr<LocalEngine> LocalEngine::Create(std::vector<EngineDevice> devices, EngineOptions options) {
  return std::make_unique<EngineImpl>(std::make_shared<Core>(std::move(devices), std::move(options)));
}

void EngineImpl::Shutdown(absl::Duration grace) {
  absl::MutexLock lock(&shutdown_mu_);
  if (shut_down_) return;
  shut_down_ = true;
  const absl::Time deadline = absl::Now() + grace;
  core_->drain_grace_ms.store(absl::ToInt64Milliseconds(grace));
  core_->draining.store(true);
  const absl::Status draining = core_->Draining();
  const std::vector<std::shared_ptr<Session>> sessions = core_->sessions.All();
  const auto stream_of = [](Session& session) {
    absl::MutexLock session_lock(&session.mu);
    return session.stream;
  };
  for (const auto& session : sessions) {
    if (const auto stream = stream_of(*session)) stream->Notice(draining);
  }
  for (const auto& device : core_->devices.all()) device->executor().WaitIdle(deadline);
  for (const auto& session : sessions) {
    if (const auto stream = stream_of(*session)) stream->End(draining);
  }
  for (const auto& session : core_->sessions.All()) core_->EndSession(session, "closed").IgnoreError();
  for (const auto& device : core_->devices.all()) device->executor().Stop(draining);
  core_->closed.store(true);
  core_->timer.Stop();
  core_->names.Clear();
}

LocalEngine::Counts EngineImpl::CountAlive() const {
  Counts counts;
  const std::vector<std::shared_ptr<Session>> sessions = core_->sessions.All();
  counts.sessions = sessions.size();
  for (const auto& session : sessions) {
    absl::MutexLock lock(&session->mu);
    counts.handles += session->table.size();
  }
  counts.names = core_->names.size();
  for (const auto& device : core_->devices.all()) {
    counts.buffers += static_cast<uint64_t>(device->buffers());
    counts.buffer_bytes += static_cast<uint64_t>(device->buffer_bytes());
  }
  return counts;
}

OpenSessionResponse EngineImpl::Describe(Session& session, bool resumed) {
  OpenSessionResponse response;
  response.session = session.id;
  response.token = session.token;
  response.version = kMaxVersion;
  response.daemon_version = core_->options.daemon_version;
  response.incarnation = core_->incarnation;
  response.lease = session.lease;
  response.grace = session.grace;
  response.limits = core_->limits();
  response.quota = core_->QuotaOf(*session.tenant->principal);
  response.resumed = resumed;
  response.principal = session.tenant->principal->name;
  absl::MutexLock lock(&session.mu);
  response.next_sequence = session.next_sequence;
  response.highest_id = session.table.highest();
  return response;
}

absl::StatusOr<OpenSessionResponse> EngineImpl::ResumeSession(const Caller& caller, const OpenSessionRequest& request) {
  absl::StatusOr<std::shared_ptr<Session>> session = core_->sessions.Find(request.resume_token, caller.principal);
  if (!session.ok()) {
    const bool restarted = request.incarnation != 0 && request.incarnation != core_->incarnation;
    return restarted ? core_->sessions.Unknown("restarted") : session.status();
  }
  (*session)->Renew(absl::Now());
  {
    absl::MutexLock lock(&(*session)->mu);
    if ((*session)->ended) return (*session)->end_cause;
    (*session)->peer = caller.peer;
  }
  return Describe(**session, true);
}

absl::StatusOr<OpenSessionResponse> EngineImpl::OpenSession(const Caller& caller, const OpenSessionRequest& request) {
  TENSORD_RETURN_IF_ERROR(core_->CheckOpen());
  TENSORD_RETURN_IF_ERROR(CheckVersion(request));
  if (!request.resume_token.empty()) return ResumeSession(caller, request);
  if (!request.required_features.empty()) {
    return Error(Reason::kFeatureUnavailable).With("feature", request.required_features[0]).With("available", "none");
  }
  if (request.client.size() > core_->limits().max_text_bytes) {
    return Error(Reason::kLimitExceeded)
        .With("limit", "max_text_bytes")
        .With("value", request.client.size())
        .With("maximum", core_->limits().max_text_bytes)
        .At("client");
  }
  const std::string workspace = request.workspace.empty() ? core_->WorkspaceOf(nullptr) : request.workspace;
  if (const absl::Status status = core_->names.CheckWorkspace(workspace); !status.ok()) {
    return Error(Reason::kNameInvalid)
        .With("name", DetailsOf(status).Get("name"))
        .With("position", DetailsOf(status).Get("position"))
        .At("workspace");
  }
  const std::shared_ptr<Principal> principal = core_->FindPrincipal(caller.principal);
  if (const uint32_t used = principal->sessions.fetch_add(1); used >= core_->limits().max_sessions) {
    principal->sessions.fetch_sub(1);
    return Error(Reason::kQuotaExceeded)
        .With("quota", "sessions")
        .With("used", used)
        .With("limit", core_->limits().max_sessions)
        .With("requested", 1);
  }
  const absl::Duration lease = std::clamp(request.lease.value_or(core_->options.default_lease), kMinLease, kMaxLease);
  const absl::Duration grace =
      std::clamp(request.grace.value_or(core_->options.default_grace), absl::ZeroDuration(), kMaxGrace);
  const std::string id = RandomHex(8);
  const Ref<Tenant> tenant = core_->MakeTenant(caller.principal, id);
  auto session = std::make_shared<Session>(RandomHex(16), id, tenant, request, workspace, lease, grace, RandomNumber(),
                                           absl::Now());
  {
    absl::MutexLock lock(&session->mu);
    session->peer = caller.peer;
  }
  tenant->low_water = core_->limits().stream_window_instructions / 2;
  tenant->on_low_water = [core = core_.get(), weak = std::weak_ptr<Session>(session)] {
    core->timer.Post([weak] {
      std::shared_ptr<StreamCore> stream;
      if (const auto locked = weak.lock()) {
        absl::MutexLock lock(&locked->mu);
        stream = locked->stream;
      }
      if (stream) stream->Resume();
    });
  };
  core_->sessions.Add(session);
  core_->SweepBy(absl::FromUnixNanos(session->expire_ns.load()));
  // A Shutdown that began meanwhile has not seen it.
  if (core_->draining.load()) {
    core_->EndSession(session, "closed").IgnoreError();
    return core_->Draining();
  }
  return Describe(*session, false);
}

absl::StatusOr<KeepAliveResponse> EngineImpl::KeepAlive(const Caller& caller) {
  TENSORD_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, core_->NeedSession(caller, "KeepAlive"));
  return KeepAliveResponse{session->lease, core_->QuotaOf(*session->tenant->principal)};
}

absl::StatusOr<FreedSession> EngineImpl::CloseSession(const Caller& caller) {
  TENSORD_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, core_->NeedSession(caller, "CloseSession"));
  TENSORD_RETURN_IF_ERROR(core_->AwaitAfter(caller, session.get()));
  return core_->EndSession(session, "closed");
}

absl::StatusOr<FreedSession> EngineImpl::KillSession(const Caller& caller, const std::string& id) {
  TENSORD_RETURN_IF_ERROR(core_->CheckOpen());
  TENSORD_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, core_->sessions.FindPublic(id, caller.principal));
  return core_->EndSession(session, "killed");
}

absl::StatusOr<ListSessionsResponse> EngineImpl::ListSessions(const Caller& caller, const PageRequest& page) {
  TENSORD_RETURN_IF_ERROR(core_->Enter(caller).status());
  ListSessionsResponse response;
  const size_t size = core_->PageSize(page);
  // A page token is where the last session listed stands in the order, so that it serves even where that has ended.
  const size_t colon = page.page_token.find(':');
  int64_t after_ns = 0;
  std::string after_id;
  if (!page.page_token.empty()) {
    if (colon == std::string::npos || !absl::SimpleAtoi(page.page_token.substr(0, colon), &after_ns)) {
      return Error(Reason::kFieldInvalid)
          .With("value", "no token of ours")
          .With("allowed", "next_page_token")
          .At("page_token");
    }
    after_id = page.page_token.substr(colon + 1);
  }
  for (const std::shared_ptr<Session>& session : core_->sessions.All()) {
    if (session->tenant->principal->name != caller.principal) continue;
    const int64_t opened = absl::ToUnixNanos(session->open_time);
    if (!page.page_token.empty() && std::tie(opened, session->id) <= std::tie(after_ns, after_id)) continue;
    if (response.sessions.size() == size) {
      const SessionInfo& last = response.sessions.back();
      response.next_page_token = StrCat(absl::ToUnixNanos(last.open_time), ":", last.session);
      break;
    }
    SessionInfo& info = response.sessions.emplace_back();
    info.session = session->id;
    info.principal = session->tenant->principal->name;
    info.client = session->client;
    info.workspace = session->workspace;
    info.open_time = session->open_time;
    if (const int64_t expire = session->expire_ns.load(); expire != Session::kNever) {
      info.expire_time = absl::FromUnixNanos(expire);
    }
    for (const auto& device : core_->devices.all()) {
      const int64_t bytes = session->tenant->account->bytes(device->index());
      if (bytes > 0) info.bytes[device->name()] = static_cast<uint64_t>(bytes);
    }
    info.queued_instructions = session->tenant->queued.load();
    info.done_instructions = session->tenant->done.load();
    absl::MutexLock lock(&session->mu);
    info.peer = session->peer;
    info.handles = session->table.size();
  }
  return response;
}

}  // namespace tensord
