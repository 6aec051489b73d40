// Private to this folder. Tensors.Download.
#pragma once

#include "server/rpc/call.h"

namespace tensord::rpc {

// A start, then chunks. At most one chunk is made ahead of the one that the transport is taking.
grpc::ServerWriteReactor<grpc::ByteBuffer>* StartDownload(Services& services, grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer& request);

}  // namespace tensord::rpc
