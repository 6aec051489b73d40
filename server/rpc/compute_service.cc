// tensord.v1.Compute. The stream itself is in stream.cc.
#include "kernels/core/error.h"
#include "proto/wire/convert_compute.h"
#include "proto/wire/status_grpc.h"
#include "server/rpc/services.h"
#include "server/rpc/stream.h"
#include "tensord/v1/compute.grpc.pb.h"

namespace tensord::rpc {
namespace {

// A stream that ends as it begins.
class RefusedMonitor final : public grpc::ServerWriteReactor<v1::MonitorOpsResponse> {
 public:
  explicit RefusedMonitor(const absl::Status& status) { Finish(wire::ToGrpc(status)); }
  void OnDone() override { delete this; }
};

// Streams are raw: their bytes are parsed here, so that a message that cannot be parsed is refused by name and is not
// taken for the stream's end.
using Base = v1::Compute::WithCallbackMethod_Execute<v1::Compute::WithRawCallbackMethod_Stream<
    v1::Compute::WithCallbackMethod_RegisterProgram<v1::Compute::WithCallbackMethod_UnregisterProgram<
        v1::Compute::WithCallbackMethod_ListOps<v1::Compute::WithCallbackMethod_MonitorOps<v1::Compute::Service>>>>>>;

class ComputeService final : public Base {
 public:
  explicit ComputeService(Services& services) : services_(services) {}

  grpc::ServerUnaryReactor* Execute(grpc::CallbackServerContext* context, const v1::ExecuteRequest* request,
                                    v1::ExecuteResponse* response) override {
    return AnswerLater(services_, context, "Compute/Execute", [this, request, response](UnaryAnswer answer) {
      absl::StatusOr<ExecuteRequest> execute = wire::FromProto(*request);
      if (!execute.ok()) return answer.Finish(execute.status());
      const Caller caller = answer.caller();
      services_.engine.Execute(caller, *std::move(execute),
                               [response, answer = std::move(answer)](absl::StatusOr<ExecuteResponse> done) mutable {
                                 if (done.ok()) *response = wire::ToProto(*done);
                                 answer.Finish(done.status());
                               });
    });
  }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Stream(grpc::CallbackServerContext* context) override {
    return StartStream(services_, context);
  }

  grpc::ServerUnaryReactor* RegisterProgram(grpc::CallbackServerContext* context,
                                            const v1::RegisterProgramRequest* request,
                                            v1::RegisterProgramResponse* response) override {
    return AnswerNow(
        services_, context, "Compute/RegisterProgram", [this, request, response](const Caller& caller) -> absl::Status {
          TENSORD_ASSIGN_OR_RETURN(wire::RegisterProgramRequest program, wire::FromProto(*request));
          TENSORD_ASSIGN_OR_RETURN(const RegisterProgramResponse registered,
                                   services_.engine.RegisterProgram(caller, program.id, std::move(program.program)));
          *response = wire::ToProto(registered);
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* UnregisterProgram(grpc::CallbackServerContext* context,
                                              const v1::UnregisterProgramRequest* request,
                                              v1::UnregisterProgramResponse* response) override {
    return AnswerNow(services_, context, "Compute/UnregisterProgram",
                     [this, request, response](const Caller& caller) -> absl::Status {
                       TENSORD_ASSIGN_OR_RETURN(const uint64_t id, wire::FromProto(*request));
                       response->Clear();
                       return services_.engine.UnregisterProgram(caller, id);
                     });
  }

  grpc::ServerUnaryReactor* ListOps(grpc::CallbackServerContext* context, const v1::ListOpsRequest* request,
                                    v1::ListOpsResponse* response) override {
    return AnswerNow(
        services_, context, "Compute/ListOps", [this, request, response](const Caller& caller) -> absl::Status {
          TENSORD_ASSIGN_OR_RETURN(const std::string prefix, wire::FromProto(*request));
          TENSORD_ASSIGN_OR_RETURN(const std::vector<OpDescription> ops, services_.engine.ListOps(caller, prefix));
          *response = wire::ToProto(ops);
          return absl::OkStatus();
        });
  }

  grpc::ServerWriteReactor<v1::MonitorOpsResponse>* MonitorOps(grpc::CallbackServerContext* context,
                                                               const v1::MonitorOpsRequest* request) override {
    CallScope scope(services_, *context, "Compute/MonitorOps", /*finite=*/false);
    const absl::Status status = scope.admission().ok() ? wire::FromProto(*request) : scope.admission();
    scope.End(status);
    return new RefusedMonitor(status);
  }

 private:
  Services& services_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeComputeService(Services& services) {
  return std::make_unique<ComputeService>(services);
}

}  // namespace tensord::rpc
