#include "server/rpc/malformed.h"

#include <string>

#include "grpcpp/support/interceptor.h"
#include "kernels/core/error.h"
#include "proto/wire/status_grpc.h"

namespace tensord::rpc {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::ServerRpcInfo;

class Explain final : public grpc::experimental::Interceptor {
 public:
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    // Our own refusals always say something, and never by UNIMPLEMENTED alone.
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message().empty()) {
        methods->ModifySendStatus(wire::ToGrpc(
            Error(Reason::kFieldInvalid)
                .With("value", "bytes that are no such message")
                .With("allowed", "a protobuf message of the contract, its text in UTF-8, nested at most 100 deep")
                .At("request")));
      }
    }
    methods->Proceed();
  }
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    // Methods that nobody registered are unknown.h's.
    const bool ours = std::string(info->method()).starts_with("/tensord.v1.");
    return ours && info->type() == ServerRpcInfo::Type::UNARY ? new Explain() : nullptr;
  }
};

}  // namespace

std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> MalformedRequests() {
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> factories;
  factories.push_back(std::make_unique<Factory>());
  return factories;
}

}  // namespace tensord::rpc
