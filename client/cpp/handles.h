// What tensord::client's Tensor and Model hold: an id of a session, freed with the last copy, and what is known of it
// without asking.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/client_session.h"
#include "kernels/core/shape.h"

namespace tensord {

// Thread safe.
class TensorHandle {
 public:
  // A tensor under `id`. `spec`: what it will be; absent where only the daemon can tell; or why it will not be.
  TensorHandle(std::shared_ptr<ClientSession> session, uint64_t id, std::optional<absl::StatusOr<TensorSpec>> spec)
      : session_(std::move(session)), id_(id), spec_(std::move(spec)) {}
  // No tensor anywhere.
  explicit TensorHandle(absl::Status status) : spec_(std::move(status)) {}
  ~TensorHandle() {
    if (session_) session_->Free(id_);
  }
  TensorHandle(const TensorHandle&) = delete;
  TensorHandle& operator=(const TensorHandle&) = delete;

  // Null where there is no tensor anywhere.
  const std::shared_ptr<ClientSession>& session() const { return session_; }
  uint64_t id() const { return id_; }
  // What is known at once.
  std::optional<absl::StatusOr<TensorSpec>> known() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return spec_;
  }
  void Learn(absl::StatusOr<TensorSpec> spec) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    spec_ = std::move(spec);
  }

 private:
  const std::shared_ptr<ClientSession> session_;
  const uint64_t id_ = 0;
  mutable absl::Mutex mu_;
  std::optional<absl::StatusOr<TensorSpec>> spec_ ABSL_GUARDED_BY(mu_);
};

// Thread safe.
class ModelHandle {
 public:
  // A model under `id`, freed with the handle, or by `name`.
  ModelHandle(std::shared_ptr<ClientSession> session, ModelRef ref)
      : session_(std::move(session)), ref_(std::move(ref)) {}
  ~ModelHandle() {
    if (ref_.id != 0) session_->Free(ref_.id);
  }
  ModelHandle(const ModelHandle&) = delete;
  ModelHandle& operator=(const ModelHandle&) = delete;

  const std::shared_ptr<ClientSession>& session() const { return session_; }
  const ModelRef& ref() const { return ref_; }

 private:
  const std::shared_ptr<ClientSession> session_;
  const ModelRef ref_;
};

}  // namespace tensord
