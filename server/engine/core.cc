#include "server/engine/core.h"

#include <openssl/rand.h>

#include <algorithm>
#include <cstring>

#include "absl/functional/function_ref.h"
#include "kernels/core/error.h"
#include "server/engine/model.h"
#include "server/engine/stream.h"
#include "server/engine/upload.h"

namespace tensord {

size_t FindBadBool(std::string_view data) {
  size_t i = 0;
  for (; i + 8 <= data.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, data.data() + i, 8);
    if ((word & ~uint64_t{0x0101010101010101}) != 0) break;
  }
  for (; i < data.size(); ++i) {
    if (static_cast<uint8_t>(data[i]) > 1) return i;
  }
  return std::string_view::npos;
}

std::string RandomHex(size_t bytes) {
  std::string raw(bytes, '\0');
  RAND_bytes(reinterpret_cast<unsigned char*>(raw.data()), static_cast<int>(bytes));
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : raw) {
    text.push_back(kDigits[static_cast<uint8_t>(c) >> 4]);
    text.push_back(kDigits[static_cast<uint8_t>(c) & 15]);
  }
  return text;
}

uint64_t RandomNumber() {
  uint64_t number = 0;
  while (number == 0) RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof(number));
  return number;
}

Core::Core(std::vector<EngineDevice> parts, EngineOptions options_)
    : options(std::move(options_)),
      incarnation(RandomNumber()),
      start_time(absl::Now()),
      accounts(parts.size()),
      devices(std::move(parts), accounts, [this](Device& device) { DeviceLost(device); }),
      names(accounts, options.limits.max_name_bytes),
      sessions(incarnation),
      generator(RandomNumber()) {
  const MemoryStats stats = devices.cpu().memory().Stats();
  upload_limit = static_cast<uint64_t>(std::max<int64_t>(stats.total, 0)) / 2;
}

Core::~Core() {
  timer.Stop();
  JoinLossCalls();
}

absl::Status Core::Draining() const {
  return Error(Reason::kDraining).With("grace", absl::FormatDuration(absl::Milliseconds(drain_grace_ms.load())));
}

absl::Status Core::CheckOpen() const { return draining.load() ? Draining() : absl::OkStatus(); }

absl::Status Core::CheckTtl(const PublishRequest& publish, std::string_view path) const {
  if (publish.durable) {
    return Error(Reason::kFeatureUnavailable)
        .With("feature", "state")
        .With("available", "none")
        .At(StrCat(path, "durable"));
  }
  if (!publish.ttl || *publish.ttl > absl::ZeroDuration()) return absl::OkStatus();
  return Error(Reason::kFieldInvalid)
      .With("value", absl::FormatDuration(*publish.ttl))
      .With("allowed", "more than 0")
      .At(StrCat(path, "ttl"));
}

std::shared_ptr<Principal> Core::FindPrincipal(const std::string& name) {
  absl::MutexLock lock(&principals_mu_);
  auto& principal = principals_[name];
  if (!principal) principal = std::make_shared<Principal>(name, devices.all().size());
  return principal;
}

Ref<Tenant> Core::MakeTenant(const std::string& principal, const std::string& session_id) {
  auto account = MakeRef<Account>(accounts, principal, session_id, "");
  return MakeRef<Tenant>(FindPrincipal(principal), std::move(account), devices.all().size());
}

absl::StatusOr<std::shared_ptr<Session>> Core::FindSession(const Caller& caller) {
  TENSORD_RETURN_IF_ERROR(CheckOpen());
  if (caller.token.empty()) return std::shared_ptr<Session>();
  TENSORD_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, sessions.Find(caller.token, caller.principal));
  session->Renew(absl::Now());
  return session;
}

absl::StatusOr<std::shared_ptr<Session>> Core::NeedSession(const Caller& caller, std::string_view field) {
  TENSORD_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, FindSession(caller));
  if (!session) return Error(Reason::kSessionRequired).With("field", field);
  return session;
}

