// Models: made from layers, run, moved, replicated, refused.
#include <gmock/gmock.h>

#include "tests/unit/engine/client.h"

namespace tensord::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ModelTest : public EngineTest {
 protected:
  void SetUp() override { Start(); }

  static Layer Linear(int64_t in, int64_t out) {
    Layer layer;
    layer.type = "Linear";
    layer.options["in_features"].value = Scalar{in};
    layer.options["out_features"].value = Scalar{out};
    return layer;
  }
  static CreateModelRequest Net(uint64_t id, std::string name = "") {
    CreateModelRequest request;
    request.id = id;
    request.name = std::move(name);
    request.layers.type = "Sequential";
    request.layers.layers = {Linear(3, 1)};
    request.seed = 7;
    return request;
  }
  absl::StatusOr<ModelInfo> Create(const Caller& caller, CreateModelRequest request) {
    return Await<ModelInfo>([&](auto done) { engine->CreateModel(caller, std::move(request), std::move(done)); });
  }
  absl::StatusOr<ModelInfo> Update(const Caller& caller, UpdateModelRequest request) {
    return Await<ModelInfo>([&](auto done) { engine->UpdateModel(caller, std::move(request), std::move(done)); });
  }
  static ModelRef Id(uint64_t id) { return {id, ""}; }
  static ModelRef Named(std::string name) { return {0, std::move(name)}; }
  static TensorRef Parameter(ModelRef model, std::string path) {
    return {TensorRef::Parameter{std::move(model), std::move(path)}};
  }
  static ExecuteRequest Forward(ModelRef model, std::vector<Argument> inputs) {
    ExecuteRequest request;
    request.callee = std::move(model);
    request.inputs = std::move(inputs);
    return request;
  }
};

TEST_F(ModelTest, ForwardRunsWhereTheParametersAre) {
  Client client(*engine);
  const auto info = Create(client.caller, Net(5));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->id, 5u);
  EXPECT_EQ(info->state, ModelState::kReady);
  ASSERT_EQ(info->parameters.size(), 2u);
  EXPECT_EQ(info->parameters[0].path, "0.weight");
  EXPECT_EQ(info->parameters[0].spec.ToString(), "float32[1,3] on cpu");
  EXPECT_EQ(info->parameter_bytes, 16u);
  ASSERT_EQ(info->inputs.size(), 1u);

  ASSERT_TRUE(client.Send({Labeled(Make(Op::kOnes, 10, {2, 3}, "cuda:0"), "X"), Make(Op::kOnes, 11, {2, 3})}).ok());
  const absl::Status refused = Run(client.caller, Forward(Id(5), {Given(TensorRef::Id(10))})).status();
  EXPECT_EQ(ReasonOf(refused), Reason::kDeviceMismatch);
  EXPECT_EQ(Meta(refused, "devices"), "cpu,cuda:0");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("parameter 0.weight, float32[1,3]) is on cpu"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("X, float32[2,3]) is on cuda:0"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr(".to(\"cuda:0\")"));

  const auto on_cpu = Run(client.caller, Forward(Id(5), {Given(TensorRef::Id(11))}));
  ASSERT_TRUE(on_cpu.ok()) << on_cpu.status();
  EXPECT_EQ(on_cpu->outputs[0].tensor.spec.ToString(), "float32[2,1] on cpu");

  UpdateModelRequest move;
  move.model = Id(5);
  move.devices = {"cuda:0"};
  const auto moved = Update(client.caller, move);
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_EQ(moved->devices[0].ToString(), "cuda:0");
  const auto on_cuda = Run(client.caller, Forward(Id(5), {Given(TensorRef::Id(10))}));
  ASSERT_TRUE(on_cuda.ok()) << on_cuda.status();
  EXPECT_EQ(*on_cuda->outputs[0].data, *on_cpu->outputs[0].data);
  const auto weight = engine->GetTensor(client.caller, Parameter(Id(5), "0.weight"));
  ASSERT_TRUE(weight.ok()) << weight.status();
  EXPECT_EQ(weight->spec.device.ToString(), "cuda:0");
  const auto after = engine->GetModel(client.caller, Id(5), true);
  EXPECT_EQ(after->statistics.succeeded, 2u);
  EXPECT_EQ(after->statistics.failed, 1u);
  EXPECT_TRUE(after->program.has_value());
  EXPECT_EQ(*engine->DeleteModel(client.caller, Id(5)), 16u);
  EXPECT_EQ(Meta(engine->GetModel(client.caller, Id(5), false).status(), "state"), "freed");
}

