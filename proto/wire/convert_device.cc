#include "proto/wire/convert_device.h"

#include <algorithm>
#include <utility>

#include "kernels/core/error.h"
#include "proto/wire/parts.h"

namespace tensord::wire {
namespace {

// Optional fields go over only if set: FIELD of proto <-> member of domain.
#define TENSORD_WIRE_SET(field, value) \
  if (value) proto->set_##field(*(value))
#define TENSORD_WIRE_GET(field, value) \
  if (proto.has_##field()) (value) = proto.field()

uint64_t Bytes(int64_t value) { return static_cast<uint64_t>(std::max<int64_t>(value, 0)); }
int64_t Signed(uint64_t value) { return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX)); }

void EncodeMemory(const MemoryStats& stats, v1::MemoryPool* proto) {
  proto->set_kind(v1::MEMORY_KIND_DEVICE);
  proto->set_total_bytes(Bytes(stats.total));
  if (stats.free >= 0) proto->set_used_bytes(Bytes(stats.total - stats.free));
  proto->set_allocated_bytes(Bytes(stats.used));
  proto->set_cached_bytes(Bytes(stats.cached));
  proto->set_peak_bytes(Bytes(stats.peak));
  proto->set_limit_bytes(Bytes(stats.limit));
  proto->set_largest_free_bytes(Bytes(stats.largest_free));
}

MemoryStats DecodeMemory(const v1::MemoryPool& proto) {
  MemoryStats stats;
  stats.total = Signed(proto.total_bytes());
  if (proto.has_used_bytes()) stats.free = std::max<int64_t>(stats.total - Signed(proto.used_bytes()), 0);
  stats.used = Signed(proto.allocated_bytes());
  stats.cached = Signed(proto.cached_bytes());
  stats.peak = Signed(proto.peak_bytes());
  stats.limit = Signed(proto.limit_bytes());
  stats.largest_free = Signed(proto.largest_free_bytes());
  return stats;
}

void EncodeTelemetry(const DeviceTelemetry& telemetry, v1::DeviceTelemetry* proto) {
  TENSORD_WIRE_SET(utilization_percent, telemetry.utilization_percent);
  TENSORD_WIRE_SET(memory_utilization_percent, telemetry.memory_utilization_percent);
  TENSORD_WIRE_SET(temperature_celsius, telemetry.temperature_celsius);
  TENSORD_WIRE_SET(power_watts, telemetry.power_watts);
  TENSORD_WIRE_SET(power_limit_watts, telemetry.power_limit_watts);
  TENSORD_WIRE_SET(fan_percent, telemetry.fan_percent);
  TENSORD_WIRE_SET(clock_mhz, telemetry.clock_mhz);
  TENSORD_WIRE_SET(memory_clock_mhz, telemetry.memory_clock_mhz);
  TENSORD_WIRE_SET(performance_state, telemetry.performance_state);
  TENSORD_WIRE_SET(ecc_uncorrected, telemetry.ecc_uncorrected);
  TENSORD_WIRE_SET(mig_mode, telemetry.mig_mode);
  TENSORD_WIRE_SET(load_average, telemetry.load_average);
}

void DecodeTelemetry(const v1::DeviceTelemetry& proto, DeviceTelemetry& telemetry) {
  TENSORD_WIRE_GET(utilization_percent, telemetry.utilization_percent);
  TENSORD_WIRE_GET(memory_utilization_percent, telemetry.memory_utilization_percent);
  TENSORD_WIRE_GET(temperature_celsius, telemetry.temperature_celsius);
  TENSORD_WIRE_GET(power_watts, telemetry.power_watts);
  TENSORD_WIRE_GET(power_limit_watts, telemetry.power_limit_watts);
  TENSORD_WIRE_GET(fan_percent, telemetry.fan_percent);
  TENSORD_WIRE_GET(clock_mhz, telemetry.clock_mhz);
  TENSORD_WIRE_GET(memory_clock_mhz, telemetry.memory_clock_mhz);
  TENSORD_WIRE_GET(performance_state, telemetry.performance_state);
  TENSORD_WIRE_GET(ecc_uncorrected, telemetry.ecc_uncorrected);
  TENSORD_WIRE_GET(mig_mode, telemetry.mig_mode);
  TENSORD_WIRE_GET(load_average, telemetry.load_average);
}

void EncodeProcess(const DeviceTelemetry::Process& process, v1::DeviceProcess* proto) {
  proto->set_pid(process.pid);
  TENSORD_WIRE_SET(name, process.name);
  TENSORD_WIRE_SET(used_bytes, process.used_bytes);
}

DeviceTelemetry::Process DecodeProcess(const v1::DeviceProcess& proto) {
  DeviceTelemetry::Process process;
  process.pid = proto.pid();
  TENSORD_WIRE_GET(name, process.name);
  TENSORD_WIRE_GET(used_bytes, process.used_bytes);
  return process;
}

void EncodeCapabilities(const DeviceDescription& device, v1::DeviceCapabilities* proto) {
  for (const Dtype dtype : device.dtypes) proto->add_dtypes(EncodeDtype(dtype));
  for (const DeviceId peer : device.info.peers) proto->add_peers(peer.ToString());
  TENSORD_WIRE_SET(compute_capability, device.info.compute_capability);
  TENSORD_WIRE_SET(compute_units, device.info.compute_units);
  for (const std::string& feature : device.info.features) proto->add_features(feature);
}

void DecodeCapabilities(const v1::DeviceCapabilities& proto, DeviceDescription& device) {
  for (const int dtype : proto.dtypes()) {
    if (const Dtype known = DecodeDtype(dtype); known != Dtype::kNone) device.dtypes.push_back(known);
  }
  for (const std::string& peer : proto.peers()) {
    if (const auto id = DecodeDevice(peer)) device.info.peers.push_back(*id);
  }
  TENSORD_WIRE_GET(compute_capability, device.info.compute_capability);
  TENSORD_WIRE_GET(compute_units, device.info.compute_units);
  device.info.features = CopyOf<std::vector<std::string>>(proto.features());
}

// Health is a number and a text on the wire, a status here.
void EncodeHealth(const absl::Status& health, v1::Device* proto) {
  proto->set_health(health.ok()                                     ? v1::DEVICE_HEALTH_SERVING
                    : ReasonOf(health) == Reason::kDeviceRecovering ? v1::DEVICE_HEALTH_RECOVERING
                                                                    : v1::DEVICE_HEALTH_LOST);
  if (!health.ok()) proto->set_health_message(std::string(health.message()));
}

absl::Status DecodeHealth(const v1::Device& proto) {
  if (proto.health() != v1::DEVICE_HEALTH_RECOVERING && proto.health() != v1::DEVICE_HEALTH_LOST)
    return absl::OkStatus();
  const bool lost = proto.health() == v1::DEVICE_HEALTH_LOST;
  ErrorDetails details;
  details.reason = lost ? Reason::kDeviceLost : Reason::kDeviceRecovering;
  details.reason_name = RowOf(details.reason).name;
  details.metadata.emplace_back("device", proto.name());
  return StatusWithDetails(RowOf(details.reason).code, proto.health_message(), details);
}

template <class P>
absl::StatusOr<DeviceQuery> DecodeQuery(const P& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  return DeviceQuery{CopyOf<std::vector<std::string>>(proto.devices()), proto.with_holders()};
}

// Kinds of device that this version does not know are left out.
std::vector<DeviceDescription> DecodeDevices(const google::protobuf::RepeatedPtrField<v1::Device>& protos) {
  std::vector<DeviceDescription> devices;
  for (const v1::Device& proto : protos) {
    if (auto device = FromProto(proto); device.ok()) devices.push_back(*std::move(device));
  }
  return devices;
}

}  // namespace

