// Tensors that exist: transfers, names, lists.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "kernels/core/error.h"
#include "server/engine/engine_impl.h"
#include "server/engine/stream.h"
#include "server/engine/upload.h"

namespace tensord {
namespace {

absl::Status BadToken() {
  return Error(Reason::kFieldInvalid)
      .With("value", "no token of ours")
      .With("allowed", "next_page_token")
      .At("page_token");
}

// Bytes that go when the caller's reference, the last one, does.
uint64_t BytesAlone(const Handle& handle) {
  if (handle.model) return handle.model->unique() ? handle.model->bytes() : 0;
  const Tensor& tensor = *handle.tensor;
  return tensor.unique() && tensor.storage->unique() && tensor.storage->allocated() ? tensor.storage->bytes() : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UploadSink>> EngineImpl::Upload(const Caller& caller, const UploadStart& start) {
  return StartUpload(core_, caller, start);
}

void EngineImpl::Download(const Caller& caller, const DownloadRequest& request,
                          Done<std::unique_ptr<DownloadSource>> done) {
  absl::StatusOr<RequestSlot> slot = RequestSlot::Take(*core_, caller.principal);
  if (!slot.ok()) return done(slot.status());
  StartDownload(core_, caller, request,
                [slot = *std::move(slot),
                 done = std::move(done)](absl::StatusOr<std::unique_ptr<DownloadSource>> source) mutable {
                  slot.reset();
                  done(std::move(source));
                });
}

absl::StatusOr<TensorInfo> EngineImpl::GetTensor(const Caller& caller, const TensorRef& ref) {
  TENSORD_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, core_->Enter(caller));
  Ref<Tensor> tensor;
  {
    absl::MutexLockMaybe lock(session ? &session->mu : nullptr);
    TENSORD_ASSIGN_OR_RETURN(tensor, core_->Resolve(ref, session.get()));
  }
  const auto* id = std::get_if<uint64_t>(&ref.ref);
  return core_->Info(*tensor, id ? *id : 0);
}

absl::StatusOr<ListTensorsResponse> EngineImpl::ListTensors(const Caller& caller, const ListTensorsRequest& request) {
  TENSORD_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, core_->Enter(caller));
  const size_t size = core_->PageSize(request.page);
  ListTensorsResponse response;
  if (request.handles) {
    if (!session) return Error(Reason::kSessionRequired).With("field", "handles");
    uint64_t after = 0;
    if (!request.page.page_token.empty() && !absl::SimpleAtoi(request.page.page_token, &after)) return BadToken();
    std::vector<std::pair<uint64_t, Ref<Tensor>>> page;
    bool more = false;
    {
      absl::MutexLock lock(&session->mu);
      // Models lie between tensors: pages of ids until there are enough.
      for (std::vector<uint64_t> ids = session->table.Page(after, size + 1); !ids.empty() && !more;
           ids = session->table.Page(ids.back(), size + 1)) {
        for (const uint64_t id : ids) {
          const Handle* handle = session->table.Find(id);
          if (!handle->tensor) continue;
          more = page.size() == size;
          if (more) break;
          page.emplace_back(id, handle->tensor);
        }
      }
    }
    for (const auto& [id, tensor] : page) response.tensors.push_back(core_->Info(*tensor, id));
    if (more) response.next_page_token = StrCat(page.back().first);
    return response;
  }
  const std::string workspace = request.workspace.empty() ? core_->WorkspaceOf(session.get()) : request.workspace;
  TENSORD_RETURN_IF_ERROR(core_->names.CheckWorkspace(workspace));
  auto page = core_->names.Page(workspace, request.prefix, request.page.page_token, size + 1, /*models=*/false);
  const bool more = page.size() > size;
  if (more) page.pop_back();
  for (const auto& [name, entry] : page) {
    TensorInfo& info = response.tensors.emplace_back(core_->Info(*entry.what.tensor, 0));
    // The name that is listed comes first, and its end is what is told.
    std::stable_partition(info.names.begin(), info.names.end(), [&](const std::string& n) { return n == name; });
    info.expire_time.reset();
    if (entry.expire != absl::InfiniteFuture()) info.expire_time = entry.expire;
  }
  if (more) response.next_page_token = page.back().first;
  return response;
}

absl::StatusOr<PublishResponse> EngineImpl::Publish(const Caller& caller, const PublishRequest& request) {
  TENSORD_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, core_->Enter(caller));
  TENSORD_RETURN_IF_ERROR(core_->CheckTtl(request, ""));
  NameTable::Gift gift;
  TENSORD_ASSIGN_OR_RETURN(gift.full, core_->names.Qualify(request.name, core_->WorkspaceOf(session.get())));
  gift.replace = request.replace;
  gift.if_version = request.if_version;
  gift.principal = caller.principal;
  if (request.ttl) gift.expire = absl::Now() + *request.ttl;
  {
    absl::MutexLockMaybe lock(session ? &session->mu : nullptr);
    if (const auto* tensor = std::get_if<TensorRef>(&request.source)) {
      TENSORD_ASSIGN_OR_RETURN(gift.what.tensor, core_->Resolve(*tensor, session.get()));
      if (gift.what.tensor->failed()) return AddDistance(gift.what.tensor->error(), 1);
    } else if (const auto* model = std::get_if<ModelRef>(&request.source)) {
      TENSORD_ASSIGN_OR_RETURN(gift.what.model, core_->Resolve(*model, session.get()));
    } else {
      return Error(Reason::kFieldInvalid).With("value", "absent").With("allowed", "tensor or model").At("source");
    }
  }
  const std::string full = gift.full;
  const absl::Time expire = gift.expire;
  TENSORD_ASSIGN_OR_RETURN(const std::vector<int64_t> versions, core_->names.Publish({std::move(gift)}));
  if (expire != absl::InfiniteFuture()) core_->SweepBy(expire);
  return PublishResponse{full, versions[0]};
}

