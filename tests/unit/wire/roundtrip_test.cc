// Every message that has a domain type: proto -> domain -> proto gives the same message.
#include <string>

#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "proto/wire/chunk.h"
#include "proto/wire/convert.h"
#include "proto/wire/stream.h"
#include "tests/unit/wire/fill.h"

namespace tensord::wire {
namespace {

constexpr int kRounds = 200;

template <class P, class Decode, class Encode>
void RoundTrip(Decode decode, Encode encode) {
  for (int seed = 0; seed < kRounds; ++seed) {
    P proto;
    Filler(static_cast<uint64_t>(seed)).Fill(&proto);
    auto domain = decode(proto);
    ASSERT_TRUE(domain.ok()) << domain.status() << "\n" << proto.DebugString();
    const P back = encode(*domain);
    std::string difference;
    google::protobuf::util::MessageDifferencer differencer;
    differencer.ReportDifferencesToString(&difference);
    ASSERT_TRUE(differencer.Compare(proto, back)) << "seed " << seed << "\n" << difference << proto.DebugString();
  }
}

#define ROUND_TRIP(Message, encode)                                                   \
  TEST(RoundTrip, Message) {                                                          \
    RoundTrip<v1::Message>([](const v1::Message& proto) { return FromProto(proto); }, \
                           [](const auto& domain) { return encode(domain); });        \
  }

ROUND_TRIP(OpenSessionRequest, ToProto)
ROUND_TRIP(OpenSessionResponse, ToProto)
ROUND_TRIP(KeepAliveResponse, ToProto)
ROUND_TRIP(CloseSessionResponse, CloseSessionResponseToProto)
ROUND_TRIP(KillSessionRequest, KillSessionRequestToProto)
ROUND_TRIP(KillSessionResponse, KillSessionResponseToProto)
ROUND_TRIP(ListSessionsRequest, ListSessionsRequestToProto)
ROUND_TRIP(ListSessionsResponse, ToProto)
ROUND_TRIP(Limits, ToProto)
ROUND_TRIP(Quota, ToProto)

ROUND_TRIP(ListDevicesRequest, ToProto)
ROUND_TRIP(ListDevicesResponse, ToProto)
ROUND_TRIP(WatchDevicesRequest, ToProto)
ROUND_TRIP(WatchDevicesResponse, ToProto)
ROUND_TRIP(TrimMemoryRequest, TrimMemoryRequestToProto)
ROUND_TRIP(TrimMemoryResponse, TrimMemoryResponseToProto)

ROUND_TRIP(UploadStart, ToProto)
ROUND_TRIP(UploadResponse, ToProto)
ROUND_TRIP(DownloadRequest, ToProto)
ROUND_TRIP(DownloadStart, ToProto)
ROUND_TRIP(GetTensorRequest, GetTensorRequestToProto)
ROUND_TRIP(GetTensorResponse, GetTensorResponseToProto)
ROUND_TRIP(ListTensorsRequest, ToProto)
ROUND_TRIP(ListTensorsResponse, ToProto)
ROUND_TRIP(PublishRequest, ToProto)
ROUND_TRIP(PublishResponse, ToProto)
ROUND_TRIP(DeleteTensorsRequest, ToProto)
ROUND_TRIP(DeleteTensorsResponse, ToProto)

ROUND_TRIP(Program, ToProto)
ROUND_TRIP(ExecuteRequest, ToProto)
ROUND_TRIP(ExecuteResponse, ToProto)
ROUND_TRIP(RegisterProgramRequest, ToProto)
ROUND_TRIP(RegisterProgramResponse, ToProto)
ROUND_TRIP(UnregisterProgramRequest, UnregisterProgramRequestToProto)
ROUND_TRIP(ListOpsRequest, ListOpsRequestToProto)
ROUND_TRIP(StreamResponse, ToProto)

ROUND_TRIP(CreateModelRequest, ToProto)
ROUND_TRIP(CreateModelResponse, CreateModelResponseToProto)
ROUND_TRIP(GetModelRequest, ToProto)
ROUND_TRIP(GetModelResponse, GetModelResponseToProto)
ROUND_TRIP(ListModelsRequest, ToProto)
ROUND_TRIP(ListModelsResponse, ToProto)
ROUND_TRIP(UpdateModelRequest, ToProto)
ROUND_TRIP(UpdateModelResponse, UpdateModelResponseToProto)
ROUND_TRIP(DeleteModelRequest, DeleteModelRequestToProto)
ROUND_TRIP(DeleteModelResponse, DeleteModelResponseToProto)

TEST(RoundTrip, StreamRequest) {
  RoundTrip<v1::StreamRequest>(
      [](const v1::StreamRequest& proto) {
        OpTable table;
        auto message = FromProto(proto, table);
        if (message.ok()) {
          for (const Instruction& instruction : message->instructions) EXPECT_TRUE(instruction.invalid.ok());
        }
        return message;
      },
      [](const StreamMessage& message) {
        OpTable table;
        return ToProto(message, table);
      });
}

// The op table is filled from ops.def, so an answer is made from the domain's side.
TEST(RoundTrip, ListOpsResponse) {
  std::vector<OpDescription> ops;
  for (int i = 1; i <= kOpCount; ++i) {
    ops.push_back({static_cast<Op>(i), {{DeviceKind::kCpu, {Dtype::kFloat32}}, {DeviceKind::kCuda, {Dtype::kInt8}}}});
  }
  const v1::ListOpsResponse proto = ToProto(ops);
  const auto back = FromProto(proto);
  ASSERT_TRUE(back.ok());
  ASSERT_EQ(back->size(), ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    EXPECT_EQ((*back)[i].op, ops[i].op);
    ASSERT_EQ((*back)[i].support.size(), 2u);
    EXPECT_EQ((*back)[i].support[1].kind, DeviceKind::kCuda);
    EXPECT_EQ((*back)[i].support[1].dtypes, std::vector<Dtype>{Dtype::kInt8});
  }
  const v1::OpInfo* clip = nullptr;
  for (const auto& op : proto.ops()) {
    if (op.name() == "clip") clip = &op;
  }
  ASSERT_NE(clip, nullptr);
  EXPECT_EQ(clip->family(), "select");
  ASSERT_EQ(clip->operands_size(), 3);
  EXPECT_EQ(clip->operands(1), "min?");
  ASSERT_EQ(clip->results_size(), 1);
  EXPECT_EQ(clip->results(0), "out");
}

TEST(RoundTrip, UploadChunks) {
  const Chunk chunk{1048576, 77, "bytes"};
  const v1::UploadRequest up = UploadChunkToProto(chunk);
  const auto part = FromProto(up);
  ASSERT_TRUE(part.ok()) << part.status();
  const Chunk& got = std::get<Chunk>(*part);
  EXPECT_EQ(got.offset, 1048576u);
  EXPECT_EQ(got.checksum, 77u);
  EXPECT_EQ(got.data, "bytes");
  // The head of a chunk is at most 24 bytes before the payload (tensor.proto).
  EXPECT_EQ(up.SerializeAsString().substr(0, 20),
            std::string("\x11\0\0\x10\0\0\0\0\0\x19\x4d\0\0\0\0\0\0\0\x7a\x05", 20));

  const v1::DownloadResponse down = DownloadChunkToProto({3, std::nullopt, "xy"});
  const auto received = FromProto(down);
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(std::get<Chunk>(*received).offset, 3u);
  EXPECT_EQ(std::get<Chunk>(*received).checksum, std::nullopt);
  EXPECT_EQ(std::get<Chunk>(*received).data, "xy");
}

TEST(RoundTrip, UploadAndDownloadStart) {
  UploadStart start;
  start.id = 9;
  start.spec = {{Dtype::kFloat32, {2, 3}}, "cuda:0"};
  start.checksum = Checksum::kXxh3;
  const auto part = FromProto(UploadStartToProto(start));
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(std::get<UploadStart>(*part).spec, start.spec);
  EXPECT_EQ(std::get<UploadStart>(*part).checksum, Checksum::kXxh3);

  DownloadBegin begin;
  begin.tensor.id = 4;
  begin.tensor.spec = {{Dtype::kInt8, {5}}, {DeviceKind::kCuda, 1}};
  begin.total_bytes = 5;
  const auto received = FromProto(DownloadBeginToProto(begin));
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(std::get<DownloadBegin>(*received).tensor.spec, begin.tensor.spec);
  EXPECT_EQ(std::get<DownloadBegin>(*received).total_bytes, 5u);
}

}  // namespace
}  // namespace tensord::wire
