#include "server/engine/values.h"

#include <utility>

#include "kernels/core/error.h"

namespace tensord {

absl::StatusOr<std::string> ReadValues(const Tensor& tensor) {
  std::string data(tensor.bytes(), '\0');
  TENSORD_RETURN_IF_ERROR(tensor.Read(0, data.data(), data.size()));
  return data;
}

void CancelNow(Core& core, Batch& batch, const std::vector<Ref<Lane>>& lanes, const absl::Status& status) {
  batch.Cancel(status);
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i]) core.devices.all()[i]->executor().DropCancelled(lanes[i], batch);
  }
}

Timer::Id CancelAt(Core& core, Ref<Batch> batch, absl::Time when, absl::Status status,
                   absl::AnyInvocable<void()> then) {
  return core.timer.Schedule(when, [&core, lanes = batch->tenant()->lanes, batch, status = std::move(status),
                                    then = std::move(then)]() mutable {
    CancelNow(core, *batch, lanes, status);
    if (then) then();
  });
}

}  // namespace tensord
