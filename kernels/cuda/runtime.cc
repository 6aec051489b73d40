#include "kernels/cuda/runtime.h"

#include <utility>

#include "kernels/core/error.h"

namespace tensord::cuda {

absl::Status Runtime::Enter() {
  if (lost()) return Health();
  return Check(cudaSetDevice(ordinal_), "cudaSetDevice");
}

absl::Status Runtime::Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();
  return Observe(ToStatus(error, traits_, what));
}

absl::Status Runtime::Observe(absl::Status status) {
  if (status.ok()) return status;
  if (lost()) return Health();
  if (ReasonOf(status) != Reason::kDeviceLost) return status;
  absl::MutexLock lock(&mutex_);
  if (cause_.ok()) cause_ = std::move(status);
  lost_.store(true, std::memory_order_release);
  return cause_;
}

absl::Status Runtime::Health() const {
  if (!lost()) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  return cause_;
}

}  // namespace tensord::cuda
