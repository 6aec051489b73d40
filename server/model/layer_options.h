// Constructor arguments of layers: which there are, what they may be, what they are when left out.
//
// A layer type declares its options in a table (layers.cc). Options::Read checks a layer against its row once; the
// getters then cannot fail. Not thread safe, plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/core/shape.h"
#include "server/engine/types.h"

namespace tensord::model_internal {

enum class OptionKind : uint8_t {
  kBool,
  kInteger,
  kReal,   // a whole number will do
  kText,   // one of `words`
  kSizes,  // a list of whole numbers, or one number for all
};

// One option of a layer type.
struct OptionRow {
  std::string_view name;
  OptionKind kind = OptionKind::kInteger;
  bool required = false;
  double number = 0;           // default of a bool, integer, real and of every size
  std::string_view text = {};  // default of a text
  int64_t least = 0;           // smallest integer, real or size
  int64_t most = INT64_MAX;    // largest integer or real
  int count = 0;               // sizes: how many; 0: one or more, as given
  bool none = false;           // may be None, which is its default
  std::string_view words = {};
};

// Where a layer stands: for messages and field paths.
struct LayerPlace {
  std::string_view type;
  std::string_view field;  // "layers.layers[0]"
};

// LAYER_INVALID with metadata type and option.
absl::Status LayerInvalid(const LayerPlace& place, std::string_view option, std::string_view problem);

// A layer's options, checked against its rows. The rows and the layer must outlive it.
class Options {
 public:
  // Errors: LAYER_INVALID for an unknown option (with the nearest), a missing one, another kind, a value out of range.
  static absl::StatusOr<Options> Read(const LayerPlace& place, const Layer& layer, absl::Span<const OptionRow> rows);

  bool Bool(std::string_view name) const;
  int64_t Integer(std::string_view name) const;
  double Real(std::string_view name) const;
  std::string_view Text(std::string_view name) const;
  // As many as the row says. Empty where the option may be None and was left out.
  Dims Sizes(std::string_view name) const;

 private:
  Options(const Layer& layer, absl::Span<const OptionRow> rows) : layer_(&layer), rows_(rows) {}
  const OptionRow& RowNamed(std::string_view name) const;
  // Null where it was left out.
  const LayerOption* Given(std::string_view name) const;

  const Layer* layer_;
  absl::Span<const OptionRow> rows_;
};

}  // namespace tensord::model_internal