absl::StatusOr<DeleteTensorsResponse> EngineImpl::DeleteTensors(const Caller& caller,
                                                                const DeleteTensorsRequest& request) {
  TENSORD_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, core_->Enter(caller));
  if (request.tensors.size() > core_->limits().max_page_size) {
    return Error(Reason::kLimitExceeded)
        .With("limit", "max_page_size")
        .With("value", request.tensors.size())
        .With("maximum", core_->limits().max_page_size)
        .At("tensors");
  }
  std::vector<std::string> names;
  std::vector<uint64_t> ids;
  std::vector<Handle> gone;  // freed without a mutex
  {
    absl::MutexLockMaybe lock(session ? &session->mu : nullptr);
    for (size_t i = 0; i < request.tensors.size(); ++i) {
      const TensorRef& ref = request.tensors[i];
      const std::string path = StrCat("tensors[", i, "]");
      if (const auto* name = std::get_if<std::string>(&ref.ref)) {
        const absl::StatusOr<std::string> full = core_->names.Qualify(*name, core_->WorkspaceOf(session.get()));
        if (!full.ok()) return AtPath(full.status(), StrCat(path, "."));
        names.push_back(*full);
        continue;
      }
      const auto* id = std::get_if<uint64_t>(&ref.ref);
      if (id == nullptr) {
        return Error(Reason::kFieldInvalid)
            .With("value", std::holds_alternative<std::monostate>(ref.ref) ? "absent" : "a parameter")
            .With("allowed", "id or name")
            .At(path);
      }
      const absl::StatusOr<Ref<Tensor>> tensor = core_->Resolve(ref, session.get());
      if (tensor.ok()) {
        ids.push_back(*id);
      } else if (!request.allow_missing || ReasonOf(tensor.status()) != Reason::kHandleUnknown) {
        return tensor.status();
      }
    }
    // Names first: what may still be refused is refused before a handle goes.
    TENSORD_ASSIGN_OR_RETURN(gone, core_->names.Remove(names, /*model=*/false, request.allow_missing));
    for (const uint64_t id : ids) {
      if (std::optional<Handle> handle = FreeHandle(*session, id)) gone.push_back(*std::move(handle));
    }
    if (session) PokeLanes(*core_, *session->tenant);
  }
  DeleteTensorsResponse response;
  response.deleted = gone.size();
  for (Handle& handle : gone) {
    response.freed_bytes += BytesAlone(handle);
    handle = Handle();
  }
  // What waited behind work that nobody wants any more has been looked at with the handles still held.
  if (session) {
    absl::MutexLock lock(&session->mu);
    PokeLanes(*core_, *session->tenant);
  }
  return response;
}

}  // namespace tensord
