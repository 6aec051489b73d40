// The server as an operator sees it: addresses, sockets, health, reflection, bounds of the transport.
#include "server/rpc/server.h"

#include <grpcpp/generic/generic_stub.h>
#include <sys/stat.h>

#include "tests/unit/rpc/fixture.h"

namespace tensord::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class ServerTest : public RpcTest {
 protected:
  absl::StatusOr<std::unique_ptr<Server>> Listen(std::vector<std::string> listen, bool insecure = false) {
    ServerOptions options;
    options.listen = std::move(listen);
    options.insecure = insecure;
    return Server::Start(engine_, options);
  }
  std::string Socket() const { return folder_.path() + "/s"; }

  // A unary call by name: `request` and the response are serialised messages.
  static grpc::Status Ask(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                          const std::string& request, std::string* response) {
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    grpc::Slice slice(request);
    const auto call = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&slice, 1), &queue);
    call->StartCall();
    grpc::ByteBuffer bytes;
    grpc::Status status;
    call->Finish(&bytes, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    std::vector<grpc::Slice> slices;
    if (status.ok() && bytes.Dump(&slices).ok()) {
      response->clear();
      for (const grpc::Slice& each : slices) response->append(reinterpret_cast<const char*>(each.begin()), each.size());
    }
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) {
    }
    return status;
  }
  // grpc.health.v1: HealthCheckRequest{service = 1}, HealthCheckResponse{status = 1: 1 SERVING, 2 NOT_SERVING}.
  int Health(const std::string& service) {
    std::string request;
    if (!service.empty()) request = std::string(1, '\x0a') + static_cast<char>(service.size()) + service;
    std::string response;
    const grpc::Status status = Ask(channel_, "/grpc.health.v1.Health/Check", request, &response);
    if (!status.ok()) return -static_cast<int>(status.error_code());
    return response.size() == 2 ? response[1] : 0;
  }
  // Whether server reflection is there: UNIMPLEMENTED where it is not.
  static bool Reflects(const std::string& address) {
    std::string response;
    const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
    const std::string list_services("\x3a\0", 2);
    const grpc::Status status =
        Ask(channel, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", list_services, &response);
    return status.error_code() != grpc::UNIMPLEMENTED;
  }
};

TEST_F(ServerTest, PortZeroTakesAFreeOneAndTellsIt) {
  const auto first = Listen({"localhost:0"});
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string address = (*first)->addresses().at(0);
  EXPECT_THAT(address, StartsWith("127.0.0.1:"));
  EXPECT_NE(address, "127.0.0.1:0");
  channel_ = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  EXPECT_EQ(Health(""), 1);
}

TEST_F(ServerTest, ASecondOneOnTheSamePortIsRefused) {
  const auto first = Listen({"127.0.0.1:0"});
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = Listen({(*first)->addresses().at(0)}).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.message()), HasSubstr("another process listens there"));
}

TEST_F(ServerTest, SeveralAddressesAtOnce) {
  const auto server = Listen({"127.0.0.1:0", "unix:" + Socket()});
  ASSERT_TRUE(server.ok()) << server.status();
  for (const std::string& address : (*server)->addresses()) {
    channel_ = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
    EXPECT_EQ(Health(""), 1) << address;
  }
}

TEST_F(ServerTest, ExposedAddressesNeedInsecure) {
  EXPECT_EQ(ReasonOf(Listen({"0.0.0.0:0"}).status()), Reason::kFieldInvalid);
  EXPECT_EQ(ReasonOf(Listen({"localhost:0", "[::]:0"}).status()), Reason::kFieldInvalid);
  EXPECT_EQ(ReasonOf(Listen({}).status()), Reason::kFieldInvalid);
  EXPECT_TRUE(Listen({"0.0.0.0:0"}, /*insecure=*/true).ok());
}

