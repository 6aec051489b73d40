// Small helpers of calls: reading values, ending work at a deadline.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/engine/core.h"
#include "server/engine/work.h"

namespace tensord {

// The bytes of a ready, contiguous tensor, in row-major order. Error: DEVICE_LOST and the like.
absl::StatusOr<std::string> ReadValues(const Tensor& tensor);

// The batch's work that has not begun, in these lanes of its tenant, fails with `status`. Without locks.
void CancelNow(Core& core, Batch& batch, const std::vector<Ref<Lane>>& lanes, const absl::Status& status);

// At `when` the batch's work that has not begun fails with `status`, and `then` is called. The session's mutex, where
// there is one, is held. Cancel the timer once the batch is done. 0 where `when` is never.
Timer::Id CancelAt(Core& core, Ref<Batch> batch, absl::Time when, absl::Status status,
                   absl::AnyInvocable<void()> then = nullptr);

}  // namespace tensord
