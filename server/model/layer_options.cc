#include "server/model/layer_options.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/core/nearest.h"

namespace tensord::model_internal {
namespace {

// One word of "none,tanh".
bool IsWord(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t comma = words.find(',');
    if (words.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) break;
    words.remove_prefix(comma + 1);
  }
  return false;
}

// None, or left out.
bool IsNone(const LayerOption& option) {
  const Scalar* scalar = std::get_if<Scalar>(&option.value);
  return scalar != nullptr && scalar->absent();
}

std::string ValueText(const LayerOption& option) {
  if (const auto* scalar = std::get_if<Scalar>(&option.value)) return scalar->ToString();
  if (const auto* text = std::get_if<std::string>(&option.value)) return StrCat("\"", text->substr(0, 64), "\"");
  return ShapeText(std::get<std::vector<int64_t>>(option.value));
}

// " >= 1", " from -64 to 63".
std::string RangeText(const OptionRow& row) {
  return row.most == INT64_MAX ? StrCat(" >= ", row.least) : StrCat(" from ", row.least, " to ", row.most);
}

// What is allowed, as the end of "is 0, but must be …".
std::string AllowedText(const OptionRow& row) {
  const std::string range = RangeText(row);
  switch (row.kind) {
    case OptionKind::kBool:
      return "True or False";
    case OptionKind::kInteger:
      return StrCat("a whole number", range);
    case OptionKind::kReal:
      return StrCat("a finite number", range);
    case OptionKind::kText:
      return StrCat("one of ", row.words);
    case OptionKind::kSizes:
      return StrCat("a whole number", range, " or a list of ", row.count == 0 ? "such" : StrCat(row.count, " such"));
  }
  return "";
}

bool ScalarFits(const OptionRow& row, const Scalar& scalar) {
  const bool integer = std::holds_alternative<int64_t>(scalar.value);
  switch (row.kind) {
    case OptionKind::kBool:
      return std::holds_alternative<bool>(scalar.value);
    case OptionKind::kInteger:
    case OptionKind::kSizes:
      return integer && scalar.AsInt64() >= row.least && scalar.AsInt64() <= row.most;
    case OptionKind::kReal: {
      const bool number = integer || std::holds_alternative<double>(scalar.value);
      const double value = scalar.AsDouble();
      return number && std::isfinite(value) && value >= static_cast<double>(row.least) &&
             value <= static_cast<double>(row.most);
    }
    case OptionKind::kText:
      return false;
  }
  return false;
}

bool Fits(const OptionRow& row, const LayerOption& option) {
  if (const auto* scalar = std::get_if<Scalar>(&option.value)) return ScalarFits(row, *scalar);
  if (const auto* text = std::get_if<std::string>(&option.value)) {
    return row.kind == OptionKind::kText && IsWord(row.words, *text);
  }
  const auto& sizes = std::get<std::vector<int64_t>>(option.value);
  if (row.kind != OptionKind::kSizes || sizes.empty()) return false;
  if (row.count != 0 && sizes.size() != static_cast<size_t>(row.count) && sizes.size() != 1) return false;
  return std::all_of(sizes.begin(), sizes.end(), [&](int64_t size) { return size >= row.least; });
}

std::string OptionPath(const LayerPlace& place, std::string_view option) {
  return option.empty() ? std::string(place.field) : StrCat(place.field, ".options[", option, "]");
}

}  // namespace

absl::Status LayerInvalid(const LayerPlace& place, std::string_view option, std::string_view problem) {
  Error error = Error(Reason::kLayerInvalid).With("type", place.type).Say("problem", problem);
  if (!option.empty()) error = std::move(error).With("option", option);
  return std::move(error).At(OptionPath(place, option));
}

absl::StatusOr<Options> Options::Read(const LayerPlace& place, const Layer& layer, absl::Span<const OptionRow> rows) {
  for (const auto& [name, option] : layer.options) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const OptionRow& r) { return r.name == name; });
    if (row == rows.end()) {
      std::vector<std::string_view> known;
      for (const OptionRow& r : rows) known.push_back(r.name);
      Error error = Error(Reason::kLayerInvalid)
                        .With("type", place.type)
                        .With("option", name)
                        .Say("problem", "has no such option");
      const std::string nearest = NearestNames(name, known);
      if (!nearest.empty()) error = std::move(error).With("nearest", nearest);
      return std::move(error).At(OptionPath(place, name));
    }
    if (IsNone(option)) {
      if (row->none) continue;
      return LayerInvalid(place, name, StrCat("the option must be ", AllowedText(*row)));
    }
    if (!Fits(*row, option)) {
      return LayerInvalid(place, name, StrCat(ValueText(option), " is given, the option must be ", AllowedText(*row)));
    }
  }
  for (const OptionRow& row : rows) {
    if (row.required && !layer.options.contains(std::string(row.name))) {
      return LayerInvalid(place, row.name, StrCat("an option is missing; it is ", AllowedText(row)));
    }
  }
  return Options(layer, rows);
}

const OptionRow& Options::RowNamed(std::string_view name) const {
  static constexpr OptionRow kNoRow{};
  const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const OptionRow& r) { return r.name == name; });
  return row == rows_.end() ? kNoRow : *row;
}

const LayerOption* Options::Given(std::string_view name) const {
  const auto it = layer_->options.find(std::string(name));
  return it == layer_->options.end() || IsNone(it->second) ? nullptr : &it->second;
}

bool Options::Bool(std::string_view name) const {
  const LayerOption* option = Given(name);
  return option ? std::get<bool>(std::get<Scalar>(option->value).value) : RowNamed(name).number != 0;
}

int64_t Options::Integer(std::string_view name) const {
  const LayerOption* option = Given(name);
  return option ? std::get<Scalar>(option->value).AsInt64() : static_cast<int64_t>(RowNamed(name).number);
}

double Options::Real(std::string_view name) const {
  const LayerOption* option = Given(name);
  return option ? std::get<Scalar>(option->value).AsDouble() : RowNamed(name).number;
}

std::string_view Options::Text(std::string_view name) const {
  const LayerOption* option = Given(name);
  return option ? std::string_view(std::get<std::string>(option->value)) : RowNamed(name).text;
}

Dims Options::Sizes(std::string_view name) const {
  const OptionRow& row = RowNamed(name);
  const LayerOption* option = Given(name);
  const auto count = static_cast<size_t>(std::max(row.count, 1));
  if (option == nullptr) return row.none ? Dims() : Dims(count, static_cast<int64_t>(row.number));
  if (const auto* scalar = std::get_if<Scalar>(&option->value)) return Dims(count, scalar->AsInt64());
  const auto& sizes = std::get<std::vector<int64_t>>(option->value);
  if (sizes.size() == 1) return Dims(count, sizes[0]);
  return {sizes.begin(), sizes.end()};
}

}  // namespace tensord::model_internal
