#include "server/engine/upload.h"

#include <openssl/evp.h>
#include <xxhash.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/core/error.h"

namespace tensord {
namespace {

// A chunk is hashed and copied by blocks of so many bytes, so that the copy finds them in the cache.
constexpr size_t kBlock = size_t{128} << 10;

struct FreeXxh3 {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

// Checksum of a chunk that is seen piece by piece.
class ChunkHash {
 public:
  explicit ChunkHash(Checksum algorithm) : algorithm_(algorithm) {
    if (algorithm_ == Checksum::kXxh3) {
      state_.reset(XXH3_createState());
      XXH3_64bits_reset(state_.get());
    }
  }
  void Update(const char* data, size_t bytes) {
    if (algorithm_ == Checksum::kXxh3) {
      XXH3_64bits_update(state_.get(), data, bytes);
    } else if (algorithm_ == Checksum::kCrc32) {
      crc_ = crc32_z(crc_, reinterpret_cast<const Bytef*>(data), bytes);
    }
  }
  uint64_t Value() const { return algorithm_ == Checksum::kXxh3 ? XXH3_64bits_digest(state_.get()) : crc_; }

 private:
  const Checksum algorithm_;
  std::unique_ptr<XXH3_state_t, FreeXxh3> state_;
  uLong crc_ = crc32_z(0, nullptr, 0);
};

std::string Hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text.push_back(kDigits[static_cast<uint8_t>(c) >> 4]);
    text.push_back(kDigits[static_cast<uint8_t>(c) & 15]);
  }
  return text;
}

class LocalSink final : public UploadSink {
 public:
  LocalSink(std::shared_ptr<UploadState> state, UploadState::Place place, TransferSlot slot)
      : state_(std::move(state)), place_(std::move(place)), slot_(std::move(slot)) {}
  ~LocalSink() override { state_->Detach(place_.call); }

  uint64_t received() const override { return state_->received(); }
  uint64_t total() const override { return state_->total(); }
  bool complete() const override { return state_->received() == state_->total(); }
  absl::Status Write(uint64_t offset, absl::Span<const std::string_view> pieces,
                     std::optional<uint64_t> checksum) override {
    return state_->Write(place_.call, offset, pieces, checksum);
  }
  absl::StatusOr<TensorInfo> Finish() override { return state_->Finish(place_.call); }
  std::shared_ptr<Cancellation> revocation() const override { return place_.revocation; }

 private:
  const std::shared_ptr<UploadState> state_;
  const UploadState::Place place_;
  const TransferSlot slot_;
};

}  // namespace

struct UploadState::Hashes {
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> sha256{EVP_MD_CTX_new()};
  Hashes() { EVP_DigestInit_ex(sha256.get(), EVP_sha256(), nullptr); }
  std::string Digest() {
    std::string digest(32, '\0');
    EVP_DigestFinal_ex(sha256.get(), reinterpret_cast<unsigned char*>(digest.data()), nullptr);
    return digest;
  }
};

std::shared_ptr<UploadState> UploadState::Make(std::shared_ptr<Core> core, std::shared_ptr<Session> session,
                                               uint64_t id, TensorSpec spec, Ref<Tenant> tenant, absl::Time now) {
  auto state = std::shared_ptr<UploadState>(new UploadState());
  Device& device = core->devices.at(spec.device);
  state->total_ = static_cast<uint64_t>(spec.type.bytes());
  auto storage = MakeRef<Storage>(&device, state->total_, tenant->account);
  state->tensor_ = Tensor::Make(std::move(spec), std::move(storage), now);
  state->core_ = std::move(core);
  state->session_ = session;
  state->principal_ = tenant->principal;
  state->id_ = id;
  return state;
}

UploadState::~UploadState() { principal_->upload_bytes.fetch_sub(charged_); }

bool UploadState::attached() const {
  absl::MutexLock lock(&mu_);
  return attached_;
}

uint64_t UploadState::received() const {
  absl::MutexLock lock(&mu_);
  return received_;
}

absl::StatusOr<UploadState::Place> UploadState::Attach(const UploadStart& start, std::optional<NameTable::Gift> gift) {
  std::shared_ptr<Cancellation> replaced;
  absl::StatusOr<Place> place;
  {
    absl::MutexLock lock(&mu_);
    replaced = revocation_;
    place = TakePlace(start, std::move(gift));
  }
  if (place.ok() && replaced) replaced->Cancel(Replaced());
  return place;
}

