// Tensors that exist, by reference and in lists; how uploads and downloads begin (tensor.proto, types.proto). See
// convert.h; chunks are in chunk.h.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "server/engine/types.h"
#include "tensord/v1/tensor.pb.h"
#include "tensord/v1/types.pb.h"

namespace tensord::wire {

// A download with what only the transport needs.
struct DownloadCall {
  DownloadRequest request;
  uint64_t chunk_bytes = 0;  // 0: 1 MiB
  Checksum checksum = Checksum::kNone;
};

// What an upload's responses say.
struct UploadProgress {
  uint64_t received_bytes = 0;
  bool complete = false;
  std::optional<TensorInfo> tensor;  // with complete
};

// How a download begins.
struct DownloadBegin {
  TensorInfo tensor;
  uint64_t total_bytes = 0;
};

// Requests.
// Errors: DTYPE_UNKNOWN, SHAPE_INVALID, LIMIT_EXCEEDED; FIELD_INVALID (sha256 of another length); FEATURE_UNAVAILABLE
// (segment).
absl::StatusOr<UploadStart> FromProto(const v1::UploadStart& proto);
v1::UploadStart ToProto(const UploadStart& start);
absl::StatusOr<DownloadCall> FromProto(const v1::DownloadRequest& proto);
v1::DownloadRequest ToProto(const DownloadCall& call);
absl::StatusOr<TensorRef> FromProto(const v1::GetTensorRequest& proto);
v1::GetTensorRequest GetTensorRequestToProto(const TensorRef& tensor);
absl::StatusOr<ListTensorsRequest> FromProto(const v1::ListTensorsRequest& proto);
v1::ListTensorsRequest ToProto(const ListTensorsRequest& request);
absl::StatusOr<PublishRequest> FromProto(const v1::PublishRequest& proto);
v1::PublishRequest ToProto(const PublishRequest& request);
absl::StatusOr<DeleteTensorsRequest> FromProto(const v1::DeleteTensorsRequest& proto);
v1::DeleteTensorsRequest ToProto(const DeleteTensorsRequest& request);
// Always refused: FEATURE_UNAVAILABLE "shared-memory", once the request itself is sound.
absl::Status FromProto(const v1::ShareMemoryRequest& proto);
absl::Status FromProto(const v1::UnshareMemoryRequest& proto);

// Responses.
absl::StatusOr<UploadProgress> FromProto(const v1::UploadResponse& proto);
v1::UploadResponse ToProto(const UploadProgress& progress);
absl::StatusOr<DownloadBegin> FromProto(const v1::DownloadStart& proto);
v1::DownloadStart ToProto(const DownloadBegin& begin);
absl::StatusOr<TensorInfo> FromProto(const v1::GetTensorResponse& proto);
v1::GetTensorResponse GetTensorResponseToProto(const TensorInfo& tensor);
absl::StatusOr<ListTensorsResponse> FromProto(const v1::ListTensorsResponse& proto);
v1::ListTensorsResponse ToProto(const ListTensorsResponse& response);
absl::StatusOr<PublishResponse> FromProto(const v1::PublishResponse& proto);
v1::PublishResponse ToProto(const PublishResponse& response);
absl::StatusOr<DeleteTensorsResponse> FromProto(const v1::DeleteTensorsResponse& proto);
v1::DeleteTensorsResponse ToProto(const DeleteTensorsResponse& response);
// Error for a device of a kind that this version does not know: DEVICE_UNKNOWN.
absl::StatusOr<TensorInfo> FromProto(const v1::Tensor& proto);
v1::Tensor ToProto(const TensorInfo& tensor);

// Names for what exists.
v1::TensorRef ToProto(const TensorRef& ref);
v1::ModelRef ToProto(const ModelRef& ref);
v1::TensorSpec ToProto(const SpecRequest& spec);
v1::TensorSpec ToProto(const TensorSpec& spec);

}  // namespace tensord::wire
