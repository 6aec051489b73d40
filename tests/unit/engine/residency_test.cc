// The last step of the memory ladder: a full device moves what is idle to host memory, and brings it back on use.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "tests/unit/engine/client.h"

namespace tensord::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// Tensors of 200,000 bytes; five of them fit into the device's MiB, with 48,576 bytes to spare.
constexpr int64_t kElements = 50000;
constexpr size_t kBytes = kElements * sizeof(float);
constexpr size_t kDevice = size_t{1} << 20;

class ResidencyTest : public EngineTest {
 protected:
  void SetUp() override { Start({}, size_t{1} << 28, kDevice); }

  static Instruction Full(uint64_t id, float value, int64_t elements = kElements) {
    Instruction i = Make(Op::kFull, id, {elements}, "cuda:0");
    i.inputs = {0};
    i.scalars.push_back(Scalar{static_cast<double>(value)});
    return i;
  }
  // A program that answers with the values: y = x[0] + x[0].
  static ExecuteRequest Twice(uint64_t id) {
    ExecuteRequest request;
    Program program;
    program.inputs = {Formal("x", 1)};
    program.instructions = {Apply(Op::kAdd, {1, 1}, 2)};
    program.outputs = {Formal("y", 2)};
    request.callee = program;
    request.inputs = {Given(TensorRef::Id(id))};
    request.outputs = {Show()};
    return request;
  }
  TensorState StateOf(const Client& client, uint64_t id) {
    const auto info = engine->GetTensor(client.caller, TensorRef::Id(id));
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? info->state : TensorState::kFailed;
  }
  absl::StatusOr<std::vector<float>> Download(const Caller& caller, const TensorRef& tensor) {
    auto source = Await<std::unique_ptr<DownloadSource>>(
        [&](auto done) { engine->Download(caller, {.tensor = tensor}, std::move(done)); });
    if (!source.ok()) return source.status();
    std::string bytes((*source)->total(), '\0');
    for (size_t at = 0; at < bytes.size();) {
      // Odd pieces: what has been read may move between two of them.
      const size_t piece = std::min<size_t>(bytes.size() - at, 70001);
      TENSORD_ASSIGN_OR_RETURN(const size_t n, (*source)->Read(absl::MakeSpan(bytes).subspan(at, piece)));
      at += n;
    }
    return Floats(bytes);
  }
  uint64_t Held(const Client& client, std::string_view device) {
    const auto list = engine->ListDevices(client.caller, {std::string(device)}, true);
    uint64_t bytes = 0;
    for (const MemoryHolder& holder : list->devices[0].holders) bytes += holder.bytes;
    return bytes;
  }
};

TEST_F(ResidencyTest, ADeviceIsFilledSeveralTimesOverAndEveryValueStays) {
  Client client(*engine);
  constexpr uint64_t kTensors = 20;
  for (uint64_t id = 1; id <= kTensors; ++id) ASSERT_TRUE(client.Send({Full(id, static_cast<float>(id))}).ok());
  client.Settle();
  EXPECT_LE(cuda->used(), kDevice);
  EXPECT_EQ(engine->CountAlive().buffer_bytes, kTensors * kBytes);
  for (const uint64_t id : {uint64_t{1}, uint64_t{13}, uint64_t{20}, uint64_t{2}}) {
    const auto response = Run(client.caller, Twice(id));
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_THAT(Floats(*response->outputs[0].data), Each(2.0f * static_cast<float>(id)));
  }
  for (uint64_t id = 1; id <= kTensors; ++id) {
    EXPECT_THAT(client.Values(id), Each(static_cast<float>(id))) << id;
  }
  EXPECT_EQ(engine->CloseSession(client.caller)->bytes, kTensors * kBytes) << "freed on either side";
  AwaitCounts([](const auto& c) { return c.buffers == 0 && c.buffer_bytes == 0; });
  EXPECT_EQ(cuda->used(), 0u);
  EXPECT_EQ(cpu->used(), 0u);
}

