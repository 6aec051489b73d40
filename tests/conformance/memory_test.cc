// Devices that are full: what is idle lends its place, and every value stays what it was.
#include <cstring>
#include <thread>

#include "tests/conformance/harness.h"

namespace tensord::conformance {
namespace {

// A tensor of 8 MiB; a device has room for seven or eight.
constexpr int64_t kElements = 1 << 20;
constexpr uint64_t kBytes = kElements * sizeof(double);

class MemoryTest : public ConformanceTest {
 protected:
  static uint64_t Full(TestSession& session, double value, const std::string& device = "cuda:0") {
    CreateAttributes create;
    create.spec = {{Dtype::kFloat64, {kElements}}, device};
    return session.MustRun(Op::kFull, {value}, create);
  }
  // Every element is `value`: looked at where they are, then by the device itself.
  static void ExpectAll(TestSession& session, uint64_t id, double value) {
    const oracle::Array array = session.MustGet(id);
    ASSERT_EQ(array.bytes.size(), kBytes);
    const auto* data = reinterpret_cast<const double*>(array.bytes.data());
    for (int64_t i = 0; i < kElements; ++i) ASSERT_EQ(data[i], value) << i;
  }
  TensorState StateOf(TestSession& session, uint64_t id) {
    const auto info = engine().GetTensor(session.caller(), TensorRef::Id(id));
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? info->state : TensorState::kFailed;
  }
  uint64_t Held(const std::string& device) {
    const auto list = engine().ListDevices(session().caller(), {device}, true);
    uint64_t bytes = 0;
    for (const MemoryHolder& holder : list->devices[0].holders) bytes += holder.bytes;
    return bytes;
  }
};

TEST_P(MemoryTest, ADeviceIsFilledThreeTimesOver) {
  constexpr int kTensors = 24;
  std::vector<uint64_t> ids;
  for (int i = 0; i < kTensors; ++i) ids.push_back(Full(session(), i));
  int offloaded = 0;
  for (const uint64_t id : ids) offloaded += StateOf(session(), id) == TensorState::kOffloaded ? 1 : 0;
  EXPECT_GE(offloaded, kTensors - 8) << "a device of 64 MiB cannot hold more than eight";
  EXPECT_EQ(Held("cpu"), static_cast<uint64_t>(offloaded) * kBytes) << "df tells where they are";
  EXPECT_EQ(Held("cuda:0"), static_cast<uint64_t>(kTensors - offloaded) * kBytes);
  // Sums of the first with the last, the second with the last but one, …: all of them come back once.
  for (int i = 0; i < kTensors / 2; ++i) {
    const uint64_t sum =
        session().MustRun(Op::kAdd, {ids[static_cast<size_t>(i)], ids[ids.size() - 1 - static_cast<size_t>(i)]});
    ExpectAll(session(), sum, kTensors - 1);
    session().Free({sum});
  }
  for (int i = 0; i < kTensors; i += 5) ExpectAll(session(), ids[static_cast<size_t>(i)], i);
  session().Free(ids);
  EXPECT_EQ(local().CountAlive().buffer_bytes, 0u);
}

TEST_P(MemoryTest, SessionsShareAFullDevice) {
  TestSession other(engine());
  std::vector<uint64_t> mine, theirs;
  for (int i = 0; i < 6; ++i) {
    mine.push_back(Full(session(), i));
    theirs.push_back(Full(other, 100 + i));
  }
  std::thread reader([&] {
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 6; ++i) ExpectAll(other, theirs[static_cast<size_t>(i)], 100 + i);
    }
  });
  for (size_t i = 0; i < 6; ++i) {
    const uint64_t sum = session().MustRun(Op::kAdd, {mine[i], mine[(i + 3) % 6]});
    ExpectAll(session(), sum, static_cast<double>(i + (i + 3) % 6));
    session().Free({sum});
  }
  reader.join();
  // The end of a session frees what it held on either side, and nothing of the other's.
  other.Close();
  for (int i = 0; i < 6; ++i) ExpectAll(session(), mine[static_cast<size_t>(i)], i);
  EXPECT_EQ(local().CountAlive().buffer_bytes, 6 * kBytes);
}

TEST_P(MemoryTest, UploadsAndMovesMakeRoom) {
  std::vector<uint64_t> ids;
  for (int i = 0; i < 8; ++i) ids.push_back(Full(session(), i, "cuda:1"));
  oracle::Array array{{Dtype::kFloat64, {kElements}}, std::string(kBytes, '\0')};
  for (int64_t i = 0; i < kElements; ++i) {
    const auto value = static_cast<double>(i);
    std::memcpy(array.bytes.data() + static_cast<size_t>(i) * sizeof(value), &value, sizeof(value));
  }
  const uint64_t uploaded = session().Put(array, "cuda:1");
  EXPECT_EQ(session().MustGet(uploaded).bytes, array.bytes);
  EXPECT_EQ(StateOf(session(), ids[0]), TensorState::kOffloaded);
  // From where it lies to another device, without the first one.
  ConvertAttributes convert;
  convert.device = "cuda:0";
  ExpectAll(session(), session().MustRun(Op::kTo, {ids[0]}, convert), 0);
  EXPECT_EQ(StateOf(session(), ids[0]), TensorState::kOffloaded);
  convert.device = "cpu";
  EXPECT_EQ(session().MustGet(session().MustRun(Op::kTo, {uploaded}, convert)).bytes, array.bytes);
}

TEST_P(MemoryTest, AModelWhoseParametersHaveLeftGivesTheSameBits) {
  CreateModelRequest create;
  create.id = session().NewId();
  create.layers.type = "Linear";
  create.layers.options["in_features"].value = Scalar{int64_t{1024}};
  create.layers.options["out_features"].value = Scalar{int64_t{256}};
  create.devices = {"cuda:0"};
  create.seed = 11;
  const auto model =
      Await<ModelInfo>([&](auto done) { engine().CreateModel(session().caller(), create, std::move(done)); });
  ASSERT_TRUE(model.ok()) << model.status();
  CreateAttributes input;
  input.spec = {{Dtype::kFloat32, {4, 1024}}, "cuda:0"};
  input.seed = 5;
  const uint64_t x = session().MustRun(Op::kRand, {}, input);
  ExecuteRequest forward;
  forward.callee = ModelRef{create.id, ""};
  forward.inputs.push_back({"", TensorRef::Id(x), false});
  const auto before = session().Execute(forward);
  ASSERT_TRUE(before.ok()) << before.status();
  std::vector<uint64_t> ids;
  for (int i = 0; i < 9; ++i) ids.push_back(Full(session(), i));
  EXPECT_EQ(StateOf(session(), x), TensorState::kOffloaded);
  const auto after = session().Execute(forward);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(*after->outputs[0].data, *before->outputs[0].data);
  session().Free(ids);
}

INSTANTIATE_CONFORMANCE(MemoryTest);

}  // namespace
}  // namespace tensord::conformance
