// Uploads and downloads at their edges.
#define XXH_INLINE_ALL
#include <grpcpp/generic/generic_stub.h>
#include <xxhash.h>
#include <zlib.h>

#include "proto/wire/config.h"
#include "tests/unit/rpc/fixture.h"

namespace tensord::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

std::string Pattern(uint64_t size) {
  std::string bytes(size, '\0');
  for (uint64_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 131 + (i >> 10));
  return bytes;
}

class UploadTest : public RpcTest {
 protected:
  using Call = grpc::ClientReaderWriter<v1::UploadRequest, v1::UploadResponse>;

  // The engine takes uploads of `total` bytes, of which `bytes` are there already.
  void Expect(uint64_t total, std::string bytes = "") {
    kept_ = std::make_shared<FakeUpload>();
    kept_->total = total;
    kept_->bytes = std::move(bytes);
    engine_.upload = [this](const UploadStart& start) -> absl::StatusOr<std::unique_ptr<UploadSink>> {
      kept_->checksum = start.checksum;
      return std::make_unique<FakeSink>(kept_, engine_.events);
    };
  }
  static v1::UploadRequest StartOf(uint64_t total,
                                   v1::ChecksumAlgorithm checksum = v1::CHECKSUM_ALGORITHM_UNSPECIFIED) {
    v1::UploadRequest request;
    request.mutable_start()->set_id(20);
    request.mutable_start()->mutable_spec()->set_dtype(v1::DTYPE_UINT8);
    request.mutable_start()->mutable_spec()->add_shape(static_cast<int64_t>(total));
    request.mutable_start()->set_checksum(checksum);
    return request;
  }
  static v1::UploadRequest ChunkOf(uint64_t offset, std::string data) {
    v1::UploadRequest request;
    request.set_offset(offset);
    request.set_data(std::move(data));
    return request;
  }
  // Sends all, then reads to the end.
  grpc::Status Send(const std::vector<v1::UploadRequest>& requests, bool half_close = true) {
    grpc::ClientContext context;
    const std::unique_ptr<Call> call = tensors_->Upload(&context);
    for (const v1::UploadRequest& request : requests) {
      if (!call->Write(request)) break;
    }
    if (half_close) call->WritesDone();
    responses_.clear();
    v1::UploadResponse response;
    while (call->Read(&response)) responses_.push_back(response);
    return call->Finish();
  }

  std::shared_ptr<FakeUpload> kept_;
  std::vector<v1::UploadResponse> responses_;
};

TEST_F(UploadTest, FirstResponseComesAtOnceAndTheLastIsComplete) {
  Start();
  Expect(3 * kMiB);
  const std::string bytes = Pattern(3 * kMiB);
  grpc::ClientContext context;
  const std::unique_ptr<Call> call = tensors_->Upload(&context);
  ASSERT_TRUE(call->Write(StartOf(3 * kMiB)));
  v1::UploadResponse response;
  ASSERT_TRUE(call->Read(&response));
  EXPECT_EQ(response.received_bytes(), 0u);
  EXPECT_FALSE(response.complete());
  for (uint64_t at = 0; at < 3 * kMiB; at += kMiB) ASSERT_TRUE(call->Write(ChunkOf(at, bytes.substr(at, kMiB))));
  // Without a half-close: the daemon knows the size.
  ASSERT_TRUE(call->Read(&response));
  EXPECT_TRUE(response.complete());
  EXPECT_EQ(response.received_bytes(), 3 * kMiB);
  EXPECT_EQ(response.tensor().id(), 20u);
  EXPECT_EQ(response.tensor().state(), v1::TENSOR_STATE_READY);
  EXPECT_FALSE(call->Read(&response));
  EXPECT_TRUE(call->Finish().ok());
  EXPECT_EQ(kept_->bytes, bytes);
  EXPECT_THAT(engine_.events.All(), ElementsAre("chunk 0+1048576", "chunk 1048576+1048576", "chunk 2097152+1048576",
                                                "finish", "sink gone at 3145728"));
}

TEST_F(UploadTest, AnEmptyTensorNeedsNoChunk) {
  Start();
  Expect(0);
  ASSERT_TRUE(Send({StartOf(0)}, /*half_close=*/false).ok());
  ASSERT_EQ(responses_.size(), 1u);
  EXPECT_TRUE(responses_[0].complete());
}