absl::Status Core::AwaitAfter(const Caller& caller, Session* session) {
  if (session == nullptr || caller.after == 0) return absl::OkStatus();
  const absl::Time start = absl::Now();
  absl::MutexLock lock(&session->mu);
  const auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(session->mu) {
    return session->ended || session->next_sequence > caller.after;
  };
  if (!session->mu.AwaitWithDeadline(absl::Condition(&ready), caller.deadline)) {
    return Error(Reason::kDeadlineExceeded)
        .With("after", absl::FormatDuration(absl::Now() - start))
        .With("stage", StrCat("waiting for message ", caller.after, " of the stream"));
  }
  return session->ended ? session->end_cause : absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Session>> Core::Enter(const Caller& caller) {
  TENSORD_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, FindSession(caller));
  TENSORD_RETURN_IF_ERROR(AwaitAfter(caller, session.get()));
  return session;
}

void Core::EnterAsync(const Caller& caller, absl::AnyInvocable<void(absl::StatusOr<std::shared_ptr<Session>>)> run) {
  absl::StatusOr<std::shared_ptr<Session>> found = FindSession(caller);
  if (!found.ok() || *found == nullptr || caller.after == 0) return run(std::move(found));
  const std::shared_ptr<Session> session = *found;
  const absl::Time start = absl::Now();
  uint64_t key = 0;
  {
    absl::MutexLock lock(&session->mu);
    if (session->ended) {
      found = session->end_cause;
    } else if (session->next_sequence <= caller.after) {
      key = session->next_waiter++;
      session->after.push_back({caller.after, key, [session, run = std::move(run)](absl::Status status) mutable {
                                  if (!status.ok()) return run(status);
                                  run(session);
                                }});
    }
  }
  if (key == 0) return run(std::move(found));
  const auto give_up = [session, key](absl::FunctionRef<absl::Status(uint64_t)> why) {
    Session::AfterWaiter waiter;
    {
      absl::MutexLock lock(&session->mu);
      const auto it = std::find_if(session->after.begin(), session->after.end(),
                                   [&](const Session::AfterWaiter& w) { return w.key == key; });
      if (it == session->after.end()) return;
      waiter = std::move(*it);
      session->after.erase(it);
    }
    waiter.run(why(waiter.sequence));
  };
  timer.Schedule(caller.deadline, [give_up, start] {
    give_up([start](uint64_t sequence) {
      return Error(Reason::kDeadlineExceeded)
          .With("after", absl::FormatDuration(absl::Now() - start))
          .With("stage", StrCat("waiting for message ", sequence, " of the stream"))
          .ToStatus();
    });
  });
  if (caller.cancellation) {
    caller.cancellation->Add(
        [give_up](const absl::Status& cause) { give_up([&cause](uint64_t /*sequence*/) { return cause; }); });
  }
}

absl::StatusOr<FreedSession> Core::EndSession(const std::shared_ptr<Session>& session, std::string_view cause) {
  if (!sessions.Remove(*session, cause)) return sessions.Unknown("closed");
  const absl::Status status = sessions.Unknown(cause);
  absl::flat_hash_map<uint64_t, Handle> handles;
  absl::flat_hash_map<uint64_t, std::shared_ptr<const RegisteredProgram>> programs;
  absl::flat_hash_map<uint64_t, std::shared_ptr<UploadState>> uploads;
  std::vector<Session::AfterWaiter> after;
  std::shared_ptr<StreamCore> stream;
  std::vector<Ref<Lane>> lanes;
  {
    absl::MutexLock lock(&session->mu);
    session->ended = true;
    session->end_cause = status;
    handles = session->table.Take();
    programs.swap(session->programs);
    uploads.swap(session->uploads);
    after.swap(session->after);
    stream.swap(session->stream);
    lanes = session->tenant->lanes;
  }
  if (stream) stream->End(status);
  session->calls.Cancel(status);
  FreedSession freed;
  for (auto& [id, upload] : uploads) {
    const Ref<Tensor>& tensor = upload->tensor();
    if (tensor->storage->pending() && tensor->storage->allocated()) freed.bytes += tensor->storage->bytes();
    upload->Abandon(status);
  }
  uploads.clear();
  for (Session::AfterWaiter& waiter : after) waiter.run(status);
  programs.clear();

  freed.handles = handles.size();
  for (auto& [id, handle] : handles) {
    // Views of one storage are let go one after the other: the last one frees it.
    if (handle.tensor && handle.tensor->unique() && handle.tensor->storage->unique() &&
        handle.tensor->storage->allocated()) {
      freed.bytes += handle.tensor->storage->bytes();
    }
    if (handle.model && handle.model->unique()) freed.bytes += handle.model->bytes();
    handle = Handle();
  }
  Principal& principal = *session->tenant->principal;
  principal.handles.fetch_sub(freed.handles);
  principal.sessions.fetch_sub(1);
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i]) devices.all()[i]->executor().Poke(lanes[i]);
  }
  return freed;
}

