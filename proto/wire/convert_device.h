// Devices (device.proto). See convert.h.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/engine/types.h"
#include "tensord/v1/device.pb.h"

namespace tensord::wire {

// Which devices: names, UUIDs or PCI bus ids; empty for all.
struct DeviceQuery {
  std::vector<std::string> devices;
  bool with_holders = false;
  bool operator==(const DeviceQuery&) const = default;
};

struct DeviceWatch {
  DeviceQuery query;
  absl::Duration interval = absl::Seconds(1);
};

// One sample of a watch.
struct DeviceSample {
  absl::Time time;
  std::vector<DeviceDescription> devices;
};

absl::StatusOr<DeviceQuery> FromProto(const v1::ListDevicesRequest& proto);
v1::ListDevicesRequest ToProto(const DeviceQuery& query);
// Error for an interval outside 100 ms to 1 h: FIELD_INVALID.
absl::StatusOr<DeviceWatch> FromProto(const v1::WatchDevicesRequest& proto);
v1::WatchDevicesRequest ToProto(const DeviceWatch& watch);
// The devices; empty for all.
absl::StatusOr<std::vector<std::string>> FromProto(const v1::TrimMemoryRequest& proto);
v1::TrimMemoryRequest TrimMemoryRequestToProto(const std::vector<std::string>& devices);

absl::StatusOr<ListDevicesResponse> FromProto(const v1::ListDevicesResponse& proto);
v1::ListDevicesResponse ToProto(const ListDevicesResponse& response);
absl::StatusOr<DeviceSample> FromProto(const v1::WatchDevicesResponse& proto);
v1::WatchDevicesResponse ToProto(const DeviceSample& sample);
// Bytes given back.
absl::StatusOr<uint64_t> FromProto(const v1::TrimMemoryResponse& proto);
v1::TrimMemoryResponse TrimMemoryResponseToProto(uint64_t released_bytes);

// Error for a kind of device that this version does not know: DEVICE_UNKNOWN.
absl::StatusOr<DeviceDescription> FromProto(const v1::Device& proto);
v1::Device ToProto(const DeviceDescription& device);
absl::StatusOr<HostDescription> FromProto(const v1::Host& proto);
v1::Host ToProto(const HostDescription& host);

}  // namespace tensord::wire
