// Unary calls: metadata becomes the caller, statuses keep their details, what is not offered says so, drain and quota.
#include <chrono>
#include <thread>

#include "absl/synchronization/notification.h"
#include "tests/unit/rpc/fixture.h"

namespace tensord::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class UnaryTest : public RpcTest {
 protected:
  static v1::GetTensorRequest TensorRequest(uint64_t id) {
    v1::GetTensorRequest request;
    request.mutable_tensor()->set_id(id);
    return request;
  }
  grpc::Status GetTensor(uint64_t id, v1::GetTensorResponse* response = nullptr) {
    grpc::ClientContext context;
    v1::GetTensorResponse ignored;
    return tensors_->GetTensor(&context, TensorRequest(id), response == nullptr ? &ignored : response);
  }
};

TEST_F(UnaryTest, MetadataBecomesTheCaller) {
  Start();
  grpc::ClientContext context;
  context.AddMetadata("tensord-session", "0f6b51f2c9e84a7db3a5d4e6f7081923");
  context.AddMetadata("tensord-after", "18446744073709551615");
  const auto deadline = std::chrono::system_clock::now() + std::chrono::minutes(5);
  context.set_deadline(deadline);
  v1::TrimMemoryResponse response;
  ASSERT_TRUE(devices_->TrimMemory(&context, {}, &response).ok());
  const Caller caller = engine_.callers.All().at(0);
  EXPECT_EQ(caller.token, "0f6b51f2c9e84a7db3a5d4e6f7081923");
  EXPECT_EQ(caller.after, UINT64_MAX);
  EXPECT_THAT(caller.peer, StartsWith("unix:"));
  EXPECT_EQ(caller.principal, "local");
  // The deadline travels as a time span, rounded by gRPC.
  EXPECT_LT(absl::AbsDuration(caller.deadline - absl::FromChrono(deadline)), absl::Minutes(1));
}

TEST_F(UnaryTest, NoMetadataIsNoSessionAndNoDeadline) {
  Start();
  ExpectNextCallWorks();
  const Caller caller = engine_.callers.All().at(0);
  EXPECT_EQ(caller.token, "");
  EXPECT_EQ(caller.after, 0u);
  EXPECT_EQ(caller.deadline, absl::InfiniteFuture());
}

TEST_F(UnaryTest, BadMetadataNeverReachesTheEngine) {
  Start();
  for (const char* after : {"", "-1", "1x", "18446744073709551616", "0x10"}) {
    grpc::ClientContext context;
    context.AddMetadata("tensord-after", after);
    v1::TrimMemoryResponse response;
    const grpc::Status status = devices_->TrimMemory(&context, {}, &response);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << after;
    EXPECT_EQ(ReasonIn(status), Reason::kFieldInvalid) << after;
  }
  grpc::ClientContext twice;
  twice.AddMetadata("tensord-session", "secret-one");
  twice.AddMetadata("tensord-session", "secret-two");
  v1::TrimMemoryResponse response;
  const grpc::Status status = devices_->TrimMemory(&twice, {}, &response);
  EXPECT_EQ(ReasonIn(status), Reason::kFieldInvalid);
  EXPECT_THAT(status.error_message(), Not(HasSubstr("secret")));
  EXPECT_TRUE(engine_.callers.All().empty());
  ExpectNextCallWorks();
}

TEST_F(UnaryTest, AnAnswerComesBack) {
  Start();
  engine_.get_tensor = [](const TensorRef& tensor) -> absl::StatusOr<TensorInfo> {
    return InfoOf(std::get<uint64_t>(tensor.ref), 24);
  };
  v1::GetTensorResponse response;
  ASSERT_TRUE(GetTensor(42, &response).ok());
  EXPECT_EQ(response.tensor().id(), 42u);
  EXPECT_EQ(response.tensor().bytes(), 24u);
}

