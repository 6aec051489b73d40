#include "client/cpp/expr/arguments.h"

#include <algorithm>

#include "server/engine/blocking.h"

namespace tensord::expr {
namespace {

// Whether `name` is one of "a,b,c".
bool IsOneOf(std::string_view name, std::string_view names) {
  while (!names.empty()) {
    const size_t comma = std::min(names.find(','), names.size());
    if (names.substr(0, comma) == name) return true;
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  return false;
}

std::string_view FirstOf(std::string_view names) { return names.substr(0, names.find(',')); }

const Value* NoneIsAbsent(const Value* value) { return value != nullptr && value->Is<None>() ? nullptr : value; }

}  // namespace

absl::StatusOr<std::vector<DeviceId>> Env::Devices() {
  if (!devices) {
    TENSORD_ASSIGN_OR_RETURN(const ListDevicesResponse response,
                             graph->session().engine().ListDevices(graph->session().caller(), {}, false));
    devices.emplace();
    for (const DeviceDescription& device : response.devices) devices->push_back(device.info.id);
  }
  return *devices;
}

absl::Status Env::NotOffered(std::string_view what) const {
  return Error(Reason::kNotOffered).With("what", what).With("daemon_version", graph->session().info().daemon_version);
}

ArgumentReader::ArgumentReader(const Env& env, std::string_view function, const Arguments& arguments)
    : env_(env), function_(function), arguments_(arguments), used_(arguments.keywords.size(), false) {}

const Value* ArgumentReader::Keyword(std::string_view names) {
  known_.emplace_back(FirstOf(names));
  const Value* found = nullptr;
  for (size_t i = 0; i < arguments_.keywords.size(); ++i) {
    if (!IsOneOf(arguments_.keywords[i].first, names)) continue;
    if (found != nullptr) twice_ = env_.Problem(StrCat(function_, ": ", FirstOf(names), " is given twice"));
    used_[i] = true;
    found = &arguments_.keywords[i].second;
  }
  return NoneIsAbsent(found);
}

const Value* ArgumentReader::Optional(std::string_view names) {
  const Value* keyword = Keyword(names);
  if (!HasPositional()) return keyword;
  if (keyword != nullptr) {
    // The positional one belongs to a later parameter only where an earlier keyword took this place: Python refuses
    // that, too.
    twice_ = env_.Problem(StrCat(function_, ": ", FirstOf(names), " is given twice"));
    return keyword;
  }
  return NoneIsAbsent(&arguments_.positional[next_++]);
}

absl::StatusOr<const Value*> ArgumentReader::Required(std::string_view names) {
  const Value* value = Optional(names);
  if (value == nullptr) {
    return Error(Reason::kArityInvalid)
        .With("op", function_)
        .With("expected", StrCat("the argument ", FirstOf(names)))
        .With("got", StrCat(arguments_.positional.size(), " arguments without it"));
  }
  return value;
}

absl::Status ArgumentReader::Invalid(std::string_view name, const Value& value, std::string_view allowed) const {
  return Error(Reason::kAttributeInvalid)
      .With("op", function_)
      .With("attribute", FirstOf(name))
      .With("value", BriefText(value))
      .With("allowed", allowed);
}

absl::StatusOr<TensorPtr> ArgumentReader::Tensor(std::string_view names) {
  TENSORD_ASSIGN_OR_RETURN(const Value* value, Required(names));
  if (const TensorPtr* tensor = value->As<TensorPtr>()) return *tensor;
  return Invalid(names, *value, "a tensor");
}

absl::StatusOr<int64_t> ArgumentReader::Integer(std::string_view names, std::optional<int64_t> otherwise) {
  const Value* value = Optional(names);
  if (value == nullptr && otherwise) return *otherwise;
  if (value == nullptr) return Required(names).status();
  if (const std::optional<int64_t> integer = ToInteger(*value)) return *integer;
  return Invalid(names, *value, "an integer");
}

absl::StatusOr<bool> ArgumentReader::Bool(std::string_view names, bool otherwise) {
  const Value* value = Optional(names);
  if (value == nullptr) return otherwise;
  if (const bool* b = value->As<bool>()) return *b;
  return Invalid(names, *value, "True or False");
}

absl::StatusOr<double> ArgumentReader::Real(std::string_view names, double otherwise) {
  const Value* value = Optional(names);
  if (value == nullptr) return otherwise;
  if (value->IsNumber() && !value->Is<bool>()) return ToScalar(*value).AsDouble();
  return Invalid(names, *value, "a number");
}

absl::StatusOr<Dtype> ArgumentReader::DtypeOr(std::string_view names, Dtype otherwise) {
  const Value* value = Keyword(names);
  if (value == nullptr) return otherwise;
  if (const std::optional<Dtype> dtype = AsDtype(*value)) return *dtype;
  const std::string* text = value->As<std::string>();
  return Error(Reason::kDtypeUnknown)
      .With("value", text != nullptr ? *text : BriefText(*value))
      .With("known", KnownDtypes());
}

absl::StatusOr<std::string> ArgumentReader::DeviceOr(std::string_view names, std::string otherwise) {
  const Value* value = Keyword(names);
  if (value == nullptr) return otherwise;
  if (std::optional<std::string> device = AsDevice(*value)) return *std::move(device);
  return Invalid(names, *value, "a device, as \"cuda:0\", device(\"cuda:0\") or try_gpu()");
}

absl::StatusOr<Dims> ArgumentReader::Sizes(std::string_view names) {
  const Value* keyword = Keyword(names);
  if (!HasPositional()) {
    if (keyword == nullptr) return Dims();
    if (std::optional<Dims> sizes = AsSizes(*keyword)) return *std::move(sizes);
    return Invalid(names, *keyword, "integers");
  }
  if (keyword != nullptr) return env_.Problem(StrCat(function_, ": ", FirstOf(names), " is given twice"));
  Dims sizes;
  for (const Value& value : Rest()) {
    const std::optional<int64_t> size = ToInteger(value);
    if (!size) return Invalid(names, value, "integers");
    sizes.push_back(*size);
  }
  return sizes;
}

std::vector<Value> ArgumentReader::Rest() {
  std::vector<Value> rest(arguments_.positional.begin() + static_cast<ptrdiff_t>(next_), arguments_.positional.end());
  next_ = arguments_.positional.size();
  if (rest.size() == 1) {
    if (const ListPtr* list = rest[0].As<ListPtr>()) return std::vector<Value>((*list)->items);
  }
  return rest;
}

absl::Status ArgumentReader::Finish() const {
  TENSORD_RETURN_IF_ERROR(twice_);
  if (next_ < arguments_.positional.size()) {
    return Error(Reason::kArityInvalid)
        .With("op", function_)
        .With("expected", StrCat("at most ", next_, " positional arguments"))
        .With("got", arguments_.positional.size());
  }
  for (size_t i = 0; i < used_.size(); ++i) {
    if (used_[i]) continue;
    return Error(Reason::kAttributeInvalid)
        .With("op", function_)
        .With("attribute", "a keyword")
        .With("value", arguments_.keywords[i].first)
        .With("allowed", known_.empty() ? std::string("none") : StrJoin(known_, ", "));
  }
  return absl::OkStatus();
}

std::optional<Dtype> AsDtype(const Value& value) {
  if (const Dtype* dtype = value.As<Dtype>()) return *dtype;
  if (const std::string* text = value.As<std::string>()) {
    std::string_view name = *text;
    if (name.starts_with("torch.")) name.remove_prefix(6);
    return ParseDtype(name);
  }
  if (const Function* function = value.As<Function>()) {  // Python's own types, as NumPy and PyTorch read them
    if (function->name == "bool") return Dtype::kBool;
    if (function->name == "int") return Dtype::kInt64;
    if (function->name == "float") return Dtype::kFloat64;
  }
  return std::nullopt;
}

std::optional<std::string> AsDevice(const Value& value) {
  if (const std::string* text = value.As<std::string>()) return *text;
  if (const DeviceValue* device = value.As<DeviceValue>()) return device->id.ToString();
  if (const std::optional<int64_t> index = ToInteger(value)) return StrCat("cuda:", *index);
  return std::nullopt;
}

std::optional<Dims> AsSizes(const Value& value) {
  if (const std::optional<int64_t> one = ToInteger(value)) return Dims{*one};
  const ListPtr* list = value.As<ListPtr>();
  if (list == nullptr) return std::nullopt;
  Dims sizes;
  for (const Value& item : (*list)->items) {
    const std::optional<int64_t> size = ToInteger(item);
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

std::string BriefText(const Value& value) {
  if (const TensorPtr* tensor = value.As<TensorPtr>())
    return StrCat("a tensor (", (*tensor)->spec.type.ToString(), ")");
  if (value.Is<ListPtr>() && HostText(value).size() > 60) return value.KindText();
  return HostText(value);
}

}  // namespace tensord::expr
