// How an upload begins, where the message around it was checked already. Private to proto/wire.
#pragma once

#include "absl/status/statusor.h"
#include "server/engine/types.h"
#include "tensord/v1/tensor.pb.h"

namespace tensord::wire {

absl::StatusOr<UploadStart> DecodeUploadStart(const v1::UploadStart& proto);

}  // namespace tensord::wire
