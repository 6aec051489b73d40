#include "server/model/layers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/nearest.h"
#include "server/model/layer_options.h"

namespace tensord {
namespace {

using model_internal::LayerInvalid;
using model_internal::LayerPlace;
using model_internal::OptionKind;
using model_internal::OptionRow;
using model_internal::Options;

// How a parameter begins.
struct Initial {
  enum Kind : uint8_t { kZeros, kOnes, kUniform } kind = kZeros;
  double bound = 0;  // kUniform: numbers lie in [-bound, bound)
};

// PyTorch's default for Linear and Conv, weight and bias alike.
Initial UniformFor(double fan_in) { return {Initial::kUniform, fan_in > 0 ? 1 / std::sqrt(fan_in) : 0}; }

Instruction MakeInstruction(Op op, std::initializer_list<uint64_t> inputs, uint64_t output) {
  Instruction instruction;
  instruction.op = op;
  instruction.inputs.assign(inputs);
  instruction.output = output;
  return instruction;
}

ProgramValue MakeValue(std::string_view name, uint64_t id) {
  ProgramValue value;
  value.name = name;
  value.id = id;
  return value;
}

Program InitProgram(const TensorType& type, const Initial& initial) {
  Program program;
  Instruction create = MakeInstruction(initial.kind == Initial::kUniform ? Op::kRand
                                       : initial.kind == Initial::kOnes  ? Op::kOnes
                                                                         : Op::kZeros,
                                       {}, 1);
  CreateAttributes attributes;
  attributes.spec.type = type;
  create.attributes = std::move(attributes);
  program.instructions.push_back(std::move(create));
  uint64_t last = 1;
  if (initial.kind == Initial::kUniform) {
    // [0, 1) times the width, less the bound.
    Instruction scale = MakeInstruction(Op::kMultiply, {1, 0}, 2);
    scale.scalars.push_back({2 * initial.bound});
    program.instructions.push_back(std::move(scale));
    Instruction shift = MakeInstruction(Op::kSubtract, {2, 0}, 3);
    shift.scalars.push_back({initial.bound});
    program.instructions.push_back(std::move(shift));
    last = 3;
  }
  program.outputs.push_back(MakeValue("output", last));
  return program;
}

// The model under construction: layers append to it, one after the other.
class Builder {
 public:
  Builder() { model_.program.inputs.push_back(MakeValue("input", value_)); }

  // The layer whose instructions and parameters follow. `path` is "0.1", or empty for a root without layers.
  void Enter(const LayerPlace& place, std::string_view path) {
    place_ = place;
    path_ = path;
  }
  const LayerPlace& place() const { return place_; }

  // A parameter of the layer: its id.
  absl::StatusOr<uint64_t> Parameter(std::string_view name, Dtype dtype, Dims shape, const Initial& initial) {
    TensorType type{dtype, std::move(shape)};
    if (!CheckedBytes(dtype, type.shape).ok()) {
      return LayerInvalid(place_, "", StrCat("its ", name, " would be ", type.ToString(), ", which is too large"));
    }
    ParameterSpec spec;
    spec.path = path_.empty() ? std::string(name) : StrCat(path_, ".", name);
    spec.type = type;
    spec.init = InitProgram(type, initial);
    if (initial.kind == Initial::kUniform) spec.draws = static_cast<uint64_t>(type.elements());
    const uint64_t id = next_++;
    ProgramValue value = MakeValue(spec.path, id);
    value.dtype = dtype;
    value.shape.emplace(type.shape.begin(), type.shape.end());
    model_.program.inputs.push_back(std::move(value));
    model_.parameters.push_back(std::move(spec));
    return id;
  }

  // Applies an op to what came out of the layer before; 0 among `further` is an operand left out.
  void Append(Op op, absl::Span<const uint64_t> further = {}, Attributes attributes = {}) {
    Instruction instruction = MakeInstruction(op, {value_}, next_);
    for (const uint64_t id : further) {
      instruction.inputs.push_back(id);
      if (id == 0) instruction.scalars.emplace_back();
    }
    instruction.attributes = std::move(attributes);
    instruction.label = path_.empty() ? std::string(place_.type) : StrCat(path_, ": ", place_.type);
    model_.program.instructions.push_back(std::move(instruction));
    value_ = next_++;
  }