TEST_F(UploadTest, AResumedUploadBeginsWhereTheFirstOneStopped) {
  Start();
  const std::string bytes = Pattern(100);
  Expect(100, bytes.substr(0, 60));
  ASSERT_TRUE(Send({StartOf(100), ChunkOf(60, bytes.substr(60))}).ok());
  EXPECT_EQ(responses_.front().received_bytes(), 60u);
  EXPECT_EQ(kept_->bytes, bytes);
}

TEST_F(UploadTest, ChecksumsArePassedOn) {
  Start();
  Expect(4);
  v1::UploadRequest chunk = ChunkOf(0, "abcd");
  chunk.set_checksum(XXH3_64bits("abcd", 4));
  ASSERT_TRUE(Send({StartOf(4, v1::CHECKSUM_ALGORITHM_XXH3_64), chunk}).ok());
  EXPECT_EQ(kept_->checksum, Checksum::kXxh3);
  EXPECT_EQ(engine_.events.All().at(0), "chunk 0+4 checked");
}

TEST_F(UploadTest, AnnouncedChecksumsMustCome) {
  Start();
  Expect(4);
  const grpc::Status status = Send({StartOf(4, v1::CHECKSUM_ALGORITHM_CRC32), ChunkOf(0, "abcd")});
  EXPECT_EQ(ReasonIn(status), Reason::kFieldInvalid);
  EXPECT_EQ(Details(status).fields.at(0).first, "checksum");
  EXPECT_THAT(engine_.events.All(), ElementsAre("sink gone at 0"));
}

// The sink goes before the client is told, so that its next Upload finds the place free.
TEST_F(UploadTest, AnEarlyEndIsIncompleteAndFreesThePlace) {
  Start();
  Expect(100);
  const grpc::Status status = Send({StartOf(100), ChunkOf(0, Pattern(60))});
  EXPECT_EQ(status.error_code(), grpc::ABORTED);
  EXPECT_EQ(ReasonIn(status), Reason::kUploadIncomplete);
  EXPECT_EQ(Details(status).Get("received"), "60");
  EXPECT_EQ(Details(status).Get("total"), "100");
  EXPECT_THAT(engine_.events.All(), ElementsAre("chunk 0+60", "sink gone at 60"));
  ASSERT_TRUE(Send({StartOf(100), ChunkOf(60, Pattern(40))}).ok());
}

TEST_F(UploadTest, AClientThatVanishesFreesThePlace) {
  Start();
  Expect(100);
  {
    grpc::ClientContext context;
    const std::unique_ptr<Call> call = tensors_->Upload(&context);
    ASSERT_TRUE(call->Write(StartOf(100)));
    ASSERT_TRUE(call->Write(ChunkOf(0, Pattern(10))));
    engine_.events.Await(1);
    context.TryCancel();
    EXPECT_EQ(call->Finish().error_code(), grpc::CANCELLED);
  }
  EXPECT_EQ(engine_.events.Await(2).back(), "sink gone at 10");
  ExpectNextCallWorks();
}

TEST_F(UploadTest, AClientThatIsSilentIsToldThatItLostItsPlace) {
  Start();
  Expect(100);
  grpc::ClientContext context;
  const std::unique_ptr<Call> call = tensors_->Upload(&context);
  ASSERT_TRUE(call->Write(StartOf(100)));
  v1::UploadResponse response;
  ASSERT_TRUE(call->Read(&response));
  kept_->revocation->Cancel(Error(Reason::kStreamReplaced).With("session", "s1"));
  EXPECT_FALSE(call->Read(&response));
  EXPECT_EQ(ReasonIn(call->Finish()), Reason::kStreamReplaced);
  EXPECT_EQ(engine_.events.Await(1).back(), "sink gone at 0");
  ExpectNextCallWorks();
  // Before the call has begun to listen.
  EXPECT_EQ(ReasonIn(Send({StartOf(100)}, /*half_close=*/false)), Reason::kStreamReplaced);
}

TEST_F(UploadTest, WrongOrderIsNamed) {
  Start();
  Expect(100);
  const auto refuse = [&](const std::vector<v1::UploadRequest>& requests) {
    const grpc::Status status = Send(requests);
    const ErrorDetails details = Details(status);
    ExpectNextCallWorks();
    return StrCat(RowOf(details.reason).name, " ", details.fields.empty() ? "" : details.fields[0].first);
  };
  EXPECT_EQ(refuse({}), "FIELD_INVALID start");
  EXPECT_EQ(refuse({ChunkOf(0, "abc")}), "FIELD_INVALID start");
  EXPECT_EQ(refuse({StartOf(100), StartOf(100)}), "FIELD_INVALID start");
  EXPECT_EQ(refuse({StartOf(100), ChunkOf(5, "abc")}), "CHUNK_OFFSET ");
  EXPECT_EQ(refuse({StartOf(100), ChunkOf(0, Pattern(101))}), "DATA_INVALID ");
}

