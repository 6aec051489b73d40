#include "server/engine/model_build.h"

#include <algorithm>
#include <utility>

#include "kernels/core/error.h"
#include "server/engine/stream.h"

namespace tensord {

absl::StatusOr<std::vector<Device*>> ModelBuild::FindDevices(const std::vector<std::string>& names) const {
  std::vector<Device*> devices;
  for (const std::string& name : names) {
    TENSORD_ASSIGN_OR_RETURN(Device * device, core_->devices.Find(name));
    if (device->lost()) return device->loss();
    if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
  }
  return devices;
}

absl::StatusOr<std::vector<Ref<Tensor>>> ModelBuild::GivenParameters(
    const Model& model, const std::map<std::string, TensorRef>& given) const {
  const std::vector<ParameterSpec>& specs = model.compiled().parameters;
  std::vector<Ref<Tensor>> tensors(specs.size());
  for (const auto& [path, ref] : given) {
    TENSORD_ASSIGN_OR_RETURN(const size_t index, model.ParameterIndex(path, "of these layers"));
    absl::StatusOr<Ref<Tensor>> tensor = core_->Resolve(ref, session_.get());
    if (!tensor.ok()) return AtPath(tensor.status(), StrCat("parameters[\"", path, "\"]."));
    if ((*tensor)->failed()) return AddDistance((*tensor)->error(), 1);
    if ((*tensor)->spec.type != specs[index].type) {
      return Error(Reason::kArgumentMismatch)
          .With("name", path)
          .With("problem", "has another dtype or shape")
          .With("expected", specs[index].type.ToString())
          .With("got", (*tensor)->spec.type.ToString())
          .At(StrCat("parameters[\"", path, "\"]"));
    }
    tensors[index] = *std::move(tensor);
  }
  return tensors;
}

absl::StatusOr<Ref<Tensor>> ModelBuild::Initialize(const ParameterSpec& parameter, Device& device, Generator::Draw draw,
                                                   Planner& planner) const {
  auto program = std::make_shared<Program>(parameter.init);
  for (Instruction& instruction : program->instructions) {
    auto* create = std::get_if<CreateAttributes>(&instruction.attributes);
    if (create == nullptr) continue;
    if (create->spec.device.empty()) create->spec.device = device.name();
    if ((instruction.op == Op::kRand || instruction.op == Op::kRandn) && !create->seed) {
      create->seed = draw.seed;
      create->seed_offset = draw.offset;
      draw.offset += static_cast<uint64_t>(create->spec.type.elements());
    }
  }
  TENSORD_ASSIGN_OR_RETURN(const std::vector<Ref<Tensor>> outputs, planner.PlanProgram(*program, program, {}, {}, {}));
  // Whatever the program made it by, the parameter is dense: kernels read it again and again.
  Ref<Tensor> tensor = planner.Contiguous(outputs[0]);
  if (tensor->label.empty()) tensor->label = parameter.path;
  return tensor;
}

Ref<Batch> ModelBuild::NewBatch() {
  const Ref<Tenant> tenant = session_ ? session_->tenant : core_->MakeTenant(caller_.principal, "");
  batch_ = MakeRef<Batch>(tenant, absl::Now());
  batch_->on_done = [self = Ref<ModelBuild>(this)] { self->CountDown(); };
  return batch_;
}

void ModelBuild::Create(CreateModelRequest request, absl::StatusOr<std::shared_ptr<Session>> session) {
  if (!session.ok()) return Answer(session.status());
  session_ = *std::move(session);
  absl::StatusOr<CompiledModel> compiled = CompileLayers(request.layers, core_->limits());
  if (!compiled.ok()) return Answer(compiled.status());
  auto shared = std::make_shared<const CompiledModel>(*std::move(compiled));
  model_ = MakeRef<Model>(std::move(shared), std::make_shared<const std::vector<Replica>>(), absl::Now());
  absl::Status status;
  {
    absl::MutexLockMaybe lock(session_ ? &session_->mu : nullptr);
    status = session_ && session_->ended ? session_->end_cause : PlanCreate(request);
  }
  if (!status.ok()) {
    if (batch_) batch_->Discard();
    return Answer(status);
  }
  Await();
}

absl::Status ModelBuild::PlanCreate(const CreateModelRequest& request) {
  if (request.id == 0 && request.name.empty()) {
    return Error(Reason::kFieldInvalid).With("value", 0).With("allowed", "a handle, or a name").At("id");
  }
  if (request.id != 0) {
    if (!session_) return Error(Reason::kSessionRequired).With("field", "id");
    TENSORD_RETURN_IF_ERROR(session_->table.CheckNew(request.id));
    const uint64_t used = session_->tenant->principal->handles.load();
    if (used >= core_->limits().max_handles) {
      return Error(Reason::kQuotaExceeded)
          .With("quota", "handles")
          .With("used", used)
          .With("limit", core_->limits().max_handles)
          .With("requested", 1);
    }
  }
  if (!request.name.empty()) {
    gift_.emplace();
    TENSORD_ASSIGN_OR_RETURN(gift_->full, core_->names.Qualify(request.name, core_->WorkspaceOf(session_.get())));
    gift_->what = {{}, model_};
    gift_->replace = request.replace;
    gift_->principal = caller_.principal;
    TENSORD_RETURN_IF_ERROR(core_->names.CheckFree(*gift_));
  }
  const std::vector<std::string> kCpu = {"cpu"};
  TENSORD_ASSIGN_OR_RETURN(const std::vector<Device*> devices,
                           FindDevices(request.devices.empty() ? kCpu : request.devices));
  TENSORD_ASSIGN_OR_RETURN(const std::vector<Ref<Tensor>> given, GivenParameters(*model_, request.parameters));

  Generator& generator = session_ ? session_->generator : core_->generator;
  const Ref<Batch> batch = NewBatch();
  Planner planner(*core_, {session_.get(), batch->tenant(), &generator}, batch);
  const std::vector<ParameterSpec>& specs = model_->compiled().parameters;
  uint64_t draws = 0;
  for (const ParameterSpec& spec : specs) draws += spec.draws;
  Generator::Draw draw = request.seed ? Generator::Draw{*request.seed, 0} : generator.Take(draws);
  auto replicas = std::make_shared<std::vector<Replica>>();
  for (Device* device : devices) replicas->push_back({device, {}});
  for (size_t i = 0; i < specs.size(); ++i) {
    Ref<Tensor> first = given[i];
    if (!first) {
      TENSORD_ASSIGN_OR_RETURN(first, Initialize(specs[i], *devices[0], draw, planner));
    }
    // Its place in the sequence is a parameter's own, whether it is drawn or given.
    draw.offset += specs[i].draws;
    for (Replica& replica : *replicas) replica.parameters.push_back(planner.MoveTo(first, *replica.device));
  }
  replicas_ = std::move(replicas);
  model_->SetReplicas(replicas_);
  if (request.id != 0) {
    id_ = request.id;
    created_ = true;
    session_->tenant->principal->handles.fetch_add(1);
    session_->table.Insert(request.id, {{}, model_});
  }
  planner.Finish();
  planner.Submit();
  return absl::OkStatus();
}

void ModelBuild::Update(UpdateModelRequest request, absl::StatusOr<std::shared_ptr<Session>> session) {
  if (!session.ok()) return Answer(session.status());
  session_ = *std::move(session);
  absl::Status status;
  {
    absl::MutexLockMaybe lock(session_ ? &session_->mu : nullptr);
    status = session_ && session_->ended ? session_->end_cause : PlanUpdate(request);
  }
  if (!status.ok()) {
    if (batch_) batch_->Discard();
    return Answer(status);
  }
  Await();
}

absl::Status ModelBuild::PlanUpdate(const UpdateModelRequest& request) {
  TENSORD_ASSIGN_OR_RETURN(model_, core_->Resolve(request.model, session_.get()));
  id_ = request.model.id;
  const Model::Replicas old = model_->replicas();
  TENSORD_ASSIGN_OR_RETURN(std::vector<Device*> devices, FindDevices(request.devices));
  if (devices.empty()) {
    for (const Replica& replica : *old) devices.push_back(replica.device);
  }
  TENSORD_ASSIGN_OR_RETURN(const std::vector<Ref<Tensor>> given, GivenParameters(*model_, request.parameters));
  const Ref<Batch> batch = NewBatch();
  Planner planner(*core_, {session_.get(), batch->tenant(), nullptr}, batch);
  auto replicas = std::make_shared<std::vector<Replica>>();
  for (Device* device : devices) {
    const auto there =
        std::find_if(old->begin(), old->end(), [&](const Replica& replica) { return replica.device == device; });
    const Replica& source = there == old->end() ? old->front() : *there;
    Replica& replica = replicas->emplace_back();
    replica.device = device;
    for (size_t i = 0; i < source.parameters.size(); ++i) {
      const Ref<Tensor>& from = given[i] ? given[i] : source.parameters[i];
      if (from->failed()) return AddDistance(from->error(), 1);
      replica.parameters.push_back(planner.MoveTo(from, *device));
    }
  }
  replicas_ = std::move(replicas);
  planner.Finish();
  planner.Submit();
  return absl::OkStatus();
}

void ModelBuild::Await() {
  const Ref<ModelBuild> self(this);
  for (const Replica& replica : *replicas_) waiting_.fetch_add(static_cast<int64_t>(replica.parameters.size()));
  for (const Replica& replica : *replicas_) {
    for (const Ref<Tensor>& parameter : replica.parameters) {
      parameter->storage->OnDone([self] { self->CountDown(); });
    }
  }
  batch_->Close();
}

void ModelBuild::CountDown() {
  if (waiting_.fetch_sub(1) == 1) Finish();
}

void ModelBuild::Finish() {
  absl::Status status;
  for (const Replica& replica : *replicas_) {
    for (const Ref<Tensor>& parameter : replica.parameters) {
      if (status.ok() && parameter->failed()) status = parameter->error();
    }
  }
  if (status.ok() && !created_ && !gift_) {
    model_->SetReplicas(replicas_);
    core_->names.Recharge(model_);
  }
  if (status.ok() && gift_) status = core_->names.Publish({*std::move(gift_)}).status();
  if (status.ok()) return Answer(core_->Info(*model_, id_, false));
  if (!created_) return Answer(status);
  // Taking the handle back needs the session's mutex, which this thread may have to leave alone.
  core_->timer.Post([self = Ref<ModelBuild>(this), status] {
    {
      std::optional<Handle> freed;  // freed without the mutex
      absl::MutexLock lock(&self->session_->mu);
      const Handle* handle = self->session_->table.Find(self->id_);
      if (handle != nullptr && handle->model == self->model_) freed = FreeHandle(*self->session_, self->id_);
    }
    self->Answer(status);
  });
}

void ModelBuild::Answer(absl::StatusOr<ModelInfo> info) {
  Done<ModelInfo> done = std::move(done_);
  // Who has the answer finds nothing held by this call any more.
  replicas_.reset();
  model_.reset();
  gift_.reset();
  done(std::move(info));
}

}  // namespace tensord