absl::StatusOr<DeviceQuery> FromProto(const v1::ListDevicesRequest& proto) { return DecodeQuery(proto); }

v1::ListDevicesRequest ToProto(const DeviceQuery& query) {
  v1::ListDevicesRequest proto;
  for (const std::string& device : query.devices) proto.add_devices(device);
  proto.set_with_holders(query.with_holders);
  return proto;
}

absl::StatusOr<DeviceWatch> FromProto(const v1::WatchDevicesRequest& proto) {
  DeviceWatch watch;
  TENSORD_ASSIGN_OR_RETURN(watch.query, DecodeQuery(proto));
  if (proto.has_interval()) {
    TENSORD_ASSIGN_OR_RETURN(watch.interval, RequestDuration(proto.interval(), "interval"));
    if (watch.interval < absl::Milliseconds(100) || watch.interval > absl::Hours(1)) {
      return FieldInvalid("interval", std::string(absl::FormatDuration(watch.interval)), "100 ms to 1 h");
    }
  }
  return watch;
}

v1::WatchDevicesRequest ToProto(const DeviceWatch& watch) {
  v1::WatchDevicesRequest proto;
  for (const std::string& device : watch.query.devices) proto.add_devices(device);
  proto.set_with_holders(watch.query.with_holders);
  *proto.mutable_interval() = EncodeDuration(watch.interval);
  return proto;
}

absl::StatusOr<std::vector<std::string>> FromProto(const v1::TrimMemoryRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  return CopyOf<std::vector<std::string>>(proto.devices());
}

v1::TrimMemoryRequest TrimMemoryRequestToProto(const std::vector<std::string>& devices) {
  v1::TrimMemoryRequest proto;
  for (const std::string& device : devices) proto.add_devices(device);
  return proto;
}

