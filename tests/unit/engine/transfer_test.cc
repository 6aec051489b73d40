// Uploads and downloads: joining, resuming, takeover, checksums, what a broken one leaves behind.
#include <gmock/gmock.h>
#include <openssl/sha.h>
#include <xxhash.h>
#include <zlib.h>

#include "tests/unit/engine/client.h"

namespace tensord::testing {
namespace {

using ::testing::ElementsAre;

class TransferTest : public EngineTest {
 protected:
  void SetUp() override { Start(); }

  static absl::Status Put(UploadSink& sink, uint64_t offset, std::string_view data,
                          std::optional<uint64_t> checksum = std::nullopt) {
    return sink.Write(offset, {&data, 1}, checksum);
  }
  absl::StatusOr<std::unique_ptr<DownloadSource>> Download(const Caller& caller, DownloadRequest request) {
    return Await<std::unique_ptr<DownloadSource>>(
        [&](auto done) { engine->Download(caller, request, std::move(done)); });
  }
  std::string ReadAll(const Caller& caller, TensorRef tensor, uint64_t offset = 0, uint64_t length = 0) {
    DownloadRequest request;
    request.tensor = std::move(tensor);
    request.offset = offset;
    request.length = length;
    auto source = Download(caller, request);
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return "";
    std::string all;
    char buffer[7];
    while (true) {
      const auto n = (*source)->Read(absl::MakeSpan(buffer));
      EXPECT_TRUE(n.ok());
      if (*n == 0) break;
      all.append(buffer, *n);
    }
    EXPECT_EQ(all.size(), (*source)->total());
    return all;
  }
};

TEST_F(TransferTest, GoesUpAndComesDownOnEveryDevice) {
  Client client(*engine);
  const std::string data = Bytes({1, 2, 3, 4, 5, 6});
  uint64_t id = 1;
  for (const std::string device : {"cpu", "cuda:0"}) {
    auto sink = engine->Upload(client.caller, UploadOf(id, Spec({2, 3}, device)));
    ASSERT_TRUE(sink.ok()) << sink.status();
    EXPECT_EQ((*sink)->total(), 24u);
    const std::string_view pieces[] = {std::string_view(data).substr(0, 5), std::string_view(data).substr(5, 3)};
    ASSERT_TRUE((*sink)->Write(0, pieces, std::nullopt).ok());
    EXPECT_EQ((*sink)->received(), 8u);
    EXPECT_FALSE((*sink)->complete());
    EXPECT_EQ(ReasonOf((*sink)->Finish().status()), Reason::kUploadIncomplete);
    ASSERT_TRUE(Put(**sink, 8, std::string_view(data).substr(8)).ok());
    EXPECT_TRUE((*sink)->complete());
    const auto info = (*sink)->Finish();
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->state, TensorState::kReady);
    EXPECT_EQ(info->id, id);
    EXPECT_EQ(ReadAll(client.caller, TensorRef::Id(id)), data);
    EXPECT_EQ(ReadAll(client.caller, TensorRef::Id(id), 4, 8), data.substr(4, 8));
    EXPECT_EQ(ReadAll(client.caller, TensorRef::Id(id), 24), "");
    // Whatever the strides, bytes come in row-major order.
    ASSERT_TRUE(client.Send({Permute(id, id + 1, {1, 0})}).ok());
    EXPECT_EQ(ReadAll(client.caller, TensorRef::Id(id + 1)), Bytes({1, 4, 2, 5, 3, 6}));
    id += 2;
  }
}

TEST_F(TransferTest, ChunksOutOfPlaceAreRefused) {
  Client client(*engine);
  auto sink = engine->Upload(client.caller, UploadOf(1, Spec({4})));
  ASSERT_TRUE(sink.ok());
  const std::string data(20, 'x');
  ASSERT_TRUE(Put(**sink, 0, data.substr(0, 4)).ok());
  const absl::Status gap = Put(**sink, 8, data.substr(0, 4));
  EXPECT_EQ(ReasonOf(gap), Reason::kChunkOffset);
  EXPECT_EQ(Meta(gap, "expected"), "4");
  EXPECT_EQ(Meta(gap, "got"), "8");
  EXPECT_EQ(Meta(gap, "total"), "16");
  EXPECT_EQ(ReasonOf(Put(**sink, 0, data.substr(0, 4))), Reason::kChunkOffset) << "overlap";
  const absl::Status beyond = Put(**sink, 4, data.substr(0, 13));
  EXPECT_EQ(ReasonOf(beyond), Reason::kDataInvalid);
  EXPECT_EQ(Meta(beyond, "got_bytes"), "17");
  EXPECT_EQ(ReasonOf(Put(**sink, 4, "")), Reason::kFieldInvalid);
  EXPECT_EQ(Meta(Put(**sink, 4, std::string((4 << 20) + 1, 'x')), "limit"), "max_chunk_bytes");
  EXPECT_TRUE(Put(**sink, 4, data.substr(0, 12)).ok()) << "none of it was kept";
}

TEST_F(TransferTest, BoolsAreNothingButZeroAndOne) {
  Client client(*engine);
  auto sink = engine->Upload(client.caller, UploadOf(1, Spec({12}, "cpu", Dtype::kBool)));
  ASSERT_TRUE(sink.ok());
  std::string data("\1\0\1\1\0\0\0\1\1\2\0\0", 12);
  const absl::Status bad = Put(**sink, 0, data);
  EXPECT_EQ(ReasonOf(bad), Reason::kDataInvalid);
  EXPECT_EQ(Meta(bad, "element"), "9");
  data[9] = 1;
  EXPECT_TRUE(Put(**sink, 0, data).ok());
}

TEST_F(TransferTest, ChecksumsGuardChunks) {
  Client client(*engine);
  const std::string data = Bytes({1, 2, 3, 4});
  for (const Checksum algorithm : {Checksum::kXxh3, Checksum::kCrc32}) {
    UploadStart start = UploadOf(algorithm == Checksum::kXxh3 ? 1 : 2, Spec({4}));
    start.checksum = algorithm;
    auto sink = engine->Upload(client.caller, start);
    ASSERT_TRUE(sink.ok());
    const uint64_t good = algorithm == Checksum::kXxh3
                              ? XXH3_64bits(data.data(), data.size())
                              : crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size()));
    const absl::Status bad = Put(**sink, 0, data, good + 1);
    EXPECT_EQ(ReasonOf(bad), Reason::kChecksumMismatch);
    EXPECT_EQ(Meta(bad, "scope"), "chunk");
    EXPECT_EQ(Meta(bad, "got"), std::to_string(good));
    EXPECT_EQ((*sink)->received(), 0u);
    const std::string_view pieces[] = {std::string_view(data).substr(0, 3), std::string_view(data).substr(3)};
    ASSERT_TRUE((*sink)->Write(0, pieces, good).ok());
    EXPECT_TRUE((*sink)->Finish().ok());
  }
}

