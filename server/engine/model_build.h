// CreateModel and UpdateModel: parameters are made or moved on the devices, then the model takes them, all or nothing.
#pragma once

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/core.h"
#include "server/engine/planner.h"

namespace tensord {

// One call; keeps itself alive until it has answered. The model may be used while its parameters are still being made:
// what uses it waits.
class ModelBuild : public RefCounted<ModelBuild> {
 public:
  ModelBuild(std::shared_ptr<Core> core, Caller caller, Done<ModelInfo> done)
      : core_(std::move(core)), caller_(std::move(caller)), done_(std::move(done)) {}

  void Create(CreateModelRequest request, absl::StatusOr<std::shared_ptr<Session>> session);
  void Update(UpdateModelRequest request, absl::StatusOr<std::shared_ptr<Session>> session);

 private:
  absl::Status PlanCreate(const CreateModelRequest& request);
  absl::Status PlanUpdate(const UpdateModelRequest& request);
  absl::StatusOr<std::vector<Device*>> FindDevices(const std::vector<std::string>& names) const;
  // Parameters that the request gives, by position; null where it gives none. Errors: PARAMETER_UNKNOWN,
  // ARGUMENT_MISMATCH.
  absl::StatusOr<std::vector<Ref<Tensor>>> GivenParameters(const Model& model,
                                                           const std::map<std::string, TensorRef>& given) const;
  absl::StatusOr<Ref<Tensor>> Initialize(const ParameterSpec& parameter, Device& device, Generator::Draw draw,
                                         Planner& planner) const;
  Ref<Batch> NewBatch();
  // Waits for all parameters; then Finish.
  void Await();
  void CountDown();
  void Finish();
  void Answer(absl::StatusOr<ModelInfo> info);

  const std::shared_ptr<Core> core_;
  const Caller caller_;
  Done<ModelInfo> done_;
  std::shared_ptr<Session> session_;
  Ref<Batch> batch_;
  Ref<Model> model_;
  Model::Replicas replicas_;  // to be
  uint64_t id_ = 0;
  bool created_ = false;
  std::optional<NameTable::Gift> gift_;
  std::atomic<int64_t> waiting_{1};
};

}  // namespace tensord
