// Compute.Stream: order, frees, reads, failures with their origin, gaps, replacement, resumption; and the six worked exchanges of the contract.
#include "tests/conformance/harness.h"
#include "tests/conformance/listener.h"

namespace tensord::conformance {
namespace {

Instruction Create(Op op, uint64_t output, const std::string& device, const Dims& shape = {2, 3},
                   std::string label = "") {
  CreateAttributes create;
  create.spec = {{Dtype::kFloat32, shape}, device};
  Instruction instruction;
  instruction.op = op;
  instruction.output = output;
  instruction.label = std::move(label);
  instruction.attributes = create;
  return instruction;
}

Instruction Apply(Op op, std::initializer_list<uint64_t> inputs, uint64_t output,
                  std::initializer_list<uint64_t> frees = {}) {
  Instruction instruction;
  instruction.op = op;
  instruction.inputs.assign(inputs.begin(), inputs.end());
  instruction.output = output;
  instruction.frees.assign(frees.begin(), frees.end());
  return instruction;
}

Instruction To(uint64_t input, uint64_t output, const std::string& device) {
  Instruction instruction = Apply(Op::kTo, {input}, output);
  ConvertAttributes convert;
  convert.device = device;
  instruction.attributes = convert;
  return instruction;
}

std::vector<float> Floats(const ReadReply& reply) {
  std::vector<float> values(reply.data ? reply.data->size() / sizeof(float) : 0);
  if (!values.empty()) std::memcpy(values.data(), reply.data->data(), reply.data->size());
  return values;
}

class StreamTest : public ConformanceTest {
 protected:
  void Open() {
    listener_ = std::make_shared<Collector>();
    auto stream = engine().OpenStream(session().caller(), listener_);
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_ = *std::move(stream);
  }
  absl::Status Send(std::vector<Instruction> instructions, std::vector<Read> reads = {}) {
    StreamMessage message;
    message.sequence = ++sequence_;
    message.instructions = std::move(instructions);
    message.reads = std::move(reads);
    return stream_->Submit(std::move(message));
  }
  void TearDown() override {
    stream_.reset();
    ConformanceTest::TearDown();
  }