TEST_F(TransferTest, AHashGuardsTheWhole) {
  Client client(*engine);
  const std::string data = Bytes({1, 2, 3, 4});
  UploadStart start = UploadOf(1, Spec({4}));
  start.sha256 = "short";
  EXPECT_EQ(ReasonOf(engine->Upload(client.caller, start).status()), Reason::kFieldInvalid);
  start.sha256.resize(32);
  SHA256(reinterpret_cast<const unsigned char*>(data.data()), data.size(),
         reinterpret_cast<unsigned char*>(start.sha256.data()));
  auto sink = engine->Upload(client.caller, start);
  ASSERT_TRUE(sink.ok()) << sink.status();
  ASSERT_TRUE(Put(**sink, 0, Bytes({1, 2, 3, 5})).ok());
  const absl::Status bad = (*sink)->Finish().status();
  EXPECT_EQ(ReasonOf(bad), Reason::kChecksumMismatch);
  EXPECT_EQ(Meta(bad, "scope"), "content");
  EXPECT_EQ((*sink)->received(), 0u) << "begins anew";
  ASSERT_TRUE(Put(**sink, 0, data.substr(0, 9)).ok());
  ASSERT_TRUE(Put(**sink, 9, data.substr(9)).ok());
  EXPECT_TRUE((*sink)->Finish().ok());
}

