// Models (model.proto). See convert.h.
#pragma once

#include "absl/status/statusor.h"
#include "server/engine/types.h"
#include "tensord/v1/model.pb.h"

namespace tensord::wire {

struct GetModelRequest {
  ModelRef model;
  bool with_program = false;
};

// Requests. Errors beside the general ones: NOT_OFFERED (sources onnx and program; weights; batching),
// FEATURE_UNAVAILABLE (repository), LAYER_INVALID is the engine's.
absl::StatusOr<CreateModelRequest> FromProto(const v1::CreateModelRequest& proto);
v1::CreateModelRequest ToProto(const CreateModelRequest& request);
absl::StatusOr<GetModelRequest> FromProto(const v1::GetModelRequest& proto);
v1::GetModelRequest ToProto(const GetModelRequest& request);
absl::StatusOr<ListModelsRequest> FromProto(const v1::ListModelsRequest& proto);
v1::ListModelsRequest ToProto(const ListModelsRequest& request);
absl::StatusOr<UpdateModelRequest> FromProto(const v1::UpdateModelRequest& proto);
v1::UpdateModelRequest ToProto(const UpdateModelRequest& request);
absl::StatusOr<ModelRef> FromProto(const v1::DeleteModelRequest& proto);
v1::DeleteModelRequest DeleteModelRequestToProto(const ModelRef& model);

// Responses.
absl::StatusOr<ModelInfo> FromProto(const v1::CreateModelResponse& proto);
v1::CreateModelResponse CreateModelResponseToProto(const ModelInfo& model);
absl::StatusOr<ModelInfo> FromProto(const v1::GetModelResponse& proto);
v1::GetModelResponse GetModelResponseToProto(const ModelInfo& model);
absl::StatusOr<ListModelsResponse> FromProto(const v1::ListModelsResponse& proto);
v1::ListModelsResponse ToProto(const ListModelsResponse& response);
absl::StatusOr<ModelInfo> FromProto(const v1::UpdateModelResponse& proto);
v1::UpdateModelResponse UpdateModelResponseToProto(const ModelInfo& model);
// Bytes that went with it.
absl::StatusOr<uint64_t> FromProto(const v1::DeleteModelResponse& proto);
v1::DeleteModelResponse DeleteModelResponseToProto(uint64_t freed_bytes);
absl::StatusOr<ModelInfo> FromProto(const v1::Model& proto);
v1::Model ToProto(const ModelInfo& model);

}  // namespace tensord::wire
