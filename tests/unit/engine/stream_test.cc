// Handles and the stream: order, views, failures and where they come from, reads, how a stream ends.
#include <gmock/gmock.h>

#include "tests/unit/engine/client.h"

namespace tensord::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StreamTest : public EngineTest {
 protected:
  void SetUp() override { Start(); }
};

TEST_F(StreamTest, ComputesInOrderAndFreesAsItGoes) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2, 3}), Make(Op::kOnes, 2, {2, 3})}).ok());
  std::vector<Instruction> adds;
  for (uint64_t i = 0; i < 1000; ++i) adds.push_back(Apply(Op::kAdd, {2 + i, 1}, 3 + i, {2 + i}));
  ASSERT_TRUE(client.Send(adds).ok());
  EXPECT_THAT(client.Values(1002), ElementsAre(1001, 1001, 1001, 1001, 1001, 1001));
  EXPECT_EQ(engine->CountAlive().handles, 2u);
  EXPECT_EQ(client.listener->acknowledged(), 3u);
}

TEST_F(StreamTest, ReusesTheMemoryOfAnInputThatEnds) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {4}), Make(Op::kOnes, 2, {4})}).ok());
  client.Settle();
  ASSERT_TRUE(client
                  .Send({Apply(Op::kAdd, {1, 2}, 3, {1}), Apply(Op::kAdd, {3, 2}, 4), Reshape(4, 5, {2, 2}),
                         Apply(Op::kRelu, {4}, 6, {4})})
                  .ok());
  EXPECT_THAT(client.Values(6), ElementsAre(3, 3, 3, 3));
  const std::vector<RunRecord> runs = cpu->runs();
  ASSERT_EQ(runs.size(), 5u);
  EXPECT_TRUE(runs[2].in_place) << "1 ended here";
  EXPECT_FALSE(runs[3].in_place) << "3 lives on";
  EXPECT_FALSE(runs[4].in_place) << "5 is a view of 4";
  EXPECT_THAT(client.Values(3), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(client.Values(5), ElementsAre(3, 3, 3, 3));
}

TEST_F(StreamTest, ABroadcastInputIsNotOverwritten) {
  Client client(*engine);
  ASSERT_TRUE(
      client.Send({Constant(1, {1, 2}, {1, 2}), Constant(2, {2, 1}, {10, 20}), Apply(Op::kAdd, {1, 2}, 3, {1, 2})})
          .ok());
  EXPECT_THAT(client.Values(3), ElementsAre(11, 12, 21, 22));
}

TEST_F(StreamTest, ViewsShareMemoryEvenBeforeItIsThere) {
  Client client(*engine);
  cpu->Hold();
  ASSERT_TRUE(client
                  .Send({Make(Op::kOnes, 9, {1}), Constant(1, {2, 3}, {1, 2, 3, 4, 5, 6}), Permute(1, 2, {1, 0}),
                         Reshape(1, 3, {6})})
                  .ok());
  const auto info = engine->GetTensor(client.caller, TensorRef::Id(2));
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->state, TensorState::kPending);
  EXPECT_TRUE(info->shared_storage);
  EXPECT_EQ(info->spec.type.ToString(), "float32[3,2]");
  cpu->Release();
  EXPECT_THAT(client.Values(2), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(client.Values(3), ElementsAre(1, 2, 3, 4, 5, 6));
  // ones(9), the constant, and the copies that the reads of strided values needed.
  EXPECT_EQ(engine->CountAlive().buffers, 2u);
}

TEST_F(StreamTest, AReshapeThatStridesCannotSayCopies) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Constant(1, {2, 3}, {1, 2, 3, 4, 5, 6}), Permute(1, 2, {1, 0}), Reshape(2, 3, {6})}).ok());
  EXPECT_THAT(client.Values(3), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST_F(StreamTest, ToWhereItIsAlreadyIsTheSameTensor) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0"), To(1, 2, "cuda"), To(1, 3, "cuda:0", true)}).ok());
  client.Settle();
  EXPECT_EQ(engine->CountAlive().handles, 3u);
  EXPECT_EQ(engine->CountAlive().buffers, 2u);
  EXPECT_FALSE(engine->GetTensor(client.caller, TensorRef::Id(2))->shared_storage);
}

