#include "proto/wire/check.h"

#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/unknown_field_set.h"
#include "kernels/core/dtype.h"
#include "kernels/core/error.h"
#include "proto/wire/config.h"
#include "proto/wire/stream.h"
#include "tensord/v1/program.pb.h"
#include "tensord/v1/types.pb.h"

namespace tensord::wire {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// The bound on the length of a list, with its name. A maximum of 0: none here.
struct Bound {
  std::string_view name;
  uint64_t maximum = 0;
};

Bound BoundOf(const FieldDescriptor& field) {
  const Limits& limits = RequestLimits();
  const std::string& owner = field.containing_type()->name();
  const std::string& name = field.name();
  const std::string_view owner_view = owner;
  if (owner == "TensorData" || (owner == "Instruction" && name != "scalars")) return {};
  if (owner == "TensorSpec" || owner == "SymbolicShape" || owner == "Sizes" || owner_view.ends_with("Attributes")) {
    return {"max_rank", limits.max_rank};
  }
  if (name == "ops") return {"max_ops", OpTable::kMaxNames};
  if (owner == "Program" && (name == "instructions" || name == "bindings")) {
    return {"max_program_instructions", limits.max_program_instructions};
  }
  if (owner == "StreamRequest") {
    if (name == "reads" || name == "cancels") return {};
    return {"max_message_instructions", limits.max_message_instructions};
  }
  if (owner == "DeleteTensorsRequest") return {"max_page_size", limits.max_page_size};
  return {"max_operands", limits.max_operands};
}

absl::Status CheckEnum(const FieldDescriptor& field, int number, const std::string& path) {
  const EnumDescriptor& type = *field.enum_type();
  if (&type == v1::Dtype_descriptor()) {
    if (number == v1::DTYPE_STRING) return NotOffered("dtype string");
    if (number >= 0 && number < kDtypeCount) return absl::OkStatus();
    return Error(Reason::kDtypeUnknown).With("value", number).With("known", KnownDtypes()).At(path);
  }
  if (type.FindValueByNumber(number) != nullptr) return absl::OkStatus();
  std::vector<std::string> known;
  for (int i = 0; i < type.value_count(); ++i) known.push_back(type.value(i)->name());
  return FieldInvalid(path, std::to_string(number), StrJoin(known, ", "));
}

absl::Status CheckText(const std::string& text, std::string_view path) {
  const uint64_t maximum = RequestLimits().max_text_bytes;
  return text.size() <= maximum ? absl::OkStatus() : LimitExceeded("max_text_bytes", text.size(), maximum, path);
}

// "inputs[3]", or "options[in_features]" for an entry of a map with text keys.
std::string EntryPath(const FieldDescriptor& field, const Message* entry, int index) {
  if (field.is_map() && entry != nullptr) {
    const FieldDescriptor* key = field.message_type()->map_key();
    if (key->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      std::string scratch;
      const std::string& text = entry->GetReflection()->GetStringReference(*entry, key, &scratch);
      return StrCat(field.name(), "[", std::string_view(text).substr(0, 128), "]");
    }
  }
  return StrCat(field.name(), "[", index, "]");
}

absl::Status CheckSingular(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return Inside(field.name(), CheckRequest(reflection.GetMessage(message, &field)));
    case FieldDescriptor::CPPTYPE_ENUM:
      return CheckEnum(field, reflection.GetEnumValue(message, &field), field.name());
    case FieldDescriptor::CPPTYPE_STRING: {
      if (field.type() == FieldDescriptor::TYPE_BYTES) return absl::OkStatus();
      std::string scratch;
      return CheckText(reflection.GetStringReference(message, &field, &scratch), field.name());
    }
    default:
      return absl::OkStatus();
  }
}

