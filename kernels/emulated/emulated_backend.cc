#include "kernels/emulated/emulated_backend.h"

#include <cstdlib>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/emulated/control.h"

namespace tensord {
namespace {

// Who uses the emulated driver, and how it was set up for them.
class Users {
 public:
  absl::Status Join(const EmulatedOptions& wanted) {
    absl::MutexLock lock(&mutex_);
    if (count_ == 0) {
      emulated::Options options;
      options.devices = static_cast<int>(wanted.devices);
      options.memory_bytes = wanted.memory_bytes;
      options.peers = wanted.peers;
      emulated::Configure(options);
      devices_ = wanted.devices;
      bytes_ = wanted.memory_bytes;
      peers_ = wanted.peers;
    } else if (wanted.devices > devices_ || wanted.memory_bytes != bytes_ || wanted.peers != peers_) {
      return Error(Reason::kFeatureUnavailable)
          .With("feature", StrCat(wanted.devices, " emulated devices of ", wanted.memory_bytes, " bytes"))
          .With("available", StrCat(devices_, " of ", bytes_, " bytes, which are in use"));
    }
    ++count_;
    return absl::OkStatus();
  }
  void Leave() {
    absl::MutexLock lock(&mutex_);
    --count_;
  }

 private:
  absl::Mutex mutex_;
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t devices_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool peers_ ABSL_GUARDED_BY(mutex_) = true;
};
Users& DriverUsers() {
  static auto* const users = new Users();
  return *users;
}

// Keeps the driver as it is while it lives.
class Membership {
 public:
  static absl::StatusOr<std::shared_ptr<Membership>> Join(const EmulatedOptions& options) {
    TENSORD_RETURN_IF_ERROR(DriverUsers().Join(options));
    return std::shared_ptr<Membership>(new Membership());
  }
  ~Membership() { DriverUsers().Leave(); }
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

 private:
  Membership() = default;
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeEmulatedBackends(const EmulatedOptions& options) {
  TENSORD_ASSIGN_OR_RETURN(const std::shared_ptr<Membership> membership, Membership::Join(options));
  cuda::CudaDevices found = cuda::ListCudaDevices();
  if (found.devices.size() < options.devices) {
    return Error(Reason::kInternal).With("id", "emulated").With("cause", found.why);
  }
  found.devices.resize(options.devices);
  std::vector<std::unique_ptr<Backend>> backends;
  for (const cuda::CudaDevice& device : found.devices) {
    TENSORD_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, cuda::MakeCudaBackend({.device = device,
                                                                                      .all = found.devices,
                                                                                      .allow_tf32 = options.allow_tf32,
                                                                                      .emulated = true,
                                                                                      .driver = membership}));
    backends.push_back(std::move(backend));
  }
  return backends;
}

std::unique_ptr<Backend> MakeEmulatedBackend(size_t memory_bytes) {
  auto backends = MakeEmulatedBackends({.devices = 1, .memory_bytes = memory_bytes});
  if (!backends.ok()) std::abort();
  return std::move(backends->front());
}

}  // namespace tensord