TEST_F(TransferTest, ABrokenUploadResumesWhereItStopped) {
  Client client(*engine);
  const std::string data = Bytes({1, 2, 3, 4});
  {
    auto sink = engine->Upload(client.caller, UploadOf(20, Spec({4})));
    ASSERT_TRUE(Put(**sink, 0, data.substr(0, 6)).ok());
  }
  ASSERT_TRUE(client.Send({Apply(Op::kRelu, {20}, 21)}, {{1, 21, ValueFormat::kRaw}}).ok());
  EXPECT_EQ(ReasonOf(engine->Upload(client.caller, UploadOf(20, Spec({5}))).status()), Reason::kHandleInUse);
  auto sink = engine->Upload(client.caller, UploadOf(20, Spec({4})));
  ASSERT_TRUE(sink.ok());
  EXPECT_EQ((*sink)->received(), 6u);
  ASSERT_TRUE(Put(**sink, 6, data.substr(6)).ok());
  ASSERT_TRUE((*sink)->Finish().ok());
  EXPECT_THAT(Floats(*client.listener->Await(1).data), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(ReasonOf(engine->Upload(client.caller, UploadOf(20, Spec({4}))).status()), Reason::kHandleInUse);
}

TEST_F(TransferTest, ASecondUploadTakesOver) {
  Client client(*engine);
  auto first = engine->Upload(client.caller, UploadOf(1, Spec({2})));
  ASSERT_TRUE(Put(**first, 0, "abc").ok());
  auto second = engine->Upload(client.caller, UploadOf(1, Spec({2})));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*second)->received(), 3u);
  const absl::Status replaced = Put(**first, 3, "d");
  EXPECT_EQ(ReasonOf(replaced), Reason::kStreamReplaced);
  EXPECT_EQ(Meta(replaced, "session"), client.session);
  EXPECT_EQ(ReasonOf((*first)->Finish().status()), Reason::kStreamReplaced);
  first->reset();
  ASSERT_TRUE(Put(**second, 3, "defgh").ok());
  EXPECT_TRUE((*second)->Finish().ok());
  EXPECT_EQ(ReadAll(client.caller, TensorRef::Id(1)), "abcdefgh");
}

TEST_F(TransferTest, UploadAndInstructionJoinWhicheverComesFirst) {
  Client client(*engine);
  // The call first, even finished, then the instruction.
  auto sink = engine->Upload(client.caller, UploadOf(5, Spec({1})));
  ASSERT_TRUE(Put(**sink, 0, Bytes({7})).ok());
  ASSERT_TRUE((*sink)->Finish().ok());
  ASSERT_TRUE(client.Send({Make(Op::kUpload, 5, {1}), Apply(Op::kAdd, {5, 5}, 6)}).ok());
  EXPECT_THAT(client.Values(6), ElementsAre(14));
  EXPECT_TRUE(client.listener->notices().empty());
  // Once is enough, and the spec must be the same.
  ASSERT_TRUE(client.Send({Make(Op::kUpload, 5, {1})}).ok());
  ASSERT_EQ(client.listener->notices().size(), 1u);
  EXPECT_EQ(ReasonOf(client.listener->notices()[0]), Reason::kHandleInUse);
  // The instruction first.
  ASSERT_TRUE(client.Send({Make(Op::kUpload, 8, {1}), Apply(Op::kAdd, {8, 8}, 9)}).ok());
  EXPECT_EQ(ReasonOf(engine->Upload(client.caller, UploadOf(8, Spec({2}))).status()), Reason::kHandleInUse);
  sink = engine->Upload(client.caller, UploadOf(8, Spec({1})));
  ASSERT_TRUE(sink.ok()) << sink.status();
  ASSERT_TRUE(Put(**sink, 0, Bytes({2})).ok());
  ASSERT_TRUE((*sink)->Finish().ok());
  EXPECT_THAT(client.Values(9), ElementsAre(4));
}

TEST_F(TransferTest, MemoryIsAskedForBeforeTheFirstByte) {
  Start({}, 1 << 20, 1 << 16);
  Client client(*engine);
  const auto refused = engine->Upload(client.caller, UploadOf(1, Spec({1 << 15}, "cuda:0")));
  EXPECT_EQ(ReasonOf(refused.status()), Reason::kMemoryExhausted);
  const auto quota = engine->Upload(client.caller, UploadOf(1, Spec({1 << 18}, "cpu")));
  EXPECT_EQ(Meta(quota.status(), "quota"), "upload_bytes");
  EXPECT_EQ(engine->CountAlive().handles, 0u);
  EXPECT_TRUE(engine->Upload(client.caller, UploadOf(1, Spec({16}, "cuda:0"))).ok()) << "the same id again";
}

TEST_F(TransferTest, HostileSpecsAreRefused) {
  Client client(*engine);
  const auto reason = [&](SpecRequest spec) {
    return ReasonOf(engine->Upload(client.caller, UploadOf(1, std::move(spec))).status());
  };
  EXPECT_EQ(reason(Spec({2}, "cpu", Dtype::kNone)), Reason::kDtypeUnknown);
  EXPECT_EQ(reason(Spec({2}, "cpu", static_cast<Dtype>(99))), Reason::kDtypeUnknown);
  EXPECT_EQ(reason(Spec({-1, 4})), Reason::kShapeInvalid);
  EXPECT_EQ(reason(Spec({int64_t{1} << 62, 4})), Reason::kShapeInvalid);
  EXPECT_EQ(reason(Spec(Dims(65, 1))), Reason::kLimitExceeded);
  EXPECT_EQ(reason(Spec({2}, "cuda:7")), Reason::kDeviceUnknown);
  EXPECT_EQ(reason(Spec({2}, "cpu", Dtype::kComplex64)), Reason::kOpUnsupported);
  EXPECT_EQ(reason(Spec({int64_t{1} << 45})), Reason::kQuotaExceeded);
  const absl::Status none = engine->Upload(client.caller, UploadOf(0, Spec({2}))).status();
  EXPECT_EQ(ReasonOf(none), Reason::kFieldInvalid);
  EXPECT_EQ(ReasonOf(engine->Upload(Caller{}, UploadOf(1, Spec({2}))).status()), Reason::kSessionRequired);
  EXPECT_EQ(engine->CountAlive().buffers, 0u);
}

