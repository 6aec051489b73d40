// Private to this folder. Requests whose bytes are no message: invalid protobuf, text that is not UTF-8, nesting beyond
// protobuf's own bound.
//
// gRPC's generated handlers answer those by UNIMPLEMENTED without a word before a service sees them. The interceptor
// that stands here turns that answer into FIELD_INVALID, which says what is wrong. Streaming calls parse for themselves
// and are left alone.
#pragma once

#include <memory>
#include <vector>

#include "grpcpp/support/server_interceptor.h"

namespace tensord::rpc {

std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> MalformedRequests();

}  // namespace tensord::rpc
