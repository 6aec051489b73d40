// What every request must pass before its meaning is looked at. Private to proto/wire.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "tensord/v1/program.pb.h"

namespace tensord::wire {

// Walks the message and what it holds. Errors, with the field's path:
//   FIELD_UNKNOWN   a field that the schema does not have
//   DTYPE_UNKNOWN   a Dtype number that is none; FIELD_INVALID for any other unknown enum value
//   NOT_OFFERED     the string dtype
//   LIMIT_EXCEEDED  a text or map key above max_text_bytes; a list above its bound
// Lists of TensorData and of ids have no bound here: values are counted in bytes, operands by ARITY_INVALID.
absl::Status CheckRequest(const google::protobuf::Message& message);

// The same for an instruction, quick where it has neither scalars nor attributes.
absl::Status CheckInstruction(const v1::Instruction& instruction);

// The unknown fields of this message alone.
absl::Status CheckUnknownFields(const google::protobuf::Message& message);

// FIELD_INVALID at a path.
absl::Status FieldInvalid(std::string_view path, std::string_view value, std::string_view allowed);

// LIMIT_EXCEEDED at a path.
absl::Status LimitExceeded(std::string_view limit, uint64_t value, uint64_t maximum, std::string_view path);

// The error of a part of a message, with the part's path put before it ("create.spec" + "." + "shape"). `path` may be
// empty.
absl::Status Inside(std::string_view path, const absl::Status& status);

}  // namespace tensord::wire