absl::StatusOr<UploadState::Place> UploadState::TakePlace(const UploadStart& start,
                                                          std::optional<NameTable::Gift> gift) {
  TENSORD_RETURN_IF_ERROR(failure_);
  if (received_ > 0 && start.sha256 != sha256_) {
    return Error(Reason::kFieldInvalid)
        .With("value", "another hash")
        .With("allowed", "the hash that the upload began with")
        .At("start.sha256");
  }
  Storage& storage = *tensor_->storage;
  if (!storage.allocated()) {
    const uint64_t used = principal_->upload_bytes.fetch_add(total_);
    if (used + total_ > core_->upload_limit && total_ > 0) {
      principal_->upload_bytes.fetch_sub(total_);
      return Error(Reason::kQuotaExceeded)
          .With("quota", "upload_bytes")
          .With("used", used)
          .With("limit", core_->upload_limit)
          .With("requested", total_);
    }
    charged_ = total_;
    if (absl::Status status = storage.Allocate(); !status.ok()) {
      principal_->upload_bytes.fetch_sub(std::exchange(charged_, 0));
      return status;
    }
  }
  checksum_ = start.checksum;
  if (received_ == 0) {
    sha256_ = start.sha256;
    hashes_ = sha256_.empty() ? nullptr : std::make_unique<Hashes>();
  }
  gift_ = std::move(gift);
  attached_ = true;
  revocation_ = std::make_shared<Cancellation>();
  return Place{++call_, revocation_};
}

absl::Status UploadState::Incomplete() const {
  return Error(Reason::kUploadIncomplete).With("received", received_).With("total", total_);
}

bool UploadState::GiveUp(const absl::Status& cause) {
  if (done_ || !failure_.ok()) return false;
  failure_ = cause;
  principal_->upload_bytes.fetch_sub(std::exchange(charged_, 0));
  return true;
}

void UploadState::FailTensor(const absl::Status& cause) {
  const ErrorOrigin origin{id_, "upload", 0, 0, tensor_->label, 0};
  tensor_->storage->SetFailed(WithOrigin(cause, origin), 0);
}

void UploadState::Revoke(const absl::Status& cause) {
  std::shared_ptr<Cancellation> revocation;
  {
    absl::MutexLock lock(&mu_);
    revocation = revocation_;
  }
  if (revocation) revocation->Cancel(cause);
}

void UploadState::Detach(uint64_t call) {
  absl::Status cause;
  {
    absl::MutexLock lock(&mu_);
    if (call != call_) return;
    attached_ = false;
    revocation_.reset();
    // With a handle that lives the upload may be resumed.
    if (id_ != 0 && !orphan_) return;
    cause = Incomplete();
    if (!GiveUp(cause)) return;
  }
  FailTensor(cause);
}

void UploadState::Abandon(const absl::Status& cause) {
  {
    absl::MutexLock lock(&mu_);
    if (!GiveUp(cause)) return;
  }
  FailTensor(cause);
  Revoke(cause);
}

void UploadState::Orphan(const absl::Status& cause) {
  absl::MutexLock lock(&mu_);
  orphan_ = true;
  // This and the handle that goes: whoever else waits for the bytes refers to the tensor or to its storage.
  const bool wanted = gift_ || tensor_->references() > 2 || !tensor_->storage->unique();
  if (attached_ && wanted) return;
  const absl::Status why = attached_ ? cause : Incomplete();
  if (!GiveUp(why)) return;
  // The session's mutex is held: who waits is told elsewhere.
  core_->timer.Post([self = shared_from_this(), why] {
    self->FailTensor(why);
    self->Revoke(why);
  });
}

absl::Status UploadState::Replaced() const {
  const std::shared_ptr<Session> session = session_.lock();
  return Error(Reason::kStreamReplaced).With("session", session ? session->id : "");
}

absl::Status UploadState::CheckCall(uint64_t call) const {
  TENSORD_RETURN_IF_ERROR(failure_);
  if (core_->closed.load()) return core_->Draining();
  if (const Device& device = *tensor_->storage->device(); device.lost()) return device.loss();
  if (call == call_) return absl::OkStatus();
  return Replaced();
}

