// Backends on the emulated driver, set up by a test, and tensors on them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/nvml.h"
#include "kernels/emulated/control.h"

namespace tensord::testing {

template <class T>
T Must(absl::StatusOr<T> value) {
  EXPECT_TRUE(value.ok()) << value.status();
  if (!value.ok()) std::abort();
  return *std::move(value);
}

// Devices as `options` say, made anew; what a test leaves behind is found when it ends.
class Emulator {
 public:
  explicit Emulator(emulated::Options options = {}) {
    options.print_reports = false;
    emulated::Configure(options);
  }
  ~Emulator() {
    backends_.clear();
    emulated::ClearFaults();
    EXPECT_EQ(emulated::LiveStreams(), 0U);
    EXPECT_EQ(emulated::LiveEvents(), 0U);
    EXPECT_EQ(emulated::LiveAllocations(), 0U);
    emulated::Configure({});
  }

  absl::StatusOr<std::unique_ptr<Backend>> TryMake(int ordinal, cuda::CudaOptions options = {}) {
    const cuda::CudaDevices found = cuda::ListCudaDevices();
    if (found.devices.size() <= static_cast<size_t>(ordinal)) return absl::NotFoundError(found.why);
    options.device = found.devices[static_cast<size_t>(ordinal)];
    options.all = found.devices;
    return cuda::MakeCudaBackend(options);
  }
  Backend& Make(int ordinal = 0, const cuda::CudaOptions& options = {}) {
    backends_.push_back(Must(TryMake(ordinal, options)));
    return *backends_.back();
  }
  void DestroyBackends() { backends_.clear(); }

 private:
  std::vector<std::unique_ptr<Backend>> backends_;
};

// Device memory for the time of a scope.
class Block {
 public:
  Block(Backend& backend, size_t bytes)
      : memory_(&backend.memory()), bytes_(bytes), data_(Must(memory_->Allocate(bytes, 0))) {}
  ~Block() { memory_->Deallocate(data_, bytes_, 0); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  void* data() const { return data_; }
  char* at(size_t offset) const { return static_cast<char*>(data_) + offset; }

 private:
  MemoryResource* memory_;
  size_t bytes_;
  void* data_;
};

// Bytes that differ from place to place and from seed to seed.
inline std::vector<char> Pattern(size_t bytes, uint64_t seed) {
  std::vector<char> out(bytes);
  uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
  for (char& c : out) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    c = static_cast<char>(state >> 56);
  }
  return out;
}

inline std::vector<char> Read(Backend& backend, const void* data, size_t bytes) {
  std::vector<char> out(bytes);
  const absl::Status status = backend.Download(out.data(), data, bytes, 0);
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

// out = op(in) over `count` float32 values.
inline absl::Status RunUnary(Backend& backend, Op op, void* in, void* out, int64_t count) {
  TensorView input{Dtype::kFloat32, {count}, {1}, in};
  const TensorView output{Dtype::kFloat32, {count}, {1}, out};
  const KernelOperand operand{&input, nullptr};
  const Attributes none;
  const KernelCall call{op, &none, Dtype::kFloat32, absl::MakeConstSpan(&operand, 1), absl::MakeConstSpan(&output, 1)};
  return backend.Run(call, backend.default_stream(), backend.memory());
}

}  // namespace tensord::testing