  std::shared_ptr<Collector> listener_;
  std::unique_ptr<InstructionStream> stream_;
  uint64_t sequence_ = 0;
};

// Exchange 1: the refusal comes with the read, names its origin, and the stream goes on.
TEST_P(StreamTest, Exchange1TheMismatchOfTheTutorial) {
  Open();
  ASSERT_TRUE(Send({Create(Op::kOnes, 1, "cuda:0", {2, 3}, "X"), Create(Op::kRand, 2, "cpu", {2, 3}, "Y"),
                    Apply(Op::kAdd, {1, 2}, 3)},
                   {{1, 3, ValueFormat::kRaw}})
                  .ok());
  const ReadReply refused = listener_->Await(1);
  ExpectReason(refused.error, Reason::kDeviceMismatch, {"op", "operand", "devices", "fix"});
  EXPECT_EQ(std::string(refused.error.message()),
            "add: operand 1 (Y, float32[2,3]) is on cpu, operand 0 (X, float32[2,3]) is on cuda:0; tensors must be on "
            "one device. "
            "Move one first: Y.to(\"cuda:0\")");
  const auto origin = DetailsOf(refused.error).origin;
  ASSERT_TRUE(origin.has_value());
  EXPECT_EQ(origin->id, 3u);
  EXPECT_EQ(origin->op, "add");
  EXPECT_EQ(origin->sequence, 1u);
  EXPECT_EQ(origin->instruction, 2u);

  Instruction to = To(2, 4, "cuda:0");
  to.frees = {3};
  ASSERT_TRUE(Send({to, Apply(Op::kAdd, {1, 4}, 5)}, {{2, 5, ValueFormat::kRaw}}).ok());
  const ReadReply sum = listener_->Await(2);
  ASSERT_TRUE(sum.error.ok()) << sum.error;
  EXPECT_EQ(sum.spec->ToString(), "float32[2,3] on cuda:0");
  for (const float v : Floats(sum)) {
    EXPECT_GE(v, 1);
    EXPECT_LT(v, 2);
  }
}

// Exchange 2: a thousand adds in one message, each freeing its predecessor, and one reply.
TEST_P(StreamTest, Exchange2AThousandAddsOneRead) {
  Open();
  for (const char* device : {"cpu", "cuda:0"}) {
    const uint64_t base = session().NewId() + 100000 * (device[1] == 'u');
    std::vector<Instruction> instructions = {Create(Op::kOnes, base, device), Create(Op::kZeros, base + 1, device)};
    for (uint64_t i = 1; i <= 1000; ++i)
      instructions.push_back(Apply(Op::kAdd, {base + i, base}, base + i + 1, {base + i}));
    const auto handles = [&] { return local().CountAlive().handles; };
    const uint64_t before = handles();
    ASSERT_TRUE(Send(std::move(instructions), {{base, base + 1001, ValueFormat::kRaw}}).ok());
    const ReadReply reply = listener_->Await(base);
    ASSERT_TRUE(reply.error.ok()) << reply.error;
    EXPECT_EQ(Floats(reply), std::vector<float>(6, 1000));
    EXPECT_EQ(handles(), before + 2);
  }
}

// Exchange 3: an upload breaks off and is resumed from what arrived; users may queue before its bytes.
TEST_P(StreamTest, Exchange3AnUploadResumes) {
  Open();
  constexpr uint64_t kHalf = 1 << 20;
  const std::string bytes(2 * kHalf, '\0');
  const Dims shape = {int64_t{2 * kHalf / sizeof(float)}};
  const UploadStart start{20, {{Dtype::kFloat32, shape}, "cuda:0"}, Checksum::kXxh3, "", std::nullopt};
  auto first = engine().Upload(session().caller(), start);
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string_view piece = std::string_view(bytes).substr(0, kHalf);
  ASSERT_TRUE((*first)->Write(0, {&piece, 1}, std::nullopt).ok());
  ASSERT_TRUE(Send({Apply(Op::kExp, {20}, 21)}, {{7, 21, ValueFormat::kNone}}).ok());
  first->reset();

  // The second takes over; through gRPC the cut may still be on its way, so it may begin anywhere up to what was sent.
  auto second = engine().Upload(session().caller(), start);
  ASSERT_TRUE(second.ok()) << second.status();
  const uint64_t received = (*second)->received();
  EXPECT_LE(received, kHalf);
  for (uint64_t at = received; at < bytes.size(); at += kHalf) {
    const std::string_view rest = std::string_view(bytes).substr(at, kHalf);
    ASSERT_TRUE((*second)->Write(at, {&rest, 1}, std::nullopt).ok());
  }
  const auto info = (*second)->Finish();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->state, TensorState::kReady);
  const ReadReply ready = listener_->Await(7);
  EXPECT_TRUE(ready.error.ok()) << ready.error;
  EXPECT_EQ(session().MustGet(21).At(0).real, 1);
}

// Exchange 4: a registered program is replayed, its state donated.
TEST_P(StreamTest, Exchange4ARegisteredProgramReplayed) {
  Open();
  Program step;
  step.inputs = {{.name = "w", .id = 1}, {.name = "v", .id = 2}, {.name = "g", .id = 3}};
  const auto scaled = [](uint64_t input, double factor, uint64_t output) {
    Instruction instruction = Apply(Op::kMultiply, {input, 0}, output);
    instruction.scalars = {Scalar{factor, Dtype::kNone}};
    return instruction;
  };
  step.instructions = {scaled(2, 0.9, 4), Apply(Op::kAdd, {4, 3}, 5), scaled(5, 0.1, 6),
                       Apply(Op::kSubtract, {1, 6}, 7)};
  step.outputs = {{.name = "w", .id = 7}, {.name = "v", .id = 5}};
  const auto registered = engine().RegisterProgram(session().caller(), 1, step);
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(registered->inputs.size(), 3u);
  EXPECT_EQ(registered->outputs.size(), 2u);

  const auto call = [](uint64_t w, uint64_t v, uint64_t g, uint64_t output) {
    Instruction instruction = Apply(Op::kCall, {w, v, g}, output, {w, v, g});
    instruction.output_count = 2;
    CallAttributes attributes;
    attributes.program = 1;
    instruction.attributes = attributes;
    return instruction;
  };
  ASSERT_TRUE(Send({Create(Op::kOnes, 30, "cpu"), Create(Op::kOnes, 31, "cpu"), Create(Op::kOnes, 32, "cpu"),
                    call(30, 31, 32, 33), Create(Op::kOnes, 35, "cpu"), call(33, 34, 35, 36)},
                   {{1, 36, ValueFormat::kRaw}, {2, 37, ValueFormat::kRaw}})
                  .ok());
  // v = 0.9 + 1 = 1.9, then 0.9 * 1.9 + 1 = 2.71; w = 1 - 0.19 = 0.81, then 0.81 - 0.271 = 0.539.
  EXPECT_NEAR(Floats(listener_->Await(1)).at(0), 0.539, 1e-6);
  EXPECT_NEAR(Floats(listener_->Await(2)).at(0), 2.71, 1e-6);
  EXPECT_EQ(local().CountAlive().handles, 2u);
  EXPECT_TRUE(engine().UnregisterProgram(session().caller(), 1).ok());
}

// Exchange 5 with layers in place of a file: a published model runs by Execute and by the op `call`.
TEST_P(StreamTest, Exchange5AModelByExecuteAndByCall) {
  Open();
  CreateModelRequest request;
  request.name = "mlp";
  request.devices = {"cuda:0"};
  request.layers = {.type = "Sequential",
                    .layers = {{.type = "Linear",
                                .options = {{"in_features", {Scalar{int64_t{3}, Dtype::kNone}}},
                                            {"out_features", {Scalar{int64_t{1}, Dtype::kNone}}}}}}};
  const auto model =
      Await<ModelInfo>([&](auto done) { engine().CreateModel(session().caller(), request, std::move(done)); });
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->parameters.size(), 2u);
  EXPECT_EQ(model->parameters[0].path, "0.weight");
  EXPECT_EQ(model->parameters[0].spec.ToString(), "float32[1,3] on cuda:0");

