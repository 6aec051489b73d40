#include <algorithm>
#include <cstdint>

#include "kernels/core/error.h"
#include "proto/wire/convert_tensor.h"
#include "proto/wire/parts.h"
#include "proto/wire/tensor_data.h"

namespace tensord::wire {
namespace {

constexpr int64_t kFirstSecond = -62135596800;  // year 1
constexpr int64_t kLastSecond = 253402300799;   // year 9999
constexpr int64_t kLongest = 315576000000;      // 10,000 years, in seconds
constexpr int32_t kNanos = 1000000000;

// A status with its field path replaced: the part knows better where it stands than what it called.
absl::Status PathIs(const absl::Status& status, std::string_view path) {
  if (status.ok()) return status;
  ErrorDetails details = DetailsOf(status);
  for (auto& [field, description] : details.fields) field = path;
  return StatusWithDetails(status.code(), std::string(status.message()), details);
}

absl::StatusOr<TensorType> DecodeType(const v1::TensorSpec& proto) {
  TensorType type;
  type.dtype = DecodeDtype(proto.dtype());
  if (auto bytes = CheckedBytes(type.dtype, {proto.shape().data(), static_cast<size_t>(proto.shape_size())});
      !bytes.ok()) {
    return PathIs(bytes.status(), "shape");
  }
  type.shape.assign(proto.shape().begin(), proto.shape().end());
  return type;
}

}  // namespace

google::protobuf::Timestamp EncodeTime(absl::Time time) {
  google::protobuf::Timestamp proto;
  const int64_t seconds = absl::ToUnixSeconds(time);
  proto.set_seconds(std::clamp(seconds, kFirstSecond, kLastSecond));
  if (seconds == proto.seconds()) {
    proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
  }
  return proto;
}

absl::Time DecodeTime(const google::protobuf::Timestamp& proto) {
  return absl::FromUnixSeconds(std::clamp(proto.seconds(), kFirstSecond, kLastSecond)) +
         absl::Nanoseconds(std::clamp(proto.nanos(), 0, kNanos - 1));
}

google::protobuf::Duration EncodeDuration(absl::Duration duration) {
  google::protobuf::Duration proto;
  absl::Duration rest;
  const int64_t seconds = absl::IDivDuration(duration, absl::Seconds(1), &rest);
  proto.set_seconds(std::clamp(seconds, -kLongest, kLongest));
  if (seconds == proto.seconds()) proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return proto;
}

absl::Duration DecodeDuration(const google::protobuf::Duration& proto) {
  return absl::Seconds(std::clamp(proto.seconds(), -kLongest, kLongest)) +
         absl::Nanoseconds(std::clamp(proto.nanos(), -kNanos + 1, kNanos - 1));
}

absl::StatusOr<absl::Duration> RequestDuration(const google::protobuf::Duration& proto, std::string_view path) {
  if (proto.seconds() < 0 || proto.seconds() > kLongest || proto.nanos() < 0 || proto.nanos() >= kNanos) {
    return FieldInvalid(path, StrCat(proto.seconds(), " s ", proto.nanos(), " ns"), "a duration of 0 to 10,000 years");
  }
  return DecodeDuration(proto);
}

Dtype DecodeDtype(int number) { return number > 0 && number < kDtypeCount ? static_cast<Dtype>(number) : Dtype::kNone; }

absl::StatusOr<ModelRef> DecodeRef(const v1::ModelRef& proto, const Decoder& decoder) {
  ModelRef ref;
  switch (proto.ref_case()) {
    case v1::ModelRef::kId:
      ref.id = proto.id();
      break;
    case v1::ModelRef::kName:
      ref.name = proto.name();
      break;
    case v1::ModelRef::REF_NOT_SET:
      break;
  }
  if (decoder.strict && ref.id == 0 && ref.name.empty()) return FieldInvalid("", "not set", "an id or a name");
  return ref;
}

absl::StatusOr<TensorRef> DecodeRef(const v1::TensorRef& proto, const Decoder& decoder) {
  TensorRef ref;
  switch (proto.ref_case()) {
    case v1::TensorRef::kId:
      ref.ref = proto.id();
      break;
    case v1::TensorRef::kName:
      ref.ref = proto.name();
      break;
    case v1::TensorRef::kParameter: {
      auto model = DecodeRef(proto.parameter().model(), decoder);
      if (!model.ok()) return Inside("parameter.model", model.status());
      ref.ref = TensorRef::Parameter{*std::move(model), proto.parameter().path()};
      break;
    }
    case v1::TensorRef::REF_NOT_SET:
      if (decoder.strict) return FieldInvalid("", "not set", "an id, a name or a parameter");
      break;
  }
  return ref;
}

absl::StatusOr<SpecRequest> DecodeSpecRequest(const v1::TensorSpec& proto, const Decoder& decoder) {
  SpecRequest spec;
  if (decoder.strict && proto.dtype() == v1::DTYPE_UNSPECIFIED) {
    return Error(Reason::kDtypeUnknown).With("value", "not set").With("known", KnownDtypes()).At("dtype");
  }
  TENSORD_ASSIGN_OR_RETURN(spec.type, DecodeType(proto));
  spec.device = proto.device();
  return spec;
}

absl::StatusOr<TensorSpec> DecodeSpec(const v1::TensorSpec& proto) {
  TensorSpec spec;
  TENSORD_ASSIGN_OR_RETURN(spec.type, DecodeType(proto));
  const auto device = DecodeDevice(proto.device());
  if (!device)
    return Error(Reason::kDeviceUnknown).With("device", proto.device()).With("known", "cpu, cuda").At("device");
  spec.device = *device;
  return spec;
}

absl::StatusOr<TensorLiteral> DecodeLiteral(const v1::TensorLiteral& proto, Decoder& decoder) {
  TensorLiteral literal;
  auto spec = DecodeSpecRequest(proto.spec(), decoder);
  if (!spec.ok()) return Inside("spec", spec.status());
  literal.spec = *std::move(spec);
  if (decoder.strict) {
    const auto bytes = static_cast<uint64_t>(literal.spec.type.bytes());
    const uint64_t maximum = RequestLimits().max_inline_bytes;
    const uint64_t total = decoder.inline_bytes + bytes;  // both below 2^63
    if (total > maximum) return LimitExceeded("max_inline_bytes", total, maximum, "data");
    decoder.inline_bytes = total;
  }
  auto data = FromProto(proto.data(), literal.spec.type);
  if (!data.ok()) return Inside("data", data.status());
  literal.data = *std::move(data);
  return literal;
}

v1::TensorLiteral EncodeLiteral(const SpecRequest& spec, std::string_view data) {
  v1::TensorLiteral proto;
  *proto.mutable_spec() = ToProto(spec);
  *proto.mutable_data() = ToProto(data, spec.type, ValueFormat::kRaw);
  return proto;
}

v1::TensorData EncodeData(std::string_view data, const TensorType& type, ValueFormat format) {
  return ToProto(data, type, format == ValueFormat::kTyped ? ValueFormat::kTyped : ValueFormat::kRaw);
}

std::optional<DeviceId> DecodeDevice(const std::string& name) { return DeviceId::Parse(name); }

v1::ModelRef ToProto(const ModelRef& ref) {
  v1::ModelRef proto;
  if (ref.id != 0) {
    proto.set_id(ref.id);
  } else if (!ref.name.empty()) {
    proto.set_name(ref.name);
  }
  return proto;
}

v1::TensorRef ToProto(const TensorRef& ref) {
  v1::TensorRef proto;
  if (const auto* id = std::get_if<uint64_t>(&ref.ref)) {
    proto.set_id(*id);
  } else if (const auto* name = std::get_if<std::string>(&ref.ref)) {
    proto.set_name(*name);
  } else if (const auto* parameter = std::get_if<TensorRef::Parameter>(&ref.ref)) {
    *proto.mutable_parameter()->mutable_model() = ToProto(parameter->model);
    proto.mutable_parameter()->set_path(parameter->path);
  }
  return proto;
}

v1::TensorSpec ToProto(const SpecRequest& spec) {
  v1::TensorSpec proto;
  proto.set_dtype(EncodeDtype(spec.type.dtype));
  CopyTo(spec.type.shape, proto.mutable_shape());
  proto.set_device(spec.device);
  return proto;
}

v1::TensorSpec ToProto(const TensorSpec& spec) { return ToProto(SpecRequest{spec.type, spec.device.ToString()}); }

}  // namespace tensord::wire
