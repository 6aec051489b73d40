// Private to this folder. Compute.Stream.
#pragma once

#include "server/rpc/call.h"

namespace tensord::rpc {

// Opens the session's instruction stream on the engine and carries it: messages in, replies, reports, notices and
// acknowledgements out.
//
// Responses are written one at a time; what comes meanwhile goes into the next. Acknowledgements ride along; alone they
// go at every quarter of the window and after 50 ms. Half-close: every pending read is answered, then the call ends OK.
// A client that does not read its replies is not read from either.
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartStream(Services& services,
                                                                         grpc::CallbackServerContext* context);

}  // namespace tensord::rpc
