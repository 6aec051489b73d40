// Programs, Execute, registered programs and the op table (compute.proto, program.proto, attributes.proto). See
// convert.h; the stream is in stream.h.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/types.h"
#include "tensord/v1/compute.pb.h"
#include "tensord/v1/program.pb.h"

namespace tensord::wire {

struct RegisterProgramRequest {
  uint64_t id = 0;
  Program program;
};

// Requests. An instruction that cannot be decoded is the call's error, with its path
// ("program.instructions[3].reduce.axes").
absl::StatusOr<ExecuteRequest> FromProto(const v1::ExecuteRequest& proto);
v1::ExecuteRequest ToProto(const ExecuteRequest& request);
absl::StatusOr<RegisterProgramRequest> FromProto(const v1::RegisterProgramRequest& proto);
v1::RegisterProgramRequest ToProto(const RegisterProgramRequest& request);
absl::StatusOr<uint64_t> FromProto(const v1::UnregisterProgramRequest& proto);
v1::UnregisterProgramRequest UnregisterProgramRequestToProto(uint64_t id);
// The prefix.
absl::StatusOr<std::string> FromProto(const v1::ListOpsRequest& proto);
v1::ListOpsRequest ListOpsRequestToProto(const std::string& prefix);
// Always refused: NOT_OFFERED, once the request itself is sound.
absl::Status FromProto(const v1::MonitorOpsRequest& proto);

// Responses. ListOps: ops that this version has no row for are left out.
absl::StatusOr<ExecuteResponse> FromProto(const v1::ExecuteResponse& proto);
v1::ExecuteResponse ToProto(const ExecuteResponse& response);
absl::StatusOr<RegisterProgramResponse> FromProto(const v1::RegisterProgramResponse& proto);
v1::RegisterProgramResponse ToProto(const RegisterProgramResponse& response);
absl::StatusOr<std::vector<OpDescription>> FromProto(const v1::ListOpsResponse& proto);
v1::ListOpsResponse ToProto(const std::vector<OpDescription>& ops);
absl::StatusOr<InstructionReport> FromProto(const v1::InstructionReport& proto);
v1::InstructionReport ToProto(const InstructionReport& report);

// A program by itself, with op names in its table. FromProto is strict.
absl::StatusOr<Program> FromProto(const v1::Program& proto);
v1::Program ToProto(const Program& program);

}  // namespace tensord::wire