TEST_F(StreamTest, MovesBetweenDevicesWaitForTheSource) {
  Client client(*engine);
  cpu->Hold();
  ASSERT_TRUE(client
                  .Send({Constant(1, {2, 2}, {1, 2, 3, 4}), Apply(Op::kAdd, {1, 1}, 2), Permute(2, 3, {1, 0}),
                         To(3, 4, "cuda:0", false), To(4, 5, "cpu"), Free({1, 2, 3, 4})})
                  .ok());
  cpu->Release();
  EXPECT_THAT(client.Values(5), ElementsAre(2, 6, 4, 8));
  AwaitCounts([](const auto& c) { return c.buffers == 1 && c.handles == 1; });
}

TEST_F(StreamTest, DevicesThatDifferAreRefusedWithTheFix) {
  Client client(*engine);
  ASSERT_TRUE(client
                  .Send({Labeled(Make(Op::kOnes, 1, {2, 3}, "cuda:0"), "X"), Labeled(Make(Op::kRand, 2, {2, 3}), "Y"),
                         Apply(Op::kAdd, {1, 2}, 3)},
                        {{1, 3, ValueFormat::kRaw}})
                  .ok());
  const absl::Status error = client.listener->Await(1).error;
  EXPECT_EQ(ReasonOf(error), Reason::kDeviceMismatch);
  EXPECT_THAT(std::string(error.message()),
              HasSubstr("add: operand 1 (Y, float32[2,3]) is on cpu, operand 0 (X, float32[2,3]) is on cuda:0; tensors "
                        "must be on one device. Move one first: Y.to(\"cuda:0\")"));
  const ErrorDetails details = DetailsOf(error);
  ASSERT_TRUE(details.origin.has_value());
  EXPECT_EQ(details.origin->id, 3u);
  EXPECT_EQ(details.origin->op, "add");
  EXPECT_EQ(details.origin->sequence, 1u);
  EXPECT_EQ(details.origin->instruction, 2u);
  EXPECT_EQ(details.origin->distance, 0u);
  ASSERT_TRUE(client.Send({To(2, 4, "cuda:0"), Apply(Op::kAdd, {1, 4}, 5)}).ok());
  EXPECT_EQ(client.Values(5).size(), 6u);
}

TEST_F(StreamTest, UsersOfAFailedHandleRepeatTheFirstCause) {
  Client client(*engine);
  ASSERT_TRUE(client
                  .Send({Make(Op::kOnes, 1, {2}), Make(Op::kOnes, 2, {3}), Apply(Op::kAdd, {1, 2}, 3),
                         Apply(Op::kRelu, {3}, 4), Reshape(4, 5, {1}), Apply(Op::kAdd, {1, 5}, 6)})
                  .ok());
  const absl::Status first = client.Get(3).error;
  EXPECT_EQ(ReasonOf(first), Reason::kShapeMismatch);
  EXPECT_EQ(Meta(first, "op"), "add");
  EXPECT_EQ(Meta(first, "instruction"), "2");
  const absl::Status last = client.Get(6).error;
  EXPECT_EQ(ReasonOf(last), Reason::kShapeMismatch);
  EXPECT_EQ(last.message(), first.message());
  EXPECT_EQ(DetailsOf(last).origin->id, 3u);
  EXPECT_EQ(DetailsOf(last).origin->distance, 3u);
  const auto info = engine->GetTensor(client.caller, TensorRef::Id(6));
  EXPECT_EQ(info->state, TensorState::kFailed);
  EXPECT_EQ(ReasonOf(info->error), Reason::kShapeMismatch);
  EXPECT_THAT(client.Values(1), ElementsAre(1, 1));
}

