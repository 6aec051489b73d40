// Compute.Stream: order, gathering of replies, acknowledgements, half-close, ends.
#include "proto/wire/stream.h"

#include <grpcpp/generic/generic_stub.h>

#include <thread>

#include "tests/unit/rpc/fixture.h"

namespace tensord::testing {
namespace {

using ::testing::ElementsAre;

class StreamTest : public RpcTest {
 protected:
  using Call = grpc::ClientReaderWriter<v1::StreamRequest, v1::StreamResponse>;

  std::unique_ptr<Call> Open(grpc::ClientContext& context, const std::string& token = "token") {
    if (!token.empty()) context.AddMetadata("tensord-session", token);
    return compute_->Stream(&context);
  }
  static v1::StreamRequest Message(uint64_t sequence, std::vector<uint64_t> tags = {}) {
    v1::StreamRequest request;
    request.set_sequence(sequence);
    for (const uint64_t tag : tags) request.add_reads()->set_tag(tag);
    return request;
  }
  static ReadReply Reply(uint64_t tag, size_t bytes = 0) {
    ReadReply reply;
    reply.tag = tag;
    reply.spec = TensorSpec{{Dtype::kUint8, Dims{static_cast<int64_t>(bytes)}}, {}};
    reply.format = ValueFormat::kRaw;
    reply.data = std::string(bytes, 'x');
    return reply;
  }
  // Submits, and answers every read at once, as the engine does for tensors that are ready.
  void AnswerAtOnce(size_t bytes = 0) {
    engine_.submit = [bytes](StreamMessage& message, StreamListener& listener) {
      for (const Read& read : message.reads) listener.OnReply(Reply(read.tag, bytes));
      listener.OnAcknowledged(message.sequence);
      return absl::OkStatus();
    };
  }
};

TEST_F(StreamTest, RepliesOfOneMessageLeaveTogetherWithItsAcknowledgement) {
  Start();
  AnswerAtOnce();
  grpc::ClientContext context;
  const auto call = Open(context);
  ASSERT_TRUE(call->Write(Message(1, {10, 11, 12})));
  v1::StreamResponse response;
  ASSERT_TRUE(call->Read(&response));
  EXPECT_EQ(response.acknowledged(), 1u);
  ASSERT_EQ(response.replies_size(), 3);
  EXPECT_EQ(response.replies(0).tag(), 10u);
  EXPECT_EQ(response.replies(2).tag(), 12u);
  EXPECT_EQ(response.replies(0).spec().dtype(), v1::DTYPE_UINT8);
  call->WritesDone();
  EXPECT_FALSE(call->Read(&response));
  EXPECT_TRUE(call->Finish().ok());
  EXPECT_EQ(engine_.messages.All().at(0).wire_bytes, Message(1, {10, 11, 12}).ByteSizeLong());
  EXPECT_EQ(engine_.callers.All().at(0).token, "token");
}

TEST_F(StreamTest, ResponsesStayBelowTheClientsBound) {
  Start();
  AnswerAtOnce(/*bytes=*/700'000);
  grpc::ClientContext context;
  const auto call = Open(context);
  std::vector<uint64_t> tags;
  for (uint64_t tag = 1; tag <= 20; ++tag) tags.push_back(tag);
  ASSERT_TRUE(call->Write(Message(1, tags)));
  call->WritesDone();
  v1::StreamResponse response;
  uint64_t next = 1;
  while (call->Read(&response)) {
    EXPECT_LE(response.ByteSizeLong(), 2u << 20);
    for (const v1::ReadReply& reply : response.replies()) EXPECT_EQ(reply.tag(), next++);
  }
  EXPECT_EQ(next, 21u);
  EXPECT_TRUE(call->Finish().ok());
}

TEST_F(StreamTest, AnAcknowledgementAloneComesWithinItsTime) {
  Start();
  AnswerAtOnce();
  grpc::ClientContext context;
  const auto call = Open(context);
  v1::StreamResponse response;
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    ASSERT_TRUE(call->Write(Message(sequence)));
    ASSERT_TRUE(call->Read(&response));
    EXPECT_EQ(response.acknowledged(), sequence);
    EXPECT_EQ(response.replies_size(), 0);
  }
  call->WritesDone();
  EXPECT_TRUE(call->Finish().ok());
}

TEST_F(StreamTest, HalfCloseWaitsForEveryPendingRead) {
  Start();
  engine_.submit = [](StreamMessage& message, StreamListener& listener) {
    listener.OnAcknowledged(message.sequence);
    return absl::OkStatus();
  };
  grpc::ClientContext context;
  const auto call = Open(context);
  ASSERT_TRUE(call->Write(Message(1, {1, 2})));
  call->WritesDone();
  v1::StreamResponse response;
  ASSERT_TRUE(call->Read(&response));  // the acknowledgement
  EXPECT_EQ(response.acknowledged(), 1u);
  const auto listener = engine_.listeners.Await(1).at(0);
  listener->OnReply(Reply(2));
  ASSERT_TRUE(call->Read(&response));
  EXPECT_EQ(response.replies(0).tag(), 2u);
  listener->OnReply(Reply(1));
  ASSERT_TRUE(call->Read(&response));
  EXPECT_EQ(response.replies(0).tag(), 1u);
  EXPECT_FALSE(call->Read(&response));
  EXPECT_TRUE(call->Finish().ok());
}

// Messages sent again after a cut are skipped by the engine, and so are their reads.
TEST_F(StreamTest, HalfCloseDoesNotWaitForReadsOfSkippedMessages) {
  Start();
  engine_.submit = [expected = uint64_t{1}](StreamMessage& message, StreamListener& listener) mutable {
    if (message.sequence == expected) {
      ++expected;
      for (const Read& read : message.reads) listener.OnReply(Reply(read.tag));
    }
    listener.OnAcknowledged(expected - 1);
    return absl::OkStatus();
  };
  engine_.open_session = [](const OpenSessionRequest&) -> absl::StatusOr<OpenSessionResponse> {
    OpenSessionResponse response;
    response.session = "5d1c90aa7e03f2b4";
    response.token = "token";
    return response;
  };
  grpc::ClientContext opening;
  v1::OpenSessionRequest open;
  open.set_min_version(1);
  open.set_max_version(1);
  v1::OpenSessionResponse opened;
  ASSERT_TRUE(sessions_->OpenSession(&opening, open, &opened).ok());
  for (const uint64_t last : {1u, 2u}) {
    grpc::ClientContext context;
    const auto call = Open(context);
    for (uint64_t sequence = 1; sequence <= last; ++sequence)
      ASSERT_TRUE(call->Write(Message(sequence, {100 + sequence})));
    call->WritesDone();
    v1::StreamResponse response;
    std::vector<uint64_t> tags;
    while (call->Read(&response)) {
      for (const v1::ReadReply& reply : response.replies()) tags.push_back(reply.tag());
    }
    EXPECT_TRUE(call->Finish().ok());
    EXPECT_THAT(tags, ElementsAre(100 + last));
  }
}

TEST_F(StreamTest, RepliesFromOtherThreadsAllArriveOnce) {
  Start();
  engine_.submit = [](StreamMessage& message, StreamListener& listener) {
    listener.OnAcknowledged(message.sequence);
    return absl::OkStatus();
  };
  constexpr uint64_t kReads = 1000;
  std::vector<uint64_t> tags;
  for (uint64_t tag = 1; tag <= kReads; ++tag) tags.push_back(tag);
  grpc::ClientContext context;
  const auto call = Open(context);
  ASSERT_TRUE(call->Write(Message(1, tags)));
  engine_.messages.Await(1);
  std::thread executor([&] {
    const auto listener = engine_.listeners.All().at(0);
    for (const uint64_t tag : tags) listener->OnReply(Reply(tag, 100));
  });
  call->WritesDone();
  v1::StreamResponse response;
  uint64_t next = 1;
  while (call->Read(&response)) {
    for (const v1::ReadReply& reply : response.replies()) EXPECT_EQ(reply.tag(), next++);
  }
  executor.join();
  EXPECT_EQ(next, kReads + 1);
  EXPECT_TRUE(call->Finish().ok());
}

TEST_F(StreamTest, ReportsAndNoticesArePassedOn) {
  Start();
  engine_.submit = [](StreamMessage&, StreamListener& listener) {
    InstructionReport report;
    report.sequence = 1;
    report.op = Op::kAdd;
    report.error = Error(Reason::kInternal).With("id", "x");
    listener.OnReport(report);
    listener.OnNotice(Error(Reason::kLeaseEnding).With("left", "5s"));
    return absl::OkStatus();
  };
  grpc::ClientContext context;
  const auto call = Open(context);
  ASSERT_TRUE(call->Write(Message(1)));
  v1::StreamResponse response;
  ASSERT_TRUE(call->Read(&response));
  ASSERT_EQ(response.reports_size(), 1);
  EXPECT_EQ(response.reports(0).op(), "add");
  ASSERT_EQ(response.notices_size(), 1);
  EXPECT_EQ(response.notices(0).code(), grpc::FAILED_PRECONDITION);
  call->WritesDone();
  EXPECT_TRUE(call->Finish().ok());
}

TEST_F(StreamTest, ManyLongReportsAreSpreadOverResponses) {
  Start();
  engine_.submit = [](StreamMessage& message, StreamListener& listener) {
    for (uint32_t i = 0; i < 2000; ++i) {
      InstructionReport report;
      report.sequence = message.sequence;
      report.instruction = i;
      report.op = Op::kAdd;
      report.label = std::string(4096, 'l');
      listener.OnReport(std::move(report));
    }
    listener.OnAcknowledged(message.sequence);
    return absl::OkStatus();
  };
  grpc::ClientContext context;
  const auto call = Open(context);
  ASSERT_TRUE(call->Write(Message(1)));
  call->WritesDone();
  v1::StreamResponse response;
  uint32_t next = 0;
  while (call->Read(&response)) {
    EXPECT_LE(response.ByteSizeLong(), 2u << 20);
    for (const v1::InstructionReport& report : response.reports()) EXPECT_EQ(report.instruction(), next++);
  }
  EXPECT_EQ(next, 2000u);
  EXPECT_TRUE(call->Finish().ok());
}

TEST_F(StreamTest, ARefusedSubmitEndsTheStreamAfterWhatWasSaid) {
  Start();
  engine_.submit = [](StreamMessage& message, StreamListener& listener) -> absl::Status {
    if (message.sequence == 1) {
      listener.OnReply(Reply(1));
      return absl::OkStatus();
    }
    const absl::Status gap = Error(Reason::kSequenceGap).With("expected", 2).With("got", message.sequence);
    listener.OnEnd(gap);
    return gap;
  };
  grpc::ClientContext context;
  const auto call = Open(context);
  ASSERT_TRUE(call->Write(Message(1, {1})));
  ASSERT_TRUE(call->Write(Message(9)));
  v1::StreamResponse response;
  ASSERT_TRUE(call->Read(&response));
  EXPECT_EQ(response.replies(0).tag(), 1u);
  EXPECT_FALSE(call->Read(&response));
  const grpc::Status status = call->Finish();
  EXPECT_EQ(status.error_code(), grpc::ABORTED);
  EXPECT_EQ(ReasonIn(status), Reason::kSequenceGap);
  EXPECT_EQ(engine_.events.Await(1).at(0), "stream gone");
  ExpectNextCallWorks();
}

TEST_F(StreamTest, TheEngineMayEndItAtAnyTime) {
  Start();
  AnswerAtOnce();
  grpc::ClientContext context;
  const auto call = Open(context);
  const auto listener = engine_.listeners.Await(1).at(0);
  listener->OnEnd(Error(Reason::kStreamReplaced).With("session", "5d1c90aa7e03f2b4"));
  v1::StreamResponse response;
  EXPECT_FALSE(call->Read(&response));
  EXPECT_EQ(ReasonIn(call->Finish()), Reason::kStreamReplaced);
  // Late words after the end are dropped.
  EXPECT_EQ(engine_.events.Await(1).at(0), "stream gone");
  listener->OnReply(Reply(1));
  listener->OnAcknowledged(3);
  ExpectNextCallWorks();
}

TEST_F(StreamTest, ACancelledStreamIsClosed) {
  Start();
  AnswerAtOnce();
  grpc::ClientContext context;
  const auto call = Open(context);
  engine_.listeners.Await(1);
  context.TryCancel();
  EXPECT_EQ(call->Finish().error_code(), grpc::CANCELLED);
  EXPECT_EQ(engine_.events.Await(1).at(0), "stream gone");
  ExpectNextCallWorks();
}

TEST_F(StreamTest, NeedsASession) {
  Start();
  grpc::ClientContext context;
  const auto call = Open(context, "");
  v1::StreamResponse response;
  EXPECT_FALSE(call->Read(&response));
  EXPECT_EQ(ReasonIn(call->Finish()), Reason::kSessionRequired);
}

TEST_F(StreamTest, BytesThatAreNoMessageAreRefusedByName) {
  Start();
  AnswerAtOnce();
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  context.AddMetadata("tensord-session", "token");
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  const auto call = stub.PrepareCall(&context, "/tensord.v1.Compute/Stream", &queue);
  call->StartCall(&queue);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::Slice slice("\xff\xff\xff");
  call->Write(grpc::ByteBuffer(&slice, 1), &queue);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::Status status;
  call->Finish(&status, &queue);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonIn(status), Reason::kFieldInvalid);
  EXPECT_TRUE(engine_.messages.All().empty());
}

TEST_F(StreamTest, DrainIsANoticeAndStopIsAStatus) {
  Start();
  AnswerAtOnce();
  grpc::ClientContext context;
  const auto call = Open(context);
  engine_.listeners.Await(1);
  server_->BeginDrain(absl::Seconds(5));
  v1::StreamResponse response;
  ASSERT_TRUE(call->Read(&response));
  ASSERT_EQ(response.notices_size(), 1);
  EXPECT_EQ(response.notices(0).code(), grpc::UNAVAILABLE);
  // The stream goes on until the engine, or the server, ends it; a stream alone keeps nobody waiting.
  EXPECT_TRUE(server_->AwaitCalls(absl::InfiniteFuture()));
  server_->Stop();
  EXPECT_FALSE(call->Read(&response));
  EXPECT_EQ(ReasonIn(call->Finish()), Reason::kDraining);
}

}  // namespace
}  // namespace tensord::testing
