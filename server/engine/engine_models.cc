// Models that exist.
#include <utility>

#include "absl/strings/numbers.h"
#include "kernels/core/error.h"
#include "server/engine/engine_impl.h"
#include "server/engine/model_build.h"
#include "server/engine/stream.h"

namespace tensord {
namespace {

absl::StatusOr<Done<ModelInfo>> Counted(Core& core, const Caller& caller, Done<ModelInfo>& done) {
  TENSORD_ASSIGN_OR_RETURN(RequestSlot slot, RequestSlot::Take(core, caller.principal));
  return Done<ModelInfo>([slot = std::move(slot), done = std::move(done)](absl::StatusOr<ModelInfo> info) mutable {
    slot.reset();
    done(std::move(info));
  });
}

}  // namespace

void EngineImpl::CreateModel(const Caller& caller, CreateModelRequest request, Done<ModelInfo> done) {
  absl::StatusOr<Done<ModelInfo>> counted = Counted(*core_, caller, done);
  if (!counted.ok()) return done(counted.status());
  auto build = MakeRef<ModelBuild>(core_, caller, *std::move(counted));
  core_->EnterAsync(caller, [build, request = std::move(request)](absl::StatusOr<std::shared_ptr<Session>> s) mutable {
    build->Create(std::move(request), std::move(s));
  });
}

void EngineImpl::UpdateModel(const Caller& caller, UpdateModelRequest request, Done<ModelInfo> done) {
  absl::StatusOr<Done<ModelInfo>> counted = Counted(*core_, caller, done);
  if (!counted.ok()) return done(counted.status());
  auto build = MakeRef<ModelBuild>(core_, caller, *std::move(counted));
  core_->EnterAsync(caller, [build, request = std::move(request)](absl::StatusOr<std::shared_ptr<Session>> s) mutable {
    build->Update(std::move(request), std::move(s));
  });
}

absl::StatusOr<ModelInfo> EngineImpl::GetModel(const Caller& caller, const ModelRef& ref, bool with_program) {
  TENSORD_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, core_->Enter(caller));
  Ref<Model> model;
  {
    absl::MutexLockMaybe lock(session ? &session->mu : nullptr);
    TENSORD_ASSIGN_OR_RETURN(model, core_->Resolve(ref, session.get()));
  }
  return core_->Info(*model, ref.id, with_program);
}

absl::StatusOr<ListModelsResponse> EngineImpl::ListModels(const Caller& caller, const ListModelsRequest& request) {
  TENSORD_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, core_->Enter(caller));
  const size_t size = core_->PageSize(request.page);
  const std::string& token = request.page.page_token;
  ListModelsResponse response;
  const auto add = [&](const Model& model, uint64_t id) {
    ModelInfo& info = response.models.emplace_back(core_->Info(model, id, false));
    info.parameters.clear();
  };
  if (request.handles) {
    if (!session) return Error(Reason::kSessionRequired).With("field", "handles");
    uint64_t after = 0;
    if (!token.empty() && !absl::SimpleAtoi(token, &after)) {
      return Error(Reason::kFieldInvalid)
          .With("value", "no token of ours")
          .With("allowed", "next_page_token")
          .At("page_token");
    }
    std::vector<std::pair<uint64_t, Ref<Model>>> page;
    bool more = false;
    {
      absl::MutexLock lock(&session->mu);
      for (std::vector<uint64_t> ids = session->table.Page(after, size + 1); !ids.empty() && !more;
           ids = session->table.Page(ids.back(), size + 1)) {
        for (const uint64_t id : ids) {
          const Handle* handle = session->table.Find(id);
          if (!handle->model) continue;
          more = page.size() == size;
          if (more) break;
          page.emplace_back(id, handle->model);
        }
      }
    }
    for (const auto& [id, model] : page) add(*model, id);
    if (more) response.next_page_token = StrCat(page.back().first);
    return response;
  }
  const std::string workspace = request.workspace.empty() ? core_->WorkspaceOf(session.get()) : request.workspace;
  TENSORD_RETURN_IF_ERROR(core_->names.CheckWorkspace(workspace));
  auto page = core_->names.Page(workspace, "", token, size + 1, /*models=*/true);
  const bool more = page.size() > size;
  if (more) page.pop_back();
  for (const auto& [name, entry] : page) add(*entry.what.model, 0);
  if (more) response.next_page_token = page.back().first;
  return response;
}

absl::StatusOr<uint64_t> EngineImpl::DeleteModel(const Caller& caller, const ModelRef& ref) {
  TENSORD_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, core_->Enter(caller));
  Handle gone;
  {
    absl::MutexLockMaybe lock(session ? &session->mu : nullptr);
    TENSORD_ASSIGN_OR_RETURN(const Ref<Model> model, core_->Resolve(ref, session.get()));
    if (ref.id != 0) {
      if (std::optional<Handle> handle = FreeHandle(*session, ref.id)) gone = *std::move(handle);
    } else {
      TENSORD_ASSIGN_OR_RETURN(const std::string full,
                               core_->names.Qualify(ref.name, core_->WorkspaceOf(session.get())));
      TENSORD_ASSIGN_OR_RETURN(std::vector<Handle> removed, core_->names.Remove({full}, /*model=*/true, false));
      if (!removed.empty()) gone = std::move(removed[0]);
    }
  }
  return gone.model && gone.model->unique() ? gone.model->bytes() : 0;
}

}  // namespace tensord
