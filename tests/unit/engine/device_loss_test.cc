// A device that is lost: whatever finds out, everybody gets the first cause, the rest goes on, and nothing leaks.
#include <gmock/gmock.h>

#include <thread>

#include "tests/unit/engine/client.h"

namespace tensord::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Moment = FakeBackend::Moment;

class DeviceLossTest : public EngineTest {
 protected:
  void SetUp() override { Start(Options()); }
  // Before what the engine's last call writes to.
  void TearDown() override { engine.reset(); }

  EngineOptions Options() {
    EngineOptions options;
    options.on_device_loss = [this](DeviceId device, const absl::Status& loss) {
      absl::MutexLock lock(&mu_);
      losses_.emplace_back(device, loss);
    };
    return options;
  }
  // Waits until the daemon has been told.
  void AwaitLoss() {
    absl::MutexLock lock(&mu_);
    const auto told = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !losses_.empty(); };
    ASSERT_TRUE(mu_.AwaitWithTimeout(absl::Condition(&told), kPatience));
    ASSERT_EQ(losses_.size(), 1u);
    EXPECT_EQ(losses_[0].first, (DeviceId{DeviceKind::kCuda, 0}));
    ExpectLost(losses_[0].second);
  }
  static void ExpectLost(const absl::Status& status) {
    EXPECT_EQ(ReasonOf(status), Reason::kDeviceLost) << status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(Meta(status, "device"), "cuda:0");
    EXPECT_EQ(Meta(status, "cause"), "the test says so");
  }
  absl::Status Download(const Caller& caller, uint64_t id) {
    auto source = Await<std::unique_ptr<DownloadSource>>(
        [&](auto done) { engine->Download(caller, {.tensor = TensorRef::Id(id)}, std::move(done)); });
    if (!source.ok()) return source.status();
    std::string bytes((*source)->total(), '\0');
    return (*source)->Read(absl::MakeSpan(bytes)).status();
  }
  static ExecuteRequest Ones(const std::string& device, ResultRequest result) {
    ExecuteRequest request;
    Program program;
    program.instructions = {Make(Op::kOnes, 1, {2}, device)};
    program.outputs = {Formal("y", 1)};
    request.callee = program;
    request.outputs = {std::move(result)};
    return request;
  }
  absl::Status HealthOf(const Caller& caller, const std::string& device) {
    return engine->ListDevices(caller, {device}, false)->devices[0].health;
  }

  // After the loss: everything on the device repeats the cause, everything else works, nothing is left behind.
  void CheckAftermath(Client& client, uint64_t ready) {
    AwaitLoss();
    for (int again = 0; again < 2; ++again) {
      ExpectLost(client.Get(ready).error);
      ExpectLost(Download(client.caller, ready));
    }
    const auto info = engine->GetTensor(client.caller, TensorRef::Id(ready));
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->state, TensorState::kFailed);
    ExpectLost(info->error);
    EXPECT_EQ(info->spec.type.shape, Dims({2})) << "what it is stays known";
    // Use, views and moves away say the same.
    ASSERT_TRUE(client
                    .Send({Apply(Op::kRelu, {ready}, 900), Reshape(ready, 901, {1, 2}), To(ready, 902, "cpu"),
                           Make(Op::kOnes, 903, {2}, "cuda:0"), Make(Op::kOnes, 904, {2}), To(904, 905, "cuda:0")})
                    .ok());
    for (const uint64_t id : {900u, 901u, 902u, 903u, 905u}) ExpectLost(client.Get(id).error);
    EXPECT_THAT(client.Values(904), ElementsAre(1, 1)) << "the session and the other device go on";
    ExpectLost(Run(client.caller, Ones("cuda:0", Show())).status());
    ExpectLost(engine->Upload(client.caller, UploadOf(906, Spec({2}, "cuda:0"))).status());
    EXPECT_TRUE(Run(client.caller, Ones("cpu", Show())).ok());
    CreateModelRequest create;
    create.id = 907;
    create.layers.type = "Linear";
    create.layers.options["in_features"].value = Scalar{int64_t{3}};
    create.layers.options["out_features"].value = Scalar{int64_t{1}};
    create.devices = {"cuda:0"};
    ExpectLost(
        Await<ModelInfo>([&](auto done) { engine->CreateModel(client.caller, create, std::move(done)); }).status());
    ExpectLost(HealthOf(client.caller, "cuda:0"));
    EXPECT_TRUE(HealthOf(client.caller, "cpu").ok());
    client.Settle();
    const std::vector<absl::Status> notices = client.listener->notices();
    ASSERT_EQ(notices.size(), 1u);
    ExpectLost(notices[0]);
    EXPECT_EQ(client.listener->ends(), 0);
    Client late(*engine);
    ASSERT_TRUE(late.Send({Make(Op::kOnes, 1, {1})}).ok());
    EXPECT_THAT(late.Values(1), ElementsAre(1)) << "sessions still open";
    EXPECT_TRUE(engine->CloseSession(late.caller).ok());
    EXPECT_TRUE(engine->CloseSession(client.caller).ok());
    AwaitCounts([](const auto& c) { return c.sessions == 0 && c.handles == 0 && c.buffers == 0; });
    EXPECT_EQ(cuda->used(), 0u) << "accounts do not leak";
    EXPECT_EQ(cuda->calls_when_lost(), 0) << "a lost backend is left alone";
  }

 private:
  absl::Mutex mu_;
  std::vector<std::pair<DeviceId, absl::Status>> losses_ ABSL_GUARDED_BY(mu_);
};

