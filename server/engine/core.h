// What the parts of the engine share: devices, sessions, names, accounts, limits. One for an engine; transfers that are
// still open keep it alive.
//
// Lock order: a session's mutex, then a stream's or an upload's, then one of: names, executor, timer, accounts. The
// registry of sessions and that of principals are held alone.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/account.h"
#include "server/engine/device.h"
#include "server/engine/local_engine.h"
#include "server/engine/names.h"
#include "server/engine/session.h"
#include "server/engine/timer.h"

namespace tensord {

struct Core : public std::enable_shared_from_this<Core> {
  Core(std::vector<EngineDevice> parts, EngineOptions options_);
  ~Core();

  const EngineOptions options;
  const uint64_t incarnation;
  const absl::Time start_time;
  AccountBook accounts;
  DeviceSet devices;
  NameTable names;
  SessionRegistry sessions;
  Generator generator;  // for calls without a session
  uint64_t upload_limit = 0;
  std::atomic<bool> draining{false};  // new work is refused
  std::atomic<bool> closed{false};    // so is what was under way
  std::atomic<int64_t> drain_grace_ms{0};
  Timer timer;  // last: its thread ends before the rest goes

  const Limits& limits() const { return options.limits; }
  // DRAINING once Shutdown has begun.
  absl::Status CheckOpen() const;
  absl::Status Draining() const;

  // How long a name is to last, and where. Errors: FEATURE_UNAVAILABLE, FIELD_INVALID; `path` ends with a dot or is
  // empty.
  absl::Status CheckTtl(const PublishRequest& publish, std::string_view path) const;

  // The principal's counts, made when first seen.
  std::shared_ptr<Principal> FindPrincipal(const std::string& name);
  // A tenant for one call without a session.
  Ref<Tenant> MakeTenant(const std::string& principal, const std::string& session_id);

  // The caller's session, renewed; null without a token. Errors: SESSION_UNKNOWN, DRAINING.
  absl::StatusOr<std::shared_ptr<Session>> FindSession(const Caller& caller);
  // The same where there must be one. Error: SESSION_REQUIRED naming the field.
  absl::StatusOr<std::shared_ptr<Session>> NeedSession(const Caller& caller, std::string_view field);
  // Waits (blocking) until the stream's message caller.after has been submitted. Errors: DEADLINE_EXCEEDED,
  // SESSION_UNKNOWN.
  absl::Status AwaitAfter(const Caller& caller, Session* session);
  // FindSession and AwaitAfter: what every call that answers at once begins with.
  absl::StatusOr<std::shared_ptr<Session>> Enter(const Caller& caller);
  // Enter without blocking: `run` is called with the session (or null), or with an error. Same errors.
  void EnterAsync(const Caller& caller, absl::AnyInvocable<void(absl::StatusOr<std::shared_ptr<Session>>)> run);

  // Ends a session; SESSION_UNKNOWN where somebody else has. `cause` is "expired", "closed", "killed".
  absl::StatusOr<FreedSession> EndSession(const std::shared_ptr<Session>& session, std::string_view cause);
  // Ends what has expired, and names likewise; schedules itself again.
  void Sweep();
  // A lease or a TTL may end sooner than the next sweep.
  void SweepBy(absl::Time when);

  // A device is lost: lets go of what waits for it, ends its uploads, tells streams and the daemon. Any thread, any
  // locks.
  void DeviceLost(Device& device);
  // Waits for calls of EngineOptions::on_device_loss.
  void JoinLossCalls();

  // Workspace of unqualified names.
  std::string WorkspaceOf(const Session* session) const { return session ? session->workspace : "default"; }

  // What a reference stands for. With a session its mutex must be held. Errors: HANDLE_UNKNOWN, NAME_UNKNOWN,
  // KIND_MISMATCH, PARAMETER_UNKNOWN, SESSION_REQUIRED, FIELD_INVALID (nothing set).
  absl::StatusOr<Ref<Tensor>> Resolve(const TensorRef& ref, Session* session) const;
  absl::StatusOr<Ref<Model>> Resolve(const ModelRef& ref, Session* session) const;

  // What the daemon knows of a tensor. `id` 0: no handle.
  TensorInfo Info(const Tensor& tensor, uint64_t id) const;
  ModelInfo Info(const Model& model, uint64_t id, bool with_program) const;
  // Items of a page: what was asked for, cut to the bound.
  size_t PageSize(const PageRequest& page) const;
  Quota QuotaOf(const Principal& principal) const;

  // Device, dtype, shape of a tensor that somebody asks for. Errors: DTYPE_UNKNOWN, SHAPE_INVALID, LIMIT_EXCEEDED,
  // DEVICE_UNKNOWN, at `path`.spec….
  absl::StatusOr<TensorSpec> CheckSpec(const SpecRequest& request, std::string_view path) const;
  // Raw values for a spec. Error: DATA_INVALID (size; a bool that is neither 0 nor 1), at `path`.
  absl::Status CheckData(const TensorType& type, std::string_view data, std::string_view path) const;

 private:
  absl::Mutex principals_mu_;
  absl::flat_hash_map<std::string, std::shared_ptr<Principal>> principals_ ABSL_GUARDED_BY(principals_mu_);
  absl::Mutex loss_mu_;
  std::vector<std::thread> loss_calls_ ABSL_GUARDED_BY(loss_mu_);
  absl::Mutex sweep_mu_;
  absl::Time next_sweep_ ABSL_GUARDED_BY(sweep_mu_) = absl::InfiniteFuture();
};

// Counts a call of a principal while it is in flight.
class RequestSlot {
 public:
  // Errors: DRAINING, QUOTA_EXCEEDED.
  static absl::StatusOr<RequestSlot> Take(Core& core, const std::string& principal);
  RequestSlot(RequestSlot&&) = default;
  RequestSlot& operator=(RequestSlot&&) = delete;
  ~RequestSlot() { reset(); }
  void reset() {
    if (principal_) principal_->requests.fetch_sub(1);
    principal_.reset();
  }

 private:
  explicit RequestSlot(std::shared_ptr<Principal> principal) : principal_(std::move(principal)) {}
  std::shared_ptr<Principal> principal_;
};

// Position of the first byte that is neither 0 nor 1, or npos.
size_t FindBadBool(std::string_view data);
// Random bytes for tokens, as hexadecimal digits.
std::string RandomHex(size_t bytes);
uint64_t RandomNumber();  // never 0

}  // namespace tensord