void Core::SweepBy(absl::Time when) {
  {
    absl::MutexLock lock(&sweep_mu_);
    if (when >= next_sweep_) return;
    next_sweep_ = when;
  }
  timer.Schedule(when, [this] { Sweep(); });
}

void Core::Sweep() {
  {
    absl::MutexLock lock(&sweep_mu_);
    if (next_sweep_ > absl::Now()) return;  // a later one is scheduled
    next_sweep_ = absl::InfiniteFuture();
  }
  const absl::Time now = absl::Now();
  absl::Time next = names.Expire(now);
  for (const std::shared_ptr<Session>& session : sessions.All()) {
    const int64_t expire = session->expire_ns.load();
    if (expire == Session::kNever) continue;
    const absl::Time at = absl::FromUnixNanos(expire);
    if (at <= now) {
      EndSession(session, "expired").IgnoreError();
    } else {
      next = std::min(next, at);
    }
  }
  if (next != absl::InfiniteFuture()) SweepBy(next);
}

absl::StatusOr<Ref<Tensor>> Core::Resolve(const TensorRef& ref, Session* session) const {
  if (const auto* id = std::get_if<uint64_t>(&ref.ref)) {
    if (session == nullptr) return Error(Reason::kSessionRequired).With("field", "id");
    if (session->ended) return session->end_cause;
    const Handle* handle = session->table.Find(*id);
    if (handle == nullptr) return session->table.Unknown(*id, "tensor");
    if (!handle->tensor) {
      return Error(Reason::kKindMismatch).With("name", *id).With("kind", "model").With("expected", "tensor");
    }
    return handle->tensor;
  }
  if (const auto* name = std::get_if<std::string>(&ref.ref)) {
    TENSORD_ASSIGN_OR_RETURN(const std::string full, names.Qualify(*name, WorkspaceOf(session)));
    return names.FindTensor(full);
  }
  if (const auto* parameter = std::get_if<TensorRef::Parameter>(&ref.ref)) {
    TENSORD_ASSIGN_OR_RETURN(const Ref<Model> model, Resolve(parameter->model, session));
    return model->Parameter(parameter->path, ModelText(parameter->model));
  }
  return Error(Reason::kFieldInvalid).With("value", "absent").With("allowed", "id, name or parameter").At("tensor");
}

absl::StatusOr<Ref<Model>> Core::Resolve(const ModelRef& ref, Session* session) const {
  if (ref.id != 0) {
    if (session == nullptr) return Error(Reason::kSessionRequired).With("field", "model.id");
    if (session->ended) return session->end_cause;
    const Handle* handle = session->table.Find(ref.id);
    if (handle == nullptr) return session->table.Unknown(ref.id, "model");
    if (!handle->model) {
      return Error(Reason::kKindMismatch).With("name", ref.id).With("kind", "tensor").With("expected", "model");
    }
    return handle->model;
  }
  if (ref.name.empty()) {
    return Error(Reason::kFieldInvalid).With("value", "absent").With("allowed", "id or name").At("model");
  }
  TENSORD_ASSIGN_OR_RETURN(const std::string full, names.Qualify(ref.name, WorkspaceOf(session)));
  return names.FindModel(full);
}

