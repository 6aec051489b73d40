#include "proto/wire/status.h"

#include <algorithm>
#include <string>

#include "google/rpc/error_details.pb.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"
#include "kernels/core/error.h"
#include "proto/wire/status_grpc.h"
#include "tensord/v1/error.pb.h"
#include "tests/unit/wire/text.h"

namespace tensord::wire {
namespace {

// A refusal with everything that a status can carry.
absl::Status Full() {
  ErrorShortage shortage;
  shortage.device = "cuda:0";
  shortage.requested = 100;
  shortage.free = 20;
  shortage.cached = 5;
  shortage.largest_free = 15;
  shortage.limit = 90;
  shortage.holders = {{"5d1c", "", "alice", 60, 2}, {"", "alice/x", "alice", 30, 1}, {"", "", "", 7, 3}};
  const absl::Status status = Error(Reason::kMemoryExhausted)
                                  .With("device", "cuda:0")
                                  .With("requested", 100)
                                  .With("free", 20)
                                  .With("cached", 5)
                                  .RetryAfterMs(1500)
                                  .Shortage(shortage)
                                  .At("program.instructions[3]");
  return WithOrigin(status, {7, "add", 4, 2, "layer1", 0});
}

void ExpectSame(const absl::Status& a, const absl::Status& b) {
  EXPECT_EQ(a.code(), b.code());
  EXPECT_EQ(a.message(), b.message());
  ErrorDetails x = DetailsOf(a);
  ErrorDetails y = DetailsOf(b);
  EXPECT_EQ(x.reason, y.reason);
  EXPECT_EQ(x.reason_name, y.reason_name);
  std::sort(x.metadata.begin(), x.metadata.end());
  std::sort(y.metadata.begin(), y.metadata.end());
  EXPECT_EQ(x.metadata, y.metadata);
  EXPECT_EQ(x.fields, y.fields);
  EXPECT_EQ(x.retry_ms, y.retry_ms);
  ASSERT_EQ(x.origin.has_value(), y.origin.has_value());
  if (x.origin) {
    EXPECT_EQ(x.origin->id, y.origin->id);
    EXPECT_EQ(x.origin->op, y.origin->op);
    EXPECT_EQ(x.origin->sequence, y.origin->sequence);
    EXPECT_EQ(x.origin->instruction, y.origin->instruction);
    EXPECT_EQ(x.origin->label, y.origin->label);
    EXPECT_EQ(x.origin->distance, y.origin->distance);
  }
  ASSERT_EQ(x.shortage.has_value(), y.shortage.has_value());
  if (x.shortage) {
    EXPECT_EQ(x.shortage->device, y.shortage->device);
    EXPECT_EQ(x.shortage->requested, y.shortage->requested);
    EXPECT_EQ(x.shortage->free, y.shortage->free);
    EXPECT_EQ(x.shortage->cached, y.shortage->cached);
    EXPECT_EQ(x.shortage->largest_free, y.shortage->largest_free);
    EXPECT_EQ(x.shortage->limit, y.shortage->limit);
    ASSERT_EQ(x.shortage->holders.size(), y.shortage->holders.size());
    for (size_t i = 0; i < x.shortage->holders.size(); ++i) {
      EXPECT_EQ(x.shortage->holders[i].session, y.shortage->holders[i].session);
      EXPECT_EQ(x.shortage->holders[i].name, y.shortage->holders[i].name);
      EXPECT_EQ(x.shortage->holders[i].principal, y.shortage->holders[i].principal);
      EXPECT_EQ(x.shortage->holders[i].bytes, y.shortage->holders[i].bytes);
      EXPECT_EQ(x.shortage->holders[i].tensors, y.shortage->holders[i].tensors);
    }
  }
}

TEST(Status, Ok) {
  EXPECT_EQ(ToRpcStatus(absl::OkStatus()).ByteSizeLong(), 0u);
  EXPECT_TRUE(FromRpcStatus(google::rpc::Status()).ok());
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

TEST(Status, EveryRowGoesThereAndBack) {
  for (const ErrorRow& row : ErrorRows()) {
    const absl::Status status = Error(row.reason).With("value", "7").With("allowed", "8").At("a.b[0]");
    ExpectSame(status, FromRpcStatus(ToRpcStatus(status)));
    ExpectSame(status, FromGrpc(ToGrpc(status)));
    EXPECT_EQ(ToRpcStatus(status).code(), static_cast<int>(row.code)) << row.name;
  }
}

TEST(Status, AllDetailsGoThereAndBack) {
  ExpectSame(Full(), FromRpcStatus(ToRpcStatus(Full())));
  ExpectSame(Full(), FromGrpc(ToGrpc(Full())));
}

TEST(Status, DetailsStandInTheOrderOfTheContract) {
  const google::rpc::Status proto = ToRpcStatus(Full());
  ASSERT_EQ(proto.details_size(), 5);
  EXPECT_EQ(proto.details(0).type_url(), "type.googleapis.com/google.rpc.ErrorInfo");
  EXPECT_EQ(proto.details(1).type_url(), "type.googleapis.com/google.rpc.RetryInfo");
  EXPECT_EQ(proto.details(2).type_url(), "type.googleapis.com/google.rpc.BadRequest");
  EXPECT_EQ(proto.details(3).type_url(), "type.googleapis.com/tensord.v1.Origin");
  EXPECT_EQ(proto.details(4).type_url(), "type.googleapis.com/tensord.v1.MemoryShortage");
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(proto.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "MEMORY_EXHAUSTED");
  EXPECT_EQ(info.domain(), "tensord");
  EXPECT_EQ(info.metadata().at("device"), "cuda:0");
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(proto.details(1).UnpackTo(&retry));
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 500000000);
}

TEST(Status, SameStatusSameBytes) {
  EXPECT_EQ(ToRpcStatus(Full()).SerializeAsString(), ToRpcStatus(Full()).SerializeAsString());
}

TEST(Status, UnknownReasonKeepsItsName) {
  google::rpc::Status proto;
  proto.set_code(9);
  proto.set_message("from the future");
  google::rpc::ErrorInfo info;
  info.set_reason("WARP_CORE_BREACH");
  info.set_domain("tensord");
  (*info.mutable_metadata())["core"] = "3";
  proto.add_details()->PackFrom(info);
  proto.add_details()->set_type_url("type.googleapis.com/tensord.v2.Unheard");
  const absl::Status status = FromRpcStatus(proto);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "from the future");
  EXPECT_EQ(DetailsOf(status).reason, Reason::kNone);
  EXPECT_EQ(DetailsOf(status).reason_name, "WARP_CORE_BREACH");
  EXPECT_EQ(DetailsOf(status).Get("core"), "3");
  ExpectSame(status, FromRpcStatus(ToRpcStatus(status)));
}

TEST(Status, ForeignAndBrokenDetails) {
  google::rpc::Status proto;
  proto.set_code(99);
  google::rpc::ErrorInfo info;
  info.set_reason("DEVICE_MISMATCH");
  info.set_domain("proxy.example");
  proto.add_details()->PackFrom(info);
  auto* broken = proto.add_details();
  broken->set_type_url("type.googleapis.com/google.rpc.BadRequest");
  broken->set_value("\xff\xff\xff");
  const absl::Status status = FromRpcStatus(proto);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(DetailsOf(status).reason_name, "");
}

TEST(Status, StatusOfGrpcItself) {
  const absl::Status refused = FromGrpc({grpc::StatusCode::UNAVAILABLE, "connection refused"});
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(refused.message(), "connection refused");
  EXPECT_EQ(ReasonOf(refused), Reason::kNone);
  const absl::Status deadline = FromGrpc({grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"});
  EXPECT_EQ(deadline.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReasonOf(deadline), Reason::kDeadlineExceeded);
  EXPECT_EQ(DetailsOf(deadline).reason_name, "DEADLINE_EXCEEDED");
  const absl::Status cancelled = FromGrpc({grpc::StatusCode::CANCELLED, "CANCELLED"});
  EXPECT_EQ(cancelled.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ReasonOf(cancelled), Reason::kCancelled);
  EXPECT_EQ(FromGrpc({grpc::StatusCode::UNIMPLEMENTED, ""}).code(), absl::StatusCode::kUnimplemented);
  // A trailer that is no status, or of another code, is not believed.
  const absl::Status garbled = FromGrpc({grpc::StatusCode::INTERNAL, "text", "\xff\xff"});
  EXPECT_EQ(garbled.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(garbled.message(), "text");
  EXPECT_EQ(FromGrpc({grpc::StatusCode::INTERNAL, "text", ToRpcStatus(Full()).SerializeAsString()}).code(),
            absl::StatusCode::kInternal);
}

// Bytes that a status takes in the metadata of a reply at most: base64 of the trailer, percent encoding of the message.
size_t MetadataBytes(const grpc::Status& status) {
  return (status.error_details().size() + 2) / 3 * 4 + 3 * status.error_message().size();
}

TEST(Status, FitsTheMetadata) {
  ErrorShortage shortage;
  for (int i = 0; i < 200; ++i) shortage.holders.push_back({"", std::string(120, 'n'), std::string(120, 'p'), 1, 1});
  absl::Status status = Error(Reason::kFieldInvalid)
                            .With("value", std::string(4096, 'v'))
                            .With("allowed", "less")
                            .At(std::string(4096, 'f'));
  status = WithOrigin(status, {1, "add", 2, 3, std::string(4096, 'l'), 0});
  ErrorDetails details = DetailsOf(status);
  details.shortage = shortage;
  for (int i = 0; i < 300; ++i) details.metadata.emplace_back("key" + std::to_string(i), std::string(100, 'm'));
  for (int i = 0; i < 300; ++i) details.fields.emplace_back("path" + std::to_string(i), std::string(100, 'd'));
  status = StatusWithDetails(status.code(), std::string(status.message()), details);
  const grpc::Status sent = ToGrpc(status);
  EXPECT_LE(MetadataBytes(sent), 8192u - 512u);
  const absl::Status received = FromGrpc(sent);
  EXPECT_EQ(received.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(received), Reason::kFieldInvalid);
  EXPECT_EQ(std::string(status.message()).find(std::string(received.message()).substr(0, 64)), 0u);
}

TEST(Status, LongStatusWithoutReasonFitsToo) {
  const grpc::Status sent = ToGrpc(absl::InternalError(std::string(100000, 'x')));
  EXPECT_LE(MetadataBytes(sent), 8192u - 512u);
  EXPECT_FALSE(sent.error_message().empty());
}

// What a proto's string must be: UTF-8, also where a text is cut in the middle of a character.
TEST(Status, TextsAreUtf8) {
  std::string text;
  while (text.size() < 5000) text += "\xe2\x82\xac";
  const google::rpc::Status cut = ToRpcStatus(absl::InternalError(text), 300);
  EXPECT_LE(cut.ByteSizeLong(), 300u);
  EXPECT_EQ(cut.message().size() % 3, 0u);
  EXPECT_GT(cut.message().size(), 0u);
  const google::rpc::Status bad = ToRpcStatus(absl::InternalError("a\xff\xe2\x28z\xed\xa0\x80\xc3\xa9"));
  EXPECT_EQ(bad.message(), std::string("a?") + "?(z???\xc3\xa9");
}

}  // namespace
}  // namespace tensord::wire