TEST_F(ResidencyTest, TheLeastRecentlyUsedGoesFirst) {
  Client client(*engine);
  for (uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(client.Send({Full(id, 1)}).ok());
  client.Settle();
  // Work and reads count as use: the result takes the place of 2, which is older than 1 by then.
  ASSERT_TRUE(client.Send({Apply(Op::kRelu, {1}, 100)}).ok());
  client.Settle();
  ASSERT_TRUE(client.Send({Free({100})}).ok());
  client.Values(3);
  ASSERT_TRUE(client.Send({Full(6, 1), Full(7, 1)}).ok());
  client.Settle();
  std::vector<uint64_t> offloaded;
  for (uint64_t id = 1; id <= 7; ++id) {
    if (StateOf(client, id) == TensorState::kOffloaded) offloaded.push_back(id);
  }
  EXPECT_THAT(offloaded, ElementsAre(2, 4));
}

TEST_F(ResidencyTest, ReadersTakeTheBytesWhereTheyAre) {
  Client client(*engine);
  for (uint64_t id = 1; id <= 10; ++id) ASSERT_TRUE(client.Send({Full(id, static_cast<float>(id))}).ok());
  client.Settle();
  ASSERT_EQ(StateOf(client, 1), TensorState::kOffloaded);
  const size_t runs = cuda->runs().size();
  const auto values = Download(client.caller, TensorRef::Id(1));
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values, Each(1.0f));
  EXPECT_EQ(values->size(), size_t{kElements});
  // Moving to the host, too, and a view's copy there.
  ASSERT_TRUE(client.Send({To(1, 20, "cpu"), Reshape(2, 21, {100, 500}), To(21, 22, "cpu")}).ok());
  EXPECT_THAT(client.Values(20), Each(1.0f));
  EXPECT_THAT(client.Values(22), Each(2.0f));
  EXPECT_EQ(StateOf(client, 1), TensorState::kOffloaded);
  EXPECT_EQ(StateOf(client, 21), TensorState::kOffloaded) << "a view is where its storage is";
  EXPECT_EQ(cuda->runs().size(), runs);
  // What must be computed comes back: a transposed view has no contiguous bytes to read.
  ASSERT_TRUE(client.Send({Permute(21, 23, {1, 0})}).ok());
  EXPECT_THAT(client.Values(23), Each(2.0f));
  EXPECT_EQ(StateOf(client, 21), TensorState::kReady);
}

TEST_F(ResidencyTest, AccountsSayWhereTheBytesAre) {
  Client client(*engine);
  for (uint64_t id = 1; id <= 8; ++id) ASSERT_TRUE(client.Send({Full(id, 1)}).ok());
  client.Settle();
  uint64_t there = 0, away = 0;
  for (uint64_t id = 1; id <= 8; ++id) (StateOf(client, id) == TensorState::kOffloaded ? away : there) += kBytes;
  EXPECT_GT(away, 0u);
  EXPECT_EQ(Held(client, "cuda:0"), there);
  EXPECT_EQ(Held(client, "cpu"), away);
  EXPECT_EQ(cuda->used(), there);
  EXPECT_EQ(cpu->used(), away);
  // A name takes over the charge, on whichever side it is.
  PublishRequest publish;
  publish.source = TensorRef::Id(1);
  publish.name = "kept";
  ASSERT_EQ(StateOf(client, 1), TensorState::kOffloaded);
  ASSERT_TRUE(engine->Publish(client.caller, publish).ok());
  EXPECT_EQ(engine->ListDevices(client.caller, {"cpu"}, true)->devices[0].holders.size(), away > kBytes ? 2u : 1u);
  ASSERT_TRUE(client.Send({Apply(Op::kAdd, {1, 1}, 30)}).ok());
  client.Settle();
  ASSERT_TRUE(client.Send({Free({30})}).ok());
  ASSERT_EQ(StateOf(client, 1), TensorState::kReady);
  EXPECT_EQ(Held(client, "cuda:0") + Held(client, "cpu"), 8 * kBytes);
  ASSERT_TRUE(engine->CloseSession(client.caller).ok());
  AwaitCounts([](const auto& c) { return c.buffer_bytes == kBytes; });
  const auto values = Download(Caller(), TensorRef::Name("kept"));
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values, Each(1.0f));
  EXPECT_TRUE(engine->DeleteTensors(Caller(), Delete({TensorRef::Name("kept")})).ok());
  AwaitCounts([](const auto& c) { return c.buffers == 0; });
}

TEST_F(ResidencyTest, WorkThatCannotFitIsRefusedAndEverythingElseStays) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Full(1, 1, 2 * kElements), Full(2, 2, 2 * kElements), Full(3, 3)}).ok());
  ASSERT_TRUE(client.Send({Apply(Op::kAdd, {1, 2}, 4), Apply(Op::kRelu, {4}, 5)}).ok());
  const absl::Status error = client.Get(5).error;
  EXPECT_EQ(ReasonOf(error), Reason::kMemoryExhausted);
  EXPECT_EQ(Meta(error, "requested"), std::to_string(2 * kBytes));
  EXPECT_EQ(Meta(error, "working_set"), std::to_string(6 * kBytes)) << "two operands and the result";
  EXPECT_EQ(Meta(error, "limit"), std::to_string(kDevice));
  EXPECT_EQ(Meta(error, "free"), std::to_string(kDevice - 4 * kBytes)) << "what is not needed made room";
  ASSERT_TRUE(DetailsOf(error).shortage.has_value());
  EXPECT_EQ(DetailsOf(error).shortage->holders[0].bytes, 4 * kBytes);
  EXPECT_THAT(client.Values(1), Each(1.0f));
  EXPECT_THAT(client.Values(2), Each(2.0f));
  EXPECT_THAT(client.Values(3), Each(3.0f));
  ASSERT_TRUE(client.Send({Apply(Op::kAdd, {1, 1}, 6)}).ok());
  EXPECT_THAT(client.Values(6), Each(2.0f));
  // What exceeds the device moves nothing.
  ASSERT_TRUE(client.Send({Full(7, 1, 6 * kElements)}).ok());
  EXPECT_EQ(Meta(client.Get(7).error, "working_set"), std::to_string(6 * kBytes));
  EXPECT_EQ(StateOf(client, 6), TensorState::kReady);
}