absl::StatusOr<ListDevicesResponse> FromProto(const v1::ListDevicesResponse& proto) {
  ListDevicesResponse response;
  response.devices = DecodeDevices(proto.devices());
  TENSORD_ASSIGN_OR_RETURN(response.host, FromProto(proto.host()));
  return response;
}

v1::ListDevicesResponse ToProto(const ListDevicesResponse& response) {
  v1::ListDevicesResponse proto;
  for (const DeviceDescription& device : response.devices) *proto.add_devices() = ToProto(device);
  *proto.mutable_host() = ToProto(response.host);
  return proto;
}

absl::StatusOr<DeviceSample> FromProto(const v1::WatchDevicesResponse& proto) {
  return DeviceSample{DecodeTime(proto.time()), DecodeDevices(proto.devices())};
}

v1::WatchDevicesResponse ToProto(const DeviceSample& sample) {
  v1::WatchDevicesResponse proto;
  *proto.mutable_time() = EncodeTime(sample.time);
  for (const DeviceDescription& device : sample.devices) *proto.add_devices() = ToProto(device);
  return proto;
}

absl::StatusOr<uint64_t> FromProto(const v1::TrimMemoryResponse& proto) { return uint64_t{proto.released_bytes()}; }

v1::TrimMemoryResponse TrimMemoryResponseToProto(uint64_t released_bytes) {
  v1::TrimMemoryResponse proto;
  proto.set_released_bytes(released_bytes);
  return proto;
}

absl::StatusOr<DeviceDescription> FromProto(const v1::Device& proto) {
  const auto id = DecodeDevice(proto.name());
  if (!id) return Error(Reason::kDeviceUnknown).With("device", proto.name()).With("known", "cpu, cuda").At("name");
  DeviceDescription device;
  device.info.id = *id;
  device.info.model = proto.model();
  TENSORD_WIRE_GET(uuid, device.info.uuid);
  TENSORD_WIRE_GET(pci_bus_id, device.info.pci_bus_id);
  TENSORD_WIRE_GET(numa_node, device.info.numa_node);
  device.info.emulated = proto.emulated();
  device.health = DecodeHealth(proto);
  for (const v1::MemoryPool& pool : proto.memory()) {
    if (pool.kind() == v1::MEMORY_KIND_DEVICE) device.memory = DecodeMemory(pool);
  }
  for (const v1::MemoryHolder& holder : proto.holders()) device.holders.push_back(DecodeHolder<MemoryHolder>(holder));
  DecodeCapabilities(proto.capabilities(), device);
  DecodeTelemetry(proto.telemetry(), device.telemetry);
  for (const v1::DeviceProcess& process : proto.processes())
    device.telemetry.processes.push_back(DecodeProcess(process));
  device.queued_instructions = proto.queued_instructions();
  return device;
}

v1::Device ToProto(const DeviceDescription& device) {
  v1::Device message;
  v1::Device* proto = &message;
  proto->set_name(device.info.id.ToString());
  proto->set_kind(std::string(DeviceKindName(device.info.id.kind)));
  proto->set_index(device.info.id.index);
  proto->set_model(device.info.model);
  TENSORD_WIRE_SET(uuid, device.info.uuid);
  TENSORD_WIRE_SET(pci_bus_id, device.info.pci_bus_id);
  TENSORD_WIRE_SET(numa_node, device.info.numa_node);
  proto->set_emulated(device.info.emulated);
  EncodeHealth(device.health, proto);
  EncodeMemory(device.memory, proto->add_memory());
  for (const MemoryHolder& holder : device.holders) EncodeHolder(holder, proto->add_holders());
  for (const auto& process : device.telemetry.processes) EncodeProcess(process, proto->add_processes());
  EncodeCapabilities(device, proto->mutable_capabilities());
  EncodeTelemetry(device.telemetry, proto->mutable_telemetry());
  // Absent where no sensor answers.
  if (proto->telemetry().ByteSizeLong() == 0) proto->clear_telemetry();
  proto->set_queued_instructions(device.queued_instructions);
  return message;
}

absl::StatusOr<HostDescription> FromProto(const v1::Host& proto) {
  HostDescription host;
  host.hostname = proto.hostname();
  host.daemon_version = proto.daemon_version();
  host.incarnation = proto.incarnation();
  host.start_time = DecodeTime(proto.start_time());
  TENSORD_WIRE_GET(driver_version, host.driver_version);
  TENSORD_WIRE_GET(cuda_version, host.cuda_version);
  return host;
}

v1::Host ToProto(const HostDescription& host) {
  v1::Host message;
  v1::Host* proto = &message;
  proto->set_hostname(host.hostname);
  proto->set_daemon_version(host.daemon_version);
  proto->set_incarnation(host.incarnation);
  *proto->mutable_start_time() = EncodeTime(host.start_time);
  TENSORD_WIRE_SET(driver_version, host.driver_version);
  TENSORD_WIRE_SET(cuda_version, host.cuda_version);
  return message;
}

}  // namespace tensord::wire
