// What Linux tells about the processor: name, instruction set, load.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/backend.h"

namespace tensord::cpu {

// Product name of the processor, or "CPU" where it is not told.
std::string ProcessorName();
// The level of the instruction set and what matters for speed beyond it: "x86-64-v3", "amx-bf16".
std::vector<std::string> ProcessorFeatures();

// Load and utilisation. Utilisation is that of the time since the call before, so the first call has none. Thread safe.
class LoadMeter {
 public:
  DeviceTelemetry Read();

 private:
  absl::Mutex mutex_;
  uint64_t busy_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t total_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensord::cpu
