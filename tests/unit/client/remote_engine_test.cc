// The engine interface through gRPC, where it differs from a function call: transfers, the stream's window, what
// happens without a daemon.
#include "client/cpp/remote_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "client/cpp/chunk_frame.h"
#include "server/engine/blocking.h"
#include "tests/unit/client/daemon.h"

namespace tensord::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Pattern(size_t bytes) {
  std::string out(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(i * 131 + (i >> 9));
  return out;
}

UploadStart Start(uint64_t id, int64_t bytes, Checksum checksum = Checksum::kXxh3) {
  return {.id = id, .spec = {.type = {Dtype::kUint8, {bytes}}, .device = "cpu"}, .checksum = checksum};
}

class RemoteEngineTest : public ::testing::Test {
 protected:
  RemoteEngineTest() : engine_(daemon_.Connect()) {
    absl::StatusOr<OpenSessionResponse> opened = engine_->OpenSession({}, {.client = "test"});
    EXPECT_TRUE(opened.ok()) << opened.status();
    caller_.token = opened->token;
  }

  absl::Status Write(UploadSink& sink, std::string_view data, uint64_t offset,
                     std::optional<uint64_t> checksum = std::nullopt) {
    return sink.Write(offset, {&data, 1}, checksum);
  }
  absl::StatusOr<std::string> Download(const TensorRef& tensor, uint64_t offset = 0, size_t piece = 100'000,
                                       uint64_t length = 0) {
    TENSORD_ASSIGN_OR_RETURN(auto source, Await<std::unique_ptr<DownloadSource>>([&](auto done) {
                               engine_->Download(caller_, {.tensor = tensor, .offset = offset, .length = length},
                                                 std::move(done));
                             }));
    std::string out, buffer(piece, '\0');
    for (;;) {
      TENSORD_ASSIGN_OR_RETURN(const size_t n, source->Read(absl::MakeSpan(buffer.data(), buffer.size())));
      if (n == 0) break;
      out.append(buffer, 0, n);
    }
    EXPECT_EQ(out.size(), source->total());
    return out;
  }

  Daemon daemon_;
  std::unique_ptr<Engine> engine_;
  Caller caller_;
};

TEST(ConnectTest, SaysWhatToDoWhereNobodyAnswers) {
  const absl::Status refused =
      ConnectEngine({.server = "127.0.0.1:1", .connect_timeout = absl::Milliseconds(200)}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()), StartsWith("nobody answers at 127.0.0.1:1 ("));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("start a daemon with `tensord`, or name another with --server or TENSORD_SERVER"));
  const absl::Status socket =
      ConnectEngine({.server = "unix:/nonexistent/tensord.sock", .connect_timeout = absl::Milliseconds(200)}).status();
  EXPECT_THAT(std::string(socket.message()), StartsWith("nobody answers at unix:/nonexistent/tensord.sock"));
}

