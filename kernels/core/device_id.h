// The name of a device: "cpu", "cuda:0". A description only; whether it exists is the engine's to say.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tensord {

enum class DeviceKind : uint8_t { kCpu = 0, kCuda = 1 };

// "cpu", "cuda".
std::string_view DeviceKindName(DeviceKind kind);

// Kind and position among its kind. Ordered "cpu" first, then by index.
struct DeviceId {
  DeviceKind kind = DeviceKind::kCpu;
  uint32_t index = 0;

  auto operator<=>(const DeviceId&) const = default;

  // "cpu", "cuda:1".
  std::string ToString() const;
  // "" and "cpu" are the CPU, "cuda" is "cuda:0". "cpu:0" is the CPU too; empty for anything else, "cpu:1" included.
  static std::optional<DeviceId> Parse(std::string_view text);
};

template <typename H>
H AbslHashValue(H h, const DeviceId& d) {
  return H::combine(std::move(h), d.kind, d.index);
}

}  // namespace tensord
