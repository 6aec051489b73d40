// Names that are built in: dtypes, constants and modules.
#pragma once

#include <optional>
#include <string_view>

#include "client/cpp/expr/value.h"

namespace tensord::expr {

// float32, inf, nan, pi, newaxis, torch, nn, …; empty for others.
std::optional<Value> BuiltInValue(std::string_view name);
// A name that cannot be assigned.
inline bool IsBuiltInName(std::string_view name) { return BuiltInValue(name).has_value(); }
// torch.float32, torch.nn, nn.functional, torch.cuda, …: what a module has under a name. Functions and layers among it.
std::optional<Value> ModuleMember(std::string_view module, std::string_view name);

}  // namespace tensord::expr
