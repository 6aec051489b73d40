// Executors: fairness, what blocks whom, dropping, deadlines, memory that runs out.
#include <gmock/gmock.h>

#include <thread>

#include "tests/unit/engine/client.h"

namespace tensord::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ExecutorTest : public EngineTest {
 protected:
  void SetUp() override { Start(); }

  // `count` creations whose shape tells who asked.
  static std::vector<Instruction> Many(uint64_t first, int64_t mark, int count) {
    std::vector<Instruction> instructions;
    for (int i = 0; i < count; ++i) instructions.push_back(Make(Op::kOnes, first + static_cast<uint64_t>(i), {mark}));
    return instructions;
  }
  // An Upload reservation that nobody fills.
  static Instruction Reserve(uint64_t id) { return Make(Op::kUpload, id, {2}); }
};

TEST_F(ExecutorTest, TurnsGoRoundOverSessionsAndPrincipals) {
  Client a(*engine, {}, "alice");
  Client b(*engine, {}, "bob");
  Client c(*engine, {}, "bob");
  cpu->Hold();
  ASSERT_TRUE(a.Send(Many(1, 9, 1)).ok());
  cpu->AwaitHeld();
  ASSERT_TRUE(a.Send(Many(100, 1, 100)).ok());
  ASSERT_TRUE(b.Send(Many(100, 2, 20)).ok());
  ASSERT_TRUE(c.Send(Many(100, 3, 20)).ok());
  cpu->Release();
  a.Settle();
  b.Settle();
  c.Settle();
  const std::vector<RunRecord> runs = cpu->runs();
  int alice = 0, bob_b = 0, bob_c = 0;
  for (size_t i = 1; i <= 40; ++i) {
    alice += runs[i].shape[0] == 1 ? 1 : 0;
    bob_b += runs[i].shape[0] == 2 ? 1 : 0;
    bob_c += runs[i].shape[0] == 3 ? 1 : 0;
  }
  EXPECT_EQ(alice, 20) << "half of the turns are a principal's";
  EXPECT_EQ(bob_b, 10);
  EXPECT_EQ(bob_c, 10);
}

TEST_F(ExecutorTest, AHeadThatWaitsBlocksItsSessionAlone) {
  Client a(*engine);
  Client b(*engine);
  ASSERT_TRUE(a.Send({Reserve(1), Apply(Op::kRelu, {1}, 2), Make(Op::kOnes, 3, {2})}, {{1, 3, {}}}).ok());
  ASSERT_TRUE(b.Send({Make(Op::kOnes, 1, {2})}).ok());
  b.Settle();
  EXPECT_FALSE(a.listener->replied(1)) << "a session's order on a device is kept";
  auto sink = engine->Upload(a.caller, UploadOf(1, Spec({2})));
  ASSERT_TRUE(sink.ok()) << sink.status();
  const std::string data = Bytes({-1, 4});
  const std::string_view piece = data;
  ASSERT_TRUE((*sink)->Write(0, {&piece, 1}, std::nullopt).ok());
  ASSERT_TRUE((*sink)->Finish().ok());
  EXPECT_TRUE(a.listener->Await(1).error.ok());
  EXPECT_THAT(a.Values(2), ElementsAre(0, 4));
}

TEST_F(ExecutorTest, FreeingAllOutputsDropsWorkThatHasNotBegun) {
  Client client(*engine);
  // The head waits for an upload; once nobody wants it, what stands behind goes on.
  ASSERT_TRUE(client.Send({Reserve(1), Apply(Op::kRelu, {1}, 2), Make(Op::kOnes, 3, {2})}, {{1, 3, {}}}).ok());
  EXPECT_FALSE(client.listener->replied(1));
  ASSERT_TRUE(client.Send({Free({2})}).ok());
  EXPECT_TRUE(client.listener->Await(1).error.ok());
  for (const RunRecord& run : cpu->runs()) EXPECT_NE(run.op, Op::kRelu);
}