TEST_F(ModelTest, ASeedMakesTheSameParameters) {
  Client client(*engine);
  ASSERT_TRUE(Create(client.caller, Net(1)).ok());
  ASSERT_TRUE(Create(client.caller, Net(2)).ok());
  CreateModelRequest other = Net(3);
  other.seed = 8;
  other.devices = {"cpu", "cuda:0", "cpu"};
  const auto replicated = Create(client.caller, other);
  ASSERT_TRUE(replicated.ok()) << replicated.status();
  EXPECT_EQ(replicated->devices.size(), 2u);
  EXPECT_EQ(replicated->parameter_bytes, 32u);
  StreamMessage message = client.Message({});
  for (uint64_t i = 1; i <= 3; ++i) message.bindings.push_back({10 + i, Parameter(Id(i), "0.weight")});
  ASSERT_TRUE(client.stream->Submit(message).ok());
  EXPECT_EQ(client.Values(11), client.Values(12));
  EXPECT_NE(client.Values(11), client.Values(13));
  for (const std::string device : {"cpu", "cuda:0"}) {
    EXPECT_TRUE(Run(client.caller, Forward(Id(3), {Literal({1, 3}, {1, 2, 3}, device)})).ok()) << device;
  }
}

TEST_F(ModelTest, TakesParametersThatAreGiven) {
  Client client(*engine);
  ASSERT_TRUE(
      client.Send({Constant(1, {1, 3}, {1, 2, 3}, "cuda:0"), Constant(2, {1}, {10}), Constant(3, {2}, {0, 0})}).ok());
  CreateModelRequest request = Net(0, "net");
  request.parameters = {{"0.weight", TensorRef::Id(1)}, {"0.bias", TensorRef::Id(2)}};
  const auto created = Create(client.caller, request);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_THAT(created->names, ElementsAre("default/net"));
  const auto response = Run(Caller{}, Forward(Named("net"), {Literal({1, 3}, {1, 1, 1})}));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(Floats(*response->outputs[0].data), ElementsAre(16));

  UpdateModelRequest update;
  update.model = Named("net");
  update.parameters = {{"0.bias", TensorRef::Id(3)}};
  const absl::Status mismatch = Update(client.caller, update).status();
  EXPECT_EQ(ReasonOf(mismatch), Reason::kArgumentMismatch);
  EXPECT_EQ(Meta(mismatch, "expected"), "float32[1]");
  EXPECT_EQ(Meta(mismatch, "got"), "float32[2]");
  update.parameters = {{"0.bia", TensorRef::Id(2)}};
  const absl::Status unknown = Update(client.caller, update).status();
  EXPECT_EQ(ReasonOf(unknown), Reason::kParameterUnknown);
  EXPECT_THAT(Meta(unknown, "nearest"), HasSubstr("0.bias"));
  ASSERT_TRUE(client.Send({Constant(4, {1}, {20})}).ok());
  update.parameters = {{"0.bias", TensorRef::Id(4)}};
  ASSERT_TRUE(Update(client.caller, update).ok());
  EXPECT_THAT(Floats(*Run(Caller{}, Forward(Named("net"), {Literal({1, 3}, {1, 1, 1})}))->outputs[0].data),
              ElementsAre(26));
}

