// Execute, registered programs and calls.
#include <gmock/gmock.h>

#include "tests/unit/engine/client.h"

namespace tensord::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// (x + y) * 2
Program AddTwice() {
  Program program;
  program.inputs = {Formal("x", 1), Formal("y", 2)};
  Instruction twice = Apply(Op::kMultiply, {3, 0}, 4);
  twice.scalars.push_back({2.0});
  program.instructions = {Labeled(Apply(Op::kAdd, {1, 2}, 3), "sum"), twice};
  program.outputs = {Formal("twice", 4), Formal("sum", 3)};
  return program;
}

class ExecuteTest : public EngineTest {
 protected:
  void SetUp() override { Start(); }
  void PublishAs(const Caller& caller, uint64_t id, std::string name) {
    PublishRequest publish;
    publish.source = TensorRef::Id(id);
    publish.name = std::move(name);
    ASSERT_TRUE(engine->Publish(caller, publish).ok());
  }
};

TEST_F(ExecuteTest, RunsAProgramOnLiteralsWithoutASession) {
  ExecuteRequest request;
  request.callee = AddTwice();
  request.inputs = {Literal({2}, {1, 2}), Literal({2}, {3, 4})};
  const auto response = Run(Caller{}, request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->outputs.size(), 2u);
  EXPECT_EQ(response->outputs[0].name, "twice");
  EXPECT_EQ(response->outputs[0].format, ValueFormat::kTyped);
  EXPECT_EQ(response->outputs[0].tensor.spec.ToString(), "float32[2] on cpu");
  EXPECT_THAT(Floats(*response->outputs[0].data), ElementsAre(8, 12));
  EXPECT_THAT(Floats(*response->outputs[1].data), ElementsAre(4, 6));
  EXPECT_EQ(engine->CountAlive().buffers, 0u);
}

TEST_F(ExecuteTest, KeepsPublishesAndShowsAsAsked) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2})}).ok());
  ExecuteRequest request;
  request.callee = AddTwice();
  request.inputs = {Given(TensorRef::Id(1)), Given(TensorRef::Id(1))};
  ResultRequest sum = Keep(7);
  sum.name = "sum";
  ResultRequest twice = Name("z");
  twice.name = "twice";
  twice.value = ValueFormat::kRaw;
  request.outputs = {sum, twice};
  const auto response = Run(client.caller, request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->outputs.size(), 2u);
  EXPECT_EQ(response->outputs[0].name, "sum");
  EXPECT_EQ(response->outputs[0].tensor.id, 7u);
  EXPECT_FALSE(response->outputs[0].data.has_value());
  EXPECT_THAT(response->outputs[1].tensor.names, ElementsAre("default/z"));
  EXPECT_THAT(Floats(*response->outputs[1].data), ElementsAre(4, 4));
  EXPECT_FALSE(response->outputs[1].tensor.shared_storage);
  EXPECT_THAT(client.Values(7), ElementsAre(2, 2));
  EXPECT_EQ(engine->CountAlive().names, 1u);
}

TEST_F(ExecuteTest, NamesSayWhichOperandIsWhere) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2, 3}, "cuda:0"), Make(Op::kOnes, 2, {2, 3})}).ok());
  PublishAs(client.caller, 1, "X");
  PublishAs(client.caller, 2, "Y");
  ExecuteRequest request;
  request.callee = AddTwice();
  request.inputs = {Given(TensorRef::Name("X")), Given(TensorRef::Name("Y"))};
  const absl::Status status = Run(Caller{}, request).status();
  EXPECT_EQ(ReasonOf(status), Reason::kDeviceMismatch);
  EXPECT_THAT(std::string(status.message()), HasSubstr("operand 1 (Y, float32[2,3]) is on cpu"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("Y.to(\"cuda:0\")"));
  EXPECT_EQ(Meta(status, "label"), "sum");
  EXPECT_EQ(DetailsOf(status).origin->instruction, 0u);
}

