#include "proto/wire/stream.h"

#include <algorithm>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/nearest.h"
#include "proto/wire/convert_compute.h"
#include "proto/wire/convert_tensor.h"
#include "proto/wire/operation.h"
#include "proto/wire/parts.h"
#include "proto/wire/status.h"
#include "proto/wire/tensor_data.h"

namespace tensord::wire {
namespace {

// Of an unknown name so much is kept for its error.
constexpr size_t kKeptName = 128;

const std::vector<std::string_view>& OpNames() {
  static const auto& names = *new std::vector<std::string_view>{
#define TENSORD_OP(Enum, name, Family, Types, operands, results, fields, summary) #name,
#include "kernels/ops/ops.def"
#undef TENSORD_OP
  };
  return names;
}

absl::Status Unknown(std::string_view name, std::string_view nearest, std::string_view path) {
  if (nearest.empty()) {
    return Error(Reason::kOpUnknown).With("name", name).With("daemon_version", DaemonVersion()).At(path);
  }
  return Error(Reason::kOpUnknown)
      .With("name", name)
      .With("nearest", nearest)
      .With("daemon_version", DaemonVersion())
      .At(path);
}

}  // namespace

absl::StatusOr<Op> OpOfName(std::string_view name) {
  if (const Op op = FindOp(name); op != Op::kNone) return op;
  const std::string_view kept = name.substr(0, kKeptName);
  return Unknown(kept, NearestNames(kept, OpNames()), "op");
}

absl::Status OpTable::Append(const google::protobuf::RepeatedPtrField<std::string>& names) {
  const uint64_t total = ops_.size() + static_cast<uint64_t>(names.size());
  if (total > kMaxNames) return LimitExceeded("max_ops", total, kMaxNames, "ops");
  for (const std::string& name : names) {
    ops_.push_back(FindOp(name));
    if (ops_.back() == Op::kNone) unknown_.emplace_back(ops_.size() - 1, name.substr(0, kKeptName));
  }
  return absl::OkStatus();
}

absl::Status OpTable::Refuse(uint32_t index) const {
  if (index >= ops_.size()) {
    return Unknown(StrCat("number ", index, " of a table of ", ops_.size()), "", "op_index");
  }
  const auto it = std::lower_bound(unknown_.begin(), unknown_.end(), index,
                                   [](const auto& entry, uint32_t i) { return entry.first < i; });
  return Unknown(it->second, NearestNames(it->second, OpNames()), "op_index");
}

uint32_t OpTable::Intern(Op op, google::protobuf::RepeatedPtrField<std::string>* names) {
  const auto i = static_cast<size_t>(op);
  if (index_.size() <= i) index_.resize(static_cast<size_t>(kOpCount) + 1);
  if (index_[i] == 0) {
    ops_.push_back(op);
    names->Add(std::string(RowOf(op).name));
    index_[i] = static_cast<uint32_t>(ops_.size());
  }
  return index_[i] - 1;
}

absl::StatusOr<StreamMessage> FromProto(const v1::StreamRequest& proto, OpTable& table, uint64_t wire_bytes) {
  // Everything but the instructions is checked as a whole: what is wrong there breaks the protocol.
  TENSORD_RETURN_IF_ERROR(CheckUnknownFields(proto));
  const Limits& limits = RequestLimits();
  if (const auto n = static_cast<uint64_t>(proto.instructions_size()); n > limits.max_message_instructions) {
    return LimitExceeded("max_message_instructions", n, limits.max_message_instructions, "instructions");
  }
  if (const auto n = static_cast<uint64_t>(proto.bindings_size()); n > limits.max_message_instructions) {
    return LimitExceeded("max_message_instructions", n, limits.max_message_instructions, "bindings");
  }
  if (!v1::ReportLevel_IsValid(proto.report())) {
    return FieldInvalid("report", std::to_string(static_cast<int>(proto.report())), "0, 1, 2");
  }
  for (int i = 0; i < proto.ops_size(); ++i) {
    if (proto.ops(i).size() > limits.max_text_bytes) {
      return LimitExceeded("max_text_bytes", proto.ops(i).size(), limits.max_text_bytes, StrCat("ops[", i, "]"));
    }
  }
  TENSORD_RETURN_IF_ERROR(table.Append(proto.ops()));

  Decoder decoder;
  StreamMessage message;
  message.sequence = proto.sequence();
  message.report = static_cast<ReportLevel>(proto.report());
  message.wire_bytes = wire_bytes != 0 ? wire_bytes : proto.ByteSizeLong();
  if (proto.has_timeout()) {
    TENSORD_RETURN_IF_ERROR(Inside("timeout", CheckRequest(proto.timeout())));
    TENSORD_ASSIGN_OR_RETURN(message.timeout, RequestDuration(proto.timeout(), "timeout"));
  }
  message.bindings.reserve(static_cast<size_t>(proto.bindings_size()));
  for (int i = 0; i < proto.bindings_size(); ++i) {
    absl::Status status = CheckRequest(proto.bindings(i));
    if (!status.ok()) return Inside(StrCat("bindings[", i, "]"), status);
    auto binding = DecodeBinding(proto.bindings(i), decoder);
    if (!binding.ok()) return Inside(StrCat("bindings[", i, "]"), binding.status());
    message.bindings.push_back(*std::move(binding));
  }
  message.instructions.resize(static_cast<size_t>(proto.instructions_size()));
  for (int i = 0; i < proto.instructions_size(); ++i) {
    const v1::Instruction& in = proto.instructions(i);
    Instruction& out = message.instructions[static_cast<size_t>(i)];
    if (absl::Status status = DecodeInstruction(in, OperationOf(in, table), decoder, out); !status.ok()) {
      out.invalid = WithMetadata(Inside(StrCat("instructions[", i, "]"), status), "instruction", std::to_string(i));
    }
  }
  message.reads.reserve(static_cast<size_t>(proto.reads_size()));
  for (int i = 0; i < proto.reads_size(); ++i) {
    const v1::Read& read = proto.reads(i);
    if (absl::Status status = CheckRequest(read); !status.ok()) return Inside(StrCat("reads[", i, "]"), status);
    message.reads.push_back({read.tag(), read.id(), static_cast<ValueFormat>(read.value())});
  }
  message.cancels = CopyOf<std::vector<uint64_t>>(proto.cancels());
  return message;
}

v1::StreamRequest ToProto(const StreamMessage& message, OpTable& table) {
  v1::StreamRequest proto;
  proto.set_sequence(message.sequence);
  for (const Binding& binding : message.bindings) *proto.add_bindings() = EncodeBinding(binding);
  proto.mutable_instructions()->Reserve(static_cast<int>(message.instructions.size()));
  for (const Instruction& instruction : message.instructions) {
    v1::Instruction* out = proto.add_instructions();
    if (instruction.op != Op::kNone) out->set_op_index(table.Intern(instruction.op, proto.mutable_ops()));
    EncodeInstruction(instruction, out);
  }
  for (const Read& read : message.reads) {
    v1::Read* out = proto.add_reads();
    out->set_tag(read.tag);
    out->set_id(read.id);
    out->set_value(static_cast<v1::ValueFormat>(read.value));
  }
  CopyTo(message.cancels, proto.mutable_cancels());
  if (message.timeout) *proto.mutable_timeout() = EncodeDuration(*message.timeout);
  proto.set_report(static_cast<v1::ReportLevel>(message.report));
  return proto;
}

absl::StatusOr<ReadReply> FromProto(const v1::ReadReply& proto) {
  ReadReply reply;
  reply.tag = proto.tag();
  if (proto.has_error()) reply.error = FromRpcStatus(proto.error());
  if (proto.has_spec()) {
    TENSORD_ASSIGN_OR_RETURN(reply.spec, DecodeSpec(proto.spec()));
  }
  if (proto.has_data() && reply.spec) {
    TENSORD_ASSIGN_OR_RETURN(reply.data, FromProto(proto.data(), reply.spec->type));
    reply.format = FormatOf(proto.data());
  }
  return reply;
}

v1::ReadReply ToProto(const ReadReply& reply) {
  v1::ReadReply proto;
  proto.set_tag(reply.tag);
  if (!reply.error.ok()) *proto.mutable_error() = ToRpcStatus(reply.error);
  if (reply.spec) *proto.mutable_spec() = ToProto(*reply.spec);
  if (reply.spec && reply.data) *proto.mutable_data() = EncodeData(*reply.data, reply.spec->type, reply.format);
  return proto;
}

absl::StatusOr<StreamEvents> FromProto(const v1::StreamResponse& proto) {
  StreamEvents events;
  events.acknowledged = proto.acknowledged();
  for (const v1::ReadReply& in : proto.replies()) {
    auto reply = FromProto(in);
    if (!reply.ok()) {
      ReadReply& failed = events.replies.emplace_back();
      failed.tag = in.tag();
      failed.error = reply.status();
    } else {
      events.replies.push_back(*std::move(reply));
    }
  }
  for (const v1::InstructionReport& in : proto.reports()) {
    if (auto report = FromProto(in); report.ok()) events.reports.push_back(*std::move(report));
  }
  for (const auto& notice : proto.notices()) events.notices.push_back(FromRpcStatus(notice));
  return events;
}

v1::StreamResponse ToProto(const StreamEvents& events) {
  v1::StreamResponse proto;
  proto.set_acknowledged(events.acknowledged);
  for (const ReadReply& reply : events.replies) *proto.add_replies() = ToProto(reply);
  for (const InstructionReport& report : events.reports) *proto.add_reports() = ToProto(report);
  for (const absl::Status& notice : events.notices) *proto.add_notices() = ToRpcStatus(notice);
  return proto;
}

}  // namespace tensord::wire
