// What the engine does once when a device is lost. That its storages count as failed, and that calls get the first
// cause, follows from the device itself (device.h).
#include <thread>
#include <utility>

#include "kernels/core/error.h"
#include "server/engine/core.h"
#include "server/engine/stream.h"
#include "server/engine/upload.h"

namespace tensord {

void Core::DeviceLost(Device& device) {
  // Whoever found out may hold any lock.
  timer.Post([this, &device] {
    if (closed.load()) return;
    // Work that waits for an input would wait for ever, where nobody can fill that any more.
    device.executor().WakeAll();
    for (const std::shared_ptr<Session>& session : sessions.All()) {
      std::vector<std::shared_ptr<UploadState>> uploads;
      std::shared_ptr<StreamCore> stream;
      {
        absl::MutexLock lock(&session->mu);
        stream = session->stream;
        for (const auto& [id, upload] : session->uploads) {
          if (upload->tensor()->storage->device() == &device) uploads.push_back(upload);
        }
      }
      for (const auto& upload : uploads) upload->Abandon(device.loss());
      if (stream) stream->Notice(device.loss());
    }
    if (!options.on_device_loss) return;
    absl::MutexLock lock(&loss_mu_);
    loss_calls_.emplace_back([this, &device] { options.on_device_loss(device.id(), device.loss()); });
  });
}

void Core::JoinLossCalls() {
  std::vector<std::thread> calls;
  {
    absl::MutexLock lock(&loss_mu_);
    calls.swap(loss_calls_);
  }
  for (std::thread& call : calls) call.join();
}

}  // namespace tensord
