// A device that computes in the background: "ready" means handed over, and whoever looks at values waits for its stream.
#include <gmock/gmock.h>

#include "tests/unit/engine/client.h"

namespace tensord::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class LateTest : public EngineTest {
 protected:
  void SetUp() override { StartLate(size_t{1} << 28); }
  void StartLate(size_t bytes, EngineOptions options = {}) {
    StartWith({.id = {DeviceKind::kCuda, 0}, .memory_bytes = bytes, .host_addressable = false, .late = true},
              std::move(options), size_t{1} << 28, /*pooled=*/true);
  }
  static ExecuteRequest Chain(ResultRequest result) {
    ExecuteRequest request;
    Program program;
    program.instructions = {Make(Op::kOnes, 1, {4}, "cuda:0"), Apply(Op::kAdd, {1, 1}, 2), Apply(Op::kAdd, {2, 1}, 3)};
    program.outputs = {Formal("y", 3)};
    request.callee = program;
    request.outputs = {std::move(result)};
    return request;
  }
};

TEST_F(LateTest, ReadersMovesAndCopiesComeAfterTheWork) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2, 3}, "cuda:0"), Apply(Op::kAdd, {1, 1}, 2)}).ok());
  EXPECT_THAT(client.Values(2), Each(2.0f));
  ASSERT_TRUE(client.Send({Apply(Op::kAdd, {2, 1}, 3), To(3, 4, "cpu"), Apply(Op::kAdd, {4, 4}, 5)}).ok());
  EXPECT_THAT(client.Values(5), Each(6.0f));
  ASSERT_TRUE(client.Send({Apply(Op::kAdd, {3, 1}, 6), Permute(6, 7, {1, 0}), To(7, 8, "cpu")}).ok());
  EXPECT_THAT(client.Values(8), Each(4.0f));
  ASSERT_TRUE(client.Send({To(5, 9, "cuda:0"), Apply(Op::kAdd, {9, 6}, 10)}).ok());
  EXPECT_THAT(client.Values(10), Each(10.0f));
}

TEST_F(LateTest, FreedMemoryIsReusedInTheOrderOfTheStream) {
  Client client(*engine);
  // Each sum is freed before it has been computed; its block goes to what comes next: a kernel, a constant, an upload.
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {1000}, "cuda:0")}).ok());
  uint64_t id = 2;
  for (int round = 0; round < 50; ++round, id += 4) {
    ASSERT_TRUE(client
                    .Send({Apply(Op::kAdd, {1, 1}, id), Apply(Op::kAdd, {id, 1}, id + 1), Free({id}),
                           Constant(id + 2, {1000}, std::vector<float>(1000, 5), "cuda:0")})
                    .ok());
    ASSERT_TRUE(client.Send({Apply(Op::kAdd, {id + 2, id + 1}, id + 3)}).ok());
    ASSERT_TRUE(client.Send({Free({id + 2, id + 1})}).ok());
    auto sink = engine->Upload(client.caller, UploadOf(100000 + id, Spec({1000}, "cuda:0")));
    ASSERT_TRUE(sink.ok()) << sink.status();
    const std::string data = Bytes(std::vector<float>(1000, 9));
    const std::string_view piece = data;
    ASSERT_TRUE((*sink)->Write(0, {&piece, 1}, std::nullopt).ok());
    ASSERT_TRUE((*sink)->Finish().ok());
    ASSERT_THAT(client.Values(100000 + id), Each(9.0f));
    ASSERT_THAT(client.Values(id + 3), Each(8.0f));
    ASSERT_TRUE(client.Send({Free({id + 3, 100000 + id})}).ok());
  }
}

TEST_F(LateTest, AFullDeviceMovesWhatIsStillBeingComputed) {
  StartLate(1 << 20);
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {60000}, "cuda:0")}).ok());
  for (uint64_t id = 2; id <= 12; ++id) ASSERT_TRUE(client.Send({Apply(Op::kAdd, {id - 1, 1}, id)}).ok());
  for (uint64_t id = 1; id <= 12; ++id) EXPECT_THAT(client.Values(id), Each(static_cast<float>(id))) << id;
}

TEST_F(LateTest, CallsAnswerOnceTheWorkIsDone) {
  Client client(*engine);
  // Nothing reads the values: only waiting for the stream finds the fault.
  cuda->FailRuns(cuda->Lost(), 1, 2);
  const absl::Status status = Run(client.caller, Chain(Keep(1))).status();
  EXPECT_EQ(ReasonOf(status), Reason::kDeviceLost) << status;
  EXPECT_EQ(ReasonOf(engine->GetTensor(client.caller, TensorRef::Id(1)).status()), Reason::kHandleUnknown)
      << "taken back";
}

TEST_F(LateTest, ABarrierMeansDone) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0")}).ok());
  client.Settle();
  cuda->LoseInNextRun();
  ASSERT_TRUE(client.Send({Apply(Op::kRelu, {1}, 2)}).ok());
  client.Settle();
  EXPECT_EQ(engine->GetTensor(client.caller, TensorRef::Id(2))->state, TensorState::kFailed)
      << "the fault is known by then";
}

TEST_F(LateTest, AFaultThatShowsLateReachesTheReader) {
  Client client(*engine);
  cuda->FailRuns(cuda->Lost(), 1, 1);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0"), Apply(Op::kRelu, {1}, 2)}).ok());
  const absl::Status error = client.Get(2).error;
  EXPECT_EQ(ReasonOf(error), Reason::kDeviceLost);
  EXPECT_EQ(Meta(error, "cause"), "the test says so");
  EXPECT_EQ(ReasonOf(client.Get(1).error), Reason::kDeviceLost);
}

TEST_F(LateTest, TimesAreThoseOfTheWorkItself) {
  Client client(*engine);
  ExecuteRequest request = Chain(Keep(1));
  request.timings = true;
  const auto response = Run(client.caller, request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->reports.size(), 3u) << "no report of what is nobody's instruction";
  // A fault is that of the instruction which is timed.
  cuda->FailRuns(cuda->Lost(), 1, 1);
  request.outputs = {Keep(2)};
  const absl::Status status = Run(client.caller, request).status();
  ASSERT_TRUE(DetailsOf(status).origin.has_value());
  EXPECT_EQ(DetailsOf(status).origin->op, "add");
  EXPECT_EQ(DetailsOf(status).origin->instruction, 1u);
}

TEST_F(LateTest, AnEngineThatEndsWaitsForNobody) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}, "cuda:0"), Apply(Op::kRelu, {1}, 2)}).ok());
  engine->Shutdown(absl::Seconds(10));
  client.stream.reset();
  engine.reset();
}

}  // namespace
}  // namespace tensord::testing
