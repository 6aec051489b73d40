#include "kernels/core/dtype.h"

#include <array>

namespace tensord {
namespace {

constexpr std::array<std::string_view, kDtypeCount> kNames = {
    "none",
#define TENSORD_DTYPE(name, Enum, ctype, number, bytes, Kind) #name,
#include "kernels/core/dtype.def"
#undef TENSORD_DTYPE
};

}  // namespace

std::string_view DtypeName(Dtype dtype) {
  const auto i = static_cast<size_t>(dtype);
  return i < kNames.size() ? kNames[i] : kNames[0];
}

std::optional<Dtype> ParseDtype(std::string_view name) {
  for (size_t i = 1; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

std::string_view KnownDtypes() {
  return "bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64";
}

}  // namespace tensord
