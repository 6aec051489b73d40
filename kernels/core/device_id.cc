#include "kernels/core/device_id.h"

#include <charconv>

namespace tensord {

std::string_view DeviceKindName(DeviceKind kind) { return kind == DeviceKind::kCpu ? "cpu" : "cuda"; }

std::string DeviceId::ToString() const {
  if (kind == DeviceKind::kCpu) return "cpu";
  return "cuda:" + std::to_string(index);
}

std::optional<DeviceId> DeviceId::Parse(std::string_view text) {
  if (text.empty() || text == "cpu" || text == "cpu:0") return DeviceId{};
  if (text == "cuda") return DeviceId{DeviceKind::kCuda, 0};
  constexpr std::string_view kPrefix = "cuda:";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  uint32_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return DeviceId{DeviceKind::kCuda, index};
}

}  // namespace tensord