TEST_F(TransferTest, WithoutASessionATensorGetsAName) {
  UploadStart start = UploadOf(0, Spec({2}));
  start.publish.emplace();
  start.publish->name = "a/b/c";
  EXPECT_EQ(ReasonOf(engine->Upload(Caller{}, start).status()), Reason::kNameInvalid);
  start.publish->name = "up";
  {
    auto broken = engine->Upload(Caller{}, start);
    ASSERT_TRUE(broken.ok());
    ASSERT_TRUE(Put(**broken, 0, "abc").ok());
    EXPECT_EQ(engine->CountAlive().buffers, 1u);
  }
  EXPECT_EQ(engine->CountAlive().buffers, 0u) << "nobody could resume it";
  auto sink = engine->Upload(Caller{}, start);
  ASSERT_TRUE(sink.ok()) << sink.status();
  ASSERT_TRUE(Put(**sink, 0, Bytes({8, 9})).ok());
  const auto info = (*sink)->Finish();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_THAT(info->names, ElementsAre("default/up"));
  EXPECT_EQ(ReadAll(Caller{}, TensorRef::Name("up")), Bytes({8, 9}));
  EXPECT_EQ(ReasonOf(engine->Upload(Caller{}, start).status()), Reason::kNameInUse);
}

TEST_F(TransferTest, AnEmptyTensorIsCompleteAtOnce) {
  Client client(*engine);
  auto sink = engine->Upload(client.caller, UploadOf(1, Spec({0, 3})));
  ASSERT_TRUE(sink.ok());
  EXPECT_TRUE((*sink)->complete());
  EXPECT_TRUE((*sink)->Finish().ok());
  EXPECT_EQ(ReadAll(client.caller, TensorRef::Id(1)), "");
}

TEST_F(TransferTest, ASessionThatEndsTakesItsUploadsWithIt) {
  Client client(*engine);
  auto sink = engine->Upload(client.caller, UploadOf(1, Spec({1 << 16})));
  ASSERT_TRUE(Put(**sink, 0, "abc").ok());
  const auto freed = engine->CloseSession(client.caller);
  ASSERT_TRUE(freed.ok());
  EXPECT_EQ(freed->handles, 1u);
  EXPECT_EQ(engine->CountAlive().buffers, 0u) << "though the sink is still there";
  EXPECT_EQ(engine->CountAlive().buffer_bytes, 0u);
  const absl::Status gone = Put(**sink, 3, "d");
  EXPECT_EQ(ReasonOf(gone), Reason::kSessionUnknown);
  EXPECT_EQ(Meta(gone, "cause"), "closed");
}

// Why an upload's client can send no more; OK while it can.
absl::Status Revoked(const std::unique_ptr<UploadSink>& sink) { return sink->revocation()->cause(); }

TEST_F(TransferTest, AClientThatIsSilentLearnsThatItLostItsPlace) {
  Client client(*engine);
  auto first = engine->Upload(client.caller, UploadOf(1, Spec({4})));
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(Put(**first, 0, Bytes({1})).ok());
  EXPECT_TRUE(Revoked(*first).ok());
  auto second = engine->Upload(client.caller, UploadOf(1, Spec({4})));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(ReasonOf(Revoked(*first)), Reason::kStreamReplaced);
  EXPECT_TRUE(Revoked(*second).ok());
  first->reset();
  EXPECT_EQ((*second)->received(), 4u) << "the first one's end changes nothing";

  ASSERT_TRUE(engine->CloseSession(client.caller).ok());
  EXPECT_EQ(ReasonOf(Revoked(*second)), Reason::kSessionUnknown);
}

