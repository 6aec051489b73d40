#include "client/cpp/expr/session.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"

namespace tensord::expr {

absl::StatusOr<std::shared_ptr<ClientSession>> ClientSession::Open(Engine& engine, const OpenSessionRequest& request) {
  TENSORD_ASSIGN_OR_RETURN(OpenSessionResponse info, engine.OpenSession(Caller{}, request));
  std::shared_ptr<ClientSession> session(new ClientSession(engine, std::move(info)));
  session->keep_alive_ = std::thread([raw = session.get()] { raw->KeepAlive(); });
  return session;
}

ClientSession::ClientSession(Engine& engine, OpenSessionResponse info) : engine_(engine), info_(std::move(info)) {
  caller_.token = info_.token;
  next_id_ = info_.highest_id + 1;
}

ClientSession::~ClientSession() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  keep_alive_.join();
  engine_.CloseSession(caller_).status().IgnoreError();
}

std::shared_ptr<void> ClientSession::Own(uint64_t id, bool model) {
  // The pointer only carries the deleter; it must not be null, or the deleter would run at once in some uses.
  return {static_cast<void*>(this), [weak = weak_from_this(), id, model](void*) {
            if (const std::shared_ptr<ClientSession> session = weak.lock()) {
              absl::MutexLock lock(&session->mutex_);
              (model ? session->ended_models_ : session->ended_tensors_).push_back(id);
            }
          }};
}

void ClientSession::Collect() {
  std::vector<uint64_t> tensors, models;
  {
    absl::MutexLock lock(&mutex_);
    tensors.swap(ended_tensors_);
    models.swap(ended_models_);
  }
  const size_t batch = std::max<size_t>(info_.limits.max_operands, 1);
  for (size_t from = 0; from < tensors.size(); from += batch) {
    DeleteTensorsRequest request;
    request.allow_missing = true;
    for (size_t i = from; i < std::min(tensors.size(), from + batch); ++i)
      request.tensors.push_back(TensorRef::Id(tensors[i]));
    engine_.DeleteTensors(caller_, request).status().IgnoreError();
  }
  for (const uint64_t id : models) engine_.DeleteModel(caller_, ModelRef{id, ""}).status().IgnoreError();
}

void ClientSession::KeepAlive() {
  const absl::Duration pause = std::clamp(info_.lease / 3, absl::Milliseconds(100), absl::Minutes(10));
  absl::MutexLock lock(&mutex_);
  while (!mutex_.AwaitWithTimeout(absl::Condition(&closing_), pause)) {
    mutex_.Unlock();
    // A session that is gone is told by the next call that needs it.
    engine_.KeepAlive(caller_).status().IgnoreError();
    mutex_.Lock();
  }
}

}  // namespace tensord::expr
