// Uploads: a tensor whose bytes come in chunks. The handle is the identity: an `upload` instruction and an Upload call
// of the same id join, and a second call takes over from the first where that stopped.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/core.h"
#include "server/engine/engine.h"

namespace tensord {

// What is known of an upload that is not finished. Thread safe. Lock order: the session's mutex, then this one's.
class UploadState : public std::enable_shared_from_this<UploadState> {
 public:
  // `session` is null, and `id` 0, for an upload that only gets a name.
  static std::shared_ptr<UploadState> Make(std::shared_ptr<Core> core, std::shared_ptr<Session> session, uint64_t id,
                                           TensorSpec spec, Ref<Tenant> tenant, absl::Time now);
  ~UploadState();

  const Ref<Tensor>& tensor() const { return tensor_; }
  uint64_t id() const { return id_; }
  uint64_t total() const { return total_; }

  // What a call holds of the upload: the number that Write and Finish want, and how it learns that it lost its place.
  struct Place {
    uint64_t call = 0;
    std::shared_ptr<Cancellation> revocation;
  };
  // A call takes over, after making sure of memory; the one before it is told. Errors: QUOTA_EXCEEDED, MEMORY_EXHAUSTED,
  // FIELD_INVALID (another sha256 than the one before).
  absl::StatusOr<Place> Attach(const UploadStart& start, std::optional<NameTable::Gift> gift);
  // The call with that number has gone.
  void Detach(uint64_t call);
  // True while a call is attached.
  bool attached() const;
  uint64_t received() const;

  absl::Status Write(uint64_t call, uint64_t offset, absl::Span<const std::string_view> pieces,
                     std::optional<uint64_t> checksum);
  absl::StatusOr<TensorInfo> Finish(uint64_t call);

  // The session has ended: who waits for the bytes is told, the memory goes.
  void Abandon(const absl::Status& cause);
  // The handle was freed, for `cause`: nobody can resume it, but a call that is attached may end it, unless nobody else
  // refers to the tensor. The session's mutex is held, and the handle still refers to the tensor.
  void Orphan(const absl::Status& cause);

 private:
  struct Hashes;  // running SHA-256
  UploadState() = default;
  absl::Status CheckCall(uint64_t call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<Place> TakePlace(const UploadStart& start, std::optional<NameTable::Gift> gift)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Replaced() const;
  absl::Status CopyIn(uint64_t offset, absl::Span<const std::string_view> pieces, std::optional<uint64_t> checksum)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Nothing can be written any more; returns whether the tensor is to be failed, without the mutex.
  bool GiveUp(const absl::Status& cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FailTensor(const absl::Status& cause) ABSL_LOCKS_EXCLUDED(mu_);
  void Revoke(const absl::Status& cause) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Incomplete() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Forgets the state in its session.
  void Leave();

  std::shared_ptr<Core> core_;
  std::weak_ptr<Session> session_;
  std::shared_ptr<Principal> principal_;
  Ref<Tensor> tensor_;
  uint64_t id_ = 0;
  uint64_t total_ = 0;

  mutable absl::Mutex mu_;
  uint64_t call_ ABSL_GUARDED_BY(mu_) = 0;  // the last one that attached
  bool attached_ ABSL_GUARDED_BY(mu_) = false;
  bool orphan_ ABSL_GUARDED_BY(mu_) = false;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);  // why nothing can be written any more
  uint64_t received_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t charged_ ABSL_GUARDED_BY(mu_) = 0;  // of the principal's upload bytes
  Checksum checksum_ ABSL_GUARDED_BY(mu_) = Checksum::kNone;
  std::string sha256_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Hashes> hashes_ ABSL_GUARDED_BY(mu_);
  std::optional<NameTable::Gift> gift_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Cancellation> revocation_ ABSL_GUARDED_BY(mu_);  // of the last call that attached
};

// LocalEngine::Upload and ::Download.
absl::StatusOr<std::unique_ptr<UploadSink>> StartUpload(const std::shared_ptr<Core>& core, const Caller& caller,
                                                        const UploadStart& start);
void StartDownload(const std::shared_ptr<Core>& core, const Caller& caller, const DownloadRequest& request,
                   Done<std::unique_ptr<DownloadSource>> done);

// Counts a session's transfers while it lives.
class TransferSlot {
 public:
  explicit TransferSlot(const std::shared_ptr<Session>& session) : session_(session) {
    if (session) session->transfers.fetch_add(1);
  }
  TransferSlot(TransferSlot&&) = default;
  ~TransferSlot() {
    if (const auto session = session_.lock()) session->transfers.fetch_sub(1);
  }
  // Error: QUOTA_EXCEEDED.
  static absl::Status Check(const Session* session, const Limits& limits);

 private:
  std::weak_ptr<Session> session_;
};

}  // namespace tensord
