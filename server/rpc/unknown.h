// Private to this folder. Methods that no service here has: refused with NOT_OFFERED and the method's name, where gRPC
// alone would say UNIMPLEMENTED without a word.
#pragma once

#include "grpcpp/generic/async_generic_service.h"

namespace tensord::rpc {

class UnknownMethods final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;
};

}  // namespace tensord::rpc