TEST_F(UploadTest, ChunksAreBounded) {
  Limits limits;
  limits.max_chunk_bytes = 1000;
  wire::SetLimits(limits);
  Start(limits);
  Expect(2001);
  const grpc::Status status = Send({StartOf(2001), ChunkOf(0, Pattern(1000)), ChunkOf(1000, Pattern(1001))});
  wire::SetLimits(Limits{});
  EXPECT_EQ(ReasonIn(status), Reason::kLimitExceeded);
  EXPECT_EQ(Details(status).Get("maximum"), "1000");
  EXPECT_EQ(kept_->bytes.size(), 1000u);
  const grpc::Status empty = Send({StartOf(2001), ChunkOf(1000, "")});
  EXPECT_EQ(empty.error_code(), grpc::INVALID_ARGUMENT);
  ExpectNextCallWorks();
}

TEST_F(UploadTest, TheEnginesRefusalEndsTheCall) {
  Start();
  engine_.upload = [](const UploadStart&) -> absl::StatusOr<std::unique_ptr<UploadSink>> {
    return Error(Reason::kMemoryExhausted)
        .With("device", "cpu")
        .With("requested", 100)
        .With("free", 1)
        .With("cached", 0);
  };
  const grpc::Status status = Send({StartOf(100), ChunkOf(0, "abc")});
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonIn(status), Reason::kMemoryExhausted);
  ExpectNextCallWorks();
}

TEST_F(UploadTest, ShutdownEndsAnIdleUploadWithAStatus) {
  Start();
  Expect(100);
  grpc::ClientContext context;
  const std::unique_ptr<Call> call = tensors_->Upload(&context);
  ASSERT_TRUE(call->Write(StartOf(100)));
  v1::UploadResponse response;
  ASSERT_TRUE(call->Read(&response));
  server_->BeginDrain(absl::ZeroDuration());
  EXPECT_FALSE(server_->AwaitCalls(absl::InfinitePast()));
  server_->Stop();
  EXPECT_FALSE(call->Read(&response));
  const grpc::Status status = call->Finish();
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(ReasonIn(status), Reason::kDraining);
}

// The chunk's usual head, and every other spelling of the same message, mean the same.
TEST_F(UploadTest, AnySpellingOfAChunkIsTaken) {
  Start();
  grpc::GenericStub stub(channel_);
  const auto send = [&](const std::string& chunk) {
    Expect(3);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    void* tag = nullptr;
    bool ok = false;
    const auto call = stub.PrepareCall(&context, "/tensord.v1.Tensors/Upload", &queue);
    const auto step = [&] { return queue.Next(&tag, &ok) && ok; };
    const auto write = [&](const std::string& bytes) {
      grpc::Slice slice(bytes);
      call->Write(grpc::ByteBuffer(&slice, 1), &queue);
      return step();
    };
    call->StartCall(&queue);
    EXPECT_TRUE(step());
    EXPECT_TRUE(write(StartOf(3).SerializeAsString()));
    EXPECT_TRUE(write(chunk));
    grpc::Status status;
    grpc::ByteBuffer ignored;
    do {
      call->Read(&ignored, &queue);
    } while (step());
    call->Finish(&status, &queue);
    EXPECT_TRUE(step());
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) {
    }
    return status;
  };
  const std::string offset("\x11\0\0\0\0\0\0\0\0", 9);
  const std::string data(
      "\x7a\x03"
      "abc",
      5);
  EXPECT_TRUE(send(offset + data).ok());
  EXPECT_EQ(kept_->bytes, "abc");
  EXPECT_TRUE(send(data + offset).ok());
  EXPECT_EQ(kept_->bytes, "abc");
  EXPECT_TRUE(send(offset + std::string("\x7a\x83\x80\0"
                                        "abc",
                                        7))
                  .ok());
  EXPECT_EQ(kept_->bytes, "abc");
  EXPECT_TRUE(send(offset + std::string("\x7a\x01x", 3) + data).ok());  // the last one counts
  EXPECT_EQ(kept_->bytes, "abc");
  EXPECT_EQ(ReasonIn(send(offset + std::string("\x7a\x04"
                                               "abc",
                                               5))),
            Reason::kFieldInvalid);                                                              // cut short
  EXPECT_EQ(ReasonIn(send(offset + data + std::string("\x20\x01", 2))), Reason::kFieldUnknown);  // field 4
  EXPECT_EQ(ReasonIn(send("\xff\xff\xff")), Reason::kFieldInvalid);
  ExpectNextCallWorks();
}

