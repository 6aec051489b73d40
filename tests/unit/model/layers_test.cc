// Layers to programs: structure, shapes, refusals. What the numbers are is tested where they are computed.
#include "server/model/layers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/ops/program_infer.h"

namespace tensord {
namespace {

LayerOption Number(int64_t value) { return {Scalar{value}}; }
LayerOption Real(double value) { return {Scalar{value}}; }
LayerOption Flag(bool value) { return {Scalar{value}}; }
LayerOption None() { return {Scalar{}}; }
LayerOption Text(std::string value) { return {std::move(value)}; }
LayerOption Sizes(std::vector<int64_t> value) { return {std::move(value)}; }

Layer Make(std::string type, std::map<std::string, LayerOption> options = {}) {
  Layer layer;
  layer.type = std::move(type);
  layer.options = std::move(options);
  return layer;
}

Layer Sequential(std::vector<Layer> layers) {
  Layer layer = Make("Sequential");
  layer.layers = std::move(layers);
  return layer;
}

Layer Linear(int64_t in, int64_t out) {
  return Make("Linear", {{"in_features", Number(in)}, {"out_features", Number(out)}});
}

CompiledModel Compile(const Layer& root) {
  absl::StatusOr<CompiledModel> model = CompileLayers(root, Limits());
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : CompiledModel();
}

// "0.weight float32[4,3]" for each parameter.
std::vector<std::string> Parameters(const CompiledModel& model) {
  std::vector<std::string> out;
  for (const ParameterSpec& spec : model.parameters) out.push_back(StrCat(spec.path, " ", spec.type.ToString()));
  return out;
}

// "linear", … for each instruction.
std::vector<std::string> Ops(const CompiledModel& model) {
  std::vector<std::string> out;
  for (const Instruction& i : model.program.instructions) out.emplace_back(RowOf(i.op).name);
  return out;
}

// The output's type for an input, or the refusal's reason.
std::string Forward(const CompiledModel& model, Dims shape, Dtype dtype = Dtype::kFloat32) {
  const TensorType input{dtype, std::move(shape)};
  std::vector<const TensorType*> inputs = {&input};
  for (const ParameterSpec& spec : model.parameters) inputs.push_back(&spec.type);
  const absl::StatusOr<ProgramTypes> types = InferProgram(model.program, inputs, {});
  if (!types.ok()) return std::string(DetailsOf(types.status()).reason_name);
  return types->Find(model.program.outputs.at(0).id)->ToString();
}

std::string Forward(const Layer& layer, Dims shape) { return Forward(Compile(layer), std::move(shape)); }

using Strings = std::vector<std::string>;

TEST(CompileLayers, Linear) {
  const CompiledModel model = Compile(Sequential({Linear(3, 4), Make("ReLU"), Linear(4, 1)}));
  EXPECT_EQ(Parameters(model),
            (Strings{"0.weight float32[4,3]", "0.bias float32[4]", "2.weight float32[1,4]", "2.bias float32[1]"}));
  EXPECT_EQ(Ops(model), (Strings{"linear", "relu", "linear"}));
  EXPECT_EQ(model.program.instructions[0].label, "0: Linear");
  EXPECT_EQ(model.program.instructions[1].label, "1: ReLU");
  EXPECT_EQ(Forward(model, {2, 3}), "float32[2,1]");
  EXPECT_EQ(Forward(model, {7, 5, 3}), "float32[7,5,1]");
  EXPECT_EQ(Forward(model, {2, 4}), "SHAPE_MISMATCH");
}

TEST(CompileLayers, TheProgramsSignature) {
  const CompiledModel model = Compile(Sequential({Linear(3, 1)}));
  ASSERT_EQ(model.program.inputs.size(), 3u);
  EXPECT_EQ(model.program.inputs[0].name, "input");
  EXPECT_FALSE(model.program.inputs[0].shape.has_value());
  EXPECT_EQ(model.program.inputs[1].name, "0.weight");
  EXPECT_EQ(model.program.inputs[1].dtype, Dtype::kFloat32);
  EXPECT_EQ(*model.program.inputs[1].shape, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(model.program.inputs[2].name, "0.bias");
  ASSERT_EQ(model.program.outputs.size(), 1u);
  EXPECT_EQ(model.program.outputs[0].name, "output");
  EXPECT_TRUE(CheckProgram(model.program, 100).ok());
}

TEST(CompileLayers, OptionsOfLinear) {
  Layer layer = Linear(3, 4);
  layer.options["bias"] = Flag(false);
  layer.options["dtype"] = Text("float16");
  EXPECT_EQ(Parameters(Compile(Sequential({layer}))), (Strings{"0.weight float16[4,3]"}));
  // A root that is no container: paths have no index.
  EXPECT_EQ(Parameters(Compile(layer)), (Strings{"weight float16[4,3]"}));
  EXPECT_EQ(Compile(layer).program.instructions[0].label, "Linear");
}

TEST(CompileLayers, NamesAndNesting) {
  Layer inner = Sequential({Linear(2, 2), Make("Tanh")});
  inner.name = "body";
  Layer head = Linear(2, 5);
  head.name = "head";
  const CompiledModel model = Compile(Sequential({inner, Sequential({Sequential({Linear(2, 2)})}), head}));
  EXPECT_EQ(Parameters(model),
            (Strings{"body.0.weight float32[2,2]", "body.0.bias float32[2]", "1.0.0.weight float32[2,2]",
                     "1.0.0.bias float32[2]", "head.weight float32[5,2]", "head.bias float32[5]"}));
  EXPECT_EQ(model.program.instructions[1].label, "body.1: Tanh");
}

TEST(CompileLayers, Conv2d) {
  const auto conv = [](std::map<std::string, LayerOption> more) {
    std::map<std::string, LayerOption> options = {{"in_channels", Number(4)}, {"out_channels", Number(6)}};
    options.merge(more);
    return Make("Conv2d", options);
  };
  EXPECT_EQ(Parameters(Compile(Sequential({conv({{"kernel_size", Number(3)}})}))),
            (Strings{"0.weight float32[6,4,3,3]", "0.bias float32[6]"}));
  EXPECT_EQ(Forward(conv({{"kernel_size", Number(3)}}), {2, 4, 8, 9}), "float32[2,6,6,7]");
  EXPECT_EQ(Forward(conv({{"kernel_size", Sizes({3, 1})}, {"padding", Number(1)}}), {2, 4, 8, 9}), "float32[2,6,8,11]");
  EXPECT_EQ(Forward(conv({{"kernel_size", Number(3)}, {"stride", Sizes({2, 3})}}), {2, 4, 8, 9}), "float32[2,6,3,3]");
  EXPECT_EQ(Forward(conv({{"kernel_size", Number(3)}, {"dilation", Number(2)}}), {2, 4, 8, 9}), "float32[2,6,4,5]");
  const CompiledModel grouped =
      Compile(Sequential({conv({{"kernel_size", Number(3)}, {"groups", Number(2)}, {"bias", Flag(false)}})}));
  EXPECT_EQ(Parameters(grouped), (Strings{"0.weight float32[6,2,3,3]"}));
  EXPECT_EQ(Forward(grouped, {2, 4, 8, 9}), "float32[2,6,6,7]");
}

TEST(CompileLayers, BatchNorm) {
  for (const char* type : {"BatchNorm1d", "BatchNorm2d"}) {
    const CompiledModel model = Compile(Sequential({Make(type, {{"num_features", Number(3)}})}));
    EXPECT_EQ(Parameters(model), (Strings{"0.weight float32[3]", "0.bias float32[3]", "0.running_mean float32[3]",
                                          "0.running_var float32[3]"}));
    EXPECT_EQ(Forward(model, {2, 3, 4, 4}), "float32[2,3,4,4]");
    EXPECT_EQ(std::get<NormAttributes>(model.program.instructions[0].attributes).epsilon, 1e-5);
    // The op takes mean and variance before weight and bias.
    EXPECT_EQ(model.program.instructions[0].inputs,
              (absl::InlinedVector<uint64_t, 3>{1, model.program.inputs[3].id, model.program.inputs[4].id,
                                                model.program.inputs[1].id, model.program.inputs[2].id}));
  }
  const CompiledModel plain = Compile(Make("BatchNorm1d", {{"num_features", Number(3)}, {"affine", Flag(false)}}));
  EXPECT_EQ(Parameters(plain), (Strings{"running_mean float32[3]", "running_var float32[3]"}));
  EXPECT_EQ(Forward(plain, {2, 3}), "float32[2,3]");
}

TEST(CompileLayers, LayerNorm) {
  const CompiledModel model = Compile(Make("LayerNorm", {{"normalized_shape", Sizes({3, 4})}, {"eps", Real(0.5)}}));
  EXPECT_EQ(Parameters(model), (Strings{"weight float32[3,4]", "bias float32[3,4]"}));
  const auto& attributes = std::get<NormAttributes>(model.program.instructions[0].attributes);
  EXPECT_EQ(attributes.axis, -2);
  EXPECT_EQ(attributes.epsilon, 0.5);
  EXPECT_EQ(Forward(model, {2, 3, 4}), "float32[2,3,4]");
  EXPECT_EQ(Forward(model, {2, 4, 3}), "SHAPE_MISMATCH");
  EXPECT_EQ(Parameters(Compile(Make("LayerNorm", {{"normalized_shape", Number(4)}, {"bias", Flag(false)}}))),
            (Strings{"weight float32[4]"}));
  EXPECT_EQ(
      Parameters(Compile(Make("LayerNorm", {{"normalized_shape", Number(4)}, {"elementwise_affine", Flag(false)}}))),
      Strings());
}

TEST(CompileLayers, Activations) {
  const std::vector<std::pair<Layer, std::string>> cases = {
      {Make("ReLU"), "relu"},
      {Make("ReLU", {{"inplace", Flag(true)}}), "relu"},
      {Make("GELU"), "gelu"},
      {Make("GELU", {{"approximate", Text("none")}}), "gelu"},
      {Make("GELU", {{"approximate", Text("tanh")}}), "gelu_tanh"},
      {Make("SiLU"), "silu"},
      {Make("Sigmoid"), "sigmoid"},
      {Make("Tanh"), "tanh"},
      {Make("Softmax", {{"dim", Number(-1)}}), "softmax"},
      {Make("LogSoftmax", {{"dim", Number(1)}}), "log_softmax"},
  };
  for (const auto& [layer, op] : cases) {
    EXPECT_EQ(Ops(Compile(layer)), Strings{op});
    EXPECT_EQ(Forward(layer, {2, 3}), "float32[2,3]") << op;
  }
}

TEST(CompileLayers, LayersThatDoNothing) {
  const CompiledModel model =
      Compile(Sequential({Make("Dropout", {{"p", Real(0.3)}}), Make("Identity"), Make("Dropout"), Sequential({})}));
  EXPECT_EQ(Ops(model), Strings());
  EXPECT_EQ(Forward(model, {2, 3}), "float32[2,3]");
  EXPECT_EQ(Forward(Sequential({}), {2}), "float32[2]");
}

TEST(CompileLayers, Pools) {
  const auto pool = [](const char* type, std::map<std::string, LayerOption> more) {
    std::map<std::string, LayerOption> options = {{"kernel_size", Number(2)}};
    options.merge(more);
    return Make(type, options);
  };
  for (const char* type : {"MaxPool2d", "AvgPool2d"}) {
    EXPECT_EQ(Forward(pool(type, {}), {1, 3, 7, 8}), "float32[1,3,3,4]");
    EXPECT_EQ(Forward(pool(type, {{"stride", None()}}), {1, 3, 7, 8}), "float32[1,3,3,4]");
    EXPECT_EQ(Forward(pool(type, {{"ceil_mode", Flag(true)}}), {1, 3, 7, 8}), "float32[1,3,4,4]");
    EXPECT_EQ(Forward(pool(type, {{"stride", Number(1)}, {"padding", Number(1)}}), {1, 3, 7, 8}), "float32[1,3,8,9]");
  }
  EXPECT_EQ(Forward(pool("MaxPool2d", {{"dilation", Number(3)}}), {1, 3, 7, 8}), "float32[1,3,2,3]");
  EXPECT_TRUE(std::get<WindowAttributes>(Compile(pool("AvgPool2d", {})).program.instructions[0].attributes).count_pads);
  EXPECT_FALSE(std::get<WindowAttributes>(
                   Compile(pool("AvgPool2d", {{"count_include_pad", Flag(false)}})).program.instructions[0].attributes)
                   .count_pads);
}

TEST(CompileLayers, Flatten) {
  EXPECT_EQ(Forward(Make("Flatten"), {2, 3, 4, 5}), "float32[2,60]");
  EXPECT_EQ(Forward(Make("Flatten", {{"start_dim", Number(0)}, {"end_dim", Number(1)}}), {2, 3, 4}), "float32[6,4]");
}

TEST(CompileLayers, AConvolutionalNet) {
  const Layer net = Sequential({
      Make("Conv2d", {{"in_channels", Number(1)},
                      {"out_channels", Number(8)},
                      {"kernel_size", Number(3)},
                      {"padding", Number(1)}}),
      Make("BatchNorm2d", {{"num_features", Number(8)}}),
      Make("ReLU"),
      Make("MaxPool2d", {{"kernel_size", Number(2)}}),
      Make("Flatten"),
      Linear(128, 10),
      Make("LogSoftmax", {{"dim", Number(1)}}),
  });
  EXPECT_EQ(Forward(net, {5, 1, 8, 8}), "float32[5,10]");
}

// The init program of a parameter gives the parameter's type; random ones lie in PyTorch's bounds.
TEST(CompileLayers, InitialValues) {
  const CompiledModel model = Compile(Sequential({
      Linear(16, 4),
      Make("Conv2d", {{"in_channels", Number(6)},
                      {"out_channels", Number(4)},
                      {"kernel_size", Sizes({3, 5})},
                      {"groups", Number(2)}}),
      Make("BatchNorm2d", {{"num_features", Number(4)}, {"dtype", Text("float64")}}),
  }));
  const double linear = 1 / std::sqrt(16.0);
  const double conv = 1 / std::sqrt(3.0 * 3 * 5);
  const std::map<std::string, double> bounds = {
      {"0.weight", linear}, {"0.bias", linear}, {"1.weight", conv}, {"1.bias", conv}};
  const std::map<std::string, Op> constants = {
      {"2.weight", Op::kOnes}, {"2.bias", Op::kZeros}, {"2.running_mean", Op::kZeros}, {"2.running_var", Op::kOnes}};
  ASSERT_EQ(model.parameters.size(), bounds.size() + constants.size());
  for (const ParameterSpec& spec : model.parameters) {
    SCOPED_TRACE(spec.path);
    ASSERT_TRUE(CheckProgram(spec.init, 10).ok());
    EXPECT_TRUE(spec.init.inputs.empty());
    ASSERT_EQ(spec.init.outputs.size(), 1u);
    const absl::StatusOr<ProgramTypes> types = InferProgram(spec.init, {}, {});
    ASSERT_TRUE(types.ok()) << types.status();
    EXPECT_EQ(*types->Find(spec.init.outputs[0].id), spec.type);
    const auto& create = std::get<CreateAttributes>(spec.init.instructions[0].attributes);
    EXPECT_EQ(create.spec.device, "") << "the engine says where";
    EXPECT_FALSE(create.seed.has_value()) << "the engine draws";
    if (const auto it = constants.find(spec.path); it != constants.end()) {
      ASSERT_EQ(spec.init.instructions.size(), 1u);
      EXPECT_EQ(spec.init.instructions[0].op, it->second);
      EXPECT_EQ(spec.draws, 0u);
      continue;
    }
    // rand in [0, 1), times 2b, less b.
    ASSERT_EQ(spec.init.instructions.size(), 3u);
    EXPECT_EQ(spec.init.instructions[0].op, Op::kRand);
    EXPECT_EQ(spec.init.instructions[1].op, Op::kMultiply);
    EXPECT_EQ(spec.init.instructions[1].scalars[0].AsDouble(), 2 * bounds.at(spec.path));
    EXPECT_EQ(spec.init.instructions[2].op, Op::kSubtract);
    EXPECT_EQ(spec.init.instructions[2].scalars[0].AsDouble(), bounds.at(spec.path));
    EXPECT_EQ(spec.draws, static_cast<uint64_t>(spec.type.elements()));
  }
}

// ---- refusals

std::string Refuse(const Layer& root, Limits limits = {}) {
  const absl::Status status = CompileLayers(root, limits).status();
  EXPECT_EQ(std::string(status.message()).find('?'), std::string::npos) << status;
  return std::string(status.message());
}

ErrorDetails RefusalOf(const Layer& root, Limits limits = {}) {
  return DetailsOf(CompileLayers(root, limits).status());
}

TEST(CompileLayers, UnknownTypes) {
  const ErrorDetails details = RefusalOf(Sequential({Make("ReLU"), Make("Linaer")}));
  EXPECT_EQ(details.reason, Reason::kLayerInvalid);
  EXPECT_EQ(details.Get("type"), "Linaer");
  EXPECT_EQ(details.Get("nearest"), "Linear");
  EXPECT_EQ(details.fields.at(0).first, "layers.layers[1].type");
  EXPECT_EQ(Refuse(Make("Linaer")), "layer Linaer: there is no such type; nearest: Linear");
  EXPECT_EQ(Refuse(Make("Transformer9000")), "layer Transformer9000: there is no such type");
  EXPECT_EQ(RefusalOf(Make("")).reason, Reason::kLayerInvalid);
}

TEST(CompileLayers, UnknownOptions) {
  Layer layer = Linear(3, 4);
  layer.options["in_featurse"] = Number(3);
  const ErrorDetails details = RefusalOf(Sequential({layer}));
  EXPECT_EQ(details.Get("option"), "in_featurse");
  EXPECT_EQ(details.Get("nearest").substr(0, 11), "in_features");
  EXPECT_EQ(details.fields.at(0).first, "layers.layers[0].options[in_featurse]");
  EXPECT_EQ(Refuse(Make("Tanh", {{"alpha", Number(1)}})), "layer Tanh: has no such option (option alpha)");
  EXPECT_EQ(RefusalOf(Make("Sequential", {{"bias", Flag(true)}})).reason, Reason::kLayerInvalid);
}

TEST(CompileLayers, MissingAndWrongOptions) {
  EXPECT_EQ(Refuse(Make("Linear", {{"in_features", Number(3)}})),
            "layer Linear: an option is missing; it is a whole number >= 1 (option out_features)");
  EXPECT_EQ(Refuse(Make("Softmax")),
            "layer Softmax: an option is missing; it is a whole number from -64 to 63 (option dim)");
  EXPECT_EQ(Refuse(Linear(0, 4)),
            "layer Linear: 0 is given, the option must be a whole number >= 1 (option in_features)");
  EXPECT_EQ(Refuse(Make("Dropout", {{"p", Real(2)}})),
            "layer Dropout: 2 is given, the option must be a finite number from 0 to 1 (option p)");
  const auto wrong = [](const char* name, LayerOption value) {
    Layer layer = Linear(3, 4);
    layer.options[name] = std::move(value);
    return RefusalOf(layer);
  };
  for (const auto& [name, value] : std::vector<std::pair<const char*, LayerOption>>{
           {"in_features", Real(3.0)},
           {"in_features", Flag(true)},
           {"in_features", Text("3")},
           {"in_features", Sizes({3})},
           {"in_features", None()},
           {"in_features", Number(-3)},
           {"bias", Number(1)},
           {"bias", None()},
           {"dtype", Text("int32")},
           {"dtype", Text("float32,float64")},
           {"dtype", Text("")},
           {"dtype", Number(12)},
       }) {
    const ErrorDetails details = wrong(name, value);
    EXPECT_EQ(details.reason, Reason::kLayerInvalid) << name;
    EXPECT_EQ(details.Get("option"), name);
  }
  EXPECT_EQ(RefusalOf(Make("LayerNorm", {{"normalized_shape", Sizes({})}})).reason, Reason::kLayerInvalid);
  EXPECT_EQ(RefusalOf(Make("LayerNorm", {{"normalized_shape", Number(3)}, {"eps", Real(std::nan(""))}})).reason,
            Reason::kLayerInvalid);
  EXPECT_EQ(RefusalOf(Make("LayerNorm", {{"normalized_shape", Number(3)}, {"eps", Real(-1)}})).reason,
            Reason::kLayerInvalid);
  EXPECT_EQ(RefusalOf(Make("GELU", {{"approximate", Text("erf")}})).reason, Reason::kLayerInvalid);
  EXPECT_EQ(RefusalOf(Make("Softmax", {{"dim", Number(int64_t{1} << 40)}})).reason, Reason::kLayerInvalid);
  EXPECT_EQ(RefusalOf(Make("Flatten", {{"start_dim", Number(-65)}})).reason, Reason::kLayerInvalid);
}

TEST(CompileLayers, WindowsThatCannotBe) {
  const auto conv = [](std::map<std::string, LayerOption> more) {
    std::map<std::string, LayerOption> options = {
        {"in_channels", Number(4)}, {"out_channels", Number(6)}, {"kernel_size", Number(3)}};
    for (auto& [name, value] : more) options[name] = value;
    return RefusalOf(Make("Conv2d", options));
  };
  EXPECT_EQ(conv({{"groups", Number(3)}}).Get("option"), "groups");
  EXPECT_EQ(conv({{"groups", Number(0)}}).Get("option"), "groups");
  EXPECT_EQ(conv({{"kernel_size", Sizes({3, 3, 3})}}).Get("option"), "kernel_size");
  EXPECT_EQ(conv({{"kernel_size", Sizes({3, 0})}}).Get("option"), "kernel_size");
  EXPECT_EQ(conv({{"stride", Number(0)}}).Get("option"), "stride");
  EXPECT_EQ(conv({{"padding", Number(-1)}}).Get("option"), "padding");
  EXPECT_EQ(conv({{"padding", Text("same")}}).Get("option"), "padding");
  EXPECT_EQ(RefusalOf(Make("MaxPool2d", {{"kernel_size", Number(2)}, {"padding", Number(2)}})).Get("option"),
            "padding");
}

TEST(CompileLayers, SizesThatAreTooLarge) {
  EXPECT_EQ(RefusalOf(Linear(int64_t{1} << 40, int64_t{1} << 40)).reason, Reason::kLayerInvalid);
  EXPECT_EQ(Refuse(Linear(int64_t{1} << 40, int64_t{1} << 40)),
            "layer Linear: its weight would be float32[1099511627776,1099511627776], which is too large");
  EXPECT_EQ(RefusalOf(Make("LayerNorm", {{"normalized_shape", Sizes(std::vector<int64_t>(65, 1))}})).reason,
            Reason::kLayerInvalid);
}

TEST(CompileLayers, ContainersAndNames) {
  Layer relu = Make("ReLU");
  relu.layers.push_back(Make("Tanh"));
  EXPECT_EQ(Refuse(relu), "layer ReLU: it holds no other layers");
  Layer a = Make("Tanh");
  a.name = "1";
  EXPECT_EQ(RefusalOf(Sequential({a, Make("ReLU")})).fields.at(0).first, "layers.layers[1].name")
      << "taken by its index";
  for (const char* name : {"a.b", "a b", "../x", "\xc3\xa9"}) {
    a.name = name;
    EXPECT_EQ(RefusalOf(Sequential({a})).reason, Reason::kLayerInvalid) << name;
  }
  a.name = std::string(129, 'a');
  EXPECT_EQ(RefusalOf(Sequential({a})).reason, Reason::kLayerInvalid);
}

TEST(CompileLayers, Limits) {
  Limits limits;
  limits.max_program_depth = 3;
  Layer nested = Make("ReLU");
  nested = Sequential({nested});
  nested = Sequential({nested});
  EXPECT_TRUE(CompileLayers(nested, limits).ok());
  nested = Sequential({nested});
  EXPECT_EQ(RefusalOf(nested, limits).reason, Reason::kLimitExceeded);
  EXPECT_EQ(RefusalOf(nested, limits).Get("limit"), "max_program_depth");
  limits = {};
  limits.max_operands = 2;
  EXPECT_EQ(RefusalOf(Sequential({Make("ReLU"), Make("ReLU"), Make("ReLU")}), limits).reason, Reason::kLimitExceeded);
  limits = {};
  limits.max_program_instructions = 2;
  const ErrorDetails details = RefusalOf(Sequential({Make("ReLU"), Make("ReLU"), Make("ReLU")}), limits);
  EXPECT_EQ(details.reason, Reason::kLimitExceeded);
  EXPECT_EQ(details.Get("limit"), "max_program_instructions");
}

}  // namespace
}  // namespace tensord