TEST_F(TransferTest, AHandleThatIsFreedEndsItsUploadUnlessSomebodyWaits) {
  Client client(*engine);
  auto unwanted = engine->Upload(client.caller, UploadOf(1, Spec({1 << 16})));
  auto wanted = engine->Upload(client.caller, UploadOf(2, Spec({1})));
  ASSERT_TRUE(unwanted.ok() && wanted.ok());
  ASSERT_TRUE(
      client.Send({Make(Op::kUpload, 1, {1 << 16}), Make(Op::kUpload, 2, {1}), Apply(Op::kAdd, {2, 2}, 3, {2})}).ok());
  absl::Notification told;
  (*unwanted)->revocation()->Add([&](const absl::Status& cause) {
    EXPECT_EQ(ReasonOf(cause), Reason::kHandleUnknown);
    EXPECT_EQ(Meta(cause, "state"), "freed");
    told.Notify();
  });
  ASSERT_TRUE(engine->DeleteTensors(client.caller, Delete({TensorRef::Id(1)})).ok());
  told.WaitForNotification();
  AwaitCounts([](const auto& c) { return c.buffers == 1; });
  EXPECT_EQ(ReasonOf(Put(**unwanted, 0, "abcd")), Reason::kHandleUnknown);

  EXPECT_TRUE(Revoked(*wanted).ok()) << "3 waits for it";
  ASSERT_TRUE(Put(**wanted, 0, Bytes({4})).ok());
  ASSERT_TRUE((*wanted)->Finish().ok());
  EXPECT_THAT(client.Values(3), ElementsAre(8));
}

TEST_F(TransferTest, ADownloadThatNobodyWaitsForEnds) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kUpload, 1, {4})}).ok());
  DownloadRequest request;
  request.tensor = TensorRef::Id(1);
  Caller caller = client.caller;
  caller.cancellation = std::make_shared<Cancellation>();
  absl::Notification done;
  engine->Download(caller, request, [&](const absl::StatusOr<std::unique_ptr<DownloadSource>>& source) {
    EXPECT_EQ(ReasonOf(source.status()), Reason::kCancelled);
    done.Notify();
  });
  EXPECT_FALSE(done.HasBeenNotified()) << "the bytes are not there";
  caller.cancellation->Cancel(Error(Reason::kCancelled));
  EXPECT_TRUE(done.HasBeenNotified());
}

TEST_F(TransferTest, DownloadsWaitAndHoldTheMemory) {
  Client client(*engine);
  cpu->Hold();
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2})}).ok());
  DownloadRequest request;
  request.tensor = TensorRef::Id(1);
  Caller hurried = client.caller;
  hurried.deadline = absl::Now() + absl::Milliseconds(1);
  EXPECT_EQ(ReasonOf(Download(hurried, request).status()), Reason::kDeadlineExceeded);
  cpu->Release();
  auto source = Download(client.caller, request);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE(engine->CloseSession(client.caller).ok());
  EXPECT_EQ(engine->CountAlive().buffers, 1u);
  char data[100];
  EXPECT_EQ(*(*source)->Read(absl::MakeSpan(data)), 8u);
  source->reset();
  EXPECT_EQ(engine->CountAlive().buffers, 0u);
}

TEST_F(TransferTest, DownloadsOfWhatIsNotThereTellWhy) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}), Apply(Op::kErf, {1}, 2)}).ok());
  DownloadRequest request;
  request.tensor = TensorRef::Id(2);
  EXPECT_EQ(ReasonOf(Download(client.caller, request).status()), Reason::kOpUnsupported);
  request.tensor = TensorRef::Id(3);
  EXPECT_EQ(ReasonOf(Download(client.caller, request).status()), Reason::kHandleUnknown);
  request.tensor = TensorRef::Id(1);
  request.offset = 9;
  EXPECT_EQ(ReasonOf(Download(client.caller, request).status()), Reason::kFieldInvalid);
  EXPECT_EQ(ReasonOf(Download(Caller{}, request).status()), Reason::kSessionRequired);
}

TEST_F(TransferTest, ASessionsTransfersAreBounded) {
  EngineOptions options;
  options.limits.max_transfers = 2;
  Start(options);
  Client client(*engine);
  auto a = engine->Upload(client.caller, UploadOf(1, Spec({1})));
  auto b = engine->Upload(client.caller, UploadOf(2, Spec({1})));
  EXPECT_EQ(Meta(engine->Upload(client.caller, UploadOf(3, Spec({1}))).status(), "quota"), "transfers");
  auto takeover = engine->Upload(client.caller, UploadOf(2, Spec({1})));
  EXPECT_TRUE(takeover.ok());
  takeover->reset();
  b->reset();
  EXPECT_TRUE(engine->Upload(client.caller, UploadOf(3, Spec({1}))).ok());
}

}  // namespace
}  // namespace tensord::testing
