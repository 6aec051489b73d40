// The parts that messages share: times, refs, specs, literals, values, programs. Private to proto/wire.
//
// Decode… of a part of a request assumes that CheckRequest has passed; error paths begin at the part.
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "proto/wire/check.h"
#include "proto/wire/config.h"
#include "server/engine/types.h"
#include "tensord/v1/compute.pb.h"
#include "tensord/v1/device.pb.h"
#include "tensord/v1/program.pb.h"
#include "tensord/v1/tensor.pb.h"
#include "tensord/v1/types.pb.h"

namespace tensord::wire {

// What decoding one message carries along.
struct Decoder {
  // True for requests.
  bool strict = true;
  // Bytes of inline values met so far; bounded by max_inline_bytes where strict.
  uint64_t inline_bytes = 0;
};

// ---- times (parts_basic.cc)

// Saturates at the years 1 and 9999; fractions of a nanosecond are cut.
google::protobuf::Timestamp EncodeTime(absl::Time time);
absl::Time DecodeTime(const google::protobuf::Timestamp& proto);
// Saturates at 10,000 years.
google::protobuf::Duration EncodeDuration(absl::Duration duration);
// Of a response: whatever it says.
absl::Duration DecodeDuration(const google::protobuf::Duration& proto);
// Of a request: FIELD_INVALID at `path` unless well formed and >= 0.
absl::StatusOr<absl::Duration> RequestDuration(const google::protobuf::Duration& proto, std::string_view path);

// ---- dtypes, refs, specs (parts_basic.cc)

// kNone for unspecified and unknown numbers.
Dtype DecodeDtype(int number);
inline v1::Dtype EncodeDtype(Dtype dtype) { return static_cast<v1::Dtype>(dtype); }

// Nothing set: FIELD_INVALID where strict.
absl::StatusOr<TensorRef> DecodeRef(const v1::TensorRef& proto, const Decoder& decoder);
absl::StatusOr<ModelRef> DecodeRef(const v1::ModelRef& proto, const Decoder& decoder);

// Errors: DTYPE_UNKNOWN (not said) where strict; SHAPE_INVALID, LIMIT_EXCEEDED.
absl::StatusOr<SpecRequest> DecodeSpecRequest(const v1::TensorSpec& proto, const Decoder& decoder);
// Of a response. Errors: SHAPE_INVALID, LIMIT_EXCEEDED, DEVICE_UNKNOWN for a kind that this version does not know.
absl::StatusOr<TensorSpec> DecodeSpec(const v1::TensorSpec& proto);

// Errors: those of spec and data; LIMIT_EXCEEDED above max_inline_bytes for all literals of the message together.
absl::StatusOr<TensorLiteral> DecodeLiteral(const v1::TensorLiteral& proto, Decoder& decoder);
v1::TensorLiteral EncodeLiteral(const SpecRequest& spec, std::string_view data);

// Values of a reply: raw unless typed ones were asked for.
v1::TensorData EncodeData(std::string_view data, const TensorType& type, ValueFormat format);

// The device's name in a response, or empty for a kind that this version does not know.
std::optional<DeviceId> DecodeDevice(const std::string& name);

// ---- instructions and programs (convert_program.cc)

// `op` is what the instruction's operation says. Fills as much of `out` as can be read even where it returns an error:
// outputs and frees always. Errors: those of CheckInstruction; ATTRIBUTE_INVALID, ARITY_INVALID, NOT_OFFERED,
// FIELD_INVALID, DATA_INVALID, SCALAR_RANGE; with metadata "op".
absl::Status DecodeInstruction(const v1::Instruction& proto, const absl::StatusOr<Op>& op, Decoder& decoder,
                               Instruction& out);
// All but the operation.
void EncodeInstruction(const Instruction& instruction, v1::Instruction* proto);

absl::StatusOr<Scalar> DecodeScalar(const v1::Scalar& proto);
v1::Scalar EncodeScalar(const Scalar& scalar);

// An instruction that cannot be decoded: the program's error where strict, its `invalid` otherwise.
absl::StatusOr<Program> DecodeProgram(const v1::Program& proto, Decoder& decoder);
absl::StatusOr<ProgramValue> DecodeValue(const v1::Value& proto, const Decoder& decoder);
v1::Value EncodeValue(const ProgramValue& value);
absl::StatusOr<Binding> DecodeBinding(const v1::Binding& proto, const Decoder& decoder);
v1::Binding EncodeBinding(const Binding& binding);

// ---- attributes (convert_attributes.cc)

// The attributes of an instruction of `op`. Paths begin with the attributes' field ("reduce.axes").
absl::StatusOr<Attributes> DecodeAttributes(const v1::Instruction& proto, Op op, Decoder& decoder);
void EncodeAttributes(const Attributes& attributes, v1::Instruction* proto);

// ---- small ones

// Copies a repeated field into a container of the domain, and back.
template <class Out, class In>
Out CopyOf(const In& in) {
  return Out(in.begin(), in.end());
}
template <class In, class Out>
void CopyTo(const In& in, Out* out) {
  out->Reserve(static_cast<int>(in.size()));
  for (const auto& value : in) *out->Add() = value;
}

// The memory holder of a listing or a refusal; S has session, name, principal, bytes, tensors.
template <class S>
void EncodeHolder(const S& holder, v1::MemoryHolder* proto) {
  if (!holder.session.empty()) {
    proto->set_session(holder.session);
  } else if (!holder.name.empty()) {
    proto->set_name(holder.name);
  }
  proto->set_principal(holder.principal);
  proto->set_bytes(holder.bytes);
  proto->set_tensors(holder.tensors);
}
template <class S>
S DecodeHolder(const v1::MemoryHolder& proto) {
  S holder;
  holder.session = proto.session();
  holder.name = proto.name();
  holder.principal = proto.principal();
  holder.bytes = proto.bytes();
  holder.tensors = proto.tensors();
  return holder;
}

}  // namespace tensord::wire