  CompiledModel Finish() {
    model_.program.outputs.push_back(MakeValue("output", value_));
    return std::move(model_);
  }

 private:
  CompiledModel model_;
  LayerPlace place_;
  std::string path_;
  uint64_t value_ = 1;
  uint64_t next_ = 2;
};

Dtype DtypeOption(const Options& o) { return ParseDtype(o.Text("dtype")).value_or(Dtype::kFloat32); }

absl::Status AddLinear(const Options& o, Builder& b) {
  const Dtype dtype = DtypeOption(o);
  const int64_t in = o.Integer("in_features");
  const int64_t out = o.Integer("out_features");
  const Initial initial = UniformFor(static_cast<double>(in));
  TENSORD_ASSIGN_OR_RETURN(const uint64_t weight, b.Parameter("weight", dtype, {out, in}, initial));
  absl::InlinedVector<uint64_t, 2> operands{weight};
  if (o.Bool("bias")) {
    TENSORD_ASSIGN_OR_RETURN(const uint64_t bias, b.Parameter("bias", dtype, {out}, initial));
    operands.push_back(bias);
  }
  b.Append(Op::kLinear, operands);
  return absl::OkStatus();
}

absl::Status AddConv2d(const Options& o, Builder& b) {
  const Dtype dtype = DtypeOption(o);
  const int64_t in = o.Integer("in_channels");
  const int64_t out = o.Integer("out_channels");
  const int64_t groups = o.Integer("groups");
  const Dims window = o.Sizes("kernel_size");
  if (in % groups != 0) return LayerInvalid(b.place(), "groups", "in_channels cannot be divided by groups");
  if (out % groups != 0) return LayerInvalid(b.place(), "groups", "out_channels cannot be divided by groups");
  const Initial initial =
      UniformFor(static_cast<double>(in / groups) * static_cast<double>(window[0]) * static_cast<double>(window[1]));
  TENSORD_ASSIGN_OR_RETURN(const uint64_t weight,
                           b.Parameter("weight", dtype, {out, in / groups, window[0], window[1]}, initial));
  absl::InlinedVector<uint64_t, 2> operands{weight};
  if (o.Bool("bias")) {
    TENSORD_ASSIGN_OR_RETURN(const uint64_t bias, b.Parameter("bias", dtype, {out}, initial));
    operands.push_back(bias);
  }
  WindowAttributes attributes;
  attributes.strides = o.Sizes("stride");
  attributes.dilations = o.Sizes("dilation");
  attributes.pads_begin = attributes.pads_end = o.Sizes("padding");
  attributes.groups = groups;
  b.Append(Op::kConv, operands, std::move(attributes));
  return absl::OkStatus();
}

absl::Status AddBatchNorm(const Options& o, Builder& b) {
  const Dtype dtype = DtypeOption(o);
  const Dims shape{o.Integer("num_features")};
  // In PyTorch's order: weight, bias, then the statistics.
  uint64_t weight = 0;
  uint64_t bias = 0;
  if (o.Bool("affine")) {
    TENSORD_ASSIGN_OR_RETURN(weight, b.Parameter("weight", dtype, shape, {Initial::kOnes}));
    TENSORD_ASSIGN_OR_RETURN(bias, b.Parameter("bias", dtype, shape, {Initial::kZeros}));
  }
  TENSORD_ASSIGN_OR_RETURN(const uint64_t mean, b.Parameter("running_mean", dtype, shape, {Initial::kZeros}));
  TENSORD_ASSIGN_OR_RETURN(const uint64_t variance, b.Parameter("running_var", dtype, shape, {Initial::kOnes}));
  absl::InlinedVector<uint64_t, 4> operands{mean, variance};
  if (weight != 0) operands.insert(operands.end(), {weight, bias});
  b.Append(Op::kBatchNorm, operands, NormAttributes{.axis = 0, .epsilon = o.Real("eps")});
  return absl::OkStatus();
}

absl::Status AddLayerNorm(const Options& o, Builder& b) {
  const Dtype dtype = DtypeOption(o);
  const Dims shape = o.Sizes("normalized_shape");
  absl::InlinedVector<uint64_t, 2> operands;
  if (o.Bool("elementwise_affine")) {
    TENSORD_ASSIGN_OR_RETURN(const uint64_t weight, b.Parameter("weight", dtype, shape, {Initial::kOnes}));
    operands.push_back(weight);
    if (o.Bool("bias")) {
      TENSORD_ASSIGN_OR_RETURN(const uint64_t bias, b.Parameter("bias", dtype, shape, {Initial::kZeros}));
      operands.push_back(bias);
    }
  }
  b.Append(Op::kLayerNorm, operands,
           NormAttributes{.axis = -static_cast<int32_t>(shape.size()), .epsilon = o.Real("eps")});
  return absl::OkStatus();
}

absl::Status AddPool(const Options& o, Builder& b, Op op) {
  WindowAttributes attributes;
  attributes.sizes = o.Sizes("kernel_size");
  attributes.strides = o.Sizes("stride");
  attributes.pads_begin = attributes.pads_end = o.Sizes("padding");
  attributes.ceil_mode = o.Bool("ceil_mode");
  if (op == Op::kMaxPool) {
    attributes.dilations = o.Sizes("dilation");
  } else {
    attributes.count_pads = o.Bool("count_include_pad");
  }
  for (size_t i = 0; i < attributes.sizes.size(); ++i) {
    if (attributes.pads_begin[i] > attributes.sizes[i] / 2) {
      return LayerInvalid(b.place(), "padding", "padding is at most half of kernel_size");
    }
  }
  b.Append(op, {}, std::move(attributes));
  return absl::OkStatus();
}

absl::Status AddMaxPool2d(const Options& o, Builder& b) { return AddPool(o, b, Op::kMaxPool); }
absl::Status AddAvgPool2d(const Options& o, Builder& b) { return AddPool(o, b, Op::kAvgPool); }

template <Op op>
absl::Status AddUnary(const Options&, Builder& b) {
  b.Append(op);
  return absl::OkStatus();
}

absl::Status AddGelu(const Options& o, Builder& b) {
  b.Append(o.Text("approximate") == "tanh" ? Op::kGeluTanh : Op::kGelu);
  return absl::OkStatus();
}

template <Op op>
absl::Status AddSoftmax(const Options& o, Builder& b) {
  ReduceAttributes attributes;
  attributes.axes.push_back(static_cast<int32_t>(o.Integer("dim")));
  b.Append(op, {}, std::move(attributes));
  return absl::OkStatus();
}

absl::Status AddFlatten(const Options& o, Builder& b) {
  ViewAttributes attributes;
  attributes.axes = {static_cast<int32_t>(o.Integer("start_dim")), static_cast<int32_t>(o.Integer("end_dim"))};
  b.Append(Op::kFlatten, {}, std::move(attributes));
  return absl::OkStatus();
}

// Identity, and Dropout when nothing is trained: the value goes on as it is.
absl::Status AddNothing(const Options&, Builder&) { return absl::OkStatus(); }

// ---- the table of layer types, with PyTorch's names and defaults

constexpr OptionRow Size(std::string_view name) {
  return {.name = name, .kind = OptionKind::kInteger, .required = true, .least = 1};
}
constexpr OptionRow Axis(std::string_view name, bool required, double otherwise = 0) {
  return {.name = name,
          .kind = OptionKind::kInteger,
          .required = required,
          .number = otherwise,
          .least = -kMaxRank,
          .most = kMaxRank - 1};
}
constexpr OptionRow Flag(std::string_view name, bool otherwise) {
  return {.name = name, .kind = OptionKind::kBool, .number = otherwise ? 1.0 : 0.0};
}
constexpr OptionRow Pair(std::string_view name, double otherwise, int64_t least) {
  return {.name = name, .kind = OptionKind::kSizes, .number = otherwise, .least = least, .count = 2};
}
constexpr OptionRow kWindow{
    .name = "kernel_size", .kind = OptionKind::kSizes, .required = true, .least = 1, .count = 2};
constexpr OptionRow kPoolStride{.name = "stride", .kind = OptionKind::kSizes, .least = 1, .count = 2, .none = true};
constexpr OptionRow kEpsilon{.name = "eps", .kind = OptionKind::kReal, .number = 1e-5};
constexpr OptionRow kMomentum{.name = "momentum", .kind = OptionKind::kReal, .number = 0.1, .none = true};
constexpr OptionRow kDtypeOption{
    .name = "dtype", .kind = OptionKind::kText, .text = "float32", .words = "float16,bfloat16,float32,float64"};
constexpr OptionRow kInPlace = Flag("inplace", false);  // of no effect: tensors never change

constexpr OptionRow kLinearOptions[] = {Size("in_features"), Size("out_features"), Flag("bias", true), kDtypeOption};
constexpr OptionRow kConv2dOptions[] = {Size("in_channels"),
                                        Size("out_channels"),
                                        kWindow,
                                        Pair("stride", 1, 1),
                                        Pair("padding", 0, 0),
                                        Pair("dilation", 1, 1),
                                        {.name = "groups", .number = 1, .least = 1},
                                        Flag("bias", true),
                                        kDtypeOption};
constexpr OptionRow kBatchNormOptions[] = {Size("num_features"), kEpsilon, kMomentum, Flag("affine", true),
                                           kDtypeOption};
constexpr OptionRow kLayerNormOptions[] = {
    {.name = "normalized_shape", .kind = OptionKind::kSizes, .required = true, .least = 1},
    kEpsilon,
    Flag("elementwise_affine", true),
    Flag("bias", true),
    kDtypeOption};
constexpr OptionRow kDropoutOptions[] = {{.name = "p", .kind = OptionKind::kReal, .number = 0.5, .most = 1}, kInPlace};
constexpr OptionRow kInPlaceOptions[] = {kInPlace};
constexpr OptionRow kGeluOptions[] = {
    {.name = "approximate", .kind = OptionKind::kText, .text = "none", .words = "none,tanh"}};
constexpr OptionRow kSoftmaxOptions[] = {Axis("dim", true)};
constexpr OptionRow kMaxPoolOptions[] = {kWindow, kPoolStride, Pair("padding", 0, 0), Pair("dilation", 1, 1),
                                         Flag("ceil_mode", false)};
constexpr OptionRow kAvgPoolOptions[] = {kWindow, kPoolStride, Pair("padding", 0, 0), Flag("ceil_mode", false),
                                         Flag("count_include_pad", true)};
constexpr OptionRow kFlattenOptions[] = {Axis("start_dim", false, 1), Axis("end_dim", false, -1)};

struct LayerRow {
  std::string_view type;
  absl::Span<const OptionRow> options;
  absl::Status (*add)(const Options& options, Builder& builder) = nullptr;  // null: a container
};

constexpr LayerRow kLayers[] = {
    {"AvgPool2d", kAvgPoolOptions, AddAvgPool2d},
    {"BatchNorm1d", kBatchNormOptions, AddBatchNorm},
    {"BatchNorm2d", kBatchNormOptions, AddBatchNorm},
    {"Conv2d", kConv2dOptions, AddConv2d},
    {"Dropout", kDropoutOptions, AddNothing},
    {"Flatten", kFlattenOptions, AddFlatten},
    {"GELU", kGeluOptions, AddGelu},
    {"Identity", {}, AddNothing},
    {"LayerNorm", kLayerNormOptions, AddLayerNorm},
    {"Linear", kLinearOptions, AddLinear},
    {"LogSoftmax", kSoftmaxOptions, AddSoftmax<Op::kLogSoftmax>},
    {"MaxPool2d", kMaxPoolOptions, AddMaxPool2d},
    {"ReLU", kInPlaceOptions, AddUnary<Op::kRelu>},
    {"Sequential", {}, nullptr},
    {"SiLU", kInPlaceOptions, AddUnary<Op::kSilu>},
    {"Sigmoid", {}, AddUnary<Op::kSigmoid>},
    {"Softmax", kSoftmaxOptions, AddSoftmax<Op::kSoftmax>},
    {"Tanh", {}, AddUnary<Op::kTanh>},
};

absl::StatusOr<const LayerRow*> FindLayer(const LayerPlace& place) {
  std::vector<std::string_view> known;
  for (const LayerRow& row : kLayers) {
    if (row.type == place.type) return &row;
    known.push_back(row.type);
  }
  Error error =
      Error(Reason::kLayerInvalid).With("type", place.type.substr(0, 64)).Say("problem", "there is no such type");
  const std::string nearest = NearestNames(place.type, known);
  if (!nearest.empty()) error = std::move(error).With("nearest", nearest);
  return std::move(error).At(StrCat(place.field, ".type"));
}

// The part of parameter paths: a name without the separator.
bool IsPathPart(std::string_view name, const Limits& limits) {
  return !name.empty() && name.size() <= limits.max_name_bytes && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

absl::Status TooMany(std::string_view limit, uint64_t value, uint64_t maximum, std::string_view field) {
  return Error(Reason::kLimitExceeded).With("limit", limit).With("value", value).With("maximum", maximum).At(field);
}

absl::Status AddLayer(const Layer& layer, std::string_view field, std::string_view path, uint32_t depth,
                      const Limits& limits, Builder& builder);

absl::Status AddChildren(const Layer& layer, const LayerPlace& place, std::string_view path, uint32_t depth,
                         const Limits& limits, Builder& builder) {
  if (layer.layers.size() > limits.max_operands) {
    return TooMany("max_operands", layer.layers.size(), limits.max_operands, StrCat(place.field, ".layers"));
  }
  std::set<std::string> names;
  for (size_t i = 0; i < layer.layers.size(); ++i) {
    const Layer& child = layer.layers[i];
    const std::string field = StrCat(place.field, ".layers[", i, "]");
    const std::string name = child.name.empty() ? StrCat(i) : child.name;
    if (!IsPathPart(name, limits)) {
      return Error(Reason::kLayerInvalid)
          .With("type", child.type)
          .Say("problem", "its name is 1 to 128 letters, digits, _ or -")
          .At(StrCat(field, ".name"));
    }
    if (!names.insert(name).second) {
      return Error(Reason::kLayerInvalid)
          .With("type", child.type)
          .Say("problem", StrCat("another layer beside it is called ", name))
          .At(StrCat(field, ".name"));
    }
    const std::string child_path = path.empty() ? name : StrCat(path, ".", name);
    TENSORD_RETURN_IF_ERROR(AddLayer(child, field, child_path, depth + 1, limits, builder));
  }
  return absl::OkStatus();
}

absl::Status AddLayer(const Layer& layer, std::string_view field, std::string_view path, uint32_t depth,
                      const Limits& limits, Builder& builder) {
  if (depth > limits.max_program_depth) return TooMany("max_program_depth", depth, limits.max_program_depth, field);
  const LayerPlace place{layer.type, field};
  TENSORD_ASSIGN_OR_RETURN(const LayerRow* row, FindLayer(place));
  TENSORD_ASSIGN_OR_RETURN(const Options options, Options::Read(place, layer, row->options));
  if (row->add == nullptr) return AddChildren(layer, place, path, depth, limits, builder);
  if (!layer.layers.empty()) return LayerInvalid(place, "", "it holds no other layers");
  builder.Enter({row->type, field}, path);
  return row->add(options, builder);
}

}  // namespace

absl::StatusOr<CompiledModel> CompileLayers(const Layer& root, const Limits& limits) {
  Builder builder;
  TENSORD_RETURN_IF_ERROR(AddLayer(root, "layers", "", 1, limits, builder));
  CompiledModel model = builder.Finish();
  const size_t instructions = model.program.instructions.size();
  if (instructions > limits.max_program_instructions) {
    return TooMany("max_program_instructions", instructions, limits.max_program_instructions, "layers");
  }
  return model;
}

}  // namespace tensord