TEST_F(UnaryTest, ARefusalKeepsCodeMessageAndDetails) {
  Start();
  engine_.get_tensor = [](const TensorRef&) -> absl::StatusOr<TensorInfo> {
    return Error(Reason::kHandleUnknown).With("id", 42).With("kind", "tensor").With("state", "freed").At("tensor.id");
  };
  const grpc::Status status = GetTensor(42);
  EXPECT_EQ(status.error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no tensor has handle 42: freed");
  const ErrorDetails details = Details(status);
  EXPECT_EQ(details.reason, Reason::kHandleUnknown);
  EXPECT_EQ(details.Get("state"), "freed");
  ASSERT_EQ(details.fields.size(), 1u);
  EXPECT_EQ(details.fields[0].first, "tensor.id");
}

TEST_F(UnaryTest, RequestsAreStrict) {
  Start();
  v1::GetTensorRequest request = TensorRequest(42);
  // A field of a newer contract.
  const std::string newer = request.SerializeAsString() + std::string("\xf8\x07\x01", 3);
  ASSERT_TRUE(request.ParseFromString(newer));
  grpc::ClientContext context;
  v1::GetTensorResponse response;
  const grpc::Status status = tensors_->GetTensor(&context, request, &response);
  EXPECT_EQ(ReasonIn(status), Reason::kFieldUnknown);
  EXPECT_TRUE(engine_.callers.All().empty());
}

TEST_F(UnaryTest, ExecuteAnswersFromAnotherThreadLater) {
  Start();
  std::thread worker;
  engine_.execute = [&](ExecuteRequest request, Done<ExecuteResponse> done) {
    worker = std::thread([inputs = request.inputs.size(), done = std::move(done)]() mutable {
      ExecuteResponse response;
      response.outputs.resize(inputs);
      done(response);
    });
  };
  v1::ExecuteRequest request;
  request.set_program_id(1);
  request.add_inputs()->mutable_tensor()->set_id(5);
  grpc::ClientContext context;
  v1::ExecuteResponse response;
  const grpc::Status status = compute_->Execute(&context, request, &response);
  worker.join();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.outputs_size(), 1);
}

TEST_F(UnaryTest, AnEngineThatNeverAnswersIsAnInternalErrorNotAHang) {
  Start();
  engine_.execute = [](ExecuteRequest, Done<ExecuteResponse> done) { done = nullptr; };
  v1::ExecuteRequest request;
  request.set_program_id(1);
  grpc::ClientContext context;
  v1::ExecuteResponse response;
  EXPECT_EQ(ReasonIn(compute_->Execute(&context, request, &response)), Reason::kInternal);
  ExpectNextCallWorks();
}

TEST_F(UnaryTest, TheEngineLearnsThatTheClientHasGone) {
  Start();
  engine_.execute = [&](ExecuteRequest, Done<ExecuteResponse> done) {
    auto pending = std::make_shared<Done<ExecuteResponse>>(std::move(done));
    engine_.callers.All().back().cancellation->Add([pending](const absl::Status& cause) { (*pending)(cause); });
  };
  grpc::ClientContext context;
  std::thread impatient([&] {
    engine_.callers.Await(1);
    context.TryCancel();
  });
  v1::ExecuteRequest request;
  request.set_program_id(1);
  v1::ExecuteResponse response;
  EXPECT_EQ(compute_->Execute(&context, request, &response).error_code(), grpc::CANCELLED);
  impatient.join();
  EXPECT_TRUE(server_->AwaitCalls(absl::InfiniteFuture())) << "the engine answered, and the call is over";
  ExpectNextCallWorks();
}

TEST_F(UnaryTest, CallsThatWaitForTheStreamDoNotHoldUpOthers) {
  Start();
  absl::Notification release;
  engine_.get_tensor = [&](const TensorRef&) -> absl::StatusOr<TensorInfo> {
    release.WaitForNotification();
    return InfoOf(1, 0);
  };
  // More of them than gRPC has threads.
  std::vector<std::thread> waiting;
  for (int i = 0; i < 20; ++i) {
    waiting.emplace_back([&] {
      grpc::ClientContext context;
      context.AddMetadata("tensord-after", "7");
      v1::GetTensorResponse response;
      EXPECT_TRUE(tensors_->GetTensor(&context, TensorRequest(1), &response).ok());
    });
  }
  engine_.callers.Await(20);
  ExpectNextCallWorks();
  release.Notify();
  for (std::thread& thread : waiting) thread.join();
}

TEST_F(UnaryTest, MoreCallsThanAllowedAreRefusedAndTheRestGoOn) {
  Limits limits;
  limits.max_requests = 2;
  Start(limits);
  Recorded<std::shared_ptr<Done<ExecuteResponse>>> pending;
  engine_.execute = [&](ExecuteRequest, Done<ExecuteResponse> done) {
    pending.Push(std::make_shared<Done<ExecuteResponse>>(std::move(done)));
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([&] {
      v1::ExecuteRequest request;
      request.set_program_id(1);
      grpc::ClientContext context;
      v1::ExecuteResponse response;
      EXPECT_TRUE(compute_->Execute(&context, request, &response).ok());
    });
  }
  const auto open = pending.Await(2);
  const grpc::Status status = GetTensor(1);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonIn(status), Reason::kQuotaExceeded);
  EXPECT_EQ(Details(status).Get("limit"), "2");
  EXPECT_TRUE(Details(status).retry_ms.has_value());
  for (const auto& done : open) (*done)(ExecuteResponse{});
  for (std::thread& thread : callers) thread.join();
  ExpectNextCallWorks();
}