TEST_F(ExecuteTest, ArgumentsMustFitTheSignature) {
  Client client(*engine);
  const Program program = AddTwice();
  const auto problem = [&](std::vector<Argument> inputs, std::vector<ResultRequest> outputs = {}) {
    ExecuteRequest request;
    request.callee = program;
    request.inputs = std::move(inputs);
    request.outputs = std::move(outputs);
    const absl::Status status = Run(client.caller, request).status();
    return StrCat(DetailsOf(status).reason_name, ": ", DetailsOf(status).Get("problem"));
  };
  Argument x = Literal({1}, {1});
  Argument named = x;
  named.name = "x";
  Argument wrong = x;
  wrong.name = "z";
  EXPECT_EQ(problem({x}), "ARGUMENT_MISMATCH: is missing");
  EXPECT_EQ(problem({x, x, x}), "ARGUMENT_MISMATCH: is one too many");
  EXPECT_EQ(problem({named, x}), "ARGUMENT_MISMATCH: is named and others are not, or the other way round");
  EXPECT_EQ(problem({named, named}), "ARGUMENT_MISMATCH: is given twice");
  EXPECT_EQ(problem({named, wrong}), "ARGUMENT_MISMATCH: is none of the inputs");
  EXPECT_EQ(problem({x, x}, {Show("nothing")}), "ARGUMENT_MISMATCH: is none of the outputs");
  Argument y = x;
  y.name = "y";
  EXPECT_EQ(problem({y, named}), ": ") << "by name in any order";
  Argument empty;
  EXPECT_EQ(problem({x, empty}), "FIELD_INVALID: ");
  Argument donated = x;
  donated.donate = true;
  EXPECT_EQ(problem({x, donated}), "FIELD_INVALID: ");
  Argument short_data = x;
  std::get<TensorLiteral>(short_data.value).data.pop_back();
  EXPECT_EQ(problem({x, short_data}), "DATA_INVALID: ");
}

TEST_F(ExecuteTest, AllOrNothing) {
  Client client(*engine);
  cpu->FailRuns(Error(Reason::kInternal).With("id", "x"), 1, 1);
  ExecuteRequest request;
  request.callee = AddTwice();
  request.inputs = {Literal({1}, {1}), Literal({1}, {1})};
  ResultRequest sum = Keep(7);
  sum.name = "sum";
  sum.publish = "s";
  request.outputs = {sum};
  ResultRequest twice = Keep(8);
  twice.name = "twice";
  request.outputs.push_back(twice);
  const absl::Status status = Run(client.caller, request).status();
  EXPECT_EQ(ReasonOf(status), Reason::kInternal);
  EXPECT_EQ(Meta(status, "op"), "multiply");
  EXPECT_EQ(Meta(status, "instruction"), "1");
  EXPECT_EQ(engine->CountAlive().handles, 0u);
  EXPECT_EQ(engine->CountAlive().names, 0u);
  AwaitCounts([](const auto& c) { return c.buffers == 0; });
  EXPECT_EQ(Meta(client.Get(7).error, "state"), "freed");
  // Nor is anything kept where a name is taken meanwhile or before.
  request.outputs[0].id = 17;
  request.outputs[1].id = 18;
  ASSERT_TRUE(Run(client.caller, request).ok());
  request.outputs[0].id = 27;
  request.outputs[1].id = 28;
  EXPECT_EQ(ReasonOf(Run(client.caller, request).status()), Reason::kNameInUse);
  request.outputs[0].replace = true;
  request.outputs[1].id = 18;
  EXPECT_EQ(ReasonOf(Run(client.caller, request).status()), Reason::kHandleInUse);
  EXPECT_EQ(engine->CountAlive().handles, 2u);
}