absl::Status UploadState::CopyIn(uint64_t offset, absl::Span<const std::string_view> pieces,
                                 std::optional<uint64_t> checksum) {
  Device& device = *tensor_->storage->device();
  char* target = static_cast<char*>(tensor_->storage->data()) + offset;
  ChunkHash hash(checksum ? checksum_ : Checksum::kNone);
  const bool is_bool = tensor_->spec.type.dtype == Dtype::kBool;
  uint64_t done = 0;
  for (const std::string_view piece : pieces) {
    for (size_t at = 0; at < piece.size(); at += kBlock) {
      const size_t bytes = std::min(kBlock, piece.size() - at);
      const char* from = piece.data() + at;
      if (is_bool) {
        if (const size_t bad = FindBadBool({from, bytes}); bad != std::string_view::npos) {
          return Error(Reason::kDataInvalid)
              .With("expected_bytes", total_)
              .With("got_bytes", total_)
              .With("element", offset + done + bad)
              .Say("why", "a bool is 0 or 1")
              .At("data");
        }
      }
      hash.Update(from, bytes);
      if (device.host_addressable()) std::memcpy(target + done, from, bytes);
      done += bytes;
    }
    if (!device.host_addressable()) {
      TENSORD_RETURN_IF_ERROR(device.Write(target + done - piece.size(), piece.data(), piece.size()));
    }
  }
  // What was copied lies beyond received_ and does not count until it does.
  if (checksum && checksum_ != Checksum::kNone && hash.Value() != *checksum) {
    return Error(Reason::kChecksumMismatch)
        .With("scope", "chunk")
        .With("offset", offset)
        .With("expected", *checksum)
        .With("got", hash.Value());
  }
  return absl::OkStatus();
}

absl::Status UploadState::Write(uint64_t call, uint64_t offset, absl::Span<const std::string_view> pieces,
                                std::optional<uint64_t> checksum) {
  if (const std::shared_ptr<Session> session = session_.lock()) session->Renew(absl::Now());
  uint64_t bytes = 0;
  for (const std::string_view piece : pieces) bytes += piece.size();
  absl::MutexLock lock(&mu_);
  TENSORD_RETURN_IF_ERROR(CheckCall(call));
  if (bytes > core_->limits().max_chunk_bytes) {
    return Error(Reason::kLimitExceeded)
        .With("limit", "max_chunk_bytes")
        .With("value", bytes)
        .With("maximum", core_->limits().max_chunk_bytes)
        .At("data");
  }
  if (offset != received_ || done_) {
    return Error(Reason::kChunkOffset).With("expected", received_).With("got", offset).With("total", total_);
  }
  if (bytes == 0) {
    return Error(Reason::kFieldInvalid).With("value", "empty").With("allowed", "at least one byte").At("data");
  }
  if (bytes > total_ - received_) {
    return Error(Reason::kDataInvalid)
        .With("expected_bytes", total_)
        .With("got_bytes", offset + bytes)
        .Say("why", "the chunk goes past the end")
        .At("data");
  }
  TENSORD_RETURN_IF_ERROR(CopyIn(offset, pieces, checksum));
  if (hashes_) {
    for (const std::string_view piece : pieces) EVP_DigestUpdate(hashes_->sha256.get(), piece.data(), piece.size());
  }
  received_ += bytes;
  return absl::OkStatus();
}

void UploadState::Leave() {
  const std::shared_ptr<Session> session = session_.lock();
  if (!session || id_ == 0) return;
  absl::MutexLock lock(&session->mu);
  const auto it = session->uploads.find(id_);
  if (it != session->uploads.end() && it->second.get() == this) session->uploads.erase(it);
}

absl::StatusOr<TensorInfo> UploadState::Finish(uint64_t call) {
  const std::shared_ptr<UploadState> self = shared_from_this();
  std::optional<NameTable::Gift> gift;
  {
    absl::MutexLock lock(&mu_);
    TENSORD_RETURN_IF_ERROR(CheckCall(call));
    if (received_ != total_) return Error(Reason::kUploadIncomplete).With("received", received_).With("total", total_);
    if (!done_ && hashes_) {
      if (const std::string digest = hashes_->Digest(); digest != sha256_) {
        // Nothing says which bytes are wrong: they are sent again from the start.
        received_ = 0;
        hashes_ = std::make_unique<Hashes>();
        return Error(Reason::kChecksumMismatch)
            .With("scope", "content")
            .With("offset", 0)
            .With("expected", Hex(sha256_))
            .With("got", Hex(digest));
      }
    }
    done_ = true;
    gift = std::exchange(gift_, std::nullopt);
    principal_->upload_bytes.fetch_sub(std::exchange(charged_, 0));
  }
  // Before the bytes can be seen, so that a reader who was told of them finds no upload any more.
  Leave();
  tensor_->storage->SetReady();
  if (gift) {
    gift->what = {tensor_, {}};
    absl::StatusOr<std::vector<int64_t>> versions = core_->names.Publish({*std::move(gift)});
    if (!versions.ok()) return versions.status();
  }
  return core_->Info(*tensor_, id_);
}