TEST_F(RemoteEngineTest, UploadsAndDownloadsInPiecesOfAnySize) {
  const std::string data = Pattern((5 << 20) + 12345);
  uint64_t id = 0;
  for (const size_t piece : {size_t{70'001}, size_t{1} << 20, size_t{3'000'000}, data.size()}) {
    auto sink = engine_->Upload(caller_, Start(++id, static_cast<int64_t>(data.size())));
    ASSERT_TRUE(sink.ok()) << sink.status();
    EXPECT_EQ((*sink)->received(), 0u);
    EXPECT_EQ((*sink)->total(), data.size());
    for (size_t at = 0; at < data.size(); at += piece) {
      EXPECT_FALSE((*sink)->complete());
      ASSERT_EQ(Write(**sink, std::string_view(data).substr(at, piece), at), absl::OkStatus());
    }
    EXPECT_TRUE((*sink)->complete());
    const absl::StatusOr<TensorInfo> info = (*sink)->Finish();
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->state, TensorState::kReady);
    EXPECT_EQ(info->bytes, data.size());
    EXPECT_EQ(*Download(TensorRef::Id(id), 0, piece), data);
  }
  EXPECT_EQ(*Download(TensorRef::Id(id), 5 << 20), data.substr(5 << 20));
  EXPECT_EQ(*Download(TensorRef::Id(id), 100, 7, 1000), data.substr(100, 1000));
}

TEST_F(RemoteEngineTest, UploadsAnEmptyTensor) {
  auto sink = engine_->Upload(caller_, Start(1, 0));
  ASSERT_TRUE(sink.ok()) << sink.status();
  EXPECT_TRUE((*sink)->complete());
  EXPECT_TRUE((*sink)->Finish().ok());
  EXPECT_EQ(*Download(TensorRef::Id(1)), "");
}

TEST_F(RemoteEngineTest, UploadsFromPieces) {
  const std::string data = Pattern(3 << 20);
  const std::string_view whole(data);
  const std::string_view pieces[] = {whole.substr(0, 1), "", whole.substr(1, 1 << 20), whole.substr((1 << 20) + 1)};
  auto sink = engine_->Upload(caller_, Start(1, static_cast<int64_t>(data.size())));
  ASSERT_TRUE(sink.ok());
  ASSERT_TRUE((*sink)->Write(0, pieces, std::nullopt).ok());
  ASSERT_TRUE((*sink)->Finish().ok());
  EXPECT_EQ(*Download(TensorRef::Id(1)), data);
}

TEST_F(RemoteEngineTest, RefusesWrongOffsetsAtOnce) {
  auto sink = engine_->Upload(caller_, Start(1, 100));
  ASSERT_TRUE(sink.ok());
  ASSERT_TRUE(Write(**sink, Pattern(10), 0).ok());
  const absl::Status gap = Write(**sink, Pattern(10), 20);
  EXPECT_EQ(ReasonOf(gap), Reason::kChunkOffset);
  EXPECT_EQ(DetailsOf(gap).Get("expected"), "10");
  EXPECT_EQ(Write(**sink, Pattern(10), 10), gap) << "of no use after an error";
  EXPECT_EQ((*sink)->Finish().status(), gap);
  auto past = engine_->Upload(caller_, Start(2, 100));
  ASSERT_TRUE(past.ok());
  EXPECT_EQ(ReasonOf(Write(**past, Pattern(101), 0)), Reason::kChunkOffset);
}

TEST_F(RemoteEngineTest, WrongChecksumsKeepNothing) {
  const std::string data = Pattern(1000);
  auto sink = engine_->Upload(caller_, Start(1, 1000));
  ASSERT_TRUE(sink.ok());
  const std::string_view piece(data);
  absl::Status status = Write(**sink, data, 0, Xxh3({&piece, 1}) + 1);
  if (status.ok()) status = (*sink)->Finish().status();  // the daemon's word may come with a later call
  EXPECT_EQ(ReasonOf(status), Reason::kChecksumMismatch);
  sink->reset();
  auto again = engine_->Upload(caller_, Start(1, 1000));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->received(), 0u);
  ASSERT_TRUE(Write(**again, data, 0, Xxh3({&piece, 1})).ok());
  ASSERT_TRUE((*again)->Finish().ok());
  EXPECT_EQ(*Download(TensorRef::Id(1)), data);
}

TEST_F(RemoteEngineTest, UploadsResumeWhereTheyStopped) {
  const std::string data = Pattern(4 << 20);
  const size_t half = 2'000'003;
  {
    auto sink = engine_->Upload(caller_, Start(1, static_cast<int64_t>(data.size())));
    ASSERT_TRUE(sink.ok());
    ASSERT_TRUE(Write(**sink, std::string_view(data).substr(0, half), 0).ok());
  }
  auto sink = engine_->Upload(caller_, Start(1, static_cast<int64_t>(data.size())));
  ASSERT_TRUE(sink.ok()) << sink.status();
  EXPECT_EQ((*sink)->received(), half);
  ASSERT_TRUE(Write(**sink, std::string_view(data).substr(half), half).ok());
  ASSERT_TRUE((*sink)->Finish().ok());
  EXPECT_EQ(*Download(TensorRef::Id(1)), data);
}

TEST_F(RemoteEngineTest, TransfersTellTheDaemonsRefusals) {
  EXPECT_EQ(ReasonOf(engine_->Upload({}, Start(1, 10)).status()), Reason::kSessionRequired);
  UploadStart nowhere = Start(1, 10);
  nowhere.spec.device = "cuda:9";
  const absl::Status status = engine_->Upload(caller_, nowhere).status();
  EXPECT_EQ(ReasonOf(status), Reason::kDeviceUnknown);
  EXPECT_EQ(DetailsOf(status).Get("known"), "cpu, cuda:0, cuda:1");
  auto sink = engine_->Upload(caller_, Start(3, 10));
  ASSERT_TRUE(sink.ok());
  EXPECT_EQ(ReasonOf((*sink)->Finish().status()), Reason::kUploadIncomplete);
  EXPECT_EQ(ReasonOf(Download(TensorRef::Id(99)).status()), Reason::kHandleUnknown);
  EXPECT_EQ(ReasonOf(Download(TensorRef::Name("none")).status()), Reason::kNameUnknown);
}

