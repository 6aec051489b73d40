#include "proto/wire/status_grpc.h"

#include <string>

#include "grpcpp/support/status.h"
#include "kernels/core/error.h"
#include "proto/wire/status.h"

namespace tensord::wire {
namespace {

// The trailer is sent as base64 (4/3) and the message percent encoded (up to 3 times its bytes): 4 KiB + 3 KiB, and the
// rest of the 8 KiB for other keys.
constexpr size_t kMaxTrailer = 3072;
constexpr size_t kMaxMessage = 1024;

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const google::rpc::Status rpc = ToRpcStatus(status, kMaxTrailer);
  std::string message = rpc.message();
  if (message.size() > kMaxMessage)
    message = ToRpcStatus(absl::Status(status.code(), status.message()), kMaxMessage).message();
  // A status without a reason carries nothing that code and message do not tell.
  if (rpc.details().empty()) return grpc::Status(static_cast<grpc::StatusCode>(rpc.code()), message);
  return grpc::Status(static_cast<grpc::StatusCode>(rpc.code()), message, rpc.SerializeAsString());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  if (google::rpc::Status rpc; !status.error_details().empty() && rpc.ParseFromString(status.error_details()) &&
                               rpc.code() == static_cast<int>(status.error_code())) {
    return FromRpcStatus(rpc);
  }
  ErrorDetails details;
  if (code == absl::StatusCode::kDeadlineExceeded) details.reason = Reason::kDeadlineExceeded;
  if (code == absl::StatusCode::kCancelled) details.reason = Reason::kCancelled;
  if (details.reason == Reason::kNone) return absl::Status(code, ToAbsl(status.error_message()));
  details.reason_name = RowOf(details.reason).name;
  return StatusWithDetails(code, status.error_message(), details);
}

}  // namespace tensord::wire
