// tensord.v1.Tensors. Uploads and downloads are in upload.cc and download.cc.
#include "kernels/core/error.h"
#include "proto/wire/convert_tensor.h"
#include "server/rpc/download.h"
#include "server/rpc/services.h"
#include "server/rpc/upload.h"
#include "tensord/v1/tensor.grpc.pb.h"

namespace tensord::rpc {
namespace {

// Bulk methods are raw: their payload goes from the transport's buffers to its place, and back, without the generated
// parser between.
using Base = v1::Tensors::WithRawCallbackMethod_Upload<
    v1::Tensors::WithRawCallbackMethod_Download<v1::Tensors::WithCallbackMethod_GetTensor<
        v1::Tensors::WithCallbackMethod_ListTensors<v1::Tensors::WithCallbackMethod_Publish<
            v1::Tensors::WithCallbackMethod_DeleteTensors<v1::Tensors::WithCallbackMethod_ShareMemory<
                v1::Tensors::WithCallbackMethod_UnshareMemory<v1::Tensors::Service>>>>>>>>;

class TensorsService final : public Base {
 public:
  explicit TensorsService(Services& services) : services_(services) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Upload(grpc::CallbackServerContext* context) override {
    return StartUpload(services_, context);
  }

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Download(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override {
    return StartDownload(services_, context, *request);
  }

  grpc::ServerUnaryReactor* GetTensor(grpc::CallbackServerContext* context, const v1::GetTensorRequest* request,
                                      v1::GetTensorResponse* response) override {
    return AnswerNow(services_, context, "Tensors/GetTensor",
                     [this, request, response](const Caller& caller) -> absl::Status {
                       TENSORD_ASSIGN_OR_RETURN(const TensorRef tensor, wire::FromProto(*request));
                       TENSORD_ASSIGN_OR_RETURN(const TensorInfo info, services_.engine.GetTensor(caller, tensor));
                       *response = wire::GetTensorResponseToProto(info);
                       return absl::OkStatus();
                     });
  }

  grpc::ServerUnaryReactor* ListTensors(grpc::CallbackServerContext* context, const v1::ListTensorsRequest* request,
                                        v1::ListTensorsResponse* response) override {
    return AnswerNow(
        services_, context, "Tensors/ListTensors", [this, request, response](const Caller& caller) -> absl::Status {
          TENSORD_ASSIGN_OR_RETURN(const ListTensorsRequest list, wire::FromProto(*request));
          TENSORD_ASSIGN_OR_RETURN(const ListTensorsResponse tensors, services_.engine.ListTensors(caller, list));
          *response = wire::ToProto(tensors);
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* Publish(grpc::CallbackServerContext* context, const v1::PublishRequest* request,
                                    v1::PublishResponse* response) override {
    return AnswerNow(
        services_, context, "Tensors/Publish", [this, request, response](const Caller& caller) -> absl::Status {
          TENSORD_ASSIGN_OR_RETURN(const PublishRequest publish, wire::FromProto(*request));
          TENSORD_ASSIGN_OR_RETURN(const PublishResponse published, services_.engine.Publish(caller, publish));
          *response = wire::ToProto(published);
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* DeleteTensors(grpc::CallbackServerContext* context, const v1::DeleteTensorsRequest* request,
                                          v1::DeleteTensorsResponse* response) override {
    return AnswerNow(
        services_, context, "Tensors/DeleteTensors", [this, request, response](const Caller& caller) -> absl::Status {
          TENSORD_ASSIGN_OR_RETURN(const DeleteTensorsRequest remove, wire::FromProto(*request));
          TENSORD_ASSIGN_OR_RETURN(const DeleteTensorsResponse removed, services_.engine.DeleteTensors(caller, remove));
          *response = wire::ToProto(removed);
          return absl::OkStatus();
        });
  }

  // Shared memory is an optional feature that this daemon does not grant: the converter refuses it.
  grpc::ServerUnaryReactor* ShareMemory(grpc::CallbackServerContext* context, const v1::ShareMemoryRequest* request,
                                        v1::ShareMemoryResponse* /*response*/) override {
    return AnswerNow(services_, context, "Tensors/ShareMemory",
                     [request](const Caller& /*caller*/) { return wire::FromProto(*request); });
  }

  grpc::ServerUnaryReactor* UnshareMemory(grpc::CallbackServerContext* context, const v1::UnshareMemoryRequest* request,
                                          v1::UnshareMemoryResponse* /*response*/) override {
    return AnswerNow(services_, context, "Tensors/UnshareMemory",
                     [request](const Caller& /*caller*/) { return wire::FromProto(*request); });
  }

 private:
  Services& services_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeTensorsService(Services& services) {
  return std::make_unique<TensorsService>(services);
}

}  // namespace tensord::rpc
