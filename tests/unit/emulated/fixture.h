// Device memory for one test, and the emulator as it was afterwards.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/emulated/control.h"

namespace tensord::emulated {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAsan = true;
#else
inline constexpr bool kAsan = false;
#endif
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kTsan = true;
#else
inline constexpr bool kTsan = false;
#endif

// Every test begins with quiet devices of 16 MiB behind guard pages.
class EmulatorTest : public testing::Test {
 protected:
  EmulatorTest() { Begin({}); }
  ~EmulatorTest() override { Configure(Options()); }

  static Options Quiet() {
    Options options;
    options.memory_bytes = size_t{16} << 20;
    options.guard_pages = true;
    options.print_reports = false;
    return options;
  }
  // Quiet(), changed.
  struct Change {
    Mode mode = Mode::kEager;
    Order order = Order::kAscending;
    uint64_t seed = 1;
    int devices = 1;
    bool guard_pages = true;
  };
  static void Begin(const Change& change) {
    Options options = Quiet();
    options.mode = change.mode;
    options.order = change.order;
    options.seed = change.seed;
    options.devices = change.devices;
    options.guard_pages = change.guard_pages;
    Configure(options);
  }

  template <class T>
  static T* Device(size_t count) {
    void* data = nullptr;
    EXPECT_EQ(cudaMalloc(&data, count * sizeof(T)), cudaSuccess);
    return static_cast<T*>(data);
  }
  template <class T>
  static T* Device(const std::vector<T>& values) {
    T* data = Device<T>(values.size());
    EXPECT_EQ(cudaMemcpy(data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
    return data;
  }
  template <class T>
  static std::vector<T> Host(const T* data, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }
};

}  // namespace tensord::emulated
