// Where an instruction runs: the one device of its operands, or the device it names.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/core/shape.h"
#include "kernels/ops/program.h"

namespace tensord {

// A tensor operand as placement sees it.
struct PlacedOperand {
  const TensorSpec* spec = nullptr;  // null: a scalar, or left out
  std::string_view name;             // published name or label of the instruction that made it; may be empty
};

// Turns a device's text into a device that exists. Error: DEVICE_UNKNOWN with the list.
using DeviceResolver = std::function<absl::StatusOr<DeviceId>(std::string_view)>;

// The device an instruction runs on, which is its results' device. Operands on different devices are refused whatever
// their rank: DEVICE_MISMATCH names both, and the call that mends it ("fix" is `to(1, cuda:0)`, the message says
// `Y.to("cuda:0")`).
absl::StatusOr<DeviceId> Place(const Instruction& instruction, absl::Span<const PlacedOperand> operands,
                               const DeviceResolver& resolve);

}  // namespace tensord
