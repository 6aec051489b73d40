// Instructions and programs.
#include <limits>
#include <string>
#include <utility>

#include "kernels/core/error.h"
#include "proto/wire/convert_compute.h"
#include "proto/wire/convert_tensor.h"
#include "proto/wire/operation.h"
#include "proto/wire/parts.h"
#include "proto/wire/stream.h"

namespace tensord::wire {
namespace {

absl::Status Arity(std::string_view op, std::string_view expected, std::string_view got, std::string_view path) {
  return Error(Reason::kArityInvalid).With("op", op).With("expected", expected).With("got", got).At(path);
}

absl::Status DecodeOperands(const v1::Instruction& proto, Op op, Instruction& out) {
  const std::string_view name = RowOf(op).name;
  size_t zeros = 0;
  for (const uint64_t id : out.inputs) zeros += id == 0 ? 1 : 0;
  const auto scalars = static_cast<size_t>(proto.scalars_size());
  if (zeros != scalars) {
    return Arity(name, StrCat(zeros, " scalars, one for each 0 in inputs"), StrCat(scalars), "scalars");
  }
  if (scalars == 0) return absl::OkStatus();
  out.scalars.reserve(scalars);
  for (int i = 0; i < proto.scalars_size(); ++i) {
    auto scalar = DecodeScalar(proto.scalars(i));
    if (!scalar.ok()) return Inside(StrCat("scalars[", i, "]"), scalar.status());
    out.scalars.push_back(*std::move(scalar));
  }
  return absl::OkStatus();
}

// An instruction without an op only frees.
absl::Status CheckFreesOnly(const v1::Instruction& proto) {
  if (proto.inputs().empty() && proto.output() == 0 && proto.output_count() == 0 && proto.scalars().empty() &&
      proto.attributes_case() == v1::Instruction::ATTRIBUTES_NOT_SET) {
    return absl::OkStatus();
  }
  return FieldInvalid("op", "not set", "the name of an op, where anything but frees is given");
}

absl::Status DecodeComputation(const v1::Instruction& proto, Op op, Decoder& decoder, Instruction& out) {
  if (decoder.strict) TENSORD_RETURN_IF_ERROR(CheckInstruction(proto));
  if (op == Op::kNone) return decoder.strict ? CheckFreesOnly(proto) : absl::OkStatus();
  TENSORD_RETURN_IF_ERROR(DecodeOperands(proto, op, out));
  // Most instructions have neither, and families without attributes need no look.
  if (proto.attributes_case() == v1::Instruction::ATTRIBUTES_NOT_SET && FamilyAttributes(RowOf(op).family).empty()) {
    return absl::OkStatus();
  }
  TENSORD_ASSIGN_OR_RETURN(out.attributes, DecodeAttributes(proto, op, decoder));
  return absl::OkStatus();
}

std::string InstructionPath(int index) { return StrCat("instructions[", index, "]"); }

}  // namespace

absl::Status DecodeInstruction(const v1::Instruction& proto, const absl::StatusOr<Op>& op, Decoder& decoder,
                               Instruction& out) {
  const uint64_t maximum = decoder.strict ? RequestLimits().max_operands : std::numeric_limits<uint32_t>::max();
  out.output = proto.output();
  out.frees.assign(proto.frees().begin(), proto.frees().end());
  // A label that is too long is refused below; nothing of it is kept.
  if (!decoder.strict || proto.label().size() <= RequestLimits().max_text_bytes) out.label = proto.label();
  if (proto.output_count() <= maximum) out.output_count = proto.output_count();
  if (!op.ok()) return op.status();
  out.op = *op;
  const std::string_view name = RowOf(*op).name;
  if (proto.output_count() > maximum) {
    return Arity(name, StrCat("at most ", maximum, " results"), StrCat(proto.output_count()), "output_count");
  }
  if (static_cast<uint64_t>(proto.inputs_size()) > maximum) {
    return Arity(name, StrCat("at most ", maximum, " operands"), StrCat(proto.inputs_size()), "inputs");
  }
  out.inputs.assign(proto.inputs().begin(), proto.inputs().end());
  const absl::Status status = DecodeComputation(proto, *op, decoder, out);
  if (status.ok() || name.empty()) return status;
  return WithMetadata(status, "op", name);
}

void EncodeInstruction(const Instruction& instruction, v1::Instruction* proto) {
  CopyTo(instruction.inputs, proto->mutable_inputs());
  proto->set_output(instruction.output);
  proto->set_output_count(instruction.output_count);
  if (!instruction.frees.empty()) CopyTo(instruction.frees, proto->mutable_frees());
  for (const Scalar& scalar : instruction.scalars) *proto->add_scalars() = EncodeScalar(scalar);
  if (!instruction.label.empty()) proto->set_label(instruction.label);
  if (!std::holds_alternative<std::monostate>(instruction.attributes)) {
    EncodeAttributes(instruction.attributes, proto);
  }
}

absl::StatusOr<Scalar> DecodeScalar(const v1::Scalar& proto) {
  Scalar scalar;
  scalar.dtype = DecodeDtype(proto.dtype());
  if (IsComplex(scalar.dtype)) return NotOffered("complex scalars");
  switch (proto.value_case()) {
    case v1::Scalar::kBoolean:
      scalar.value = proto.boolean();
      break;
    case v1::Scalar::kInteger:
      scalar.value = int64_t{proto.integer()};
      break;
    case v1::Scalar::kUnsigned:
      // The domain has one form for each number.
      if (proto.unsigned_() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        scalar.value = static_cast<int64_t>(proto.unsigned_());
      } else {
        scalar.value = uint64_t{proto.unsigned_()};
      }
      break;
    case v1::Scalar::kReal:
      scalar.value = proto.real();
      break;
    case v1::Scalar::kComplex:
      return NotOffered("complex scalars");
    case v1::Scalar::kText:
      return NotOffered("text scalars");
    case v1::Scalar::VALUE_NOT_SET:
      break;
  }
  return scalar;
}

v1::Scalar EncodeScalar(const Scalar& scalar) {
  v1::Scalar proto;
  if (const bool* b = std::get_if<bool>(&scalar.value)) {
    proto.set_boolean(*b);
  } else if (const int64_t* i = std::get_if<int64_t>(&scalar.value)) {
    proto.set_integer(*i);
  } else if (const uint64_t* u = std::get_if<uint64_t>(&scalar.value)) {
    proto.set_unsigned_(*u);
  } else if (const double* d = std::get_if<double>(&scalar.value)) {
    proto.set_real(*d);
  }
  proto.set_dtype(EncodeDtype(scalar.dtype));
  return proto;
}

absl::StatusOr<ProgramValue> DecodeValue(const v1::Value& proto, const Decoder& decoder) {
  ProgramValue value;
  if (decoder.strict && proto.kind() != v1::VALUE_KIND_UNSPECIFIED) return NotOffered("sequence and optional values");
  value.name = proto.name();
  value.id = proto.id();
  value.dtype = DecodeDtype(proto.dtype());
  value.optional = proto.optional();
  if (!proto.has_shape()) return value;
  std::vector<int64_t>& shape = value.shape.emplace();
  Dims known;
  for (const v1::Dimension& dimension : proto.shape().dimensions()) {
    switch (dimension.dimension_case()) {
      case v1::Dimension::kSize:
        known.push_back(dimension.size());
        shape.push_back(dimension.size() < 0 ? ProgramValue::kAnySize : dimension.size());
        break;
      case v1::Dimension::kSymbol: {
        size_t k = 0;
        while (k < value.symbols.size() && value.symbols[k] != dimension.symbol()) ++k;
        if (k == value.symbols.size()) value.symbols.push_back(dimension.symbol());
        shape.push_back(-1 - static_cast<int64_t>(k));
        break;
      }
      case v1::Dimension::DIMENSION_NOT_SET:
        shape.push_back(ProgramValue::kAnySize);
        break;
    }
  }
  // What is known must not overflow by itself.
  if (decoder.strict) {
    if (const auto bytes = CheckedBytes(value.dtype == Dtype::kNone ? Dtype::kUint8 : value.dtype, known);
        !bytes.ok()) {
      ErrorDetails details = DetailsOf(bytes.status());
      for (auto& [path, description] : details.fields) path = "shape";
      return StatusWithDetails(bytes.status().code(), std::string(bytes.status().message()), details);
    }
  }
  return value;
}

v1::Value EncodeValue(const ProgramValue& value) {
  v1::Value proto;
  proto.set_name(value.name);
  proto.set_id(value.id);
  proto.set_dtype(EncodeDtype(value.dtype));
  proto.set_optional(value.optional);
  if (!value.shape) return proto;
  v1::SymbolicShape* shape = proto.mutable_shape();
  for (const int64_t size : *value.shape) {
    v1::Dimension* dimension = shape->add_dimensions();
    if (size >= 0) {
      dimension->set_size(size);
    } else if (const auto k = static_cast<uint64_t>(-1 - size); k < value.symbols.size()) {
      dimension->set_symbol(value.symbols[k]);
    }
  }
  return proto;
}

absl::StatusOr<Binding> DecodeBinding(const v1::Binding& proto, const Decoder& decoder) {
  auto tensor = DecodeRef(proto.tensor(), decoder);
  if (!tensor.ok()) return Inside("tensor", tensor.status());
  return Binding{proto.id(), *std::move(tensor)};
}

v1::Binding EncodeBinding(const Binding& binding) {
  v1::Binding proto;
  proto.set_id(binding.id);
  *proto.mutable_tensor() = ToProto(binding.tensor);
  return proto;
}

absl::StatusOr<Program> DecodeProgram(const v1::Program& proto, Decoder& decoder) {
  if (decoder.strict && !proto.bodies().empty()) return NotOffered("bodies of programs (if, loop, scan)");
  Program program;
  program.name = proto.name();
  OpTable table;
  TENSORD_RETURN_IF_ERROR(table.Append(proto.ops()));
  for (int i = 0; i < proto.inputs_size(); ++i) {
    auto value = DecodeValue(proto.inputs(i), decoder);
    if (!value.ok()) return Inside(StrCat("inputs[", i, "]"), value.status());
    program.inputs.push_back(*std::move(value));
  }
  for (int i = 0; i < proto.bindings_size(); ++i) {
    auto binding = DecodeBinding(proto.bindings(i), decoder);
    if (!binding.ok()) return Inside(StrCat("bindings[", i, "]"), binding.status());
    program.bindings.push_back(*std::move(binding));
  }
  program.instructions.resize(static_cast<size_t>(proto.instructions_size()));
  for (int i = 0; i < proto.instructions_size(); ++i) {
    Instruction& out = program.instructions[static_cast<size_t>(i)];
    absl::Status status =
        DecodeInstruction(proto.instructions(i), OperationOf(proto.instructions(i), table), decoder, out);
    if (status.ok()) continue;
    status = WithMetadata(Inside(InstructionPath(i), status), "instruction", std::to_string(i));
    if (decoder.strict) return status;
    out.invalid = std::move(status);
  }
  for (int i = 0; i < proto.outputs_size(); ++i) {
    auto value = DecodeValue(proto.outputs(i), decoder);
    if (!value.ok()) return Inside(StrCat("outputs[", i, "]"), value.status());
    program.outputs.push_back(*std::move(value));
  }
  return program;
}

absl::StatusOr<Program> FromProto(const v1::Program& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  Decoder decoder;
  return DecodeProgram(proto, decoder);
}

v1::Program ToProto(const Program& program) {
  v1::Program proto;
  OpTable table;
  for (const ProgramValue& value : program.inputs) *proto.add_inputs() = EncodeValue(value);
  for (const Binding& binding : program.bindings) *proto.add_bindings() = EncodeBinding(binding);
  for (const Instruction& instruction : program.instructions) {
    v1::Instruction* out = proto.add_instructions();
    if (instruction.op != Op::kNone) out->set_op_index(table.Intern(instruction.op, proto.mutable_ops()));
    EncodeInstruction(instruction, out);
  }
  for (const ProgramValue& value : program.outputs) *proto.add_outputs() = EncodeValue(value);
  proto.set_name(program.name);
  return proto;
}

}  // namespace tensord::wire
