// The contract a device implements. One Backend object is one device; `main.cc` makes them, the engine owns and drives
// them.
//
// Work goes to streams: Run, Copy* enqueue on one and may return before the work is done; Synchronize waits. The CPU
// (and what stands on it) does the work before Run returns. Nobody outside a backend dereferences device memory, unless
// `host_addressable()`.
//
// Threading: Run, Copy* and Synchronize of one stream are called by one thread at a time (the device's executor).
// Upload, Download, Info, Telemetry and memory() may be called by any thread at any time.
//
// A failed call leaves its outputs undefined and the device usable, except after DEVICE_LOST, which every later call
// repeats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/core/memory_resource.h"
#include "kernels/core/scalar.h"
#include "kernels/core/tensor_view.h"
#include "kernels/ops/program.h"

namespace tensord {

// What a device is. Empty strings and nullopt: it cannot tell.
struct DeviceInfo {
  DeviceId id;
  std::string model;  // product name
  std::optional<std::string> uuid;
  std::optional<std::string> pci_bus_id;
  std::optional<int32_t> numa_node;
  std::optional<std::string> driver_version;
  std::optional<std::string> cuda_version;
  std::optional<std::string> compute_capability;
  std::optional<uint32_t> compute_units;  // multiprocessors, or cores the daemon may use
  std::vector<std::string> features;      // "x86-64-v3", "amx-bf16"
  std::vector<DeviceId> peers;            // devices that copy directly
  bool emulated = false;
};

// What sensors tell, every field or none.
struct DeviceTelemetry {
  std::optional<float> utilization_percent;
  std::optional<float> memory_utilization_percent;
  std::optional<float> temperature_celsius;
  std::optional<float> power_watts;
  std::optional<float> power_limit_watts;
  std::optional<float> fan_percent;
  std::optional<uint32_t> clock_mhz;
  std::optional<uint32_t> memory_clock_mhz;
  std::optional<uint32_t> performance_state;
  std::optional<uint64_t> ecc_uncorrected;
  std::optional<std::string> mig_mode;
  std::optional<float> load_average;
  struct Process {
    uint32_t pid = 0;
    std::optional<std::string> name;
    std::optional<uint64_t> used_bytes;
  };
  std::vector<Process> processes;
};

// An operand: a tensor, a scalar, or (both null) left out. Tensors of other strides than contiguous are allowed for
// every op.
struct KernelOperand {
  const TensorView* tensor = nullptr;
  const Scalar* scalar = nullptr;
  bool absent() const { return tensor == nullptr && (scalar == nullptr || scalar->absent()); }
};

// One instruction, checked and ready: shapes inferred, devices equal, outputs allocated.
// Views, `to`, `upload`, `constant` and `call` never arrive here: the engine does them with layouts and copies. A plain
// copy to contiguous memory is Op::kCast with input and output of one dtype.
struct KernelCall {
  Op op = Op::kNone;
  const Attributes* attributes = nullptr;  // never null
  Dtype compute = Dtype::kNone;            // Inference::compute
  absl::Span<const KernelOperand> inputs;
  // Contiguous; shape and dtype as inferred. An output may have the memory of an input of the same bytes and layout
  // where the op is elementwise.
  absl::Span<const TensorView> outputs;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const DeviceInfo& Info() const = 0;
  // May block for a while on a sick device.
  virtual DeviceTelemetry Telemetry() = 0;
  // OK while the device takes work; DEVICE_LOST or DEVICE_RECOVERING otherwise.
  virtual absl::Status Health() = 0;

  // The device's raw memory: no cache, no limit. The engine puts its stack on top.
  virtual MemoryResource& memory() = 0;
  // True where device memory is ordinary memory of this process.
  virtual bool host_addressable() const = 0;

  // True where the device has a kernel for the op with this compute dtype.
  virtual bool Supports(Op op, Dtype compute) const = 0;

  // A new stream, or the default one. Streams live as long as the backend.
  virtual StreamId default_stream() const = 0;

  // Runs one call. `scratch` gives temporary memory on the same stream.
  // Errors: OP_UNSUPPORTED, INDEX_OUT_OF_RANGE (values that only running can see), MEMORY_EXHAUSTED (scratch),
  // DEVICE_LOST, INTERNAL.
  virtual absl::Status Run(const KernelCall& call, StreamId stream, MemoryResource& scratch) = 0;

  // Contiguous bytes from host memory to the device and back; done when they return. Ordered after what `stream` holds.
  virtual absl::Status Upload(void* device, const void* host, size_t bytes, StreamId stream) = 0;
  virtual absl::Status Download(void* host, const void* device, size_t bytes, StreamId stream) = 0;
  // Contiguous bytes from another backend's memory to this one's; the source is ready. Falls back through the host
  // where the two are not peers.
  virtual absl::Status CopyFrom(Backend& source, const void* source_data, void* data, size_t bytes,
                                StreamId stream) = 0;
  // Waits for everything on the stream.
  virtual absl::Status Synchronize(StreamId stream) = 0;
};

}  // namespace tensord