class DownloadTest : public RpcTest {
 protected:
  void Offer(std::string bytes) {
    engine_.download = [this, bytes = std::move(bytes)](const DownloadRequest& request,
                                                        Done<std::unique_ptr<DownloadSource>> done) {
      done(std::make_unique<FakeSource>(bytes.substr(request.offset), engine_.events));
    };
  }
  static v1::DownloadRequest Request() {
    v1::DownloadRequest request;
    request.mutable_tensor()->set_id(20);
    return request;
  }
};

TEST_F(DownloadTest, StartThenChunksInOrder) {
  Start();
  const std::string bytes = Pattern(2 * kMiB + kMiB / 2);
  Offer(bytes);
  grpc::ClientContext context;
  const auto call = tensors_->Download(&context, Request());
  v1::DownloadResponse response;
  ASSERT_TRUE(call->Read(&response));
  EXPECT_EQ(response.start().total_bytes(), bytes.size());
  EXPECT_EQ(response.start().tensor().id(), 20u);
  std::string got;
  std::vector<size_t> sizes;
  while (call->Read(&response)) {
    EXPECT_FALSE(response.has_start());
    EXPECT_EQ(response.offset(), got.size());
    EXPECT_FALSE(response.has_checksum());
    got += response.data();
    sizes.push_back(response.data().size());
  }
  EXPECT_TRUE(call->Finish().ok());
  EXPECT_EQ(got, bytes);
  EXPECT_THAT(sizes, ElementsAre(kMiB, kMiB, kMiB / 2));
}

TEST_F(DownloadTest, OffsetChunkSizeAndChecksum) {
  Start();
  const std::string bytes = Pattern(1000);
  Offer(bytes);
  for (const auto algorithm : {v1::CHECKSUM_ALGORITHM_XXH3_64, v1::CHECKSUM_ALGORITHM_CRC32}) {
    v1::DownloadRequest request = Request();
    request.set_offset(100);
    request.set_chunk_bytes(400);
    request.set_checksum(algorithm);
    grpc::ClientContext context;
    const auto call = tensors_->Download(&context, request);
    v1::DownloadResponse response;
    ASSERT_TRUE(call->Read(&response));
    EXPECT_EQ(response.start().total_bytes(), 900u);
    std::string got;
    while (call->Read(&response)) {
      EXPECT_EQ(response.offset(), 100 + got.size());
      const std::string& data = response.data();
      EXPECT_LE(data.size(), 400u);
      EXPECT_EQ(response.checksum(),
                algorithm == v1::CHECKSUM_ALGORITHM_CRC32
                    ? crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size()))
                    : XXH3_64bits(data.data(), data.size()));
      got += data;
    }
    EXPECT_TRUE(call->Finish().ok());
    EXPECT_EQ(got, bytes.substr(100));
  }
}

// Slices of a few bytes hold them in themselves, larger ones by reference.
TEST_F(DownloadTest, ChecksumsOfShortChunks) {
  Start();
  const std::string bytes = Pattern(100);
  Offer(bytes);
  v1::DownloadRequest request = Request();
  request.set_chunk_bytes(3);
  request.set_checksum(v1::CHECKSUM_ALGORITHM_XXH3_64);
  grpc::ClientContext context;
  const auto call = tensors_->Download(&context, request);
  v1::DownloadResponse response;
  ASSERT_TRUE(call->Read(&response));
  std::string got;
  while (call->Read(&response)) {
    EXPECT_EQ(response.checksum(), XXH3_64bits(response.data().data(), response.data().size()));
    got += response.data();
  }
  EXPECT_TRUE(call->Finish().ok());
  EXPECT_EQ(got, bytes);
}

