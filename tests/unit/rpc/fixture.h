// A real server over a fake engine, on a Unix socket in a folder of the test's own.
#pragma once

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "client/cpp/callback_queue.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/wire/status_grpc.h"
#include "server/rpc/server.h"
#include "tensord/v1/compute.grpc.pb.h"
#include "tensord/v1/device.grpc.pb.h"
#include "tensord/v1/model.grpc.pb.h"
#include "tensord/v1/session.grpc.pb.h"
#include "tensord/v1/tensor.grpc.pb.h"
#include "tests/unit/rpc/fake_engine.h"

namespace tensord::testing {

// Servers and channels come and go between tests; what gRPC shares among them must not.
class KeptQueue final : public ::testing::Environment {
  void SetUp() override { KeepCallbackQueue(); }
};
inline ::testing::Environment* const kKeptQueue = ::testing::AddGlobalTestEnvironment(new KeptQueue);

// A folder that goes with the test.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tensord-rpc-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class RpcTest : public ::testing::Test {
 protected:
  void Start(Limits limits = {}) {
    ServerOptions options;
    options.limits = limits;
    options.listen = {"unix:" + folder_.path() + "/s"};
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(engine_, options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->addresses()[0], grpc::InsecureChannelCredentials());
    tensors_ = v1::Tensors::NewStub(channel_);
    sessions_ = v1::Sessions::NewStub(channel_);
    devices_ = v1::Devices::NewStub(channel_);
    compute_ = v1::Compute::NewStub(channel_);
    models_ = v1::Models::NewStub(channel_);
  }

  void TearDown() override {
    if (server_ != nullptr) server_->Stop();
  }

  // A call that must work, so that the one before it left nothing broken.
  void ExpectNextCallWorks() {
    grpc::ClientContext context;
    v1::TrimMemoryResponse response;
    EXPECT_TRUE(devices_->TrimMemory(&context, {}, &response).ok());
    EXPECT_EQ(response.released_bytes(), 4096u);
  }

  static ErrorDetails Details(const grpc::Status& status) { return DetailsOf(wire::FromGrpc(status)); }
  static Reason ReasonIn(const grpc::Status& status) { return Details(status).reason; }

  TempFolder folder_;
  FakeEngine engine_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Tensors::Stub> tensors_;
  std::unique_ptr<v1::Sessions::Stub> sessions_;
  std::unique_ptr<v1::Devices::Stub> devices_;
  std::unique_ptr<v1::Compute::Stub> compute_;
  std::unique_ptr<v1::Models::Stub> models_;
};

}  // namespace tensord::testing