  ModelRef ref;
  ref.name = "mlp";
  CallAttributes attributes;
  attributes.model = ref;
  Instruction call = Apply(Op::kCall, {1}, 2);
  call.attributes = attributes;
  ASSERT_TRUE(Send({Create(Op::kOnes, 1, "cuda:0", {1, 3}), call}, {{1, 2, ValueFormat::kRaw}}).ok());
  const ReadReply by_call = listener_->Await(1);
  ASSERT_TRUE(by_call.error.ok()) << by_call.error;

  ExecuteRequest execute;
  execute.callee = ref;
  const oracle::Array ones = ArrayOf(Dtype::kFloat32, {1, 3}, {1, 1, 1});
  execute.inputs = {{.value = TensorLiteral{{ones.type, "cuda:0"}, ones.bytes}}};
  const auto by_execute = session().Execute(execute);
  ASSERT_TRUE(by_execute.ok()) << by_execute.status();
  ASSERT_EQ(by_execute->outputs.size(), 1u);
  EXPECT_EQ(by_execute->outputs[0].data, by_call.data);
  EXPECT_TRUE(engine().DeleteModel(session().caller(), ref).ok());
}

// Exchange 6: after a cut the session is resumed by its token, and its handles and numbers are there.
TEST_P(StreamTest, Exchange6ASessionAfterACut) {
  Open();
  ASSERT_TRUE(Send({Create(Op::kOnes, 1, "cpu"), Create(Op::kRand, 733, "cuda:0")}).ok());
  ASSERT_TRUE(Send({Apply(Op::kExp, {1}, 734)}, {{9, 734, ValueFormat::kRaw}}).ok());
  EXPECT_TRUE(listener_->Await(9).error.ok());
  stream_.reset();

  OpenSessionRequest resume;
  resume.resume_token = session().opened().token;
  resume.incarnation = session().opened().incarnation;
  const auto resumed = engine().OpenSession(Caller{}, resume);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_TRUE(resumed->resumed);
  EXPECT_EQ(resumed->session, session().opened().session);
  EXPECT_EQ(resumed->next_sequence, 3u);
  EXPECT_EQ(resumed->highest_id, 734u);
  Open();
  ASSERT_TRUE(Send({Apply(Op::kAdd, {1, 734}, 735, {734})}, {{9, 735, ValueFormat::kRaw}}).ok());
  EXPECT_NEAR(Floats(listener_->Await(9)).at(0), 3.7182818, 1e-5);

  resume.incarnation ^= 1;
  resume.resume_token = "00112233445566778899aabbccddeeff";
  const absl::Status restarted = engine().OpenSession(Caller{}, resume).status();
  ExpectReason(restarted, Reason::kSessionUnknown, {"cause", "incarnation"});
  EXPECT_EQ(DetailsOf(restarted).Get("cause"), "restarted");
}

TEST_P(StreamTest, AGapEndsTheStreamAndTheSessionStays) {
  Open();
  ASSERT_TRUE(Send({Create(Op::kOnes, 1, "cpu")}).ok());
  sequence_ += 3;
  (void)Send({Create(Op::kOnes, 2, "cpu")});
  ExpectReason(listener_->AwaitEnd(), Reason::kSequenceGap, {"expected", "got"});
  EXPECT_EQ(session().MustGet(1).At(0).real, 1);
  sequence_ = 1;
  Open();
  ASSERT_TRUE(Send({Create(Op::kOnes, 2, "cpu")}, {{1, 2, ValueFormat::kRaw}}).ok());
  EXPECT_TRUE(listener_->Await(1).error.ok());
}

