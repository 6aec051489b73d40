// Random damage to valid messages: decoding refuses by reason or succeeds, and never does worse.
#include <cstdint>
#include <string>
#include <vector>

#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"
#include "kernels/core/error.h"
#include "proto/wire/chunk.h"
#include "proto/wire/convert.h"
#include "proto/wire/status.h"
#include "proto/wire/stream.h"
#include "tests/unit/wire/fill.h"

namespace tensord::wire {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kMutations = 10'000;
#else
constexpr int kMutations = 100'000;
#endif

void Mutate(Filler& random, std::string& bytes) {
  for (uint64_t n = 1 + random.Below(4); n > 0; --n) {
    const size_t at = bytes.empty() ? 0 : random.Below(bytes.size());
    switch (random.Below(6)) {
      case 0:  // a bit
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.Below(8)));
        break;
      case 1:  // a byte
        if (!bytes.empty()) bytes[at] = static_cast<char>(random.Below(256));
        break;
      case 2:  // some more
        bytes.insert(at, std::string(1 + random.Below(4), static_cast<char>(random.Below(256))));
        break;
      case 3:  // some less
        bytes.erase(at, 1 + random.Below(8));
        break;
      case 4:  // a part of it again
        bytes.insert(at, bytes.substr(random.Below(bytes.size() + 1), random.Below(32)));
        break;
      case 5:  // a large varint
        bytes.replace(at, 1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
        break;
    }
  }
}

// What became of the mutants: a test that only ever met one of these would say little.
struct Outcome {
  int parsed = 0;
  int accepted = 0;
  int refused = 0;
};

void Count(const absl::Status& status, bool strict, Outcome& outcome) {
  ++(status.ok() ? outcome.accepted : outcome.refused);
  if (status.ok()) return;
  // Every refusal is a row of the catalogue.
  EXPECT_NE(ReasonOf(status), Reason::kNone) << status;
  if (strict) {
    EXPECT_NE(status.code(), absl::StatusCode::kInternal) << status;
  }
}

// Decodes mutants of P; what is accepted is encoded again, and that is accepted too.
template <class P, class Decode, class Encode>
void Damage(int count, bool strict, Outcome& total, Decode decode, Encode encode) {
  Outcome outcome;
  Filler random(static_cast<uint64_t>(count));
  std::string valid;
  for (int i = 0; i < count; ++i) {
    if (i % 16 == 0) {
      P proto;
      random.Fill(&proto);
      valid = proto.SerializeAsString();
    }
    std::string bytes = valid;
    Mutate(random, bytes);
    P proto;
    if (!proto.ParseFromString(bytes)) continue;
    ++outcome.parsed;
    auto domain = decode(proto);
    Count(domain.status(), strict, outcome);
    if (domain.ok()) {
      const auto again = decode(encode(*domain));
      EXPECT_TRUE(again.ok()) << again.status() << proto.DebugString();
    }
  }
  EXPECT_GT(outcome.parsed, 0) << P::descriptor()->name();
  total.parsed += outcome.parsed;
  total.accepted += outcome.accepted;
  total.refused += outcome.refused;
}

TEST(Mutation, NothingCrashes) {
  google::protobuf::LogSilencer quiet;  // it tells of every text that is no UTF-8
  Outcome requests;
  Outcome responses;
  constexpr int kEach = kMutations / 25;
#define DAMAGE(Message, strict, outcome, encode)                                         \
  Damage<v1::Message>(                                                                   \
      kEach, strict, outcome, [](const v1::Message& proto) { return FromProto(proto); }, \
      [](const auto& domain) { return encode(domain); })
  DAMAGE(OpenSessionRequest, true, requests, ToProto);
  DAMAGE(WatchDevicesRequest, true, requests, ToProto);
  DAMAGE(UploadStart, true, requests, ToProto);
  DAMAGE(DownloadRequest, true, requests, ToProto);
  DAMAGE(PublishRequest, true, requests, ToProto);
  DAMAGE(DeleteTensorsRequest, true, requests, ToProto);
  DAMAGE(ListTensorsRequest, true, requests, ToProto);
  DAMAGE(ExecuteRequest, true, requests, ToProto);
  DAMAGE(ExecuteRequest, true, requests, ToProto);
  DAMAGE(RegisterProgramRequest, true, requests, ToProto);
  DAMAGE(Program, true, requests, ToProto);
  DAMAGE(CreateModelRequest, true, requests, ToProto);
  DAMAGE(UpdateModelRequest, true, requests, ToProto);
  DAMAGE(OpenSessionResponse, false, responses, ToProto);
  DAMAGE(ListSessionsResponse, false, responses, ToProto);
  DAMAGE(ListDevicesResponse, false, responses, ToProto);
  DAMAGE(ListTensorsResponse, false, responses, ToProto);
  DAMAGE(UploadResponse, false, responses, ToProto);
  DAMAGE(ExecuteResponse, false, responses, ToProto);
  DAMAGE(StreamResponse, false, responses, ToProto);
  DAMAGE(GetModelResponse, false, responses, GetModelResponseToProto);
#undef DAMAGE
  for (int k = 0; k < 3; ++k) {
    Damage<v1::StreamRequest>(
        kEach + k, true, requests,
        [](const v1::StreamRequest& proto) {
          OpTable table;
          auto message = FromProto(proto, table);
          if (!message.ok()) return message;
          // What is wrong with an instruction must not stop the message when it comes back without the fault.
          for (Instruction& instruction : message->instructions) {
            if (instruction.invalid.ok()) continue;
            EXPECT_NE(ReasonOf(instruction.invalid), Reason::kNone) << instruction.invalid;
            EXPECT_LE(instruction.outputs(), Limits{}.max_operands);
            instruction = Instruction();
          }
          return message;
        },
        [](const StreamMessage& message) {
          OpTable table;
          return ToProto(message, table);
        });
  }
  Damage<v1::UploadRequest>(
      kEach, true, requests,
      [](const v1::UploadRequest& proto) -> absl::StatusOr<v1::UploadRequest> {
        const auto part = FromProto(proto);
        if (!part.ok()) return part.status();
        const Chunk* chunk = std::get_if<Chunk>(&*part);
        return chunk ? UploadChunkToProto(*chunk) : UploadStartToProto(std::get<UploadStart>(*part));
      },
      [](const v1::UploadRequest& proto) { return proto; });
  // Both outcomes, many times.
  EXPECT_GT(requests.accepted, kMutations / 100);
  EXPECT_GT(requests.refused, kMutations / 100);
  EXPECT_GT(responses.accepted, kMutations / 100);
  EXPECT_GT(responses.refused, 0);
}

TEST(Mutation, Statuses) {
  google::protobuf::LogSilencer quiet;  // it tells of every text that is no UTF-8
  Filler random(3);
  int parsed = 0;
  for (int i = 0; i < kMutations / 20; ++i) {
    google::rpc::Status proto;
    random.Fill(&proto);
    std::string bytes = proto.SerializeAsString();
    Mutate(random, bytes);
    if (!proto.ParseFromString(bytes)) continue;
    ++parsed;
    const absl::Status status = FromRpcStatus(proto);
    EXPECT_EQ(status.ok(), proto.code() == 0);
    const google::rpc::Status back = ToRpcStatus(status, 512);
    EXPECT_LE(back.ByteSizeLong(), 512u);
    EXPECT_EQ(back.code(), static_cast<int>(status.code()));
  }
  EXPECT_GT(parsed, 0);
}

}  // namespace
}  // namespace tensord::wire
