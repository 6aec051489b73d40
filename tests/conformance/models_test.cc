// Models from layers: each layer type against the oracle, initialisation, parameters that are given, moves, refusals.
#include <cmath>
#include <thread>

#include "tests/conformance/harness.h"
#include "tests/oracle/elementwise.h"
#include "tests/oracle/families.h"

namespace tensord::conformance {
namespace {

using oracle::Array;

LayerOption Whole(int64_t value) { return {Scalar{value, Dtype::kNone}}; }
LayerOption RealOption(double value) { return {Scalar{value, Dtype::kNone}}; }
LayerOption Flag(bool value) { return {Scalar{value, Dtype::kNone}}; }
LayerOption Sizes(std::vector<int64_t> values) { return {std::move(values)}; }
LayerOption Text(std::string value) { return {std::move(value)}; }

Layer Make(std::string type, std::map<std::string, LayerOption> options = {}) {
  return {.type = std::move(type), .options = std::move(options)};
}

class ModelsTest : public ConformanceTest {
 protected:
  absl::StatusOr<ModelInfo> Create(CreateModelRequest request) {
    return Await<ModelInfo>([&](auto done) { engine().CreateModel(session().caller(), request, std::move(done)); });
  }
  ModelInfo MustCreate(std::vector<Layer> layers, const std::string& device = "cpu",
                       std::map<std::string, Array> parameters = {}, std::optional<uint64_t> seed = 1) {
    CreateModelRequest request;
    request.id = session().NewId();
    request.layers = {.type = "Sequential", .layers = std::move(layers)};
    request.devices = {device};
    request.seed = seed;
    std::vector<uint64_t> given;
    for (const auto& [path, array] : parameters) {
      given.push_back(session().Put(array, device));
      request.parameters[path] = TensorRef::Id(given.back());
    }
    const auto model = Create(request);
    EXPECT_TRUE(model.ok()) << model.status();
    session().Free(given);
    return model.ok() ? *model : ModelInfo{};
  }
  Array Parameter(const ModelInfo& model, const std::string& path) {
    TensorRef ref;
    ref.ref = TensorRef::Parameter{{model.id, ""}, path};
    const auto array = session().Get(ref);
    EXPECT_TRUE(array.ok()) << array.status();
    return array.ok() ? *array : Array{};
  }
  absl::StatusOr<Array> Forward(const ModelInfo& model, const Array& input, const std::string& device) {
    ExecuteRequest request;
    request.callee = ModelRef{model.id, ""};
    request.inputs = {{.value = TensorLiteral{{input.type, device}, input.bytes}}};
    TENSORD_ASSIGN_OR_RETURN(const auto response, session().Execute(std::move(request)));
    return Array{response.outputs.at(0).tensor.spec.type, response.outputs.at(0).data.value_or("")};
  }
  void CheckForward(std::vector<Layer> layers, const Array& input, const Array& expected,
                    std::map<std::string, Array> parameters = {}, double ulps = 8, double absolute = 1e-5) {
    for (const std::string device : {"cpu", "cuda:0"}) {
      const std::string type = layers.front().type;
      const ModelInfo model = MustCreate(layers, device, parameters);
      const auto got = Forward(model, input, device);
      ASSERT_TRUE(got.ok()) << type << ": " << got.status();
      EXPECT_EQ(oracle::Compare(*got, expected, ulps, absolute), "") << type << " on " << device;
      EXPECT_TRUE(engine().DeleteModel(session().caller(), {model.id, ""}).ok());
    }
  }
};

TEST_P(ModelsTest, ActivationsAreTheirOps) {
  const Array x = oracle::Sample(Dtype::kFloat32, {3, 5}, 1, false);
  const std::pair<const char*, const char*> layers[] = {
      {"ReLU", "relu"}, {"GELU", "gelu"}, {"SiLU", "silu"}, {"Sigmoid", "sigmoid"}, {"Tanh", "tanh"}};
  for (const auto& [layer, op] : layers) {
    Array expected = Array::Zeros(Dtype::kFloat32, {3, 5});
    for (int64_t i = 0; i < x.size(); ++i)
      expected.Set(i, oracle::Elementwise().at(op).unary(x.At(i), Dtype::kFloat32));
    CheckForward({Make(layer)}, x, expected);
  }
  CheckForward({Make("Softmax", {{"dim", Whole(1)}})}, x, oracle::Softmax("softmax", x, 1));
  CheckForward({Make("Dropout", {{"p", RealOption(0.5)}})}, x, x, {}, 0, 0);
  Array tanh = Array::Zeros(Dtype::kFloat32, {3, 5});
  for (int64_t i = 0; i < x.size(); ++i)
    tanh.Set(i, oracle::Elementwise().at("gelu_tanh").unary(x.At(i), Dtype::kFloat32));
  CheckForward({Make("GELU", {{"approximate", Text("tanh")}})}, x, tanh);
}

TEST_P(ModelsTest, LayersWithParameters) {
  const auto sample = [](const Dims& shape, uint64_t seed) {
    return oracle::Sample(Dtype::kFloat32, shape, seed, false);
  };
  const Array x = sample({4, 3}, 1);
  const Array w = sample({2, 3}, 2);
  const Array b = sample({2}, 3);
  CheckForward({Make("Linear", {{"in_features", Whole(3)}, {"out_features", Whole(2)}})}, x, oracle::Linear(x, w, &b),
               {{"0.weight", w}, {"0.bias", b}});
  CheckForward({Make("Linear", {{"in_features", Whole(3)}, {"out_features", Whole(2)}, {"bias", Flag(false)}})}, x,
               oracle::Linear(x, w, nullptr), {{"0.weight", w}});

  const Array image = sample({2, 4, 9, 8}, 4);
  const Array kernel = sample({6, 2, 3, 2}, 5);
  const Array bias = sample({6}, 6);
  WindowAttributes conv;
  conv.strides = {2, 1};
  conv.pads_begin = conv.pads_end = {1, 0};
  conv.groups = 2;
  CheckForward({Make("Conv2d", {{"in_channels", Whole(4)},
                                {"out_channels", Whole(6)},
                                {"kernel_size", Sizes({3, 2})},
                                {"stride", Sizes({2, 1})},
                                {"padding", Sizes({1, 0})},
                                {"groups", Whole(2)}})},
               image, oracle::Conv(image, kernel, &bias, conv), {{"0.weight", kernel}, {"0.bias", bias}}, 8, 1e-4);

  const Array mean = sample({4}, 7);
  const Array variance = ArrayOf(Dtype::kFloat32, {4}, {0.5, 1, 2, 4});
  const Array scale = sample({4}, 8);
  const Array shift = sample({4}, 9);
  CheckForward({Make("BatchNorm2d", {{"num_features", Whole(4)}})}, image,
               oracle::BatchNorm(image, mean, variance, &scale, &shift, 1e-5),
               {{"0.weight", scale}, {"0.bias", shift}, {"0.running_mean", mean}, {"0.running_var", variance}});

  const Array row_scale = sample({3}, 10);
  const Array row_shift = sample({3}, 11);
  CheckForward({Make("LayerNorm", {{"normalized_shape", Whole(3)}})}, x,
               oracle::LayerNorm(x, &row_scale, &row_shift, 1, 1e-5), {{"0.weight", row_scale}, {"0.bias", row_shift}});
}

TEST_P(ModelsTest, PoolsAndFlatten) {
  const Array image = oracle::Sample(Dtype::kFloat32, {2, 3, 8, 7}, 1, false);
  WindowAttributes pool;
  pool.sizes = {2, 2};
  CheckForward({Make("MaxPool2d", {{"kernel_size", Whole(2)}})}, image, oracle::Pool("max_pool", image, pool), {}, 0,
               0);
  pool.sizes = {3, 3};
  pool.strides = {2, 2};
  pool.pads_begin = pool.pads_end = {1, 1};
  pool.count_pads = true;
  CheckForward({Make("AvgPool2d", {{"kernel_size", Whole(3)}, {"stride", Whole(2)}, {"padding", Whole(1)}})}, image,
               oracle::Pool("avg_pool", image, pool));
  Array flat = image;
  flat.type.shape = {2, 168};
  CheckForward({Make("Flatten")}, image, flat, {}, 0, 0);
  flat.type.shape = {2, 3, 56};
  CheckForward({Make("Flatten", {{"start_dim", Whole(2)}})}, image, flat, {}, 0, 0);
}

TEST_P(ModelsTest, InitialisedAsPyTorchDoes) {
  const ModelInfo linear = MustCreate({Make("Linear", {{"in_features", Whole(64)}, {"out_features", Whole(50)}})});
  const double bound = 1 / std::sqrt(64.0);
  for (const char* path : {"0.weight", "0.bias"}) {
    const Array values = Parameter(linear, path);
    long double sum = 0;
    long double largest = 0;
    for (const auto& v : values.Elements()) {
      sum += v.real;
      largest = std::max(largest, std::fabs(v.real));
    }
    EXPECT_LE(largest, bound * 1.0001) << path;
    EXPECT_GE(largest, bound * 0.8) << path;
    EXPECT_LT(std::fabs(sum / static_cast<long double>(values.size())), bound * 0.4) << path;
  }
  // A seed decides every number, on every device; another seed gives others.
  const ModelInfo same =
      MustCreate({Make("Linear", {{"in_features", Whole(64)}, {"out_features", Whole(50)}})}, "cuda:0");
  const ModelInfo other =
      MustCreate({Make("Linear", {{"in_features", Whole(64)}, {"out_features", Whole(50)}})}, "cpu", {}, 2);
  EXPECT_EQ(Parameter(same, "0.weight").bytes, Parameter(linear, "0.weight").bytes);
  EXPECT_NE(Parameter(other, "0.weight").bytes, Parameter(linear, "0.weight").bytes);
  EXPECT_NE(Parameter(linear, "0.weight").bytes.substr(0, 200), Parameter(linear, "0.bias").bytes)
      << "parameters share no numbers";
  const ModelInfo norm = MustCreate({Make("BatchNorm2d", {{"num_features", Whole(2)}})});
  EXPECT_EQ(oracle::Compare(Parameter(norm, "0.weight"), ArrayOf(Dtype::kFloat32, {2}, {1, 1})), "");
  EXPECT_EQ(oracle::Compare(Parameter(norm, "0.running_mean"), ArrayOf(Dtype::kFloat32, {2}, {0, 0})), "");
}

TEST_P(ModelsTest, MovesWithAllItsParameters) {
  const std::vector<Layer> layers = {Make("Linear", {{"in_features", Whole(3)}, {"out_features", Whole(4)}}),
                                     Make("ReLU"),
                                     Make("Linear", {{"in_features", Whole(4)}, {"out_features", Whole(2)}})};
  const ModelInfo model = MustCreate(layers);
  const Array x = oracle::Sample(Dtype::kFloat32, {5, 3}, 1, false);
  const auto before = Forward(model, x, "cpu");
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(before->type.shape, (Dims{5, 2}));
  const absl::Status refused = Forward(model, x, "cuda:0").status();
  ExpectReason(refused, Reason::kDeviceMismatch, {"fix"});
  EXPECT_NE(std::string(refused.message()).find("cuda:0"), std::string::npos);

  UpdateModelRequest update;
  update.model = {model.id, ""};
  update.devices = {"cuda:0"};
  const auto moved =
      Await<ModelInfo>([&](auto done) { engine().UpdateModel(session().caller(), update, std::move(done)); });
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_EQ(moved->parameters.size(), 4u);
  for (const ParameterInfo& parameter : moved->parameters)
    EXPECT_EQ(parameter.spec.device.ToString(), "cuda:0") << parameter.path;
  const auto after = Forward(model, x, "cuda:0");
  ASSERT_TRUE(after.ok()) << after.status();
  // Devices add up in an order of their own.
  EXPECT_EQ(oracle::Compare(*after, *before, 8, 1e-6), "");
  ExpectReason(Forward(model, x, "cpu").status(), Reason::kDeviceMismatch, {"fix"});
}

TEST_P(ModelsTest, GivenParametersMustFit) {
  CreateModelRequest request;
  request.id = session().NewId();
  request.layers = {.type = "Sequential",
                    .layers = {Make("Linear", {{"in_features", Whole(3)}, {"out_features", Whole(1)}})}};
  const uint64_t wrong = session().Put(ArrayOf(Dtype::kFloat32, {2}, {1, 2}), "cpu");
  request.parameters["0.weight"] = TensorRef::Id(wrong);
  ExpectReason(Create(request).status(), Reason::kArgumentMismatch, {"name", "problem"});
  request.parameters = {{"0.wieght", TensorRef::Id(wrong)}};
  ExpectReason(Create(request).status(), Reason::kParameterUnknown, {"path", "nearest"});
  EXPECT_EQ(local().CountAlive().handles, 1u) << "a refused model leaves nothing";
}

TEST_P(ModelsTest, LayersThatAreWrongAreRefusedByName) {
  const auto create = [&](Layer layer) {
    CreateModelRequest request;
    request.id = session().NewId();
    request.layers = {.type = "Sequential", .layers = {std::move(layer)}};
    return Create(request).status();
  };
  ExpectReason(create(Make("Conv2D")), Reason::kLayerInvalid, {"type", "nearest"});
  ExpectReason(create(Make("Linear", {{"in_features", Whole(3)}})), Reason::kLayerInvalid, {"type"});
  ExpectReason(create(Make("Linear", {{"in_feature", Whole(3)}, {"out_features", Whole(3)}})), Reason::kLayerInvalid,
               {"option"});
  ExpectReason(create(Make("Linear", {{"in_features", Whole(-3)}, {"out_features", Whole(3)}})), Reason::kLayerInvalid,
               {"option"});
  Layer deep = Make("ReLU");
  for (int i = 0; i < 30; ++i) deep = {.type = "Sequential", .layers = {deep}};
  ExpectReason(create(deep), Reason::kLimitExceeded, {"limit"});
}

// Many callers, each with its own constant input and batch size, get the single-run answer.
TEST_P(ModelsTest, OneModelManyCallers) {
  const ModelInfo model = MustCreate(
      {Make("Conv2d", {{"in_channels", Whole(1)}, {"out_channels", Whole(4)}, {"kernel_size", Whole(3)}}), Make("ReLU"),
       Make("Flatten"), Make("Linear", {{"in_features", Whole(4 * 6 * 6)}, {"out_features", Whole(5)}})});
  PublishRequest publish;
  publish.source = ModelRef{model.id, ""};
  publish.name = "shared";
  ASSERT_TRUE(engine().Publish(session().caller(), publish).ok());
  const auto input = [](int64_t batch, double value) {
    return ArrayOf(Dtype::kFloat32, {batch, 1, 8, 8}, std::vector<double>(static_cast<size_t>(batch * 64), value));
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      TestSession own(engine());
      const Array x = input(1 + t, 0.1 * t);
      std::optional<std::string> first;
      for (int i = 0; i < 25; ++i) {
        ExecuteRequest request;
        request.callee = ModelRef{0, "shared"};
        request.inputs = {{.value = TensorLiteral{{x.type, "cpu"}, x.bytes}}};
        const auto response = own.Execute(request);
        ASSERT_TRUE(response.ok()) << response.status();
        if (!first) first = response->outputs[0].data;
        EXPECT_EQ(response->outputs[0].data, first);
        EXPECT_EQ(response->outputs[0].tensor.spec.type.shape, (Dims{1 + t, 5}));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(engine().DeleteModel(session().caller(), {0, "shared"}).ok());
}

INSTANTIATE_CONFORMANCE(ModelsTest);

}  // namespace
}  // namespace tensord::conformance
