// tensorctl devices.
#include <array>
#include <cstdio>
#include <optional>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "kernels/core/error.h"

namespace tensord::cli {
namespace {

// What a device cannot tell is "-".
std::string Or(const std::optional<std::string>& text) { return text && !text->empty() ? *text : "-"; }

std::string Number(const std::optional<float>& value, const char* format) {
  if (!value) return "-";
  std::array<char, 40> buffer;
  const int n = std::snprintf(buffer.data(), buffer.size(), format, static_cast<double>(*value));
  return {buffer.data(), static_cast<size_t>(n)};
}

// Bytes in use by anybody; where the device cannot tell, by us.
uint64_t UsedBytes(const DeviceDescription& device) {
  const MemoryStats& m = device.memory;
  return static_cast<uint64_t>(m.free >= 0 && m.total >= m.free ? m.total - m.free : m.used);
}

std::string Model(const DeviceDescription& device) {
  std::string text = device.info.model.empty() ? "-" : device.info.model;
  if (device.info.emulated) text += " (emulated)";
  return text;
}

std::string Health(const DeviceDescription& device) {
  if (device.health.ok()) return "ok";
  return ReasonOf(device.health) == Reason::kDeviceRecovering ? "recovering" : "lost";
}

std::string Holder(const MemoryHolder& holder) {
  if (!holder.name.empty()) return holder.name;
  if (!holder.session.empty()) return StrCat("session ", holder.session);
  return "others";
}

void PrintTable(Context& context, const ListDevicesResponse& response) {
  std::vector<std::vector<std::string>> rows{{"DEVICE", "MODEL", "CORES", "UUID", "PCI BUS ID", "DRIVER", "CUDA",
                                              "TEMP", "POWER", "UTIL", "LOAD", "MEMORY USED / TOTAL", "HELD",
                                              "HEALTH"}};
  std::vector<std::vector<std::string>> holders{{"HOLDER", "PRINCIPAL", "DEVICE", "BYTES", "TENSORS"}};
  for (const DeviceDescription& d : response.devices) {
    const std::string name = d.info.id.ToString();
    const std::string power =
        d.telemetry.power_watts && d.telemetry.power_limit_watts
            ? StrCat(Number(d.telemetry.power_watts, "%.0f"), " / ", Number(d.telemetry.power_limit_watts, "%.0f W"))
            : Number(d.telemetry.power_watts, "%.0f W");
    rows.push_back({name, Model(d), d.info.compute_units ? std::to_string(*d.info.compute_units) : "-", Or(d.info.uuid),
                    Or(d.info.pci_bus_id), Or(d.info.driver_version), Or(d.info.cuda_version),
                    Number(d.telemetry.temperature_celsius, "%.0f C"), power,
                    Number(d.telemetry.utilization_percent, "%.0f %%"), Number(d.telemetry.load_average, "%.2f"),
                    StrCat(BytesText(UsedBytes(d)), " / ", BytesText(static_cast<uint64_t>(d.memory.total))),
                    BytesText(static_cast<uint64_t>(d.memory.used)), Health(d)});
    for (const MemoryHolder& h : d.holders) {
      holders.push_back(
          {Holder(h), h.principal.empty() ? "-" : h.principal, name, BytesText(h.bytes), std::to_string(h.tensors)});
    }
  }
  context.Print(Table(rows));
  if (holders.size() > 1) context.Print("\n" + Table(holders));
}

std::string DeviceJson(const DeviceDescription& d) {
  JsonObject memory;
  memory.Number("total_bytes", d.memory.total).Number("used_bytes", UsedBytes(d));
  memory.Raw("free_bytes", d.memory.free >= 0 ? StrCat(d.memory.free) : std::string("null"));
  memory.Number("cached_bytes", d.memory.cached)
      .Number("peak_bytes", d.memory.peak)
      .Number("limit_bytes", d.memory.limit);
  std::vector<std::string> holders;
  for (const MemoryHolder& h : d.holders) {
    JsonObject holder;
    holder.Text("session", h.session).Text("name", h.name).Text("principal", h.principal).Number("bytes", h.bytes);
    holders.push_back(holder.Number("tensors", h.tensors).Done());
  }
  std::vector<std::string> peers, dtypes;
  for (const DeviceId& peer : d.info.peers) peers.push_back(peer.ToString());
  for (const Dtype dtype : d.dtypes) dtypes.emplace_back(DtypeName(dtype));
  const DeviceTelemetry& t = d.telemetry;
  JsonObject telemetry;
  telemetry.MaybeNumber("temperature_celsius", t.temperature_celsius).MaybeNumber("power_watts", t.power_watts);
  telemetry.MaybeNumber("power_limit_watts", t.power_limit_watts)
      .MaybeNumber("utilization_percent", t.utilization_percent);
  telemetry.MaybeNumber("memory_utilization_percent", t.memory_utilization_percent)
      .MaybeNumber("fan_percent", t.fan_percent);
  telemetry.MaybeNumber("clock_mhz", t.clock_mhz).MaybeNumber("memory_clock_mhz", t.memory_clock_mhz);
  telemetry.MaybeNumber("performance_state", t.performance_state).MaybeNumber("ecc_uncorrected", t.ecc_uncorrected);
  telemetry.MaybeText("mig_mode", t.mig_mode).MaybeNumber("load_average", t.load_average);
  JsonObject device;
  device.Text("name", d.info.id.ToString()).Text("model", d.info.model).Bool("emulated", d.info.emulated);
  device.MaybeText("uuid", d.info.uuid)
      .MaybeText("pci_bus_id", d.info.pci_bus_id)
      .MaybeText("driver_version", d.info.driver_version);
  device.MaybeText("cuda_version", d.info.cuda_version).MaybeText("compute_capability", d.info.compute_capability);
  device.MaybeNumber("compute_units", d.info.compute_units).MaybeNumber("numa_node", d.info.numa_node);
  device.Raw("features", JsonTexts(d.info.features)).Raw("peers", JsonTexts(peers)).Raw("dtypes", JsonTexts(dtypes));
  device.Text("health", Health(d));
  if (!d.health.ok()) device.Text("health_message", std::string(d.health.message()));
  device.Raw("memory", memory.Done()).Number("held_bytes", d.memory.used);
  device.Number("queued_instructions", d.queued_instructions).Raw("telemetry", telemetry.Done());
  return device.Raw("holders", JsonList(holders)).Done();
}

void PrintDevicesJson(Context& context, const ListDevicesResponse& response) {
  std::vector<std::string> devices;
  for (const DeviceDescription& d : response.devices) devices.push_back(DeviceJson(d));
  JsonObject host;
  host.Text("hostname", response.host.hostname).Text("daemon_version", response.host.daemon_version);
  host.Number("incarnation", response.host.incarnation).Text("start_time", TimeText(response.host.start_time));
  host.MaybeText("driver_version", response.host.driver_version).MaybeText("cuda_version", response.host.cuda_version);
  context.PrintJson(JsonObject().Raw("devices", JsonList(devices)).Raw("host", host.Done()).Done());
}

}  // namespace

void AddDeviceCommands(const Command& app, Context& context) {
  const Command devices =
      app.Add("devices", "What devices there are, how busy and full they are, and who holds their memory");
  auto names = std::make_shared<std::vector<std::string>>();
  auto short_list = std::make_shared<bool>(false);
  devices.Value("DEVICE", *names, "Names, UUIDs or PCI bus ids; all without any");
  devices.Flag("-L,--list", *short_list, "One line a device: name, model and UUID");
  devices.Footer(
      "Examples:\n  tensorctl devices\n  tensorctl devices cuda:0\n  tensorctl devices -L\n  tensorctl -o json "
      "devices\nWhat a device cannot tell is -.");
  devices.Run([=, &context]() -> absl::Status {
    TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
    TENSORD_ASSIGN_OR_RETURN(const ListDevicesResponse response,
                             engine->ListDevices(context.caller(), *names, !*short_list));
    if (context.json()) {
      PrintDevicesJson(context, response);
    } else if (*short_list) {
      for (const DeviceDescription& d : response.devices) {
        context.Print(StrCat(d.info.id.ToString(), ": ", Model(d), " (UUID: ", Or(d.info.uuid), ")\n"));
      }
    } else {
      PrintTable(context, response);
    }
    return absl::OkStatus();
  });
}

}  // namespace tensord::cli
