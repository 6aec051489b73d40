#include "client/cpp/expr/names.h"

#include <array>
#include <cmath>
#include <utility>

#include "client/cpp/expr/functions.h"
#include "kernels/core/text.h"

namespace tensord::expr {
namespace {

// Python's and PyTorch's modules by the names that sessions use, and what each is here.
constexpr auto kModules = std::to_array<std::pair<std::string_view, std::string_view>>({{"torch", "torch"},
                                                                                        {"td", "torch"},
                                                                                        {"tensord", "torch"},
                                                                                        {"np", "torch"},
                                                                                        {"numpy", "torch"},
                                                                                        {"nn", "nn"},
                                                                                        {"F", "functional"}});

// PyTorch's short names of dtypes, as members of torch.
constexpr auto kDtypes = std::to_array<std::pair<std::string_view, Dtype>>({{"float", Dtype::kFloat32},
                                                                            {"double", Dtype::kFloat64},
                                                                            {"half", Dtype::kFloat16},
                                                                            {"short", Dtype::kInt16},
                                                                            {"int", Dtype::kInt32},
                                                                            {"long", Dtype::kInt64}});

}  // namespace

std::optional<Value> BuiltInValue(std::string_view name) {
  if (name != "bool") {
    if (const std::optional<Dtype> dtype = ParseDtype(name)) return Value(*dtype);
  }
  if (name == "inf") return Value(static_cast<double>(HUGE_VAL));
  if (name == "nan") return Value(std::nan(""));
  if (name == "pi") return Value(3.141592653589793);
  if (name == "newaxis") return Value();
  for (const auto& [spelling, module] : kModules) {
    if (spelling == name) return Value(Namespace{std::string(module)});
  }
  return std::nullopt;
}

std::optional<Value> ModuleMember(std::string_view module, std::string_view name) {
  if (module == "nn") {
    if (name == "functional") return Value(Namespace{"functional"});
    return Value(Function{StrCat("nn.", name), nullptr});
  }
  if (module == "cuda") {
    const std::string full = StrCat("cuda.", name);
    return IsFunction(full) ? std::optional(Value(Function{full, nullptr})) : std::nullopt;
  }
  if (module == "torch") {
    if (name == "nn") return Value(Namespace{"nn"});
    if (name == "cuda") return Value(Namespace{"cuda"});
    if (name == "bool") return Value(Dtype::kBool);
    for (const auto& [spelling, dtype] : kDtypes) {
      if (spelling == name) return Value(dtype);
    }
    if (std::optional<Value> value = BuiltInValue(name)) return value;
  }
  if (IsFunction(name)) return Value(Function{std::string(name), nullptr});
  return std::nullopt;
}

}  // namespace tensord::expr