TEST_F(ExecutorTest, FreeingWhileTheLaneIsAboutToBlockIsNotLost) {
  Client client(*engine);
  uint64_t id = 1;
  for (uint64_t i = 0; i < 3000; ++i, id += 3) {
    ASSERT_TRUE(client.Send({Reserve(id), Apply(Op::kRelu, {id}, id + 1), Make(Op::kOnes, id + 2, {2})}).ok());
    ASSERT_TRUE(client.Send({Free({id + 1})}, {{i, id + 2, {}}}).ok());
    ASSERT_TRUE(client.listener->Await(i).error.ok()) << i;
    ASSERT_TRUE(client.Send({Free({id, id + 2})}).ok());
  }
}

TEST_F(ExecutorTest, DeletingDropsLikewise) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Reserve(1), Apply(Op::kRelu, {1}, 2), Make(Op::kOnes, 3, {2})}, {{1, 3, {}}}).ok());
  ASSERT_TRUE(engine->DeleteTensors(client.caller, Delete({TensorRef::Id(2)})).ok());
  EXPECT_TRUE(client.listener->Await(1).error.ok());
}

TEST_F(ExecutorTest, FreeingAnUnfilledUploadTellsItsUsers) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Reserve(1), Apply(Op::kRelu, {1}, 2), Free({1})}).ok());
  const absl::Status error = client.Get(2).error;
  EXPECT_EQ(ReasonOf(error), Reason::kUploadIncomplete);
  EXPECT_EQ(DetailsOf(error).origin->op, "upload");
}

TEST_F(ExecutorTest, TheTimeoutOfAMessageFailsWhatHasNotBegun) {
  Client client(*engine);
  StreamMessage message = client.Message({Reserve(1), Apply(Op::kRelu, {1}, 2)}, {{1, 2, {}}});
  message.timeout = absl::Milliseconds(1);
  ASSERT_TRUE(client.stream->Submit(message).ok());
  const absl::Status error = client.listener->Await(1).error;
  EXPECT_EQ(ReasonOf(error), Reason::kDeadlineExceeded);
  EXPECT_EQ(DetailsOf(error).origin->id, 2u);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 3, {1})}).ok());
  EXPECT_THAT(client.Values(3), ElementsAre(1));
}

TEST_F(ExecutorTest, TheDeadlineOfACallDropsItsWork) {
  Client client(*engine);
  cpu->Hold();
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2})}).ok());
  cpu->AwaitHeld();
  ExecuteRequest request;
  Program program;
  program.instructions = {Make(Op::kOnes, 1, {3})};
  program.outputs = {Formal("y", 1)};
  request.callee = program;
  request.outputs = {Keep(7)};
  Caller caller = client.caller;
  caller.deadline = absl::Now() + absl::Milliseconds(1);
  const auto response = Run(caller, request);
  EXPECT_EQ(ReasonOf(response.status()), Reason::kDeadlineExceeded);
  EXPECT_EQ(Meta(engine->GetTensor(client.caller, TensorRef::Id(7)).status(), "state"), "freed");
  cpu->Release();
  client.Settle();
  EXPECT_EQ(cpu->runs().size(), 1u) << "it never ran";
}

TEST_F(ExecutorTest, TheEndOfASessionDropsItsCallsThatHaveNotBegun) {
  for (const bool kill : {false, true}) {
    Start();
    Client client(*engine);
    Client other(*engine);
    cpu->Hold();
    ASSERT_TRUE(other.Send({Make(Op::kOnes, 1, {2})}).ok());
    cpu->AwaitHeld();
    ExecuteRequest request;
    Program program;
    program.instructions = {Make(Op::kOnes, 1, {3})};
    program.outputs = {Formal("y", 1)};
    request.callee = program;
    request.outputs = {Keep(7)};
    // Ends on this thread, while the gate is closed: the call waits for nothing that runs.
    const auto response = Await<ExecuteResponse>([&](auto done) {
      engine->Execute(client.caller, std::move(request), std::move(done));
      const auto freed = kill ? engine->KillSession(other.caller, client.session) : engine->CloseSession(client.caller);
      EXPECT_TRUE(freed.ok()) << freed.status();
    });
    EXPECT_EQ(ReasonOf(response.status()), Reason::kSessionUnknown);
    EXPECT_EQ(Meta(response.status(), "cause"), kill ? "killed" : "closed");
    cpu->Release();
    other.Settle();
    EXPECT_EQ(cpu->runs().size(), 1u) << "it never ran";
    AwaitCounts([](const auto& c) { return c.handles == 1 && c.buffers == 1; });
  }
}

