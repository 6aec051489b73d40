// Layers as the user writes them: constructors named as PyTorch names them, and how they print.
#include <algorithm>
#include <array>
#include <utility>

#include "client/cpp/expr/arguments.h"
#include "client/cpp/expr/models.h"

namespace tensord::expr {
namespace {

struct LayerRow {
  std::string_view type;
  std::string_view parameters;
};
constexpr auto kLayers = std::to_array<LayerRow>({
#define TENSORD_LAYER(Type, parameters) {#Type, parameters},
#include "client/cpp/expr/layers.def"
});

// "a,b,c" one by one.
std::vector<std::string_view> Split(std::string_view names) {
  std::vector<std::string_view> list;
  while (!names.empty()) {
    const size_t comma = std::min(names.find(','), names.size());
    list.push_back(names.substr(0, comma));
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  return list;
}

const LayerRow* FindLayer(std::string_view type) {
  const auto* it = std::find_if(kLayers.begin(), kLayers.end(), [&](const LayerRow& row) { return row.type == type; });
  return it == kLayers.end() ? nullptr : it;
}

// A value as an option; None is an option left out.
absl::StatusOr<std::optional<LayerOption>> ToOption(const Env& env, std::string_view type, std::string_view name,
                                                    const Value& value) {
  LayerOption option;
  if (value.Is<None>()) return std::optional<LayerOption>();
  if (value.IsNumber()) {
    option.value = ToScalar(value);
  } else if (const std::string* text = value.As<std::string>()) {
    option.value = *text;
  } else if (const std::optional<Dims> sizes = AsSizes(value)) {
    option.value = std::vector<int64_t>(sizes->begin(), sizes->end());
  } else {
    return env.Problem(StrCat("nn.", type, ": ", name, " is ", BriefText(value),
                              "; a number, a string or integers in a tuple are expected"));
  }
  return std::optional(std::move(option));
}

absl::StatusOr<Value> MakeSequential(const Env& env, const Arguments& arguments) {
  Layer layer;
  layer.type = "Sequential";
  std::string device;
  if (!arguments.keywords.empty()) return env.Problem("nn.Sequential takes layers only");
  for (const Value& value : arguments.positional) {
    const LayersPtr* child = value.As<LayersPtr>();
    if (child == nullptr) return env.Problem(StrCat("nn.Sequential takes layers, not ", value.KindText()));
    layer.layers.push_back((*child)->layer);
  }
  return Value(LayersPtr(std::make_shared<LayersValue>(LayersValue{std::move(layer), ""})));
}

std::string OptionText(const LayerOption& option) {
  if (const Scalar* scalar = std::get_if<Scalar>(&option.value)) return HostText(FromScalar(*scalar));
  if (const std::string* text = std::get_if<std::string>(&option.value)) return StringText(*text);
  return HostText(MakeSizes(std::get<std::vector<int64_t>>(option.value)));
}

std::string LayerLines(const Layer& layer, const std::string& indent) {
  std::vector<std::string> options;
  std::vector<std::string_view> order;
  if (const LayerRow* row = FindLayer(layer.type)) order = Split(row->parameters);
  for (const std::string_view name : order) {
    const auto it = layer.options.find(std::string(name));
    if (it != layer.options.end()) options.push_back(StrCat(name, "=", OptionText(it->second)));
  }
  for (const auto& [name, option] : layer.options) {
    if (std::find(order.begin(), order.end(), name) == order.end())
      options.push_back(StrCat(name, "=", OptionText(option)));
  }
  if (layer.type == "Linear" && !layer.options.contains("bias")) options.emplace_back("bias=True");
  std::string text = StrCat(layer.type, "(", StrJoin(options, ", "));
  if (layer.layers.empty()) return text + ")";
  for (size_t i = 0; i < layer.layers.size(); ++i) {
    const Layer& child = layer.layers[i];
    const std::string name = child.name.empty() ? std::to_string(i) : child.name;
    text += StrCat("\n", indent, "  (", name, "): ", LayerLines(child, indent + "  "));
  }
  return StrCat(text, "\n", indent, ")");
}

}  // namespace

absl::StatusOr<Value> MakeLayer(Env& env, std::string_view type, const Arguments& arguments) {
  if (type == "Sequential") return MakeSequential(env, arguments);
  Layer layer;
  layer.type = std::string(type);
  const LayerRow* row = FindLayer(type);
  const std::vector<std::string_view> names = row == nullptr ? std::vector<std::string_view>() : Split(row->parameters);
  if (row != nullptr && arguments.positional.size() > names.size()) {
    return Error(Reason::kArityInvalid)
        .With("op", StrCat("nn.", type))
        .With("expected", StrCat("at most ", names.size(), " arguments"))
        .With("got", arguments.positional.size());
  }
  std::string device;
  const auto set = [&](std::string_view name, const Value& value) -> absl::Status {
    if (layer.options.contains(std::string(name)))
      return env.Problem(StrCat("nn.", type, ": ", name, " is given twice"));
    TENSORD_ASSIGN_OR_RETURN(std::optional<LayerOption> option, ToOption(env, type, name, value));
    if (option) layer.options.emplace(name, *std::move(option));
    return absl::OkStatus();
  };
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    // A type this client does not know: the daemon says what it thinks of it, so the option's name hardly matters.
    TENSORD_RETURN_IF_ERROR(
        set(i < names.size() ? std::string(names[i]) : StrCat("argument ", i), arguments.positional[i]));
  }
  for (const auto& [name, value] : arguments.keywords) {
    if (name == "device") {
      if (const std::optional<std::string> text = AsDevice(value)) {
        device = *text;
        continue;
      }
    }
    TENSORD_RETURN_IF_ERROR(set(name, value));
  }
  return Value(LayersPtr(std::make_shared<LayersValue>(LayersValue{std::move(layer), std::move(device)})));
}

std::vector<std::string_view> LayerTypes() {
  std::vector<std::string_view> types{"Sequential"};
  for (const LayerRow& row : kLayers) types.push_back(row.type);
  return types;
}

std::string LayerText(const Layer& layer) { return LayerLines(layer, ""); }

}  // namespace tensord::expr
