#include "client/cpp/emit.h"

#include <utility>
#include <variant>

#include "kernels/core/error.h"
#include "kernels/ops/infer.h"
#include "kernels/ops/placement.h"

namespace tensord {
namespace {

// Only the daemon knows which devices there are; here a device is what its name says.
absl::StatusOr<DeviceId> ResolveByName(std::string_view device) {
  if (const std::optional<DeviceId> id = DeviceId::Parse(device)) return *id;
  return Error(Reason::kDeviceUnknown).With("device", device).With("known", "cpu, cuda:N");
}

Scalar ToScalar(const client::Operand& operand) {
  struct Visitor {
    Scalar operator()(std::monostate) const { return {}; }
    Scalar operator()(const client::Tensor&) const { return {}; }
    Scalar operator()(bool v) const { return {.value = v}; }
    Scalar operator()(int64_t v) const { return {.value = v}; }
    Scalar operator()(uint64_t v) const {
      if (v <= static_cast<uint64_t>(INT64_MAX)) return {.value = static_cast<int64_t>(v)};
      return {.value = v};
    }
    Scalar operator()(double v) const { return {.value = v}; }
  };
  return std::visit(Visitor(), operand.value);
}

// What the instruction will make, as far as it is known here; the same rules as the daemon's.
std::optional<absl::StatusOr<TensorSpec>> Predict(const Instruction& instruction,
                                                  const std::vector<client::Operand>& operands, size_t count) {
  if (instruction.op == Op::kCall) return std::nullopt;
  std::vector<TensorSpec> specs(count);
  std::vector<OperandType> types(count);
  std::vector<PlacedOperand> placed(count);
  size_t scalar = 0;
  for (size_t i = 0; i < count; ++i) {
    if (const auto* tensor = std::get_if<client::Tensor>(&operands[i].value)) {
      const auto known = tensor->handle()->known();
      if (!known || !known->ok()) return known;  // a failed operand fails the result for the same reason
      specs[i] = **known;
      types[i].tensor = &specs[i].type;
      placed[i].spec = &specs[i];
    } else {
      types[i].scalar = &instruction.scalars[scalar++];
    }
  }
  absl::StatusOr<Inference> inference = Infer(instruction, types);
  if (!inference.ok()) return inference.status();
  absl::StatusOr<DeviceId> device = Place(instruction, placed, ResolveByName);
  if (!device.ok()) return device.status();
  return TensorSpec{inference->outputs[0], *device};
}

}  // namespace

client::Tensor Failed(absl::Status status) { return client::Tensor(std::make_shared<TensorHandle>(std::move(status))); }

client::Tensor Emit(Op op, const std::vector<client::Operand>& operands, Attributes attributes,
                    std::shared_ptr<ClientSession> session) {
  size_t count = operands.size();
  while (count > 0 && std::holds_alternative<std::monostate>(operands[count - 1].value)) --count;
  Instruction instruction;
  instruction.op = op;
  instruction.attributes = std::move(attributes);
  for (size_t i = 0; i < count; ++i) {
    const auto* tensor = std::get_if<client::Tensor>(&operands[i].value);
    if (tensor == nullptr) {
      instruction.inputs.push_back(0);
      instruction.scalars.push_back(ToScalar(operands[i]));
      continue;
    }
    const std::shared_ptr<TensorHandle>& handle = tensor->handle();
    if (!handle->session()) return *tensor;  // the same failure again
    if (session && session != handle->session()) {
      return Failed(Error(Reason::kHandleUnknown)
                        .With("kind", "tensor")
                        .With("id", handle->id())
                        .With("state", "it belongs to another session; publish it there and open it here"));
    }
    session = handle->session();
    instruction.inputs.push_back(handle->id());
  }
  if (!session) return Failed(absl::FailedPreconditionError(StrCat(RowOf(op).name, ": no operand is a tensor")));
  auto spec = Predict(instruction, operands, count);
  instruction.output = session->NewIds();
  auto handle = std::make_shared<TensorHandle>(session, instruction.output, std::move(spec));
  session->Submit(std::move(instruction));
  return client::Tensor(std::move(handle));
}

absl::StatusOr<TensorSpec> SpecOf(const client::Tensor& tensor) {
  const std::shared_ptr<TensorHandle>& handle = tensor.handle();
  if (auto known = handle->known()) return *std::move(known);
  absl::StatusOr<ReadReply> reply = handle->session()->Read(handle->id(), ValueFormat::kNone);
  absl::StatusOr<TensorSpec> spec = absl::InternalError("a reply without the tensor's spec");
  if (!reply.ok()) {
    spec = reply.status();
  } else if (reply->spec) {
    spec = *reply->spec;
  }
  // A lost session is not what is known of a tensor.
  if (spec.ok()) handle->Learn(spec);
  return spec;
}

}  // namespace tensord