// A download asked before the upload's last byte waits for it, and does not block who asked.
TEST_F(RemoteEngineTest, DownloadsWaitForTheUpload) {
  auto sink = engine_->Upload(caller_, Start(1, 100));
  ASSERT_TRUE(sink.ok());
  absl::Notification started;
  absl::StatusOr<std::unique_ptr<DownloadSource>> source = absl::UnknownError("not yet");
  engine_->Download(caller_, {.tensor = TensorRef::Id(1)}, [&](absl::StatusOr<std::unique_ptr<DownloadSource>> s) {
    source = std::move(s);
    started.Notify();
  });
  ASSERT_TRUE(Write(**sink, Pattern(100), 0).ok());
  ASSERT_TRUE((*sink)->Finish().ok());
  started.WaitForNotification();
  ASSERT_TRUE(source.ok()) << source.status();
  std::string out(100, '\0');
  EXPECT_EQ(*(*source)->Read(absl::MakeSpan(out.data(), out.size())), 100u);
  EXPECT_EQ(out, Pattern(100));
}

TEST_F(RemoteEngineTest, ADownloadMayBeGivenUp) {
  const std::string data = Pattern(8 << 20);
  auto sink = engine_->Upload(caller_, Start(1, static_cast<int64_t>(data.size())));
  ASSERT_TRUE(Write(**sink, data, 0).ok());
  ASSERT_TRUE((*sink)->Finish().ok());
  for (int i = 0; i < 20; ++i) {
    auto source = Await<std::unique_ptr<DownloadSource>>(
        [&](auto done) { engine_->Download(caller_, {.tensor = TensorRef::Id(1)}, std::move(done)); });
    ASSERT_TRUE(source.ok()) << source.status();
    char byte;
    EXPECT_EQ(*(*source)->Read({&byte, 1}), 1u);
  }
  EXPECT_EQ(*Download(TensorRef::Id(1)), data);
}

// Keeps what a stream says.
class Ear : public StreamListener {
 public:
  void OnReply(ReadReply reply) override {
    absl::MutexLock lock(&mu_);
    replies_.push_back(std::move(reply));
  }
  void OnReport(InstructionReport) override {}
  void OnAcknowledged(uint64_t sequence) override {
    absl::MutexLock lock(&mu_);
    acknowledged_ = sequence;
  }
  void OnNotice(absl::Status) override {}
  void OnEnd(absl::Status status) override {
    absl::MutexLock lock(&mu_);
    end_ = std::move(status);
  }

  std::vector<ReadReply> Replies(size_t count) {
    absl::MutexLock lock(&mu_);
    const auto enough = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return replies_.size() >= count || end_; };
    mu_.Await(absl::Condition(&enough));
    return replies_;
  }
  absl::Status End() {
    absl::MutexLock lock(&mu_);
    const auto ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return end_.has_value(); };
    mu_.Await(absl::Condition(&ended));
    return *end_;
  }
  void AwaitAcknowledged(uint64_t sequence) {
    absl::MutexLock lock(&mu_);
    const auto there = [this, sequence]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return acknowledged_ >= sequence; };
    mu_.Await(absl::Condition(&there));
  }

 private:
  absl::Mutex mu_;
  std::vector<ReadReply> replies_ ABSL_GUARDED_BY(mu_);
  uint64_t acknowledged_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
};

Instruction Make(Op op, std::vector<uint64_t> inputs, uint64_t output, Attributes attributes = {}) {
  Instruction out{};
  out.op = op;
  out.inputs.assign(inputs.begin(), inputs.end());
  out.output = output;
  out.attributes = std::move(attributes);
  return out;
}

Attributes OnesOf(int64_t n) { return CreateAttributes{.spec = {.type = {Dtype::kFloat32, {n}}, .device = "cpu"}}; }

// More instructions than the window holds: Submit waits for acknowledgements, and none is lost.
TEST_F(RemoteEngineTest, TheStreamKeepsWithinItsWindow) {
  auto ear = std::make_shared<Ear>();
  auto stream = engine_->OpenStream(caller_, ear);
  ASSERT_TRUE(stream.ok()) << stream.status();
  StreamMessage first{.sequence = 1};
  first.instructions.push_back(Make(Op::kOnes, {}, 1, OnesOf(2)));
  ASSERT_TRUE((*stream)->Submit(first).ok());
  uint64_t id = 1, sequence = 1;
  const int kMessages = 40, kEach = 5000;  // 200,000 instructions; the window is 65,536
  for (int m = 0; m < kMessages; ++m) {
    StreamMessage message{.sequence = ++sequence};
    for (int i = 0; i < kEach; ++i) {
      message.instructions.push_back(Make(Op::kAdd, {id, id}, id + 1));
      message.instructions.back().frees.push_back(id);
      ++id;
      if (i % 64 == 0) {  // keep the numbers finite
        message.instructions.push_back(Make(Op::kOnes, {}, ++id, OnesOf(2)));
        message.instructions.back().frees.push_back(id - 1);
      }
    }
    ASSERT_EQ((*stream)->Submit(std::move(message)), absl::OkStatus());
  }
  StreamMessage last{.sequence = ++sequence};
  last.instructions.push_back(Make(Op::kOnes, {}, ++id, OnesOf(2)));
  last.reads.push_back({.tag = 5, .id = id, .value = ValueFormat::kRaw});
  ASSERT_TRUE((*stream)->Submit(std::move(last)).ok());
  const std::vector<ReadReply> replies = ear->Replies(1);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].tag, 5u);
  EXPECT_EQ(replies[0].error, absl::OkStatus());
  ASSERT_TRUE(replies[0].data);
  EXPECT_EQ(replies[0].data->size(), 8u);
  ear->AwaitAcknowledged(sequence);
}