TEST_F(DeviceLossTest, InARun) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0")}).ok());
  client.Settle();
  cuda->LoseAt(Moment::kRun);
  ASSERT_TRUE(client.Send({Labeled(Apply(Op::kRelu, {1}, 2), "first"), Apply(Op::kRelu, {2}, 3)}).ok());
  const absl::Status own = client.Get(3).error;
  ExpectLost(own);
  ASSERT_TRUE(DetailsOf(own).origin.has_value());
  EXPECT_EQ(DetailsOf(own).origin->op, "relu");
  const absl::Status other = client.Get(1).error;
  ASSERT_TRUE(DetailsOf(other).origin.has_value());
  EXPECT_EQ(DetailsOf(other).origin->op, "relu") << "what was done when the device went";
  EXPECT_EQ(DetailsOf(other).origin->label, "") << "whose it was is not said";
  CheckAftermath(client, 1);
}

TEST_F(DeviceLossTest, InACreation) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0")}).ok());
  client.Settle();
  cuda->LoseAt(Moment::kAllocate);
  ExpectLost(Run(client.caller, Ones("cuda:0", Show())).status());
  CheckAftermath(client, 1);
}

TEST_F(DeviceLossTest, InADownload) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0")}).ok());
  client.Settle();
  cuda->LoseAt(Moment::kDownload);
  ExpectLost(Download(client.caller, 1));
  CheckAftermath(client, 1);
}

TEST_F(DeviceLossTest, InACopyToTheDevice) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0"), Make(Op::kOnes, 2, {2})}).ok());
  client.Settle();
  cuda->LoseAt(Moment::kCopy);
  ASSERT_TRUE(client.Send({To(2, 3, "cuda:0")}).ok());
  ExpectLost(client.Get(3).error);
  EXPECT_THAT(client.Values(2), ElementsAre(1, 1)) << "the source is elsewhere";
  CheckAftermath(client, 1);
}

TEST_F(DeviceLossTest, InASynchronization) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0")}).ok());
  client.Settle();
  cuda->LoseAt(Moment::kSynchronize);
  ASSERT_TRUE(client.Send({To(1, 2, "cpu")}).ok());
  ExpectLost(client.Get(2).error);
  CheckAftermath(client, 1);
}

TEST_F(DeviceLossTest, InTelemetryOrHealth) {
  for (const Moment moment : {Moment::kTelemetry, Moment::kHealth}) {
    Start(Options());
    Client client(*engine);
    ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0")}).ok());
    client.Settle();
    cuda->LoseAt(moment);
    ExpectLost(HealthOf(client.caller, "cuda:0"));
    ExpectLost(client.Get(1).error);
    EXPECT_TRUE(engine->CloseSession(client.caller).ok());
    AwaitCounts([](const auto& c) { return c.buffers == 0; });
    EXPECT_EQ(cuda->used(), 0u);
  }
}