TEST_F(DownloadTest, AnEmptyTensorIsAStartAlone) {
  Start();
  Offer("");
  grpc::ClientContext context;
  const auto call = tensors_->Download(&context, Request());
  v1::DownloadResponse response;
  ASSERT_TRUE(call->Read(&response));
  EXPECT_TRUE(response.has_start());
  EXPECT_FALSE(call->Read(&response));
  EXPECT_TRUE(call->Finish().ok());
}

TEST_F(DownloadTest, ALargeRequestForAChunkIsCut) {
  Start();
  Offer(Pattern(9 * kMiB));
  v1::DownloadRequest request = Request();
  request.set_chunk_bytes(UINT64_MAX);
  grpc::ClientContext context;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  const auto stub = v1::Tensors::NewStub(
      grpc::CreateCustomChannel(server_->addresses()[0], grpc::InsecureChannelCredentials(), arguments));
  const auto call = stub->Download(&context, request);
  v1::DownloadResponse response;
  ASSERT_TRUE(call->Read(&response));
  ASSERT_TRUE(call->Read(&response));
  EXPECT_EQ(response.data().size(), Limits{}.max_chunk_bytes);
  while (call->Read(&response)) {
  }
  EXPECT_TRUE(call->Finish().ok());
}

TEST_F(DownloadTest, AFailedTensorEndsTheCallWithItsCause) {
  Start();
  engine_.download = [](const DownloadRequest&, Done<std::unique_ptr<DownloadSource>> done) {
    done(Error(Reason::kHandleUnknown).With("id", 20).With("kind", "tensor"));
  };
  grpc::ClientContext context;
  const auto call = tensors_->Download(&context, Request());
  v1::DownloadResponse response;
  EXPECT_FALSE(call->Read(&response));
  EXPECT_EQ(ReasonIn(call->Finish()), Reason::kHandleUnknown);
  ExpectNextCallWorks();
}

// A client that reads the start alone: the transport takes what its window holds, and one chunk at most is made beyond
// that.
TEST_F(DownloadTest, ASlowReaderStopsTheMaking) {
  Start();
  const std::string bytes = Pattern(64 * kMiB);
  Offer(bytes);
  grpc::ClientContext context;
  const auto call = tensors_->Download(&context, Request());
  v1::DownloadResponse response;
  ASSERT_TRUE(call->Read(&response));
  context.TryCancel();
  call->Finish();
  const auto seen = engine_.events.Await(1);
  size_t read = 0;
  for (const std::string& event : seen) read += event.starts_with("read ") ? std::stoul(event.substr(5)) : 0;
  EXPECT_LT(read, bytes.size());
}

TEST_F(DownloadTest, ClientsThatGoAwayReleaseTheSource) {
  Start();
  Offer(Pattern(64 * kMiB));
  grpc::ClientContext context;
  const auto call = tensors_->Download(&context, Request());
  v1::DownloadResponse response;
  ASSERT_TRUE(call->Read(&response));
  context.TryCancel();
  call->Finish();
  for (size_t count = 1; engine_.events.Await(count).back() != "source gone"; ++count) {
  }
  ExpectNextCallWorks();
}

TEST_F(DownloadTest, AnAnswerAfterTheClientHasGoneIsDropped) {
  Start();
  Recorded<std::shared_ptr<Done<std::unique_ptr<DownloadSource>>>> pending;
  engine_.download = [&](const DownloadRequest&, Done<std::unique_ptr<DownloadSource>> done) {
    pending.Push(std::make_shared<Done<std::unique_ptr<DownloadSource>>>(std::move(done)));
  };
  grpc::ClientContext context;
  const auto call = tensors_->Download(&context, Request());
  const auto done = pending.Await(1);
  context.TryCancel();
  EXPECT_EQ(call->Finish().error_code(), grpc::CANCELLED);
  server_->AwaitCalls(absl::InfiniteFuture());  // the call is over before its answer comes
  (*done[0])(std::make_unique<FakeSource>("late", engine_.events));
  EXPECT_EQ(engine_.events.Await(1).back(), "source gone");
  ExpectNextCallWorks();
}

TEST_F(DownloadTest, ARequestThatCannotBeReadIsRefused) {
  Start();
  grpc::ClientContext context;
  const auto call = tensors_->Download(&context, {});
  v1::DownloadResponse response;
  EXPECT_FALSE(call->Read(&response));
  EXPECT_EQ(call->Finish().error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_TRUE(engine_.callers.All().empty());
}

}  // namespace
}  // namespace tensord::testing