absl::Status CheckRepeated(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, &field);
  const Bound bound = BoundOf(field);
  if (bound.maximum != 0 && static_cast<uint64_t>(size) > bound.maximum) {
    return LimitExceeded(bound.name, static_cast<uint64_t>(size), bound.maximum, field.name());
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      for (int i = 0; i < size; ++i) {
        const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
        if (absl::Status status = CheckRequest(entry); !status.ok()) {
          return Inside(EntryPath(field, &entry, i), status);
        }
      }
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_ENUM:
      for (int i = 0; i < size; ++i) {
        const int number = reflection.GetRepeatedEnumValue(message, &field, i);
        TENSORD_RETURN_IF_ERROR(CheckEnum(field, number, EntryPath(field, nullptr, i)));
      }
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_STRING: {
      if (field.type() == FieldDescriptor::TYPE_BYTES) return absl::OkStatus();
      std::string scratch;
      for (int i = 0; i < size; ++i) {
        const std::string& text = reflection.GetRepeatedStringReference(message, &field, i, &scratch);
        if (text.size() > RequestLimits().max_text_bytes) return CheckText(text, EntryPath(field, nullptr, i));
      }
      return absl::OkStatus();
    }
    default:
      return absl::OkStatus();
  }
}

}  // namespace

absl::Status FieldInvalid(std::string_view path, std::string_view value, std::string_view allowed) {
  return Error(Reason::kFieldInvalid).With("value", value).With("allowed", allowed).At(path);
}

absl::Status LimitExceeded(std::string_view limit, uint64_t value, uint64_t maximum, std::string_view path) {
  return Error(Reason::kLimitExceeded).With("limit", limit).With("value", value).With("maximum", maximum).At(path);
}

absl::Status Inside(std::string_view path, const absl::Status& status) {
  if (status.ok() || path.empty()) return status;
  ErrorDetails details = DetailsOf(status);
  if (details.fields.empty()) return status;
  std::string message(status.message());
  for (auto& [field, description] : details.fields) {
    std::string whole = field.empty() ? std::string(path) : StrCat(path, field.front() == '[' ? "" : ".", field);
    // FIELD_INVALID begins with the path: message and description tell the whole of it.
    if (details.reason == Reason::kFieldInvalid && message.starts_with(field)) {
      message = StrCat(whole, std::string_view(message).substr(field.size()));
      description = message;
    }
    field = std::move(whole);
  }
  return StatusWithDetails(status.code(), message, details);
}

absl::Status CheckUnknownFields(const Message& message) {
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  if (unknown.empty()) return absl::OkStatus();
  const int number = unknown.field(0).number();
  return Error(Reason::kFieldUnknown)
      .With("message", message.GetDescriptor()->name())
      .With("number", number)
      .With("daemon_version", DaemonVersion())
      .At(std::to_string(number));
}

absl::Status CheckInstruction(const v1::Instruction& instruction) {
  static const Reflection& reflection = *v1::Instruction::default_instance().GetReflection();
  if (!reflection.GetUnknownFields(instruction).empty()) return CheckUnknownFields(instruction);
  TENSORD_RETURN_IF_ERROR(CheckText(instruction.label(), "label"));
  if (instruction.operation_case() == v1::Instruction::kOp) TENSORD_RETURN_IF_ERROR(CheckText(instruction.op(), "op"));
  if (instruction.scalars_size() != 0) {
    TENSORD_RETURN_IF_ERROR(CheckRepeated(
        instruction, *instruction.GetDescriptor()->FindFieldByNumber(v1::Instruction::kScalarsFieldNumber)));
  }
  const int attributes = static_cast<int>(instruction.attributes_case());
  if (attributes == 0) return absl::OkStatus();
  return CheckSingular(instruction, *instruction.GetDescriptor()->FindFieldByNumber(attributes));
}

absl::Status CheckRequest(const Message& message) {
  if (message.GetDescriptor() == v1::Instruction::descriptor()) {
    return CheckInstruction(static_cast<const v1::Instruction&>(message));
  }
  TENSORD_RETURN_IF_ERROR(CheckUnknownFields(message));
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    TENSORD_RETURN_IF_ERROR(field->is_repeated() ? CheckRepeated(message, *field) : CheckSingular(message, *field));
  }
  return absl::OkStatus();
}

}  // namespace tensord::wire