TEST_F(ExecutorTest, ADeviceThatIsBehindHoldsAcknowledgementsBack) {
  EngineOptions options;
  options.limits.stream_window_instructions = 8;
  Start(options);
  Client client(*engine);
  cpu->Hold();
  ASSERT_TRUE(client.Send(Many(1, 1, 5)).ok());
  ASSERT_TRUE(client.Send(Many(6, 1, 5)).ok());
  EXPECT_EQ(client.listener->acknowledged(), 2u);
  ASSERT_TRUE(client.Send(Many(11, 1, 5), {{1, 15, {}}}).ok());
  EXPECT_EQ(client.listener->acknowledged(), 2u) << "held back";
  EXPECT_EQ(ReasonOf(engine->GetTensor(client.caller, TensorRef::Id(11)).status()), Reason::kHandleUnknown);
  Caller after = client.caller;
  after.after = 3;
  after.deadline = absl::Now() + absl::Milliseconds(1);
  EXPECT_EQ(ReasonOf(engine->GetTensor(after, TensorRef::Id(11)).status()), Reason::kDeadlineExceeded);
  cpu->Release();
  EXPECT_TRUE(client.listener->Await(1).error.ok());
  client.listener->AwaitAcknowledged(3);
  // Beyond the window the client has broken its word.
  cpu->Hold();
  ASSERT_TRUE(client.Send(Many(20, 1, 8)).ok());
  cpu->AwaitHeld();
  ASSERT_TRUE(client.Send(Many(30, 1, 8)).ok());
  ASSERT_TRUE(client.Send(Many(40, 1, 8)).ok());
  EXPECT_EQ(Meta(client.Send(Many(50, 1, 1)), "quota"), "stream_window_instructions");
  cpu->Release();
}

TEST_F(ExecutorTest, AfterWaitsForTheMessage) {
  Client client(*engine);
  Caller after = client.caller;
  after.after = 1;
  absl::StatusOr<TensorInfo> info = absl::UnknownError("");
  std::thread waiter([&] { info = engine->GetTensor(after, TensorRef::Id(1)); });
  ExecuteRequest request;
  Program program;
  program.inputs = {Formal("x", 1)};
  program.instructions = {Apply(Op::kAdd, {1, 1}, 2)};
  program.outputs = {Formal("y", 2)};
  request.callee = program;
  request.inputs = {Given(TensorRef::Id(1))};
  absl::Notification done;
  absl::StatusOr<ExecuteResponse> response = absl::UnknownError("");
  engine->Execute(after, request, [&](absl::StatusOr<ExecuteResponse> r) {
    response = std::move(r);
    done.Notify();
  });
  EXPECT_FALSE(done.HasBeenNotified());
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2})}).ok());
  done.WaitForNotification();
  waiter.join();
  EXPECT_TRUE(info.ok()) << info.status();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(Floats(*response->outputs[0].data), ElementsAre(2, 2));

  after.after = 100;
  after.deadline = absl::Now() + absl::Milliseconds(1);
  EXPECT_EQ(ReasonOf(Run(after, request).status()), Reason::kDeadlineExceeded);
  EXPECT_THAT(Meta(engine->DeleteTensors(after, {}).status(), "stage"), HasSubstr("message 100"));
}