TEST_P(StreamTest, AnOldNumberIsSkippedAsAWhole) {
  Open();
  ASSERT_TRUE(Send({Create(Op::kOnes, 1, "cpu")}).ok());
  sequence_ = 0;
  ASSERT_TRUE(Send({Create(Op::kOnes, 1, "cpu")}).ok());
  ASSERT_TRUE(Send({Apply(Op::kAdd, {1, 1}, 2)}, {{1, 2, ValueFormat::kRaw}}).ok());
  EXPECT_EQ(Floats(listener_->Await(1)), std::vector<float>(6, 2));
}

TEST_P(StreamTest, ASecondStreamTakesOver) {
  Open();
  const auto first = listener_;
  auto old = std::move(stream_);
  Open();
  ExpectReason(first->AwaitEnd(), Reason::kStreamReplaced, {"session"});
  old.reset();
  ASSERT_TRUE(Send({Create(Op::kOnes, 1, "cpu")}, {{1, 1, ValueFormat::kRaw}}).ok());
  EXPECT_TRUE(listener_->Await(1).error.ok());
}

TEST_P(StreamTest, AFailureIsRepeatedByWhateverDependsOnIt) {
  Open();
  ASSERT_TRUE(Send({Create(Op::kOnes, 1, "cpu", {2}), Create(Op::kOnes, 2, "cpu", {3}), Apply(Op::kAdd, {1, 2}, 3),
                    Apply(Op::kExp, {3}, 4), Apply(Op::kExp, {4}, 5), Apply(Op::kExp, {1}, 6)},
                   {{1, 5, ValueFormat::kRaw}, {2, 6, ValueFormat::kRaw}})
                  .ok());
  const ReadReply failed = listener_->Await(1);
  ExpectReason(failed.error, Reason::kShapeMismatch, {"shapes", "op"});
  const auto origin = DetailsOf(failed.error).origin;
  ASSERT_TRUE(origin.has_value());
  EXPECT_EQ(origin->id, 3u);
  EXPECT_EQ(origin->distance, 2u);
  EXPECT_TRUE(listener_->Await(2).error.ok());
}

TEST_P(StreamTest, AReadCanBeGivenUp) {
  Open();
  // Nothing fills 20 before its upload, so the read waits until it is cancelled.
  Instruction reserve = Create(Op::kUpload, 20, "cpu");
  ASSERT_TRUE(Send({reserve}, {{5, 20, ValueFormat::kRaw}}).ok());
  StreamMessage message;
  message.sequence = ++sequence_;
  message.cancels = {5};
  ASSERT_TRUE(stream_->Submit(std::move(message)).ok());
  ExpectReason(listener_->Await(5).error, Reason::kCancelled, {"tag"});
}

TEST_P(StreamTest, ABarrierComesAfterWhatIsBeforeIt) {
  Open();
  ASSERT_TRUE(
      Send({Create(Op::kRandn, 1, "cuda:0", {1000, 1000}), Apply(Op::kMatmul, {1, 1}, 2)}, {{1, 0, ValueFormat::kNone}})
          .ok());
  EXPECT_TRUE(listener_->Await(1).error.ok());
  const auto info = engine().GetTensor(session().caller(), TensorRef::Id(2));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->state, TensorState::kReady);
}

TEST_P(StreamTest, ReportsTellOfFailuresAndTimes) {
  Open();
  StreamMessage message;
  message.sequence = ++sequence_;
  message.instructions = {Create(Op::kOnes, 1, "cpu", {2}), Create(Op::kOnes, 2, "cpu", {3}),
                          Apply(Op::kAdd, {1, 2}, 3)};
  message.report = ReportLevel::kTimings;
  message.reads = {{1, 0, ValueFormat::kNone}};
  ASSERT_TRUE(stream_->Submit(std::move(message)).ok());
  (void)listener_->Await(1);
  // Reports ride with the barrier's reply or come before it.
  const auto reports = listener_->reports();
  ASSERT_EQ(reports.size(), 3u);
  int failures = 0;
  for (const InstructionReport& report : reports) failures += report.error.ok() ? 0 : 1;
  EXPECT_EQ(failures, 1);
}

TEST_P(StreamTest, OtherCallsWaitForTheMessageTheyName) {
  Open();
  ASSERT_TRUE(Send({Create(Op::kOnes, 1, "cpu")}).ok());
  Caller after = session().caller();
  after.after = 1;
  const auto info = engine().GetTensor(after, TensorRef::Id(1));
  EXPECT_TRUE(info.ok()) << info.status();
}

INSTANTIATE_CONFORMANCE(StreamTest);

}  // namespace
}  // namespace tensord::conformance
