// tensord.v1.Models.
#include "kernels/core/error.h"
#include "proto/wire/convert_model.h"
#include "server/rpc/services.h"
#include "tensord/v1/model.grpc.pb.h"

namespace tensord::rpc {
namespace {

class ModelsService final : public v1::Models::CallbackService {
 public:
  explicit ModelsService(Services& services) : services_(services) {}

  grpc::ServerUnaryReactor* CreateModel(grpc::CallbackServerContext* context, const v1::CreateModelRequest* request,
                                        v1::CreateModelResponse* response) override {
    return AnswerLater(services_, context, "Models/CreateModel", [this, request, response](UnaryAnswer answer) {
      absl::StatusOr<CreateModelRequest> create = wire::FromProto(*request);
      if (!create.ok()) return answer.Finish(create.status());
      const Caller caller = answer.caller();
      services_.engine.CreateModel(caller, *std::move(create),
                                   [response, answer = std::move(answer)](absl::StatusOr<ModelInfo> model) mutable {
                                     if (model.ok()) *response = wire::CreateModelResponseToProto(*model);
                                     answer.Finish(model.status());
                                   });
    });
  }

  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context, const v1::GetModelRequest* request,
                                     v1::GetModelResponse* response) override {
    return AnswerNow(services_, context, "Models/GetModel",
                     [this, request, response](const Caller& caller) -> absl::Status {
                       TENSORD_ASSIGN_OR_RETURN(const wire::GetModelRequest get, wire::FromProto(*request));
                       TENSORD_ASSIGN_OR_RETURN(const ModelInfo model,
                                                services_.engine.GetModel(caller, get.model, get.with_program));
                       *response = wire::GetModelResponseToProto(model);
                       return absl::OkStatus();
                     });
  }

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override {
    return AnswerNow(
        services_, context, "Models/ListModels", [this, request, response](const Caller& caller) -> absl::Status {
          TENSORD_ASSIGN_OR_RETURN(const ListModelsRequest list, wire::FromProto(*request));
          TENSORD_ASSIGN_OR_RETURN(const ListModelsResponse models, services_.engine.ListModels(caller, list));
          *response = wire::ToProto(models);
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* UpdateModel(grpc::CallbackServerContext* context, const v1::UpdateModelRequest* request,
                                        v1::UpdateModelResponse* response) override {
    return AnswerLater(services_, context, "Models/UpdateModel", [this, request, response](UnaryAnswer answer) {
      absl::StatusOr<UpdateModelRequest> update = wire::FromProto(*request);
      if (!update.ok()) return answer.Finish(update.status());
      const Caller caller = answer.caller();
      services_.engine.UpdateModel(caller, *std::move(update),
                                   [response, answer = std::move(answer)](absl::StatusOr<ModelInfo> model) mutable {
                                     if (model.ok()) *response = wire::UpdateModelResponseToProto(*model);
                                     answer.Finish(model.status());
                                   });
    });
  }

  grpc::ServerUnaryReactor* DeleteModel(grpc::CallbackServerContext* context, const v1::DeleteModelRequest* request,
                                        v1::DeleteModelResponse* response) override {
    return AnswerNow(
        services_, context, "Models/DeleteModel", [this, request, response](const Caller& caller) -> absl::Status {
          TENSORD_ASSIGN_OR_RETURN(const ModelRef model, wire::FromProto(*request));
          TENSORD_ASSIGN_OR_RETURN(const uint64_t freed_bytes, services_.engine.DeleteModel(caller, model));
          *response = wire::DeleteModelResponseToProto(freed_bytes);
          return absl::OkStatus();
        });
  }

 private:
  Services& services_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeModelsService(Services& services) {
  return std::make_unique<ModelsService>(services);
}

}  // namespace tensord::rpc