TEST_F(ResidencyTest, AFullHostRefusesAndLosesNothing) {
  Start({}, 2 * kBytes + 100, kDevice);
  Client client(*engine);
  for (uint64_t id = 1; id <= 7; ++id) ASSERT_TRUE(client.Send({Full(id, static_cast<float>(id))}).ok());
  ASSERT_TRUE(client.Send({Full(8, 8), Apply(Op::kRelu, {8}, 9)}).ok());
  const absl::Status error = client.Get(9).error;
  EXPECT_EQ(ReasonOf(error), Reason::kMemoryExhausted);
  EXPECT_EQ(Meta(error, "device"), "cuda:0");
  for (uint64_t id = 1; id <= 7; ++id) EXPECT_THAT(client.Values(id), Each(static_cast<float>(id)));
  // Freed memory on either side serves again.
  ASSERT_TRUE(client.Send({Free({1})}).ok());
  ASSERT_TRUE(client.Send({Full(10, 10)}).ok());
  EXPECT_THAT(client.Values(10), Each(10.0f));
}

TEST_F(ResidencyTest, BringingBackThatFailsLeavesTheBytesWhereTheyAre) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Full(1, 1, 2 * kElements), Full(2, 2, 4 * kElements)}).ok());
  client.Settle();
  ASSERT_EQ(StateOf(client, 1), TensorState::kOffloaded);
  // Both operands together are more than the device has.
  ASSERT_TRUE(client.Send({Reshape(2, 3, {2, 2 * kElements}), Apply(Op::kAdd, {3, 1}, 4)}).ok());
  EXPECT_EQ(ReasonOf(client.Get(4).error), Reason::kMemoryExhausted);
  EXPECT_EQ(StateOf(client, 1), TensorState::kOffloaded);
  EXPECT_THAT(client.Values(1), Each(1.0f));
  EXPECT_THAT(client.Values(2), Each(2.0f));
}

