// A device that is lost, as clients meet it: it takes its own with it and nothing else.
#include "tests/conformance/harness.h"

namespace tensord::conformance {
namespace {

class LossTest : public ConformanceTest {
 protected:
  void TearDown() override {
    // The probe of every test wants all devices: a new engine on devices that are well.
    EndSession();
    ReviveDevices();
    Restart(Options());
    ConformanceTest::TearDown();
  }
  uint64_t Ones(const std::string& device) {
    CreateAttributes create;
    create.spec = {{Dtype::kFloat32, {2}}, device};
    return session().MustRun(Op::kOnes, {}, create);
  }
  static void ExpectLost(const absl::Status& status) {
    ExpectReason(status, Reason::kDeviceLost, {"device", "cause"});
    EXPECT_EQ(DetailsOf(status).Get("device"), "cuda:1");
  }
  void Expect(uint64_t id, const std::vector<double>& values) {
    EXPECT_EQ(oracle::Compare(session().MustGet(id), ArrayOf(Dtype::kFloat32, {2}, values)), "");
  }
};

TEST_P(LossTest, EverybodyIsToldTheCauseAndTheRestGoesOn) {
  const uint64_t lost = Ones("cuda:1");
  const uint64_t gpu = Ones("cuda:0");
  const uint64_t host = Ones("cpu");
  PublishRequest publish;
  publish.source = TensorRef::Id(lost);
  publish.name = "kept";
  ASSERT_TRUE(engine().Publish(session().caller(), publish).ok());
  if (!LoseDevice(1)) GTEST_SKIP() << "a real device is not killed for a test";

  // Whoever comes first finds out; everybody else hears the same.
  const absl::Status first = session().Get(TensorRef::Id(lost)).status();
  ExpectLost(first);
  const std::string cause(DetailsOf(first).Get("cause"));
  const auto same = [&](const absl::Status& status) {
    ExpectLost(status);
    EXPECT_EQ(DetailsOf(status).Get("cause"), cause);
  };
  same(session().Get(TensorRef::Name("kept")).status());
  same(session().Run(Op::kAdd, {lost, lost}).status());
  ConvertAttributes convert;
  convert.device = "cpu";
  same(session().Run(Op::kTo, {lost}, convert).status());
  convert.device = "cuda:1";
  same(session().Run(Op::kTo, {host}, convert).status());
  same(engine()
           .Upload(session().caller(), {.id = session().NewId(), .spec = {{Dtype::kFloat32, {2}}, "cuda:1"}})
           .status());
  const auto info = engine().GetTensor(session().caller(), TensorRef::Id(lost));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->state, TensorState::kFailed);
  same(info->error);
  const auto names = engine().ListTensors(session().caller(), {});
  ASSERT_TRUE(names.ok()) << names.status();
  ASSERT_EQ(names->tensors.size(), 1u);
  EXPECT_EQ(names->tensors[0].state, TensorState::kFailed);
  const auto devices = engine().ListDevices(session().caller(), {}, true);
  ASSERT_TRUE(devices.ok()) << devices.status();
  for (const DeviceDescription& device : devices->devices) {
    EXPECT_EQ(device.health.ok(), device.info.id.ToString() != "cuda:1") << device.health;
  }

  Expect(session().MustRun(Op::kAdd, {gpu, gpu}), {2, 2});
  Expect(session().MustRun(Op::kAdd, {host, host}), {2, 2});
  TestSession other(engine());
  same(other.Get(TensorRef::Name("kept")).status());
  EXPECT_TRUE(engine().DeleteTensors(other.caller(), {{TensorRef::Name("kept")}, false}).ok());
  other.Close();
  EndSession();
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (local().CountAlive().buffers > 0 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(local().CountAlive().buffer_bytes, 0u) << "what the lost device held is accounted for";
}

INSTANTIATE_CONFORMANCE(LossTest);

}  // namespace
}  // namespace tensord::conformance
