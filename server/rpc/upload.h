// Private to this folder. Tensors.Upload.
#pragma once

#include "server/rpc/call.h"

namespace tensord::rpc {

// First response at once (bytes in place), then at least every 64 MiB or second of incoming chunks, the last with the
// tensor.
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartUpload(Services& services,
                                                                         grpc::CallbackServerContext* context);

}  // namespace tensord::rpc