TEST_F(ExecuteTest, ADonatedInputEndsAndIsReused) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}), Make(Op::kOnes, 2, {2})}).ok());
  client.Settle();
  ExecuteRequest request;
  request.callee = AddTwice();
  request.inputs = {Given(TensorRef::Id(1), "x", true), Given(TensorRef::Id(2), "y")};
  request.outputs = {Show("twice")};
  const auto response = Run(client.caller, request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(Floats(*response->outputs[0].data), ElementsAre(4, 4));
  EXPECT_EQ(Meta(client.Get(1).error, "state"), "freed");
  EXPECT_THAT(client.Values(2), ElementsAre(1, 1));
  const std::vector<RunRecord> runs = cpu->runs();
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_TRUE(runs[2].in_place) << "takes the donated memory";
  EXPECT_TRUE(runs[3].in_place) << "and so does what follows";
}

TEST_F(ExecuteTest, ErrorsInsideAProgramNameTheInstruction) {
  ExecuteRequest request;
  request.callee = AddTwice();
  request.inputs = {Literal({2}, {1, 2}), Literal({3}, {3, 4, 5})};
  const absl::Status status = Run(Caller{}, request).status();
  EXPECT_EQ(ReasonOf(status), Reason::kShapeMismatch);
  EXPECT_EQ(Meta(status, "instruction"), "0");
  EXPECT_EQ(Meta(status, "label"), "sum");
  EXPECT_EQ(Meta(status, "op"), "add");
  EXPECT_EQ(DetailsOf(status).origin->id, 3u);
  Program bad = AddTwice();
  bad.instructions[1].inputs[0] = 99;
  request.callee = bad;
  const absl::Status invalid = Run(Caller{}, request).status();
  EXPECT_EQ(ReasonOf(invalid), Reason::kProgramInvalid);
  ASSERT_EQ(DetailsOf(invalid).fields.size(), 1u);
  EXPECT_EQ(DetailsOf(invalid).fields[0].first, "program.instructions[1].inputs[0]");
}

TEST_F(ExecuteTest, ValuesThatAreTooManyAreRefusedBeforeTheRun) {
  Program program;
  program.instructions = {Make(Op::kOnes, 1, {(1 << 18) + 1})};
  program.outputs = {Formal("y", 1)};
  ExecuteRequest request;
  request.callee = program;
  const absl::Status status = Run(Caller{}, request).status();
  EXPECT_EQ(ReasonOf(status), Reason::kLimitExceeded);
  EXPECT_EQ(Meta(status, "limit"), "max_inline_bytes");
  EXPECT_TRUE(cpu->runs().empty());
}

TEST_F(ExecuteTest, TimingsTellOfEveryInstruction) {
  ExecuteRequest request;
  request.callee = AddTwice();
  request.inputs = {Literal({1}, {1}), Literal({1}, {1})};
  request.outputs = {Show("twice")};
  request.timings = true;
  const auto response = Run(Caller{}, request);
  ASSERT_TRUE(response.ok());
  std::vector<Op> ops;
  for (const InstructionReport& report : response->reports) {
    if (report.op != Op::kConstant) ops.push_back(report.op);
  }
  EXPECT_THAT(ops, ElementsAre(Op::kAdd, Op::kMultiply));
}