TEST_F(ResidencyTest, AnUploadMakesRoomAndIsNotMovedWhileItIsFilled) {
  Client client(*engine);
  for (uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(client.Send({Full(id, static_cast<float>(id))}).ok());
  client.Settle();
  auto sink = engine->Upload(client.caller, UploadOf(10, Spec({2 * kElements}, "cuda:0")));
  ASSERT_TRUE(sink.ok()) << sink.status();
  const std::string data = Bytes(std::vector<float>(2 * kElements, 7.0f));
  const std::string_view half = std::string_view(data).substr(0, data.size() / 2);
  ASSERT_TRUE((*sink)->Write(0, {&half, 1}, std::nullopt).ok());
  for (uint64_t id = 11; id <= 15; ++id) ASSERT_TRUE(client.Send({Full(id, static_cast<float>(id))}).ok());
  client.Settle();
  EXPECT_EQ(StateOf(client, 10), TensorState::kPending);
  ASSERT_TRUE((*sink)->Write(half.size(), {&half, 1}, std::nullopt).ok());
  ASSERT_TRUE((*sink)->Finish().ok());
  EXPECT_THAT(client.Values(10), Each(7.0f));
  // Once it is there it goes like any other.
  for (uint64_t id = 21; id <= 25; ++id) ASSERT_TRUE(client.Send({Full(id, static_cast<float>(id))}).ok());
  client.Settle();
  EXPECT_EQ(StateOf(client, 10), TensorState::kOffloaded);
  EXPECT_THAT(client.Values(10), Each(7.0f));
}

TEST_F(ResidencyTest, ReuseInPlaceIsRightForWhatComesBack) {
  Client client(*engine);
  for (uint64_t id = 1; id <= 8; ++id) ASSERT_TRUE(client.Send({Full(id, -static_cast<float>(id))}).ok());
  client.Settle();
  ASSERT_EQ(StateOf(client, 1), TensorState::kOffloaded);
  ASSERT_TRUE(client.Send({Apply(Op::kRelu, {1}, 10, {1})}).ok());
  EXPECT_THAT(client.Values(10), Each(0.0f));
  EXPECT_TRUE(cuda->runs().back().in_place) << "it came back, and its memory was passed on";
  ASSERT_TRUE(engine->CloseSession(client.caller).ok());
  AwaitCounts([](const auto& c) { return c.buffers == 0; });
}

TEST_F(ResidencyTest, TemporaryMemoryMakesRoomToo) {
  StartWith(
      {.id = {DeviceKind::kCuda, 0}, .memory_bytes = kDevice, .host_addressable = false, .scratch_bytes = kBytes});
  Client client(*engine);
  for (uint64_t id = 1; id <= 9; ++id) ASSERT_TRUE(client.Send({Full(id, static_cast<float>(id))}).ok());
  ASSERT_TRUE(client.Send({Apply(Op::kAdd, {1, 2}, 10)}).ok());
  EXPECT_THAT(client.Values(10), Each(3.0f));
  for (uint64_t id = 1; id <= 9; ++id) EXPECT_THAT(client.Values(id), Each(static_cast<float>(id)));
}

TEST_F(ResidencyTest, ParametersOfAModelComeBackForItsRuns) {
  Client client(*engine);
  CreateModelRequest create;
  create.id = 1;
  create.layers.type = "Linear";
  create.layers.options["in_features"].value = Scalar{int64_t{200}};
  create.layers.options["out_features"].value = Scalar{int64_t{200}};
  create.devices = {"cuda:0"};
  create.seed = 3;
  const auto model = Await<ModelInfo>([&](auto done) { engine->CreateModel(client.caller, create, std::move(done)); });
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 2, {1, 200}, "cuda:0")}).ok());
  ExecuteRequest request;
  request.callee = ModelRef{1, ""};
  request.inputs = {Given(TensorRef::Id(2))};
  request.outputs = {Show()};
  const auto before = Run(client.caller, request);
  ASSERT_TRUE(before.ok()) << before.status();
  for (uint64_t id = 3; id <= 8; ++id) ASSERT_TRUE(client.Send({Full(id, 1)}).ok());
  client.Settle();
  ASSERT_EQ(engine->GetTensor(client.caller, TensorRef{TensorRef::Parameter{ModelRef{1, ""}, "weight"}})->state,
            TensorState::kOffloaded);
  const auto after = Run(client.caller, request);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(*after->outputs[0].data, *before->outputs[0].data) << "bit for bit";
}

TEST_F(ResidencyTest, SessionsThatFillADeviceTogetherDisturbNobody) {
  constexpr int kThreads = 4;
  constexpr uint64_t kTensors = 6;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Client client(*engine);
      const auto value = [&](uint64_t id) { return static_cast<float>(100 * t) + static_cast<float>(id); };
      for (uint64_t id = 1; id <= kTensors; ++id) ASSERT_TRUE(client.Send({Full(id, value(id))}).ok());
      uint64_t next = 100;
      for (uint64_t round = 0; round < 12; ++round) {
        const uint64_t a = 1 + round % kTensors;
        const uint64_t b = 1 + (round * 5 + 1) % kTensors;
        if (t % 2 == 0) {
          ASSERT_TRUE(client.Send({Apply(Op::kAdd, {a, b}, next)}).ok());
          ASSERT_THAT(client.Values(next), Each(value(a) + value(b)));
          ASSERT_TRUE(client.Send({Free({next++})}).ok());
        } else if (round % 3 == 0) {
          auto sink = engine->Upload(client.caller, UploadOf(next, Spec({kElements}, "cuda:0")));
          ASSERT_TRUE(sink.ok()) << sink.status();
          const std::string data = Bytes(std::vector<float>(kElements, value(a)));
          const std::string_view piece = data;
          ASSERT_TRUE((*sink)->Write(0, {&piece, 1}, std::nullopt).ok());
          ASSERT_TRUE((*sink)->Finish().ok());
          ASSERT_TRUE(client.Send({To(next, next + 1, "cpu")}).ok());
          ASSERT_THAT(client.Values(next + 1), Each(value(a)));
          ASSERT_TRUE(client.Send({Free({next, next + 1})}).ok());
          next += 2;
        } else {
          const auto values = Download(client.caller, TensorRef::Id(a));
          ASSERT_TRUE(values.ok()) << values.status();
          ASSERT_THAT(*values, Each(value(a)));
        }
      }
      EXPECT_TRUE(engine->CloseSession(client.caller).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  AwaitCounts([](const auto& c) { return c.sessions == 0 && c.buffers == 0 && c.buffer_bytes == 0; });
  EXPECT_EQ(cuda->used(), 0u);
  EXPECT_EQ(cpu->used(), 0u);
}

}  // namespace
}  // namespace tensord::testing