absl::Status TransferSlot::Check(const Session* session, const Limits& limits) {
  if (session == nullptr) return absl::OkStatus();
  const uint32_t used = session->transfers.load();
  if (used < limits.max_transfers) return absl::OkStatus();
  return Error(Reason::kQuotaExceeded)
      .With("quota", "transfers")
      .With("used", used)
      .With("limit", limits.max_transfers)
      .With("requested", 1);
}

absl::StatusOr<std::unique_ptr<UploadSink>> StartUpload(const std::shared_ptr<Core>& core, const Caller& caller,
                                                        const UploadStart& start) {
  TENSORD_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, core->Enter(caller));
  TENSORD_ASSIGN_OR_RETURN(TensorSpec spec, core->CheckSpec(start.spec, "start"));
  if (IsComplex(spec.type.dtype)) {
    return Error(Reason::kOpUnsupported)
        .With("op", "upload")
        .With("dtype", DtypeName(spec.type.dtype))
        .With("device", "any device")
        .With("supported", KnownDtypes());
  }
  if (!start.sha256.empty() && start.sha256.size() != 32) {
    return Error(Reason::kFieldInvalid)
        .With("value", StrCat(start.sha256.size(), " bytes"))
        .With("allowed", "32 bytes, or none")
        .At("start.sha256");
  }
  std::optional<NameTable::Gift> gift;
  if (start.publish) {
    const PublishRequest& publish = *start.publish;
    TENSORD_RETURN_IF_ERROR(core->CheckTtl(publish, "start.publish."));
    const absl::StatusOr<std::string> full = core->names.Qualify(publish.name, core->WorkspaceOf(session.get()));
    if (!full.ok()) return AtPath(full.status(), "start.publish.");
    gift.emplace();
    gift->full = *full;
    gift->replace = publish.replace;
    gift->if_version = publish.if_version;
    gift->principal = caller.principal;
    if (publish.ttl) {
      gift->expire = absl::Now() + *publish.ttl;
      core->SweepBy(gift->expire);
    }
    TENSORD_RETURN_IF_ERROR(core->names.CheckFree(*gift));
  }
  if (start.id == 0) {
    if (!gift) {
      return Error(Reason::kFieldInvalid).With("value", 0).With("allowed", "a handle, or publish").At("start.id");
    }
    TENSORD_RETURN_IF_ERROR(TransferSlot::Check(session.get(), core->limits()));
    const Ref<Tenant> tenant = session ? session->tenant : core->MakeTenant(caller.principal, "");
    const auto state = UploadState::Make(core, session, 0, std::move(spec), tenant, absl::Now());
    TENSORD_ASSIGN_OR_RETURN(UploadState::Place place, state->Attach(start, std::move(gift)));
    return std::make_unique<LocalSink>(state, std::move(place), TransferSlot(session));
  }
  if (!session) return Error(Reason::kSessionRequired).With("field", "start.id");

  std::shared_ptr<UploadState> state;
  bool made = false;
  {
    absl::MutexLock lock(&session->mu);
    if (session->ended) return session->end_cause;
    const auto it = session->uploads.find(start.id);
    if (it != session->uploads.end() && it->second->tensor()->spec == spec) {
      state = it->second;
    } else {
      TENSORD_RETURN_IF_ERROR(session->table.CheckNew(start.id));
    }
    if (!state || !state->attached()) {
      TENSORD_RETURN_IF_ERROR(TransferSlot::Check(session.get(), core->limits()));
    }
    if (!state) {
      Principal& principal = *session->tenant->principal;
      if (principal.handles.load() >= core->limits().max_handles) {
        return Error(Reason::kQuotaExceeded)
            .With("quota", "handles")
            .With("used", principal.handles.load())
            .With("limit", core->limits().max_handles)
            .With("requested", 1);
      }
      made = true;
      state = UploadState::Make(core, session, start.id, std::move(spec), session->tenant, absl::Now());
      principal.handles.fetch_add(1);
      session->table.Insert(start.id, {state->tensor(), {}});
      session->uploads.emplace(start.id, state);
      session->unjoined.insert(start.id);
    }
  }
  absl::StatusOr<UploadState::Place> place = state->Attach(start, std::move(gift));
  if (!place.ok()) {
    if (made) {
      // As if it had never been: the same call may succeed later.
      absl::MutexLock lock(&session->mu);
      const Handle* handle = session->table.Find(start.id);
      if (handle != nullptr && handle->tensor == state->tensor()) {
        session->tenant->principal->handles.fetch_sub(1);
        session->table.Withdraw(start.id);
        session->uploads.erase(start.id);
        session->unjoined.erase(start.id);
      }
      state->Abandon(place.status());
    }
    return place.status();
  }
  return std::make_unique<LocalSink>(state, *std::move(place), TransferSlot(session));
}

}  // namespace tensord