// What was submitted arrives although the stream is closed at once, and calls that name it wait for it.
TEST_F(RemoteEngineTest, ClosingLosesNothing) {
  {
    auto stream = engine_->OpenStream(caller_, std::make_shared<Ear>());
    ASSERT_TRUE(stream.ok());
    StreamMessage message{.sequence = 1};
    message.instructions.push_back(Make(Op::kOnes, {}, 1, OnesOf(3)));
    ASSERT_TRUE((*stream)->Submit(std::move(message)).ok());
  }
  Caller after = caller_;
  after.after = 1;
  const absl::StatusOr<TensorInfo> info = engine_->GetTensor(after, TensorRef::Id(1));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->spec.ToString(), "float32[3] on cpu");
}

TEST_F(RemoteEngineTest, TheStreamTellsHowItEnded) {
  auto ear = std::make_shared<Ear>();
  auto stream = engine_->OpenStream(caller_, ear);
  ASSERT_TRUE(stream.ok());
  absl::Status submitted = (*stream)->Submit({.sequence = 7});
  const absl::Status end = ear->End();
  EXPECT_EQ(ReasonOf(end), Reason::kSequenceGap);
  EXPECT_EQ(DetailsOf(end).Get("expected"), "1");
  submitted = (*stream)->Submit({.sequence = 8});
  EXPECT_EQ(ReasonOf(submitted), Reason::kSequenceGap);
}

TEST_F(RemoteEngineTest, RefusesSessionsThatAreNone) {
  for (const std::string token : {"0123456789abcdef0123456789abcdef", "not a token", "line\nbreak", "\xff"}) {
    Caller caller;
    caller.token = token;
    EXPECT_EQ(ReasonOf(engine_->KeepAlive(caller).status()), Reason::kSessionUnknown) << token;
    EXPECT_EQ(ReasonOf(engine_->OpenStream(caller, std::make_shared<Ear>()).status()), Reason::kSessionUnknown)
        << token;
    EXPECT_EQ(ReasonOf(engine_->Upload(caller, Start(1, 4)).status()), Reason::kSessionUnknown) << token;
  }
}

TEST_F(RemoteEngineTest, ADeadlineThatHasPassedIsToldAsSuch) {
  Caller late = caller_;
  late.deadline = absl::Now() - absl::Seconds(1);
  EXPECT_EQ(engine_->KeepAlive(late).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(RemoteEngineTest, ExecutesWithValuesAndErrors) {
  ExecuteRequest request;
  Program program;
  program.inputs = {{.name = "x", .id = 1}};
  program.outputs = {{.name = "y", .id = 2}};
  program.instructions.push_back(Make(Op::kAdd, {1, 1}, 2));
  request.callee = program;
  const float values[] = {1, 2};
  request.inputs = {
      {.name = "x",
       .value = TensorLiteral{{.type = {Dtype::kFloat32, {2}}}, {reinterpret_cast<const char*>(values), 8}}}};
  request.outputs = {{.name = "y", .value = ValueFormat::kRaw}};
  const auto run = [&] {
    return Await<ExecuteResponse>([&](auto done) { engine_->Execute(caller_, request, std::move(done)); });
  };
  const absl::StatusOr<ExecuteResponse> response = run();
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->outputs.size(), 1u);
  float sums[2];
  ASSERT_EQ(response->outputs[0].data->size(), sizeof(sums));
  std::memcpy(sums, response->outputs[0].data->data(), sizeof(sums));
  EXPECT_THAT(sums, ElementsAre(2, 4));
  request.inputs[0].name = "z";
  EXPECT_EQ(ReasonOf(run().status()), Reason::kArgumentMismatch);
}

}  // namespace
}  // namespace tensord::testing