TensorInfo Core::Info(const Tensor& tensor, uint64_t id) const {
  TensorInfo info;
  info.id = id;
  info.names = names.NamesOf(&tensor);
  info.spec = tensor.spec;
  info.bytes = tensor.bytes();
  info.create_time = tensor.create_time;
  switch (tensor.storage->state()) {
    case Storage::State::kPending:
      info.state = TensorState::kPending;
      break;
    case Storage::State::kReady:
      info.state = tensor.storage->offloaded() ? TensorState::kOffloaded : TensorState::kReady;
      break;
    case Storage::State::kFailed:
      info.state = TensorState::kFailed;
      info.error = tensor.error();
      break;
  }
  info.shared_storage = info.state != TensorState::kFailed && tensor.storage->references() > 1;
  if (!info.names.empty()) {
    if (const auto entry = names.Find(info.names.front()); entry && entry->expire != absl::InfiniteFuture()) {
      info.expire_time = entry->expire;
    }
  }
  return info;
}

ModelInfo Core::Info(const Model& model, uint64_t id, bool with_program) const {
  ModelInfo info = model.Info(with_program);
  info.id = id;
  info.names = names.NamesOf(&model);
  return info;
}

size_t Core::PageSize(const PageRequest& page) const {
  return page.page_size == 0 ? limits().max_page_size : std::min(page.page_size, limits().max_page_size);
}

absl::StatusOr<RequestSlot> RequestSlot::Take(Core& core, const std::string& name) {
  TENSORD_RETURN_IF_ERROR(core.CheckOpen());
  std::shared_ptr<Principal> principal = core.FindPrincipal(name);
  const uint32_t used = principal->requests.fetch_add(1);
  if (used < core.limits().max_requests) return RequestSlot(std::move(principal));
  principal->requests.fetch_sub(1);
  return Error(Reason::kQuotaExceeded)
      .With("quota", "requests")
      .With("used", used)
      .With("limit", core.limits().max_requests)
      .With("requested", 1);
}

Quota Core::QuotaOf(const Principal& principal) const {
  Quota quota;
  for (const auto& device : devices.all()) {
    quota.devices.push_back({device->id(), 0, accounts.Used(device->index(), principal.name)});
  }
  quota.handle_limit = limits().max_handles;
  quota.handle_used = principal.handles.load();
  quota.session_limit = limits().max_sessions;
  quota.session_used = principal.sessions.load();
  quota.request_limit = limits().max_requests;
  quota.upload_limit_bytes = upload_limit;
  return quota;
}

absl::StatusOr<TensorSpec> Core::CheckSpec(const SpecRequest& request, std::string_view path) const {
  const std::string prefix = path.empty() ? "" : StrCat(path, ".");
  if (!IsValid(request.type.dtype)) {
    return Error(Reason::kDtypeUnknown)
        .With("value", static_cast<int>(request.type.dtype))
        .With("known", KnownDtypes())
        .At(StrCat(prefix, "spec.dtype"));
  }
  const absl::StatusOr<int64_t> bytes = CheckedBytes(request.type.dtype, request.type.shape);
  if (!bytes.ok()) return AtPath(bytes.status(), prefix);
  const absl::StatusOr<Device*> device = devices.Find(request.device);
  if (!device.ok()) {
    return AtPath(Error(Reason::kDeviceUnknown)
                      .With("device", DetailsOf(device.status()).Get("device"))
                      .With("known", DetailsOf(device.status()).Get("known"))
                      .At("spec.device"),
                  prefix);
  }
  return TensorSpec{request.type, (*device)->id()};
}

absl::Status Core::CheckData(const TensorType& type, std::string_view data, std::string_view path) const {
  const auto expected = static_cast<uint64_t>(type.bytes());
  if (data.size() != expected) {
    return Error(Reason::kDataInvalid).With("expected_bytes", expected).With("got_bytes", data.size()).At(path);
  }
  if (type.dtype != Dtype::kBool) return absl::OkStatus();
  const size_t bad = FindBadBool(data);
  if (bad == std::string_view::npos) return absl::OkStatus();
  return Error(Reason::kDataInvalid)
      .With("expected_bytes", expected)
      .With("got_bytes", data.size())
      .With("element", bad)
      .Say("why", "a bool is 0 or 1")
      .At(path);
}

}  // namespace tensord