TEST_F(DeviceLossTest, InAnUploadThatOthersWaitFor) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0")}).ok());
  auto sink = engine->Upload(client.caller, UploadOf(2, Spec({2}, "cuda:0")));
  auto other = engine->Upload(client.caller, UploadOf(3, Spec({2}, "cuda:0")));
  auto elsewhere = engine->Upload(client.caller, UploadOf(4, Spec({2})));
  ASSERT_TRUE(sink.ok() && other.ok() && elsewhere.ok());
  ASSERT_TRUE(client.Send({Apply(Op::kRelu, {2}, 5), To(3, 6, "cpu")}, {{1, 3, ValueFormat::kRaw}}).ok());
  cuda->LoseAt(Moment::kUpload);
  const std::string data = Bytes({1, 2});
  const std::string_view piece = data;
  ExpectLost((*sink)->Write(0, {&piece, 1}, std::nullopt));
  for (const uint64_t id : {2u, 3u, 5u, 6u}) ExpectLost(client.Get(id).error);
  ExpectLost(client.listener->Await(1).error);
  ExpectLost((*other)->Write(0, {&piece, 1}, std::nullopt));
  absl::Notification revoked;
  const auto revoke = [&](const absl::Status& cause) {
    ExpectLost(cause);
    revoked.Notify();
  };
  (*other)->revocation()->Add(revoke);
  EXPECT_TRUE(revoked.WaitForNotificationWithTimeout(kPatience)) << "nothing more need be sent";
  ASSERT_TRUE((*elsewhere)->Write(0, {&piece, 1}, std::nullopt).ok());
  ASSERT_TRUE((*elsewhere)->Finish().ok());
  EXPECT_THAT(client.Values(4), ElementsAre(1, 2));
  sink->reset();
  other->reset();
  elsewhere->reset();
  CheckAftermath(client, 1);
}

TEST_F(DeviceLossTest, AnUploadThatIsCompleteButNotFinishedFailsToo) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0")}).ok());
  auto sink = engine->Upload(client.caller, UploadOf(2, Spec({2}, "cuda:0")));
  ASSERT_TRUE(sink.ok());
  const std::string data = Bytes({1, 2});
  const std::string_view piece = data;
  ASSERT_TRUE((*sink)->Write(0, {&piece, 1}, std::nullopt).ok());
  cuda->LoseAt(Moment::kDownload);
  ExpectLost(client.Get(1).error);
  ExpectLost((*sink)->Finish().status());
  ExpectLost(client.Get(2).error);
  sink->reset();
  CheckAftermath(client, 1);
}

TEST_F(DeviceLossTest, WithWorkQueuedAndBlocked) {
  Client client(*engine);
  Client other(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0")}).ok());
  client.Settle();
  // A lane that waits for an upload of another device, which nobody fills.
  ASSERT_TRUE(other
                  .Send({Make(Op::kUpload, 1, {2}), To(1, 2, "cuda:0"), Make(Op::kOnes, 3, {2}, "cuda:0")},
                        {{1, 2, ValueFormat::kRaw}, {2, 3, ValueFormat::kRaw}})
                  .ok());
  cuda->Hold();
  ASSERT_TRUE(client.Send({Apply(Op::kRelu, {1}, 2)}).ok());
  cuda->AwaitHeld();
  std::vector<Instruction> chain;
  for (uint64_t id = 3; id < 200; ++id) chain.push_back(Apply(Op::kAdd, {id - 1, 1}, id));
  ASSERT_TRUE(client.Send(std::move(chain), {{1, 199, ValueFormat::kRaw}, {2, 0, ValueFormat::kNone}}).ok());
  absl::Notification answered;
  absl::Status answer;
  engine->Execute(client.caller, Ones("cuda:0", Keep(300)), [&](absl::StatusOr<ExecuteResponse> response) {
    answer = response.status();
    answered.Notify();
  });
  cuda->LoseInNextRun();
  cuda->Release();
  ExpectLost(client.listener->Await(1).error);
  EXPECT_TRUE(client.listener->Await(2).error.ok()) << "all of it has ended";
  ASSERT_TRUE(answered.WaitForNotificationWithTimeout(kPatience));
  ExpectLost(answer);
  ExpectLost(other.listener->Await(1).error);
  ExpectLost(other.listener->Await(2).error);
  EXPECT_EQ(engine->GetTensor(other.caller, TensorRef::Id(1))->state, TensorState::kPending)
      << "an upload to another device may still come";
  EXPECT_TRUE(engine->CloseSession(other.caller).ok());
  EXPECT_EQ(cuda->runs().size(), 2u) << "nothing was tried on the lost device";
  CheckAftermath(client, 1);
}

TEST_F(DeviceLossTest, NamesAndModelsStayListedAsFailed) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0")}).ok());
  PublishRequest publish;
  publish.source = TensorRef::Id(1);
  publish.name = "kept";
  ASSERT_TRUE(engine->Publish(client.caller, publish).ok());
  CreateModelRequest create;
  create.name = "net";
  create.layers.type = "Linear";
  create.layers.options["in_features"].value = Scalar{int64_t{3}};
  create.layers.options["out_features"].value = Scalar{int64_t{1}};
  create.devices = {"cuda:0"};
  const auto made = Await<ModelInfo>([&](auto done) { engine->CreateModel(client.caller, create, std::move(done)); });
  ASSERT_TRUE(made.ok()) << made.status();
  cuda->LoseAt(Moment::kDownload);
  ExpectLost(client.Get(1).error);
  const auto tensors = engine->ListTensors(client.caller, {});
  ASSERT_EQ(tensors->tensors.size(), 1u);
  EXPECT_EQ(tensors->tensors[0].state, TensorState::kFailed);
  ExpectLost(tensors->tensors[0].error);
  const auto models = engine->ListModels(client.caller, {});
  ASSERT_EQ(models->models.size(), 1u);
  EXPECT_EQ(models->models[0].state, ModelState::kFailed);
  ExecuteRequest forward;
  forward.callee = ModelRef{0, "net"};
  forward.inputs = {Literal({1, 3}, {1, 2, 3}, "cuda:0")};
  ExpectLost(Run(client.caller, forward).status());
  publish.name = "again";
  ExpectLost(engine->Publish(client.caller, publish).status());
  EXPECT_TRUE(engine->DeleteTensors(client.caller, Delete({TensorRef::Name("kept")})).ok());
  EXPECT_TRUE(engine->DeleteModel(client.caller, ModelRef{0, "net"}).ok());
  CheckAftermath(client, 1);
}