TEST_F(ExecutorTest, MemoryThatRunsOutIsRefusedWithTheNumbersAndTheHolders) {
  Start({}, size_t{1} << 20, size_t{1} << 20);
  Client other(*engine, {}, "other");
  ASSERT_TRUE(other.Send({Make(Op::kOnes, 1, {25000}, "cpu")}).ok());
  other.Settle();
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {50000}, "cpu"), Make(Op::kOnes, 2, {40000}, "cpu")}).ok());
  PublishRequest publish;
  publish.source = TensorRef::Id(1);
  publish.name = "kept";
  ASSERT_TRUE(engine->Publish(client.caller, publish).ok());
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 3, {200000}, "cpu"), Apply(Op::kRelu, {3}, 4)}).ok());
  const absl::Status error = client.Get(4).error;
  EXPECT_EQ(ReasonOf(error), Reason::kMemoryExhausted);
  EXPECT_EQ(error.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(cpu->trims(), 0) << "the cache was given back before the refusal";
  const ErrorDetails details = DetailsOf(error);
  EXPECT_EQ(details.Get("device"), "cpu");
  EXPECT_EQ(details.Get("requested"), "800000");
  ASSERT_TRUE(details.shortage.has_value());
  EXPECT_EQ(details.shortage->free, (size_t{1} << 20) - 460000);
  ASSERT_EQ(details.shortage->holders.size(), 3u);
  EXPECT_EQ(details.shortage->holders[0].name, "default/kept");
  EXPECT_EQ(details.shortage->holders[0].bytes, 200000u);
  EXPECT_EQ(details.shortage->holders[1].session, client.session);
  EXPECT_EQ(details.shortage->holders[2].session, "") << "another principal's are summed up";
  EXPECT_EQ(details.shortage->holders[2].name, "");
  EXPECT_EQ(details.shortage->holders[2].bytes, 100000u);
  // The next call works, and freeing makes room.
  ASSERT_TRUE(client.Send({Apply(Op::kAdd, {2, 2}, 5, {2}), Free({5})}).ok());
  EXPECT_TRUE(engine->DeleteTensors(client.caller, Delete({TensorRef::Id(1), TensorRef::Name("kept")})).ok());
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 6, {200000}, "cpu")}).ok());
  EXPECT_TRUE(client.Get(6).error.ok());
}

TEST_F(ExecutorTest, HandlesByTheHundredThousandLeaveNothing) {
  Client client(*engine);
  uint64_t id = 1;
  for (int round = 0; round < 20; ++round) {
    std::vector<Instruction> instructions;
    for (int i = 0; i < 5000; ++i) {
      instructions.push_back(Make(Op::kOnes, id, {2}));
      instructions.push_back(Free({id++}));
    }
    ASSERT_TRUE(client.Send(std::move(instructions)).ok());
  }
  client.Settle();
  const LocalEngine::Counts counts = engine->CountAlive();
  EXPECT_EQ(counts.handles, 0u);
  EXPECT_EQ(counts.buffers, 0u);
  EXPECT_EQ(counts.buffer_bytes, 0u);
}

TEST_F(ExecutorTest, SessionsInManyThreadsKeepTheirOwn) {
  constexpr int kThreads = 8;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Client client(*engine);
      const auto mark = static_cast<float>(t + 1);
      const std::string device = t % 2 == 0 ? "cpu" : "cuda:0";
      ASSERT_TRUE(client.Send({Constant(1, {2}, {mark, mark}, device), Constant(2, {2}, {0, 0}, device)}).ok());
      for (uint64_t i = 0; i < 200; ++i) {
        ASSERT_TRUE(client.Send({Apply(Op::kAdd, {2 + i, 1}, 3 + i, {2 + i})}).ok());
        if (i % 50 == 0) {
          ASSERT_EQ(client.Values(3 + i)[1], mark * static_cast<float>(i + 1));
        }
      }
      ASSERT_TRUE(client.Send({To(202, 203, device == "cpu" ? "cuda:0" : "cpu")}).ok());
      EXPECT_THAT(client.Values(203), ElementsAre(mark * 200, mark * 200));
      EXPECT_TRUE(engine->CloseSession(client.caller).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  AwaitCounts([](const auto& c) { return c.sessions == 0 && c.buffers == 0 && c.handles == 0; });
}

}  // namespace
}  // namespace tensord::testing
