#include "client/cpp/callback_queue.h"

#include <chrono>
#include <memory>

#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/byte_buffer.h"

namespace tensord {

void KeepCallbackQueue() {
  // A channel takes its share of the queue with its first call. This one goes nowhere, fails at once, and is kept.
  struct Kept {
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<grpc::GenericStub> stub;
    grpc::ClientContext context;
    grpc::ByteBuffer request;
    grpc::ByteBuffer response;
  };
  // `used`: a pointer that is optimised away would make the channel look leaked.
  [[maybe_unused]] static Kept* const kKept [[gnu::used]] = [] {
    auto* kept = new Kept();
    const grpc::Slice empty("");
    kept->request = grpc::ByteBuffer(&empty, 1);
    kept->channel = grpc::CreateChannel("unix:/dev/null/none", grpc::InsecureChannelCredentials());
    kept->stub = std::make_unique<grpc::GenericStub>(kept->channel);
    kept->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
    kept->stub->UnaryCall(&kept->context, "/none", grpc::StubOptions(), &kept->request, &kept->response,
                          [](const grpc::Status& /*refused*/) {});
    return kept;
  }();
}

}  // namespace tensord