TEST_F(StreamTest, WhatFailsWhileRunningPoisonsWhatDependsOnIt) {
  Client client(*engine);
  cpu->Hold();
  cpu->FailRuns(Error(Reason::kIndexOutOfRange).With("index", 7).With("size", 3).With("axis", 0), 1, 1);
  ASSERT_TRUE(client
                  .Send({Make(Op::kOnes, 1, {2}), Labeled(Apply(Op::kRelu, {1}, 2), "bad"), Apply(Op::kAdd, {2, 1}, 3),
                         Reshape(3, 4, {2, 1}), Apply(Op::kAdd, {1, 1}, 5)})
                  .ok());
  cpu->Release();
  const absl::Status error = client.Get(4).error;
  EXPECT_EQ(ReasonOf(error), Reason::kIndexOutOfRange);
  EXPECT_EQ(Meta(error, "label"), "bad");
  const ErrorDetails details = DetailsOf(error);
  EXPECT_EQ(details.origin->id, 2u);
  EXPECT_EQ(details.origin->label, "bad");
  EXPECT_EQ(details.origin->distance, 2u);
  EXPECT_THAT(client.Values(5), ElementsAre(2, 2));
}

TEST_F(StreamTest, HandlesTellWhetherTheyWereEverThere) {
  Client client(*engine);
  ASSERT_TRUE(
      client.Send({Make(Op::kOnes, 1, {2}), Free({1}), Apply(Op::kRelu, {1}, 2), Apply(Op::kRelu, {77}, 3)}).ok());
  const absl::Status freed = client.Get(2).error;
  EXPECT_EQ(ReasonOf(freed), Reason::kHandleUnknown);
  EXPECT_EQ(Meta(freed, "state"), "freed");
  EXPECT_EQ(Meta(freed, "id"), "1");
  EXPECT_EQ(Meta(freed, "kind"), "tensor");
  EXPECT_EQ(Meta(client.Get(3).error, "state"), "never");
  EXPECT_EQ(Meta(client.Get(1).error, "state"), "freed");

  Client other(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 10, {2})}).ok());
  EXPECT_EQ(Meta(other.Get(10).error, "state"), "never") << "another session's";
  ASSERT_TRUE(other.Send({Make(Op::kOnes, 20, {2}), Make(Op::kOnes, 15, {2})}).ok());
  EXPECT_EQ(other.Values(15).size(), 2u) << "an id that was passed over may still be used, once";
  EXPECT_EQ(Meta(other.Get(16).error, "state"), "never");
}

TEST_F(StreamTest, AnIdIsNeverUsedTwice) {
  Client client(*engine);
  StreamMessage message = client.Message(
      {Constant(1, {1}, {5}), Make(Op::kOnes, 1, {1}), Make(Op::kOnes, 2, {1}), Free({2}), Make(Op::kOnes, 2, {1})});
  message.report = ReportLevel::kFailures;
  ASSERT_TRUE(client.stream->Submit(message).ok());
  EXPECT_THAT(client.Values(1), ElementsAre(5)) << "what has the id keeps it";
  const std::vector<InstructionReport> reports = client.listener->AwaitReports(2);
  ASSERT_EQ(reports.size(), 2u);
  for (const InstructionReport& report : reports) EXPECT_EQ(ReasonOf(report.error), Reason::kHandleInUse);
  EXPECT_EQ(reports[0].instruction, 1u);
  EXPECT_EQ(reports[1].instruction, 4u);
  EXPECT_EQ(Meta(client.Get(2).error, "state"), "freed");
  // Nobody asked for reports here: a notice tells.
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {1}), Free({2})}).ok());
  ASSERT_EQ(client.listener->notices().size(), 2u);
  EXPECT_EQ(ReasonOf(client.listener->notices()[0]), Reason::kHandleInUse);
  EXPECT_EQ(ReasonOf(client.listener->notices()[1]), Reason::kHandleUnknown);
}

TEST_F(StreamTest, AnInvalidInstructionFailsItsOutputsOnly) {
  Client client(*engine);
  Instruction bad = Apply(Op::kNone, {}, 1);
  bad.invalid = Error(Reason::kOpUnknown).With("name", "addd").With("nearest", "add").With("daemon_version", "1");
  ASSERT_TRUE(client.Send({bad, Make(Op::kOnes, 2, {1})}).ok());
  EXPECT_EQ(ReasonOf(client.Get(1).error), Reason::kOpUnknown);
  EXPECT_THAT(client.Values(2), ElementsAre(1));
}