TEST_F(ServerTest, TheSocketIsPrivateAndGoesWithTheServer) {
  Start();
  struct stat info {};
  ASSERT_EQ(stat(Socket().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_THAT(std::string(Listen({"unix:" + Socket()}).status().message()), HasSubstr("another daemon answers there"));
  ExpectNextCallWorks();
  server_->Stop();
  EXPECT_NE(stat(Socket().c_str(), &info), 0);
}

TEST_F(ServerTest, HealthFollowsTheDrain) {
  Start();
  for (const char* service : {"", "tensord.v1.Devices", "tensord.v1.Sessions", "tensord.v1.Tensors",
                              "tensord.v1.Compute", "tensord.v1.Models"}) {
    EXPECT_EQ(Health(service), 1) << service;
  }
  EXPECT_EQ(Health("tensord.v2.Devices"), -static_cast<int>(grpc::NOT_FOUND));
  server_->BeginDrain(absl::Seconds(1));
  for (const char* service : {"", "tensord.v1.Compute"}) EXPECT_EQ(Health(service), 2) << service;
}

TEST_F(ServerTest, ADeviceHasAHealthOfItsOwn) {
  ServerOptions options;
  options.listen = {"unix:" + Socket()};
  options.devices = {"cuda:0", "cuda:1"};
  const auto server = Server::Start(engine_, options);
  ASSERT_TRUE(server.ok()) << server.status();
  channel_ = grpc::CreateChannel((*server)->addresses()[0], grpc::InsecureChannelCredentials());
  for (const char* device : {"cuda:0", "cuda:1"}) EXPECT_EQ(Health(StrCat("tensord.device/", device)), 1);
  EXPECT_EQ(Health("tensord.device/cuda:2"), -static_cast<int>(grpc::NOT_FOUND));
  (*server)->DeviceLost("cuda:0");
  EXPECT_EQ(Health("tensord.device/cuda:0"), 2);
  EXPECT_EQ(Health("tensord.device/cuda:1"), 1);
  EXPECT_EQ(Health(""), 1) << "the daemon goes on";
  (*server)->Stop();
  (*server)->DeviceLost("cuda:1");
}

TEST_F(ServerTest, ReflectionIsForThisMachineAlone) {
  Start();
  EXPECT_TRUE(Reflects(server_->addresses()[0]));
  const auto exposed = Listen({"0.0.0.0:0"}, /*insecure=*/true);
  ASSERT_TRUE(exposed.ok()) << exposed.status();
  const std::string address = (*exposed)->addresses()[0];
  EXPECT_FALSE(Reflects("127.0.0.1" + address.substr(address.rfind(':'))));
}

TEST_F(ServerTest, AMessageAboveTheBoundIsRefusedAndTheNextCallWorks) {
  Limits limits;
  limits.max_message_bytes = 100'000;
  Start(limits);
  v1::ListOpsRequest request;
  request.set_prefix(std::string(200'000, 'a'));
  grpc::ClientContext context;
  v1::ListOpsResponse response;
  EXPECT_EQ(compute_->ListOps(&context, request, &response).error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(engine_.callers.All().empty());
  ExpectNextCallWorks();
}

TEST_F(ServerTest, UnknownMethodsAreRefusedByName) {
  Start();
  const auto channel = grpc::CreateChannel(server_->addresses()[0], grpc::InsecureChannelCredentials());
  for (const std::string method : {"/tensord.v1.Devices/Nonesuch", "/other.Service/Call"}) {
    std::string response;
    const grpc::Status status = Ask(channel, method, "", &response);
    EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED);
    EXPECT_EQ(ReasonIn(status), Reason::kNotOffered);
    EXPECT_THAT(status.error_message(), HasSubstr(method));
  }
  ExpectNextCallWorks();
}

TEST_F(ServerTest, PackedMessagesAreRefused) {
  Start();
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::ListOpsRequest request;
  request.set_prefix(std::string(4000, 'a'));
  v1::ListOpsResponse response;
  EXPECT_EQ(compute_->ListOps(&context, request, &response).error_code(), grpc::UNIMPLEMENTED);
  ExpectNextCallWorks();
}

}  // namespace
}  // namespace tensord::testing
