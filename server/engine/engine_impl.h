// LocalEngine as it is: each call of the interface, put together from the parts. Not for others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/engine/core.h"
#include "server/engine/local_engine.h"

namespace tensord {

class EngineImpl final : public LocalEngine {
 public:
  explicit EngineImpl(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ~EngineImpl() override { Shutdown(absl::ZeroDuration()); }

  void Shutdown(absl::Duration grace) override;
  Counts CountAlive() const override;
  uint64_t incarnation() const override { return core_->incarnation; }

  absl::StatusOr<OpenSessionResponse> OpenSession(const Caller& caller, const OpenSessionRequest& request) override;
  absl::StatusOr<KeepAliveResponse> KeepAlive(const Caller& caller) override;
  absl::StatusOr<FreedSession> CloseSession(const Caller& caller) override;
  absl::StatusOr<ListSessionsResponse> ListSessions(const Caller& caller, const PageRequest& page) override;
  absl::StatusOr<FreedSession> KillSession(const Caller& caller, const std::string& session) override;

  absl::StatusOr<ListDevicesResponse> ListDevices(const Caller& caller, const std::vector<std::string>& devices,
                                                  bool with_holders) override;
  absl::StatusOr<uint64_t> TrimMemory(const Caller& caller, const std::vector<std::string>& devices) override;

  void Execute(const Caller& caller, ExecuteRequest request, Done<ExecuteResponse> done) override;
  absl::StatusOr<std::unique_ptr<InstructionStream>> OpenStream(const Caller& caller,
                                                                std::shared_ptr<StreamListener> listener) override;
  absl::StatusOr<RegisterProgramResponse> RegisterProgram(const Caller& caller, uint64_t id, Program program) override;
  absl::Status UnregisterProgram(const Caller& caller, uint64_t id) override;
  absl::StatusOr<std::vector<OpDescription>> ListOps(const Caller& caller, const std::string& prefix) override;

  absl::StatusOr<std::unique_ptr<UploadSink>> Upload(const Caller& caller, const UploadStart& start) override;
  void Download(const Caller& caller, const DownloadRequest& request,
                Done<std::unique_ptr<DownloadSource>> done) override;
  absl::StatusOr<TensorInfo> GetTensor(const Caller& caller, const TensorRef& tensor) override;
  absl::StatusOr<ListTensorsResponse> ListTensors(const Caller& caller, const ListTensorsRequest& request) override;
  absl::StatusOr<PublishResponse> Publish(const Caller& caller, const PublishRequest& request) override;
  absl::StatusOr<DeleteTensorsResponse> DeleteTensors(const Caller& caller,
                                                      const DeleteTensorsRequest& request) override;

  void CreateModel(const Caller& caller, CreateModelRequest request, Done<ModelInfo> done) override;
  absl::StatusOr<ModelInfo> GetModel(const Caller& caller, const ModelRef& model, bool with_program) override;
  absl::StatusOr<ListModelsResponse> ListModels(const Caller& caller, const ListModelsRequest& request) override;
  void UpdateModel(const Caller& caller, UpdateModelRequest request, Done<ModelInfo> done) override;
  absl::StatusOr<uint64_t> DeleteModel(const Caller& caller, const ModelRef& model) override;

 private:
  absl::StatusOr<OpenSessionResponse> ResumeSession(const Caller& caller, const OpenSessionRequest& request);
  OpenSessionResponse Describe(Session& session, bool resumed);
  absl::StatusOr<std::vector<Device*>> FindDevices(const std::vector<std::string>& names) const;

  const std::shared_ptr<Core> core_;
  absl::Mutex shutdown_mu_;
  bool shut_down_ ABSL_GUARDED_BY(shutdown_mu_) = false;
};

}  // namespace tensord