TEST_F(StreamTest, ScalarsFillTheZerosInInputs) {
  Client client(*engine);
  Instruction subtract = Apply(Op::kSubtract, {0, 1}, 2);
  subtract.scalars.push_back({5.0});
  Instruction missing = Apply(Op::kAdd, {1, 0}, 3);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}), subtract, missing}).ok());
  EXPECT_THAT(client.Values(2), ElementsAre(4, 4));
  EXPECT_EQ(ReasonOf(client.Get(3).error), Reason::kArityInvalid);
}

TEST_F(StreamTest, OpsAndDevicesThatAreNotThereAreRefused) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}), Apply(Op::kErf, {1}, 2), Make(Op::kOnes, 3, {2}, "cuda:7")}).ok());
  const absl::Status unsupported = client.Get(2).error;
  EXPECT_EQ(ReasonOf(unsupported), Reason::kOpUnsupported);
  EXPECT_EQ(Meta(unsupported, "dtype"), "float32");
  const absl::Status unknown = client.Get(3).error;
  EXPECT_EQ(ReasonOf(unknown), Reason::kDeviceUnknown);
  EXPECT_EQ(Meta(unknown, "device"), "cuda:7");
  EXPECT_EQ(Meta(unknown, "known"), "cpu, cuda:0");
}

TEST_F(StreamTest, AConstantMustHaveItsBytes) {
  Client client(*engine);
  Instruction boolean = Constant(2, {2}, {});
  boolean.attributes = ConstantAttributes{Spec({2}, "cpu", Dtype::kBool), std::string("\1\2", 2)};
  ASSERT_TRUE(client.Send({Constant(1, {3}, {1, 2}), boolean}).ok());
  EXPECT_EQ(ReasonOf(client.Get(1).error), Reason::kDataInvalid);
  const absl::Status error = client.Get(2).error;
  EXPECT_EQ(ReasonOf(error), Reason::kDataInvalid);
  EXPECT_EQ(Meta(error, "element"), "1");
}

TEST_F(StreamTest, RandomNumbersGoOnCountingInTheSession) {
  Client client(*engine);
  Instruction seeded = Make(Op::kRand, 3, {4});
  std::get<CreateAttributes>(seeded.attributes).seed = 42;
  Instruction again = seeded;
  again.output = 4;
  ASSERT_TRUE(client.Send({Make(Op::kRand, 1, {4}), Make(Op::kRand, 2, {4}), seeded, again}).ok());
  EXPECT_NE(client.Values(1), client.Values(2));
  EXPECT_EQ(client.Values(3), client.Values(4));
}

TEST_F(StreamTest, BindingsGiveIdsToNames) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2})}).ok());
  PublishRequest publish;
  publish.source = TensorRef::Id(1);
  publish.name = "x";
  ASSERT_TRUE(engine->Publish(client.caller, publish).ok());
  StreamMessage message = client.Message({Apply(Op::kAdd, {2, 2}, 4), Apply(Op::kRelu, {3}, 5)});
  message.bindings = {{2, TensorRef::Name("x")}, {3, TensorRef::Name("y")}};
  ASSERT_TRUE(client.stream->Submit(message).ok());
  EXPECT_THAT(client.Values(4), ElementsAre(2, 2));
  const absl::Status error = client.Get(5).error;
  EXPECT_EQ(ReasonOf(error), Reason::kNameUnknown);
  EXPECT_EQ(DetailsOf(error).origin->id, 3u);
  EXPECT_EQ(DetailsOf(error).origin->distance, 1u);
}