TEST_F(ExecuteTest, RegisteredProgramsAreReplayed) {
  Client client(*engine);
  Program program = AddTwice();
  for (ProgramValue& input : program.inputs) {
    input.dtype = Dtype::kFloat32;
    input.shape = {2};
  }
  const auto registered = engine->RegisterProgram(client.caller, 1, program);
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(registered->outputs[0].dtype, Dtype::kFloat32);
  EXPECT_THAT(*registered->outputs[0].shape, ElementsAre(2));
  EXPECT_EQ(ReasonOf(engine->RegisterProgram(client.caller, 1, program).status()), Reason::kHandleInUse);

  Instruction call = Apply(Op::kCall, {1, 2}, 3, {1});
  call.output_count = 2;
  call.attributes = CallAttributes{1, {}};
  Instruction mismatch = call;
  mismatch.output = 10;
  mismatch.frees.clear();
  mismatch.inputs = {2, 5};
  Instruction unknown = mismatch;
  unknown.output = 20;
  unknown.attributes = CallAttributes{9, {}};
  Instruction arity = mismatch;
  arity.output = 30;
  arity.inputs = {2, 2};
  arity.output_count = 3;
  ASSERT_TRUE(client
                  .Send({Make(Op::kOnes, 1, {2}), Make(Op::kOnes, 2, {2}), call, Make(Op::kOnes, 5, {3}), mismatch,
                         unknown, arity})
                  .ok());
  EXPECT_THAT(client.Values(3), ElementsAre(4, 4));
  EXPECT_THAT(client.Values(4), ElementsAre(2, 2));
  EXPECT_EQ(ReasonOf(client.Get(11).error), Reason::kArgumentMismatch);
  EXPECT_EQ(Meta(client.Get(20).error, "kind"), "program");
  EXPECT_EQ(ReasonOf(client.Get(32).error), Reason::kArityInvalid);

  ExecuteRequest request;
  request.callee = uint64_t{1};
  request.inputs = {Literal({2}, {1, 2}), Literal({2}, {1, 2})};
  request.outputs = {Show("sum")};
  const auto response = Run(client.caller, request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(Floats(*response->outputs[0].data), ElementsAre(2, 4));
  EXPECT_EQ(ReasonOf(Run(Caller{}, request).status()), Reason::kSessionRequired);

  EXPECT_TRUE(engine->UnregisterProgram(client.caller, 1).ok());
  EXPECT_EQ(Meta(engine->UnregisterProgram(client.caller, 1), "state"), "freed");
  EXPECT_EQ(Meta(Run(client.caller, request).status(), "state"), "freed");
  EXPECT_EQ(ReasonOf(engine->RegisterProgram(client.caller, 1, AddTwice()).status()), Reason::kHandleInUse);
}

TEST_F(ExecuteTest, ARegisteredProgramHoldsItsBindings) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Constant(1, {1}, {5})}).ok());
  client.Settle();
  Program program;
  program.inputs = {Formal("x", 1)};
  program.bindings = {{2, TensorRef::Id(1)}};
  program.instructions = {Apply(Op::kAdd, {1, 2}, 3)};
  program.outputs = {Formal("y", 3)};
  ASSERT_TRUE(engine->RegisterProgram(client.caller, 1, program).ok());
  ASSERT_TRUE(client.Send({Free({1})}).ok());
  ExecuteRequest request;
  request.callee = uint64_t{1};
  request.inputs = {Literal({1}, {1})};
  EXPECT_THAT(Floats(*Run(client.caller, request)->outputs[0].data), ElementsAre(6));
  EXPECT_EQ(engine->CountAlive().buffers, 1u);
  ASSERT_TRUE(engine->UnregisterProgram(client.caller, 1).ok());
  EXPECT_EQ(engine->CountAlive().buffers, 0u);
}

TEST_F(ExecuteTest, AnInputMayPassThroughUnfinished) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kUpload, 1, {1})}).ok());
  Program program;
  program.inputs = {Formal("x", 1)};
  program.outputs = {Formal("y", 1)};
  ExecuteRequest request;
  request.callee = program;
  request.inputs = {Given(TensorRef::Id(1))};
  Caller hurried = client.caller;
  hurried.deadline = absl::Now() + absl::Milliseconds(1);
  EXPECT_EQ(ReasonOf(Run(hurried, request).status()), Reason::kDeadlineExceeded);
  // Freed before it was filled: who waits is told, whatever lock the one who frees holds.
  request.outputs = {Keep(2)};
  absl::Notification done;
  absl::Status status;
  engine->Execute(client.caller, request, [&](absl::StatusOr<ExecuteResponse> r) {
    status = r.status();
    done.Notify();
  });
  ASSERT_TRUE(client.Send({Free({1})}).ok());
  done.WaitForNotification();
  EXPECT_EQ(ReasonOf(status), Reason::kUploadIncomplete);
  EXPECT_EQ(engine->CountAlive().handles, 0u);
}