TEST_F(DeviceLossTest, WhatWasMovedToTheHostIsLostWithItsDevice) {
  Start(Options(), size_t{1} << 28, 1000);
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0"), Make(Op::kOnes, 2, {200}, "cuda:0")}).ok());
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 3, {240}, "cuda:0")}).ok());
  client.Settle();
  ASSERT_EQ(engine->GetTensor(client.caller, TensorRef::Id(1))->state, TensorState::kOffloaded);
  cuda->LoseAt(Moment::kDownload);
  ExpectLost(client.Get(3).error);
  CheckAftermath(client, 1);
  EXPECT_EQ(cpu->used(), 0u);
}

TEST_F(DeviceLossTest, WhileMakingRoom) {
  Start(Options(), size_t{1} << 28, 1000);
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0"), Make(Op::kOnes, 2, {200}, "cuda:0")}).ok());
  client.Settle();
  cuda->LoseAt(Moment::kDownload);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 3, {240}, "cuda:0")}).ok());
  ExpectLost(client.Get(3).error);
  CheckAftermath(client, 1);
}

TEST_F(DeviceLossTest, TheDaemonMayShutDownFromTheCall) {
  EngineOptions options;
  absl::Notification shut;
  options.on_device_loss = [&](DeviceId, const absl::Status&) {
    engine->Shutdown(absl::Seconds(1));
    shut.Notify();
  };
  Start(std::move(options));
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0")}).ok());
  cuda->LoseAt(Moment::kDownload);
  ASSERT_TRUE(client.Send({}, {{1, 1, ValueFormat::kRaw}}).ok());
  ASSERT_TRUE(shut.WaitForNotificationWithTimeout(kPatience));
  EXPECT_EQ(ReasonOf(client.listener->AwaitEnd()), Reason::kDraining);
  client.stream.reset();
  engine.reset();
}

TEST_F(DeviceLossTest, ManyThreadsThatUseItWhenItGoes) {
  constexpr int kThreads = 6;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Client client(*engine);
      ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0")}).ok());
      absl::Status end;
      for (uint64_t id = 2; id < 2000 && end.ok(); ++id) {
        if (t == 0 && id == 50) cuda->LoseInNextRun();
        switch ((static_cast<uint64_t>(t) + id) % 3) {
          case 0:
            ASSERT_TRUE(client.Send({Apply(Op::kAdd, {1, 1}, id)}).ok());
            end = client.Get(id).error;
            break;
          case 1:
            end = Download(client.caller, 1);
            break;
          default:
            end = Run(client.caller, Ones("cuda:0", Show())).status();
        }
      }
      ExpectLost(end);
      ASSERT_TRUE(client.Send({Make(Op::kOnes, 5000, {2})}).ok());
      EXPECT_THAT(client.Values(5000), ElementsAre(1, 1));
      EXPECT_TRUE(engine->CloseSession(client.caller).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  AwaitLoss();
  AwaitCounts([](const auto& c) { return c.sessions == 0 && c.buffers == 0; });
  EXPECT_EQ(cuda->used(), 0u);
}

}  // namespace
}  // namespace tensord::testing