TEST_F(StreamTest, ReadsAreAnsweredAsTensorsBecomeReady) {
  Client client(*engine);
  cpu->Hold();
  ASSERT_TRUE(client
                  .Send({Make(Op::kOnes, 1, {2}), Make(Op::kOnes, 2, {3}, "cuda:0")},
                        {{1, 1, ValueFormat::kRaw}, {2, 2, ValueFormat::kNone}, {3, 0, ValueFormat::kNone}})
                  .ok());
  const ReadReply reply = client.listener->Await(2);
  EXPECT_EQ(reply.spec->ToString(), "float32[3] on cuda:0");
  EXPECT_FALSE(reply.data.has_value());
  EXPECT_FALSE(client.listener->replied(1));
  EXPECT_FALSE(client.listener->replied(3)) << "the barrier waits for everything before it";
  cpu->Release();
  client.listener->Await(3);
  client.listener->Await(1);
  EXPECT_EQ(client.listener->order()[0], 2u);
}

TEST_F(StreamTest, ReadsAreCancelledAtOnce) {
  Client client(*engine);
  cpu->Hold();
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2})}, {{1, 1, ValueFormat::kRaw}}).ok());
  StreamMessage message = client.Message({}, {{2, 1, ValueFormat::kRaw}, {2, 1, ValueFormat::kRaw}});
  message.cancels = {1, 99};
  ASSERT_TRUE(client.stream->Submit(message).ok());
  const absl::Status cancelled = client.listener->Await(1).error;
  EXPECT_EQ(ReasonOf(cancelled), Reason::kCancelled);
  EXPECT_EQ(Meta(cancelled, "tag"), "1");
  EXPECT_EQ(ReasonOf(client.listener->Await(2).error), Reason::kFieldInvalid) << "the second read of tag 2";
  cpu->Release();
  client.Settle();
  EXPECT_EQ(client.listener->replies(1), 1u);
  EXPECT_EQ(client.listener->replies(2), 2u);
}

TEST_F(StreamTest, LargeValuesDoNotComeInline) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {(1 << 18) + 1}), Make(Op::kOnes, 2, {1 << 18})}).ok());
  const ReadReply reply = client.Get(1);
  EXPECT_TRUE(reply.error.ok());
  EXPECT_TRUE(reply.spec.has_value());
  EXPECT_FALSE(reply.data.has_value());
  EXPECT_EQ(client.Values(2).size(), size_t{1} << 18);
}

TEST_F(StreamTest, MessagesThatCameBeforeAreSkipped) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2})}).ok());
  StreamMessage again = client.Message({Make(Op::kOnes, 50, {2})});
  again.sequence = 1;
  client.sequence = 2;
  ASSERT_TRUE(client.stream->Submit(again).ok());
  EXPECT_EQ(Meta(client.Get(50).error, "state"), "never");
  StreamMessage gap = client.Message({});
  gap.sequence = 7;
  const absl::Status status = client.stream->Submit(gap);
  EXPECT_EQ(ReasonOf(status), Reason::kSequenceGap);
  EXPECT_EQ(Meta(status, "expected"), "3");
  EXPECT_EQ(Meta(status, "got"), "7");
  EXPECT_EQ(client.listener->AwaitEnd(), status);
  EXPECT_EQ(client.stream->Submit(client.Message({})), status) << "it has ended";
  EXPECT_EQ(client.listener->ends(), 1);
}

TEST_F(StreamTest, AResumedSessionFindsItsHandlesAndItsNumber) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 733, {2})}).ok());
  client.stream.reset();
  OpenSessionRequest resume;
  resume.resume_token = client.caller.token;
  resume.incarnation = engine->incarnation();
  const auto opened = engine->OpenSession(Caller{}, resume);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE(opened->resumed);
  EXPECT_EQ(opened->next_sequence, 2u);
  EXPECT_EQ(opened->highest_id, 733u);
  client.OpenStream();
  EXPECT_THAT(client.Values(733), ElementsAre(1, 1));
}

TEST_F(StreamTest, ASecondStreamTakesOver) {
  Client client(*engine);
  const auto old_listener = client.listener;
  auto old_stream = std::move(client.stream);
  client.OpenStream();
  EXPECT_EQ(ReasonOf(old_listener->AwaitEnd()), Reason::kStreamReplaced);
  StreamMessage message;
  message.sequence = 1;
  EXPECT_EQ(ReasonOf(old_stream->Submit(message)), Reason::kStreamReplaced);
  old_stream.reset();
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2})}).ok()) << "the new one is not touched by the old one's end";
  EXPECT_THAT(client.Values(1), ElementsAre(1, 1));
}

