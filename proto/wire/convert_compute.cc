#include "proto/wire/convert_compute.h"

#include <string_view>
#include <utility>

#include "kernels/core/error.h"
#include "proto/wire/convert_tensor.h"
#include "proto/wire/parts.h"
#include "proto/wire/status.h"
#include "proto/wire/tensor_data.h"

namespace tensord::wire {
namespace {

// The version that every row of ops.def has been in since.
constexpr char kSince[] = "0.1.0";

constexpr int32_t kMaxPriority = 10;

absl::StatusOr<Argument> DecodeArgument(const v1::Argument& proto, Decoder& decoder) {
  Argument argument;
  argument.name = proto.name();
  argument.donate = proto.donate();
  switch (proto.value_case()) {
    case v1::Argument::kTensor: {
      auto ref = DecodeRef(proto.tensor(), decoder);
      if (!ref.ok()) return Inside("tensor", ref.status());
      argument.value = *std::move(ref);
      break;
    }
    case v1::Argument::kLiteral: {
      auto literal = DecodeLiteral(proto.literal(), decoder);
      if (!literal.ok()) return Inside("literal", literal.status());
      argument.value = *std::move(literal);
      break;
    }
    case v1::Argument::VALUE_NOT_SET:
      return FieldInvalid("tensor", "not set", "a tensor or a literal");
  }
  if (argument.donate && proto.tensor().ref_case() != v1::TensorRef::kId) {
    return FieldInvalid("donate", "true", "true only with a handle (tensor.id)");
  }
  return argument;
}

ResultRequest DecodeResult(const v1::Result& proto) {
  ResultRequest result;
  result.name = proto.name();
  result.id = proto.id();
  result.publish = proto.publish();
  result.replace = proto.replace();
  result.value = static_cast<ValueFormat>(proto.value());
  return result;
}

absl::StatusOr<ResultValue> DecodeResultValue(const v1::ResultValue& proto) {
  ResultValue value;
  value.name = proto.name();
  TENSORD_ASSIGN_OR_RETURN(value.tensor, FromProto(proto.tensor()));
  if (proto.has_data()) {
    TENSORD_ASSIGN_OR_RETURN(value.data, FromProto(proto.data(), value.tensor.spec.type));
    value.format = FormatOf(proto.data());
  }
  return value;
}

// "a,b" as two strings.
void Split(std::string_view list, google::protobuf::RepeatedPtrField<std::string>* out) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    out->Add(std::string(list.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
}

std::optional<DeviceKind> DecodeKind(std::string_view name) {
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    if (name == DeviceKindName(kind)) return kind;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<ExecuteRequest> FromProto(const v1::ExecuteRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  Decoder decoder;
  ExecuteRequest request;
  switch (proto.callee_case()) {
    case v1::ExecuteRequest::kProgram: {
      auto program = DecodeProgram(proto.program(), decoder);
      if (!program.ok()) return Inside("program", program.status());
      request.callee = *std::move(program);
      break;
    }
    case v1::ExecuteRequest::kProgramId:
      request.callee = uint64_t{proto.program_id()};
      break;
    case v1::ExecuteRequest::kModel: {
      auto model = DecodeRef(proto.model(), decoder);
      if (!model.ok()) return Inside("model", model.status());
      request.callee = *std::move(model);
      break;
    }
    case v1::ExecuteRequest::CALLEE_NOT_SET:
      return FieldInvalid("program", "not set", "a program, a program_id or a model");
  }
  for (int i = 0; i < proto.inputs_size(); ++i) {
    auto argument = DecodeArgument(proto.inputs(i), decoder);
    if (!argument.ok()) return Inside(StrCat("inputs[", i, "]"), argument.status());
    request.inputs.push_back(*std::move(argument));
  }
  for (const v1::Result& result : proto.outputs()) request.outputs.push_back(DecodeResult(result));
  request.timings = proto.timings();
  if (proto.priority() < -kMaxPriority || proto.priority() > kMaxPriority) {
    return FieldInvalid("priority", StrCat(proto.priority()), "-10 to 10");
  }
  request.priority = proto.priority();
  return request;
}

v1::ExecuteRequest ToProto(const ExecuteRequest& request) {
  v1::ExecuteRequest proto;
  if (const auto* program = std::get_if<Program>(&request.callee)) {
    *proto.mutable_program() = ToProto(*program);
  } else if (const auto* id = std::get_if<uint64_t>(&request.callee)) {
    proto.set_program_id(*id);
  } else if (const auto* model = std::get_if<ModelRef>(&request.callee)) {
    *proto.mutable_model() = ToProto(*model);
  }
  for (const Argument& argument : request.inputs) {
    v1::Argument* out = proto.add_inputs();
    out->set_name(argument.name);
    out->set_donate(argument.donate);
    if (const auto* ref = std::get_if<TensorRef>(&argument.value)) {
      *out->mutable_tensor() = ToProto(*ref);
    } else if (const auto* literal = std::get_if<TensorLiteral>(&argument.value)) {
      *out->mutable_literal() = EncodeLiteral(literal->spec, literal->data);
    }
  }
  for (const ResultRequest& result : request.outputs) {
    v1::Result* out = proto.add_outputs();
    out->set_name(result.name);
    out->set_id(result.id);
    out->set_publish(result.publish);
    out->set_replace(result.replace);
    out->set_value(static_cast<v1::ValueFormat>(result.value));
  }
  proto.set_timings(request.timings);
  proto.set_priority(request.priority);
  return proto;
}

absl::StatusOr<ExecuteResponse> FromProto(const v1::ExecuteResponse& proto) {
  ExecuteResponse response;
  for (const v1::ResultValue& in : proto.outputs()) {
    TENSORD_ASSIGN_OR_RETURN(response.outputs.emplace_back(), DecodeResultValue(in));
  }
  for (const v1::InstructionReport& in : proto.reports()) {
    if (auto report = FromProto(in); report.ok()) response.reports.push_back(*std::move(report));
  }
  return response;
}

v1::ExecuteResponse ToProto(const ExecuteResponse& response) {
  v1::ExecuteResponse proto;
  for (const ResultValue& value : response.outputs) {
    v1::ResultValue* out = proto.add_outputs();
    out->set_name(value.name);
    *out->mutable_tensor() = ToProto(value.tensor);
    if (value.data) *out->mutable_data() = EncodeData(*value.data, value.tensor.spec.type, value.format);
  }
  for (const InstructionReport& report : response.reports) *proto.add_reports() = ToProto(report);
  return proto;
}

absl::StatusOr<InstructionReport> FromProto(const v1::InstructionReport& proto) {
  InstructionReport report;
  report.sequence = proto.sequence();
  report.instruction = proto.instruction();
  report.op = FindOp(proto.op());
  report.label = proto.label();
  const auto device = DecodeDevice(proto.device());
  if (!device)
    return Error(Reason::kDeviceUnknown).With("device", proto.device()).With("known", "cpu, cuda").At("device");
  report.device = *device;
  if (proto.has_error()) report.error = FromRpcStatus(proto.error());
  report.queue_ns = proto.queue_ns();
  report.run_ns = proto.run_ns();
  report.group = proto.group();
  return report;
}

v1::InstructionReport ToProto(const InstructionReport& report) {
  v1::InstructionReport proto;
  proto.set_sequence(report.sequence);
  proto.set_instruction(report.instruction);
  proto.set_op(std::string(RowOf(report.op).name));
  proto.set_label(report.label);
  proto.set_device(report.device.ToString());
  if (!report.error.ok()) *proto.mutable_error() = ToRpcStatus(report.error);
  proto.set_queue_ns(report.queue_ns);
  proto.set_run_ns(report.run_ns);
  proto.set_group(report.group);
  return proto;
}

absl::StatusOr<RegisterProgramRequest> FromProto(const v1::RegisterProgramRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  if (!proto.has_program()) return FieldInvalid("program", "not set", "a program");
  Decoder decoder;
  auto program = DecodeProgram(proto.program(), decoder);
  if (!program.ok()) return Inside("program", program.status());
  return RegisterProgramRequest{proto.id(), *std::move(program)};
}

v1::RegisterProgramRequest ToProto(const RegisterProgramRequest& request) {
  v1::RegisterProgramRequest proto;
  proto.set_id(request.id);
  *proto.mutable_program() = ToProto(request.program);
  return proto;
}

absl::StatusOr<RegisterProgramResponse> FromProto(const v1::RegisterProgramResponse& proto) {
  Decoder decoder{.strict = false};
  RegisterProgramResponse response;
  for (const v1::Value& value : proto.inputs()) {
    TENSORD_ASSIGN_OR_RETURN(response.inputs.emplace_back(), DecodeValue(value, decoder));
  }
  for (const v1::Value& value : proto.outputs()) {
    TENSORD_ASSIGN_OR_RETURN(response.outputs.emplace_back(), DecodeValue(value, decoder));
  }
  return response;
}

v1::RegisterProgramResponse ToProto(const RegisterProgramResponse& response) {
  v1::RegisterProgramResponse proto;
  for (const ProgramValue& value : response.inputs) *proto.add_inputs() = EncodeValue(value);
  for (const ProgramValue& value : response.outputs) *proto.add_outputs() = EncodeValue(value);
  return proto;
}

absl::StatusOr<uint64_t> FromProto(const v1::UnregisterProgramRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  return uint64_t{proto.id()};
}

v1::UnregisterProgramRequest UnregisterProgramRequestToProto(uint64_t id) {
  v1::UnregisterProgramRequest proto;
  proto.set_id(id);
  return proto;
}

absl::StatusOr<std::string> FromProto(const v1::ListOpsRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  return proto.prefix();
}

v1::ListOpsRequest ListOpsRequestToProto(const std::string& prefix) {
  v1::ListOpsRequest proto;
  proto.set_prefix(prefix);
  return proto;
}

absl::Status FromProto(const v1::MonitorOpsRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  return NotOffered("MonitorOps");
}

absl::StatusOr<std::vector<OpDescription>> FromProto(const v1::ListOpsResponse& proto) {
  std::vector<OpDescription> ops;
  for (const v1::OpInfo& in : proto.ops()) {
    const Op op = FindOp(in.name());
    if (op == Op::kNone) continue;
    OpDescription& out = ops.emplace_back();
    out.op = op;
    for (const v1::OpSupport& support : in.support()) {
      const auto kind = DecodeKind(support.kind());
      if (!kind) continue;
      OpSupport& to = out.support.emplace_back();
      to.kind = *kind;
      for (const int dtype : support.dtypes()) {
        if (const Dtype known = DecodeDtype(dtype); known != Dtype::kNone) to.dtypes.push_back(known);
      }
    }
  }
  return ops;
}

v1::ListOpsResponse ToProto(const std::vector<OpDescription>& ops) {
  v1::ListOpsResponse proto;
  for (const OpDescription& description : ops) {
    const OpRow& row = RowOf(description.op);
    v1::OpInfo* out = proto.add_ops();
    out->set_name(std::string(row.name));
    out->set_family(std::string(FamilyName(row.family)));
    Split(row.operands, out->mutable_operands());
    Split(row.results.empty() ? "out" : row.results, out->mutable_results());
    out->set_attributes(std::string(FamilyAttributes(row.family)));
    Split(row.fields, out->mutable_attribute_fields());
    for (const OpSupport& support : description.support) {
      v1::OpSupport* to = out->add_support();
      to->set_kind(std::string(DeviceKindName(support.kind)));
      for (const Dtype dtype : support.dtypes) to->add_dtypes(EncodeDtype(dtype));
    }
    out->set_summary(std::string(row.summary));
    out->set_since(kSince);
  }
  return proto;
}

}  // namespace tensord::wire
