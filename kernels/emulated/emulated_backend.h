// CUDA devices where there are none: the CUDA backend (kernels/cuda) on the emulated driver.
//
//   auto made = MakeEmulatedBackends({.devices = 2, .memory_bytes = size_t{64} << 20});   // cuda:0 and cuda:1
//
// Marked `emulated`, with made-up UUIDs and bus ids that are the same at every start. What a real device would tell and
// this one cannot (temperature, driver) is left out.
//
// The emulated driver is the process's: backends that are alive at the same time share its devices and their memory, as
// several programs share a GPU. The first ones decide how many devices there are and how large; more of them, or others,
// are refused until all are gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace tensord {

struct EmulatedOptions {
  uint32_t devices = 1;
  size_t memory_bytes = size_t{1} << 30;  // of each
  bool allow_tf32 = false;
  bool peers = true;  // devices copy directly
};

// Thread safe. Errors: FEATURE_UNAVAILABLE (others are alive), and those of MakeCudaBackend.
absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeEmulatedBackends(const EmulatedOptions& options);

// For tests that want one device: cuda:0.
std::unique_ptr<Backend> MakeEmulatedBackend(size_t memory_bytes = size_t{1} << 30);

}  // namespace tensord