TEST_F(UnaryTest, WhatIsNotOfferedSaysSoByReason) {
  Start();
  {
    grpc::ClientContext context;
    v1::ShareMemoryRequest request;
    request.set_staging_bytes(4096);
    request.add_kinds(v1::SEGMENT_KIND_FILE);
    v1::ShareMemoryResponse response;
    const grpc::Status status = tensors_->ShareMemory(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
    EXPECT_EQ(ReasonIn(status), Reason::kFeatureUnavailable);
    EXPECT_EQ(Details(status).Get("feature"), "shared-memory");
  }
  {
    grpc::ClientContext context;
    v1::UnshareMemoryRequest request;
    request.set_segment(1);
    v1::UnshareMemoryResponse response;
    EXPECT_EQ(ReasonIn(tensors_->UnshareMemory(&context, request, &response)), Reason::kFeatureUnavailable);
  }
  {
    grpc::ClientContext context;
    const auto reader = compute_->MonitorOps(&context, {});
    v1::MonitorOpsResponse response;
    EXPECT_FALSE(reader->Read(&response));
    const grpc::Status status = reader->Finish();
    EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED);
    EXPECT_EQ(ReasonIn(status), Reason::kNotOffered);
  }
  {
    grpc::ClientContext context;
    v1::CreateModelRequest request;
    request.set_name("mlp");
    request.mutable_onnx()->mutable_file()->set_id(40);
    v1::CreateModelResponse response;
    EXPECT_EQ(ReasonIn(models_->CreateModel(&context, request, &response)), Reason::kNotOffered);
    EXPECT_TRUE(engine_.callers.All().empty());
  }
  ExpectNextCallWorks();
}

TEST_F(UnaryTest, ListOpsTellsTheRowAndTheSupport) {
  Start();
  grpc::ClientContext context;
  v1::ListOpsRequest request;
  request.set_prefix("ad");
  v1::ListOpsResponse response;
  ASSERT_TRUE(compute_->ListOps(&context, request, &response).ok());
  ASSERT_EQ(response.ops_size(), 1);
  EXPECT_EQ(response.ops(0).name(), "add");
  EXPECT_EQ(response.ops(0).family(), "binary");
  EXPECT_EQ(response.ops(0).operands_size(), 2);
  EXPECT_EQ(response.ops(0).support(0).kind(), "cpu");
  EXPECT_EQ(response.ops(0).support(0).dtypes(0), v1::DTYPE_FLOAT32);
  EXPECT_EQ(engine_.events.All().at(0), "prefix ad");
}

TEST_F(UnaryTest, WatchDevicesRepeatsUntilCancelled) {
  Start();
  grpc::ClientContext context;
  v1::WatchDevicesRequest request;
  request.mutable_interval()->set_nanos(100'000'000);
  const auto reader = devices_->WatchDevices(&context, request);
  v1::WatchDevicesResponse response;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(reader->Read(&response));
    ASSERT_EQ(response.devices_size(), 1);
    EXPECT_EQ(response.devices(0).model(), "a processor");
    EXPECT_TRUE(response.has_time());
  }
  context.TryCancel();
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::CANCELLED);
  ExpectNextCallWorks();
}

TEST_F(UnaryTest, WatchDevicesRefusesBadIntervalsAndDevices) {
  Start();
  const auto watch = [&](const v1::WatchDevicesRequest& request) {
    grpc::ClientContext context;
    const auto reader = devices_->WatchDevices(&context, request);
    v1::WatchDevicesResponse response;
    EXPECT_FALSE(reader->Read(&response));
    return ReasonIn(reader->Finish());
  };
  v1::WatchDevicesRequest request;
  request.mutable_interval()->set_nanos(1000);
  EXPECT_EQ(watch(request), Reason::kFieldInvalid);
  request.clear_interval();
  request.add_devices("tpu:0");
  EXPECT_EQ(watch(request), Reason::kDeviceUnknown);
}

TEST_F(UnaryTest, ADrainingDaemonRefusesNewCallsAndLetsOpenOnesEnd) {
  Start();
  Recorded<std::shared_ptr<Done<ExecuteResponse>>> pending;
  engine_.execute = [&](ExecuteRequest, Done<ExecuteResponse> done) {
    pending.Push(std::make_shared<Done<ExecuteResponse>>(std::move(done)));
  };
  std::thread open([&] {
    v1::ExecuteRequest request;
    request.set_program_id(1);
    grpc::ClientContext context;
    v1::ExecuteResponse response;
    EXPECT_TRUE(compute_->Execute(&context, request, &response).ok());
  });
  const auto done = pending.Await(1);
  server_->BeginDrain(absl::Seconds(30));
  const grpc::Status status = GetTensor(1);
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(ReasonIn(status), Reason::kDraining);
  EXPECT_EQ(Details(status).Get("grace"), "30s");
  EXPECT_FALSE(server_->AwaitCalls(absl::InfinitePast()));
  (*done[0])(ExecuteResponse{});
  EXPECT_TRUE(server_->AwaitCalls(absl::InfiniteFuture()));
  open.join();
}

}  // namespace
}  // namespace tensord::testing