TEST_F(ModelTest, SharesTheSpaceOfNamesAndIds) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {3})}).ok());
  ASSERT_TRUE(Create(client.caller, Net(2, "net")).ok());
  EXPECT_EQ(ReasonOf(Create(client.caller, Net(1)).status()), Reason::kHandleInUse);
  EXPECT_EQ(ReasonOf(Create(client.caller, Net(0, "net")).status()), Reason::kNameInUse);
  EXPECT_EQ(ReasonOf(Create(client.caller, Net(0)).status()), Reason::kFieldInvalid);
  EXPECT_EQ(ReasonOf(engine->GetTensor(client.caller, TensorRef::Id(2)).status()), Reason::kKindMismatch);
  EXPECT_EQ(ReasonOf(engine->GetTensor(client.caller, TensorRef::Name("net")).status()), Reason::kKindMismatch);
  EXPECT_EQ(ReasonOf(engine->GetModel(client.caller, Id(1), false).status()), Reason::kKindMismatch);
  EXPECT_EQ(ReasonOf(engine->DeleteTensors(client.caller, Delete({TensorRef::Name("net")})).status()),
            Reason::kKindMismatch);
  EXPECT_EQ(Meta(engine->GetModel(client.caller, Named("ney"), false).status(), "nearest"), "net");
  EXPECT_EQ(engine->ListModels(client.caller, {})->models.size(), 1u);
  ListModelsRequest handles;
  handles.handles = true;
  const auto listed = engine->ListModels(client.caller, handles);
  ASSERT_EQ(listed->models.size(), 1u);
  EXPECT_EQ(listed->models[0].id, 2u);
  EXPECT_EQ(engine->ListTensors(client.caller, {})->tensors.size(), 0u);
  ASSERT_TRUE(client.Send({Apply(Op::kRelu, {2}, 3)}).ok());
  EXPECT_EQ(ReasonOf(client.Get(3).error), Reason::kKindMismatch);
  EXPECT_TRUE(engine->DeleteModel(client.caller, Named("net")).ok());
  EXPECT_TRUE(engine->GetModel(client.caller, Id(2), false).ok()) << "the handle is still there";
}

TEST_F(ModelTest, IsCalledOnTheStream) {
  Client client(*engine);
  ASSERT_TRUE(Create(client.caller, Net(1, "net")).ok());
  Instruction call = Apply(Op::kCall, {2}, 3);
  call.attributes = CallAttributes{0, Named("net")};
  Instruction wrong = Apply(Op::kCall, {4}, 5);
  wrong.attributes = CallAttributes{0, Id(1)};
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 2, {2, 3}), call, Make(Op::kOnes, 4, {2, 3}, "cuda:0"), wrong}).ok());
  EXPECT_EQ(client.Values(3).size(), 2u);
  EXPECT_EQ(ReasonOf(client.Get(5).error), Reason::kDeviceMismatch);
  EXPECT_EQ(engine->GetModel(client.caller, Id(1), false)->statistics.succeeded, 1u);
}

TEST_F(ModelTest, ThatCannotBeMadeLeavesNothing) {
  Start({}, 1 << 20, 1 << 12);
  Client client(*engine);
  CreateModelRequest big = Net(1, "big");
  big.layers.layers = {Linear(100, 100)};
  big.devices = {"cuda:0"};
  const absl::Status status = Create(client.caller, big).status();
  EXPECT_EQ(ReasonOf(status), Reason::kMemoryExhausted);
  AwaitCounts([](const auto& c) { return c.handles == 0 && c.names == 0 && c.buffers == 0; });
  big.layers.layers[0].type = "Linea";
  EXPECT_EQ(ReasonOf(Create(client.caller, big).status()), Reason::kLayerInvalid);
  CreateModelRequest nowhere = Net(2);
  nowhere.devices = {"cuda:5"};
  EXPECT_EQ(ReasonOf(Create(client.caller, nowhere).status()), Reason::kDeviceUnknown);
}

}  // namespace
}  // namespace tensord::testing
