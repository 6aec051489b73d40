// Devices and the op table.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "kernels/core/error.h"
#include "server/engine/engine_impl.h"

namespace tensord {
namespace {

// Holders that a list names.
constexpr size_t kListedHolders = 63;

}  // namespace

absl::StatusOr<std::vector<Device*>> EngineImpl::FindDevices(const std::vector<std::string>& names) const {
  std::vector<Device*> found;
  if (names.empty()) {
    for (const auto& device : core_->devices.all()) found.push_back(device.get());
    return found;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    absl::StatusOr<Device*> device = core_->devices.FindByAnyName(names[i]);
    if (!device.ok()) {
      const ErrorDetails details = DetailsOf(device.status());
      return Error(Reason::kDeviceUnknown)
          .With("device", details.Get("device"))
          .With("known", details.Get("known"))
          .At(StrCat("devices[", i, "]"));
    }
    if (std::find(found.begin(), found.end(), *device) == found.end()) found.push_back(*device);
  }
  std::sort(found.begin(), found.end(), [](const Device* a, const Device* b) { return a->index() < b->index(); });
  return found;
}

absl::StatusOr<ListDevicesResponse> EngineImpl::ListDevices(const Caller& caller,
                                                            const std::vector<std::string>& devices,
                                                            bool with_holders) {
  TENSORD_RETURN_IF_ERROR(core_->Enter(caller).status());
  TENSORD_ASSIGN_OR_RETURN(const std::vector<Device*> found, FindDevices(devices));
  ListDevicesResponse response;
  for (Device* device : found) {
    DeviceDescription& description = response.devices.emplace_back();
    Backend& backend = device->backend();
    description.info = backend.Info();
    description.memory = device->memory().Stats();
    // No lock is held: a sick device may take its time. A lost one is left alone.
    if (!device->lost()) description.telemetry = backend.Telemetry();
    // After the telemetry, which may be what finds a loss.
    description.health = device->Health();
    if (with_holders) {
      description.holders = core_->accounts.Holders(device->index(), caller.principal, kListedHolders);
    } else {
      description.telemetry.processes.clear();
    }
    for (int d = 1; d < kDtypeCount; ++d) {
      const auto dtype = static_cast<Dtype>(d);
      if (backend.Supports(Op::kCast, dtype)) description.dtypes.push_back(dtype);
    }
    description.queued_instructions = device->executor().queued();
  }
  char hostname[256] = {};
  if (gethostname(hostname, sizeof(hostname) - 1) == 0) response.host.hostname = hostname;
  response.host.daemon_version = core_->options.daemon_version;
  response.host.incarnation = core_->incarnation;
  response.host.start_time = core_->start_time;
  for (const auto& device : core_->devices.all()) {
    const DeviceInfo& info = device->backend().Info();
    if (info.driver_version) response.host.driver_version = info.driver_version;
    if (info.cuda_version) response.host.cuda_version = info.cuda_version;
  }
  return response;
}

absl::StatusOr<uint64_t> EngineImpl::TrimMemory(const Caller& caller, const std::vector<std::string>& devices) {
  TENSORD_RETURN_IF_ERROR(core_->Enter(caller).status());
  TENSORD_ASSIGN_OR_RETURN(const std::vector<Device*> found, FindDevices(devices));
  uint64_t released = 0;
  for (Device* device : found) released += device->memory().Trim();
  return released;
}

absl::StatusOr<std::vector<OpDescription>> EngineImpl::ListOps(const Caller& caller, const std::string& prefix) {
  TENSORD_RETURN_IF_ERROR(core_->Enter(caller).status());
  std::vector<OpDescription> ops;
  for (int i = 1; i <= kOpCount; ++i) {
    const OpRow& row = RowOf(static_cast<Op>(i));
    if (!row.name.starts_with(prefix)) continue;
    OpDescription description;
    description.op = row.op;
    // What the engine does with layouts and copies it does for every dtype that a device holds.
    const bool by_engine = row.family == Family::kView || row.family == Family::kCall || row.op == Op::kTo ||
                           row.op == Op::kUpload || row.op == Op::kConstant;
    for (const auto& device : core_->devices.all()) {
      const DeviceKind kind = device->id().kind;
      const auto known = std::find_if(description.support.begin(), description.support.end(),
                                      [&](const OpSupport& support) { return support.kind == kind; });
      if (known != description.support.end()) continue;
      OpSupport support;
      support.kind = kind;
      for (int d = 1; d < kDtypeCount; ++d) {
        const auto dtype = static_cast<Dtype>(d);
        if (device->backend().Supports(by_engine ? Op::kCast : row.op, dtype)) support.dtypes.push_back(dtype);
      }
      description.support.push_back(std::move(support));
    }
    ops.push_back(std::move(description));
  }
  std::sort(ops.begin(), ops.end(),
            [](const OpDescription& a, const OpDescription& b) { return RowOf(a.op).name < RowOf(b.op).name; });
  return ops;
}

}  // namespace tensord