TEST_F(StreamTest, ReportsTellHowInstructionsWent) {
  Client client(*engine);
  StreamMessage message =
      client.Message({Make(Op::kOnes, 1, {2}), Labeled(Apply(Op::kRelu, {1}, 2), "r"), Apply(Op::kErf, {1}, 3)});
  message.report = ReportLevel::kTimings;
  ASSERT_TRUE(client.stream->Submit(message).ok());
  const std::vector<InstructionReport> reports = client.listener->AwaitReports(3);
  ASSERT_EQ(reports.size(), 3u);
  int failures = 0;
  for (const InstructionReport& report : reports) {
    EXPECT_EQ(report.sequence, 1u);
    failures += report.error.ok() ? 0 : 1;
    if (report.instruction == 1) {
      EXPECT_EQ(report.label, "r");
      EXPECT_EQ(report.op, Op::kRelu);
    }
  }
  EXPECT_EQ(failures, 1);
}

TEST(StreamLimits, AreHeldAtTheirEdges) {
  struct Fixture : EngineTest {
    void TestBody() override {}
    using EngineTest::cpu;
    using EngineTest::engine;
    using EngineTest::Start;
  } f;
  EngineOptions options;
  options.limits.max_message_instructions = 4;
  options.limits.max_pending_reads = 2;
  options.limits.stream_window_bytes = 100;
  options.limits.max_handles = 3;
  options.limits.max_text_bytes = 8;
  f.Start(options);
  {
    Client client(*f.engine);
    std::vector<Instruction> frees(4, Free({}));
    EXPECT_TRUE(client.Send(frees).ok());
    frees.push_back(Free({}));
    EXPECT_EQ(Meta(client.Send(frees), "limit"), "max_message_instructions");
    EXPECT_EQ(ReasonOf(client.listener->AwaitEnd()), Reason::kLimitExceeded);
  }
  {
    Client client(*f.engine);
    StreamMessage message = client.Message({});
    message.wire_bytes = 101;
    EXPECT_EQ(Meta(client.stream->Submit(message), "quota"), "stream_window_bytes");
  }
  {
    Client client(*f.engine);
    f.cpu->Hold();
    EXPECT_TRUE(client.Send({Make(Op::kOnes, 1, {1})}, {{1, 1, {}}, {2, 1, {}}}).ok());
    EXPECT_EQ(Meta(client.Send({}, {{3, 1, {}}}), "quota"), "pending_reads");
    f.cpu->Release();
  }
  {
    Client client(*f.engine);
    ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {1}), Labeled(Make(Op::kOnes, 2, {1}), "123456789")}).ok());
    EXPECT_EQ(Meta(client.Get(2).error, "limit"), "max_text_bytes");
    EXPECT_TRUE(f.engine->KillSession(client.caller, client.session).ok());
  }
  Client client(*f.engine);
  // The clients before hold one handle each until their sessions end.
  const auto sessions = f.engine->ListSessions(client.caller, {});
  for (const SessionInfo& s : sessions->sessions) {
    if (s.session == client.session) continue;
    EXPECT_TRUE(f.engine->KillSession(client.caller, s.session).ok());
  }
  ASSERT_TRUE(
      client.Send({Make(Op::kOnes, 1, {1}), Make(Op::kOnes, 2, {1}), Make(Op::kOnes, 3, {1}), Make(Op::kOnes, 4, {1})})
          .ok());
  EXPECT_TRUE(client.Get(3).error.ok());
  EXPECT_EQ(Meta(client.Get(4).error, "quota"), "handles");
  ASSERT_TRUE(client.Send({Free({1, 2, 4}), Make(Op::kOnes, 5, {1})}).ok());
  EXPECT_TRUE(client.Get(5).error.ok());
}

}  // namespace
}  // namespace tensord::testing