TEST_F(ExecuteTest, ANameThatPassesThroughIsTheSameTensor) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Constant(1, {1}, {5})}).ok());
  PublishAs(client.caller, 1, "x");
  ASSERT_TRUE(engine->CloseSession(client.caller).ok());
  Program program;
  program.inputs = {Formal("x", 1)};
  program.instructions = {To(1, 2, "cpu")};
  program.outputs = {Formal("y", 2)};
  ExecuteRequest request;
  request.callee = program;
  request.inputs = {Given(TensorRef::Name("x"))};
  request.outputs = {Name("y")};
  const auto response = Run(Caller{}, request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(response->outputs[0].tensor.names, ElementsAre("default/x", "default/y"));
  EXPECT_FALSE(response->outputs[0].tensor.shared_storage);
}

TEST_F(ExecuteTest, ProgramsAndRequestsAreBounded) {
  EngineOptions options;
  options.limits.max_programs = 1;
  options.limits.max_program_instructions = 2;
  options.limits.max_requests = 1;
  Start(options);
  Client client(*engine);
  ASSERT_TRUE(engine->RegisterProgram(client.caller, 5, AddTwice()).ok());
  EXPECT_EQ(Meta(engine->RegisterProgram(client.caller, 6, AddTwice()).status(), "quota"), "programs");
  Program longer = AddTwice();
  longer.instructions.push_back(Apply(Op::kRelu, {4}, 5));
  ExecuteRequest request;
  request.callee = longer;
  EXPECT_EQ(Meta(Run(client.caller, request).status(), "limit"), "max_program_instructions");
  cpu->Hold();
  request.callee = AddTwice();
  request.inputs = {Literal({1}, {1}), Literal({1}, {1})};
  absl::Notification done;
  engine->Execute(client.caller, request, [&](const absl::StatusOr<ExecuteResponse>& r) {
    EXPECT_TRUE(r.ok());
    done.Notify();
  });
  EXPECT_EQ(Meta(Run(client.caller, request).status(), "quota"), "requests");
  cpu->Release();
  done.WaitForNotification();
  EXPECT_TRUE(Run(client.caller, request).ok());
}

TEST_F(ExecuteTest, ACallerThatGoesAwayDropsWhatHasNotBegun) {
  Client client(*engine);
  cpu->Hold();
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2})}).ok());
  ExecuteRequest request;
  request.callee = AddTwice();
  request.inputs = {Literal({1}, {1}), Literal({1}, {1})};
  ResultRequest kept = Keep(7);
  kept.name = "sum";
  request.outputs = {kept};
  Caller caller = client.caller;
  caller.cancellation = std::make_shared<Cancellation>();
  absl::Notification done;
  absl::Status status;
  engine->Execute(caller, request, [&](absl::StatusOr<ExecuteResponse> r) {
    status = r.status();
    done.Notify();
  });
  caller.cancellation->Cancel(Error(Reason::kCancelled));
  cpu->Release();
  done.WaitForNotification();
  EXPECT_EQ(ReasonOf(status), Reason::kCancelled);
  client.Settle();
  EXPECT_EQ(cpu->runs().size(), 1u) << "the ones before it, and nothing of the call";
  EXPECT_EQ(engine->CountAlive().handles, 1u);

  request.outputs = {Show("sum")};  // ids are used once
  // One that has gone before it is served, and one that waits for a message that never comes.
  engine->Execute(caller, request, [&](const absl::StatusOr<ExecuteResponse>& r) { status = r.status(); });
  client.Settle();
  EXPECT_EQ(ReasonOf(status), Reason::kCancelled);
  caller.cancellation = std::make_shared<Cancellation>();
  caller.after = 1000;
  absl::Notification waited;
  engine->Execute(caller, request, [&](const absl::StatusOr<ExecuteResponse>& r) {
    EXPECT_EQ(ReasonOf(r.status()), Reason::kCancelled);
    waited.Notify();
  });
  EXPECT_FALSE(waited.HasBeenNotified());
  caller.cancellation->Cancel(Error(Reason::kCancelled));
  EXPECT_TRUE(waited.HasBeenNotified());
}

}  // namespace
}  // namespace tensord::testing
