#include "kernels/ops/placement.h"

#include "kernels/core/error.h"

namespace tensord {
namespace {

// Labels may be long; a message shows their beginning.
std::string ShownName(std::string_view name) {
  constexpr size_t kLongest = 64;
  if (name.size() <= kLongest) return std::string(name);
  size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0u) == 0x80u) --end;  // between characters of UTF-8
  return StrCat(name.substr(0, end), "…");
}

// "Y, float32[2,3]", or the type alone.
std::string OperandText(const PlacedOperand& operand) {
  const std::string type = operand.spec->type.ToString();
  return operand.name.empty() ? type : StrCat(ShownName(operand.name), ", ", type);
}

absl::Status RefuseDevices(const OpRow& row, absl::Span<const PlacedOperand> operands, size_t other, size_t offending) {
  const PlacedOperand& a = operands[other];
  const PlacedOperand& b = operands[offending];
  const std::string there = a.spec->device.ToString();
  const std::string here = b.spec->device.ToString();
  const std::string subject = b.name.empty() ? StrCat("(operand ", offending, ")") : ShownName(b.name);
  return Error(Reason::kDeviceMismatch)
      .With("op", row.name)
      .With("operand", offending)
      .With("devices", StrCat(there, ",", here))
      .With("specs", StrCat(a.spec->type.ToString(), " and ", b.spec->type.ToString()))
      .With("fix", StrCat("to(", offending, ", ", there, ")"))
      .Say("spec", OperandText(b))
      .Say("device", here)
      .Say("other", other)
      .Say("other_spec", OperandText(a))
      .Say("other_device", there)
      .Say("advice", StrCat(subject, ".to(\"", there, "\")"));
}

}  // namespace

absl::StatusOr<DeviceId> Place(const Instruction& instruction, absl::Span<const PlacedOperand> operands,
                               const DeviceResolver& resolve) {
  const OpRow& row = RowOf(instruction.op);
  switch (row.family) {
    case Family::kCreate:
      return resolve(AttributesAs<CreateAttributes>(instruction.attributes).spec.device);
    case Family::kConstant:
      return resolve(AttributesAs<ConstantAttributes>(instruction.attributes).spec.device);
    case Family::kConvert:
      if (instruction.op == Op::kTo) return resolve(AttributesAs<ConvertAttributes>(instruction.attributes).device);
      break;
    default:
      break;
  }
  size_t first = operands.size();
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].spec == nullptr) continue;
    if (first == operands.size()) {
      first = i;
    } else if (operands[i].spec->device != operands[first].spec->device) {
      return RefuseDevices(row, operands, first, i);
    }
  }
  if (first == operands.size()) return resolve("");  // scalars alone
  return operands[first].spec->device;
}

}  // namespace tensord
