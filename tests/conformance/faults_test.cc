// Whichever call of the CUDA runtime fails while a client creates, computes, moves, runs a model and frees: what comes
// back is a value or a refusal by reason, nothing stays behind, and the engine goes on.
#include "tests/conformance/harness.h"
#include "tests/oracle/elementwise.h"

namespace tensord::conformance {
namespace {

using oracle::Array;

class FaultsTest : public ConformanceTest {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    if (!CountDriverCalls()) GTEST_SKIP() << "a real device's calls cannot be made to fail";
  }
  // A value, or a refusal that says why.
  template <class T>
  static bool Clean(const absl::StatusOr<T>& result) {
    return Clean(result.status());
  }
  static bool Clean(const absl::Status& status) {
    if (status.ok()) return true;
    const ErrorDetails details = DetailsOf(status);
    const bool known = details.reason == Reason::kMemoryExhausted || details.reason == Reason::kDeviceLost ||
                       details.reason == Reason::kInternal || details.reason == Reason::kFeatureUnavailable ||
                       details.reason == Reason::kHandleUnknown;  // of a step that failed before
    EXPECT_TRUE(known) << status;
    EXPECT_EQ(std::string(status.message()).find('?'), std::string::npos) << status;
    return false;
  }

  // Every step is tried, whatever became of those before it. Values that arrive must be right.
  void Scenario() {
    const Array ones = ArrayOf(Dtype::kFloat32, {2, 3}, {1, 1, 1, 1, 1, 1});
    TestSession& s = session();
    CreateAttributes create;
    create.spec = {{Dtype::kFloat32, {2, 3}}, "cuda:0"};
    const auto x = s.Run(Op::kOnes, {}, create);
    create.spec.device = "cuda:1";
    const auto far = s.Run(Op::kOnes, {}, create);
    Clean(x);
    Clean(far);
    const uint64_t a = x.value_or(s.NewId());
    ConvertAttributes convert;
    convert.device = "cuda:0";
    const auto near = s.Run(Op::kTo, {far.value_or(s.NewId())}, convert);
    Clean(near);
    const auto sum = s.Run(Op::kAdd, {a, near.value_or(s.NewId())});
    if (Clean(sum)) Expect(s.Get(TensorRef::Id(*sum)), ArrayOf(Dtype::kFloat32, {2, 3}, {2, 2, 2, 2, 2, 2}));
    ReduceAttributes all;
    all.axes = {0, 1};
    const auto total = s.Run(Op::kSum, {a}, all);
    if (Clean(total)) Expect(s.Get(TensorRef::Id(*total)), ArrayOf(Dtype::kFloat32, {}, {6}));
    MatmulAttributes matmul;
    matmul.transpose_b = true;
    const auto product = s.Run(Op::kMatmul, {a, a}, matmul);
    if (Clean(product)) Expect(s.Get(TensorRef::Id(*product)), ArrayOf(Dtype::kFloat32, {2, 2}, {3, 3, 3, 3}));
    Upload();
    Model(ones);
    convert.device = "cpu";
    const auto home = s.Run(Op::kTo, {a}, convert);
    if (Clean(home)) Expect(s.Get(TensorRef::Id(*home)), ones);
  }
  static void Expect(const absl::StatusOr<Array>& got, const Array& expected) {
    if (!Clean(got)) return;
    EXPECT_EQ(oracle::Compare(*got, expected), "");
  }
  void Upload() {
    const uint64_t id = session().NewId();
    auto sink = engine().Upload(session().caller(), {.id = id, .spec = {{Dtype::kFloat32, {70'000}}, "cuda:0"}});
    if (!Clean(sink)) return;
    const std::string bytes(280'000, '\0');
    const std::string_view piece = bytes;
    if (!Clean((*sink)->Write(0, {&piece, 1}, std::nullopt)) || !Clean((*sink)->Finish())) return;
    const auto got = session().Get(TensorRef::Id(id));
    if (!Clean(got)) return;
    EXPECT_EQ(got->bytes, bytes);
  }
  void Model(const Array& input) {
    CreateModelRequest create;
    create.id = session().NewId();
    create.layers = {.type = "Sequential",
                     .layers = {{.type = "Linear",
                                 .options = {{"in_features", {Scalar{int64_t{3}, Dtype::kNone}}},
                                             {"out_features", {Scalar{int64_t{2}, Dtype::kNone}}}}},
                                {.type = "ReLU"}}};
    create.devices = {"cuda:0"};
    create.seed = 1;
    const auto model =
        Await<ModelInfo>([&](auto done) { engine().CreateModel(session().caller(), create, std::move(done)); });
    if (!Clean(model)) return;
    ExecuteRequest forward;
    forward.callee = ModelRef{model->id, ""};
    forward.inputs = {{.value = TensorLiteral{{input.type, "cuda:0"}, input.bytes}}};
    Clean(session().Execute(std::move(forward)));
    EXPECT_TRUE(engine().DeleteModel(session().caller(), {model->id, ""}).ok());
  }

  void ExpectNothingLeft() {
    EndSession();
    const absl::Time deadline = absl::Now() + absl::Seconds(10);
    const auto left = [&] {
      const LocalEngine::Counts counts = local().CountAlive();
      return counts.sessions + counts.handles + counts.buffers;
    };
    while (left() > 0 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_EQ(left(), 0u);
    TestSession other(engine());
    const uint64_t one = other.Put(ArrayOf(Dtype::kFloat32, {1}, {1}), "cpu");
    EXPECT_EQ(oracle::Compare(other.MustGet(other.MustRun(Op::kAdd, {one, one})), ArrayOf(Dtype::kFloat32, {1}, {2})),
              "");
  }
};

TEST_P(FaultsTest, WhicheverCallFailsTheEngineGoesOn) {
  Restart(Options());
  const uint64_t before = *CountDriverCalls();
  Scenario();
  const uint64_t calls = *CountDriverCalls() - before;
  ASSERT_GT(calls, 50u);
  for (const DriverFault fault : {DriverFault::kOutOfMemory, DriverFault::kInvalidValue, DriverFault::kSticky}) {
    // In process each call fails in each way; through gRPC, where every turn starts a server, each in one of them.
    const uint64_t step = GetParam().name == "Grpc" ? 3 : 1;
    for (uint64_t n = 1 + static_cast<uint64_t>(fault) % step; n <= calls; n += step) {
      SCOPED_TRACE(testing::Message() << "fault " << static_cast<int>(fault) << " at call " << n << " of " << calls);
      Restart(Options());
      FailDriverCall(n, fault);
      Scenario();
      ReviveDevices();
      ExpectNothingLeft();
      if (HasFailure()) return;
    }
  }
  Restart(Options());
}

INSTANTIATE_CONFORMANCE(FaultsTest);

}  // namespace
}  // namespace tensord::conformance
