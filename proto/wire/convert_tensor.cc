#include "proto/wire/convert_tensor.h"

#include <utility>

#include "kernels/core/error.h"
#include "proto/wire/parts.h"
#include "proto/wire/status.h"
#include "proto/wire/upload_start.h"

namespace tensord::wire {
namespace {

constexpr int64_t kMaxTtlSeconds = int64_t{10} * 365 * 24 * 3600;

TensorState DecodeState(v1::TensorState state) {
  switch (state) {
    case v1::TENSOR_STATE_READY:
      return TensorState::kReady;
    case v1::TENSOR_STATE_OFFLOADED:
      return TensorState::kOffloaded;
    case v1::TENSOR_STATE_FAILED:
      return TensorState::kFailed;
    default:
      return TensorState::kPending;
  }
}

// `uploading`: the source is the tensor that is being uploaded, and none may be given.
absl::StatusOr<PublishRequest> DecodePublish(const v1::PublishRequest& proto, bool uploading) {
  Decoder decoder;
  PublishRequest request;
  if (uploading && proto.source_case() != v1::PublishRequest::SOURCE_NOT_SET) {
    return FieldInvalid(proto.has_model() ? "model" : "tensor", "set", "nothing: it is the tensor uploaded");
  }
  switch (proto.source_case()) {
    case v1::PublishRequest::kTensor: {
      auto ref = DecodeRef(proto.tensor(), decoder);
      if (!ref.ok()) return Inside("tensor", ref.status());
      request.source = *std::move(ref);
      break;
    }
    case v1::PublishRequest::kModel: {
      auto ref = DecodeRef(proto.model(), decoder);
      if (!ref.ok()) return Inside("model", ref.status());
      request.source = *std::move(ref);
      break;
    }
    case v1::PublishRequest::SOURCE_NOT_SET:
      if (!uploading) return FieldInvalid("tensor", "not set", "a tensor or a model");
      break;
  }
  request.name = proto.name();
  request.replace = proto.replace();
  request.if_version = proto.if_version();
  request.durable = proto.durable();
  if (proto.has_ttl()) {
    TENSORD_ASSIGN_OR_RETURN(request.ttl, RequestDuration(proto.ttl(), "ttl"));
    if (*request.ttl > absl::Seconds(kMaxTtlSeconds)) {
      return LimitExceeded("max_ttl_seconds", static_cast<uint64_t>(proto.ttl().seconds()), kMaxTtlSeconds, "ttl");
    }
  }
  return request;
}

}  // namespace

absl::StatusOr<UploadStart> DecodeUploadStart(const v1::UploadStart& proto) {
  Decoder decoder;
  UploadStart start;
  start.id = proto.id();
  auto spec = DecodeSpecRequest(proto.spec(), decoder);
  if (!spec.ok()) return Inside("spec", spec.status());
  start.spec = *std::move(spec);
  start.checksum = static_cast<Checksum>(proto.checksum());
  if (!proto.sha256().empty() && proto.sha256().size() != 32) {
    return FieldInvalid("sha256", StrCat(proto.sha256().size(), " bytes"), "32 bytes, or none");
  }
  start.sha256 = proto.sha256();
  if (proto.has_segment()) return FeatureUnavailable("shared-memory");
  if (proto.has_publish()) {
    auto publish = DecodePublish(proto.publish(), /*uploading=*/true);
    if (!publish.ok()) return Inside("publish", publish.status());
    start.publish = *std::move(publish);
  }
  return start;
}

absl::StatusOr<UploadStart> FromProto(const v1::UploadStart& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  return DecodeUploadStart(proto);
}

v1::UploadStart ToProto(const UploadStart& start) {
  v1::UploadStart proto;
  proto.set_id(start.id);
  *proto.mutable_spec() = ToProto(start.spec);
  proto.set_checksum(static_cast<v1::ChecksumAlgorithm>(start.checksum));
  proto.set_sha256(start.sha256);
  if (start.publish) *proto.mutable_publish() = ToProto(*start.publish);
  return proto;
}

absl::StatusOr<DownloadCall> FromProto(const v1::DownloadRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  DownloadCall call;
  auto ref = DecodeRef(proto.tensor(), Decoder());
  if (!ref.ok()) return Inside("tensor", ref.status());
  call.request = {*std::move(ref), proto.offset(), proto.length()};
  call.chunk_bytes = proto.chunk_bytes();
  call.checksum = static_cast<Checksum>(proto.checksum());
  if (proto.has_segment()) return FeatureUnavailable("shared-memory");
  return call;
}

v1::DownloadRequest ToProto(const DownloadCall& call) {
  v1::DownloadRequest proto;
  *proto.mutable_tensor() = ToProto(call.request.tensor);
  proto.set_offset(call.request.offset);
  proto.set_length(call.request.length);
  proto.set_chunk_bytes(call.chunk_bytes);
  proto.set_checksum(static_cast<v1::ChecksumAlgorithm>(call.checksum));
  return proto;
}

absl::StatusOr<TensorRef> FromProto(const v1::GetTensorRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  auto ref = DecodeRef(proto.tensor(), Decoder());
  if (!ref.ok()) return Inside("tensor", ref.status());
  return ref;
}

v1::GetTensorRequest GetTensorRequestToProto(const TensorRef& tensor) {
  v1::GetTensorRequest proto;
  *proto.mutable_tensor() = ToProto(tensor);
  return proto;
}

absl::StatusOr<ListTensorsRequest> FromProto(const v1::ListTensorsRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  return ListTensorsRequest{
      proto.workspace(), proto.handles(), proto.prefix(), {proto.page_size(), proto.page_token()}};
}

v1::ListTensorsRequest ToProto(const ListTensorsRequest& request) {
  v1::ListTensorsRequest proto;
  proto.set_workspace(request.workspace);
  proto.set_handles(request.handles);
  proto.set_prefix(request.prefix);
  proto.set_page_size(request.page.page_size);
  proto.set_page_token(request.page.page_token);
  return proto;
}

absl::StatusOr<PublishRequest> FromProto(const v1::PublishRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  return DecodePublish(proto, /*uploading=*/false);
}

v1::PublishRequest ToProto(const PublishRequest& request) {
  v1::PublishRequest proto;
  if (const auto* tensor = std::get_if<TensorRef>(&request.source)) {
    *proto.mutable_tensor() = ToProto(*tensor);
  } else if (const auto* model = std::get_if<ModelRef>(&request.source)) {
    *proto.mutable_model() = ToProto(*model);
  }
  proto.set_name(request.name);
  proto.set_replace(request.replace);
  proto.set_if_version(request.if_version);
  if (request.ttl) *proto.mutable_ttl() = EncodeDuration(*request.ttl);
  proto.set_durable(request.durable);
  return proto;
}

absl::StatusOr<DeleteTensorsRequest> FromProto(const v1::DeleteTensorsRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  DeleteTensorsRequest request;
  request.allow_missing = proto.allow_missing();
  for (int i = 0; i < proto.tensors_size(); ++i) {
    auto ref = DecodeRef(proto.tensors(i), Decoder());
    if (!ref.ok()) return Inside(StrCat("tensors[", i, "]"), ref.status());
    request.tensors.push_back(*std::move(ref));
  }
  return request;
}

v1::DeleteTensorsRequest ToProto(const DeleteTensorsRequest& request) {
  v1::DeleteTensorsRequest proto;
  for (const TensorRef& tensor : request.tensors) *proto.add_tensors() = ToProto(tensor);
  proto.set_allow_missing(request.allow_missing);
  return proto;
}

absl::Status FromProto(const v1::ShareMemoryRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  return FeatureUnavailable("shared-memory");
}

absl::Status FromProto(const v1::UnshareMemoryRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  return FeatureUnavailable("shared-memory");
}

absl::StatusOr<UploadProgress> FromProto(const v1::UploadResponse& proto) {
  UploadProgress progress;
  progress.received_bytes = proto.received_bytes();
  progress.complete = proto.complete();
  if (proto.has_tensor()) {
    TENSORD_ASSIGN_OR_RETURN(progress.tensor, FromProto(proto.tensor()));
  }
  return progress;
}

v1::UploadResponse ToProto(const UploadProgress& progress) {
  v1::UploadResponse proto;
  proto.set_received_bytes(progress.received_bytes);
  proto.set_complete(progress.complete);
  if (progress.tensor) *proto.mutable_tensor() = ToProto(*progress.tensor);
  return proto;
}

absl::StatusOr<DownloadBegin> FromProto(const v1::DownloadStart& proto) {
  DownloadBegin begin;
  TENSORD_ASSIGN_OR_RETURN(begin.tensor, FromProto(proto.tensor()));
  begin.total_bytes = proto.total_bytes();
  return begin;
}

v1::DownloadStart ToProto(const DownloadBegin& begin) {
  v1::DownloadStart proto;
  *proto.mutable_tensor() = ToProto(begin.tensor);
  proto.set_total_bytes(begin.total_bytes);
  return proto;
}

absl::StatusOr<TensorInfo> FromProto(const v1::GetTensorResponse& proto) { return FromProto(proto.tensor()); }

v1::GetTensorResponse GetTensorResponseToProto(const TensorInfo& tensor) {
  v1::GetTensorResponse proto;
  *proto.mutable_tensor() = ToProto(tensor);
  return proto;
}

absl::StatusOr<ListTensorsResponse> FromProto(const v1::ListTensorsResponse& proto) {
  ListTensorsResponse response;
  for (const v1::Tensor& in : proto.tensors()) {
    if (auto tensor = FromProto(in); tensor.ok()) response.tensors.push_back(*std::move(tensor));
  }
  response.next_page_token = proto.next_page_token();
  return response;
}

v1::ListTensorsResponse ToProto(const ListTensorsResponse& response) {
  v1::ListTensorsResponse proto;
  for (const TensorInfo& tensor : response.tensors) *proto.add_tensors() = ToProto(tensor);
  proto.set_next_page_token(response.next_page_token);
  return proto;
}

absl::StatusOr<PublishResponse> FromProto(const v1::PublishResponse& proto) {
  return PublishResponse{proto.name(), proto.version()};
}

v1::PublishResponse ToProto(const PublishResponse& response) {
  v1::PublishResponse proto;
  proto.set_name(response.name);
  proto.set_version(response.version);
  return proto;
}

absl::StatusOr<DeleteTensorsResponse> FromProto(const v1::DeleteTensorsResponse& proto) {
  return DeleteTensorsResponse{proto.deleted(), proto.freed_bytes()};
}

v1::DeleteTensorsResponse ToProto(const DeleteTensorsResponse& response) {
  v1::DeleteTensorsResponse proto;
  proto.set_deleted(response.deleted);
  proto.set_freed_bytes(response.freed_bytes);
  return proto;
}

absl::StatusOr<TensorInfo> FromProto(const v1::Tensor& proto) {
  TensorInfo tensor;
  tensor.id = proto.id();
  tensor.names = CopyOf<std::vector<std::string>>(proto.names());
  TENSORD_ASSIGN_OR_RETURN(tensor.spec, DecodeSpec(proto.spec()));
  tensor.state = DecodeState(proto.state());
  if (proto.has_error()) tensor.error = FromRpcStatus(proto.error());
  tensor.bytes = proto.bytes();
  tensor.shared_storage = proto.shared_storage();
  tensor.create_time = DecodeTime(proto.create_time());
  if (proto.has_expire_time()) tensor.expire_time = DecodeTime(proto.expire_time());
  tensor.durable = proto.durable();
  return tensor;
}

v1::Tensor ToProto(const TensorInfo& tensor) {
  v1::Tensor proto;
  proto.set_id(tensor.id);
  for (const std::string& name : tensor.names) proto.add_names(name);
  *proto.mutable_spec() = ToProto(tensor.spec);
  proto.set_state(static_cast<v1::TensorState>(tensor.state));
  if (!tensor.error.ok()) *proto.mutable_error() = ToRpcStatus(tensor.error);
  proto.set_bytes(tensor.bytes);
  proto.set_shared_storage(tensor.shared_storage);
  // A tensor described before it was stored (an output that is not kept) has no such time.
  if (tensor.create_time != absl::Time()) *proto.mutable_create_time() = EncodeTime(tensor.create_time);
  if (tensor.expire_time) *proto.mutable_expire_time() = EncodeTime(*tensor.expire_time);
  proto.set_durable(tensor.durable);
  return proto;
}

}  // namespace tensord::wire
