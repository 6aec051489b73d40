// The switches that tests have: faults, counts, sizes of devices, modes.
#include "kernels/emulated/control.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/emulated/fixture.h"
#include "tests/unit/emulated/kernels.cuh"

namespace tensord::emulated {
namespace {

class Control : public EmulatorTest {
 protected:
  static cudaError_t Malloc(size_t bytes = 256) {
    void* data = nullptr;
    return cudaMalloc(&data, bytes);
  }
};

TEST_F(Control, DevicesOfDifferentSizes) {
  Options options = Quiet();
  options.devices = 3;
  options.memory_of_device = {size_t{1} << 20, size_t{2} << 20};
  Configure(options);
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 3);
  const size_t want[] = {size_t{1} << 20, size_t{2} << 20, size_t{16} << 20};
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(cudaSetDevice(i), cudaSuccess);
    size_t free = 0, total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    EXPECT_EQ(total, want[i]);
    EXPECT_EQ(free, want[i]);
  }
}

TEST_F(Control, MemoryIsCountedByGranules) {
  void* data = Device<char>(1);
  EXPECT_EQ(UsedBytes(0), 512U);
  void* more = Device<char>(513);
  EXPECT_EQ(UsedBytes(0), 1536U);
  EXPECT_EQ(LiveAllocations(), 2U);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaFree(more), cudaSuccess);
  EXPECT_EQ(UsedBytes(0), 0U);
  EXPECT_EQ(LiveAllocations(), 0U);
}

TEST_F(Control, ADeviceFillsUpToTheLastGranule) {
  Options options = Quiet();
  options.memory_bytes = 4096;
  Configure(options);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(Malloc(512), cudaSuccess) << i;
  EXPECT_EQ(Malloc(1), cudaErrorMemoryAllocation);
}

TEST_F(Control, IdentitiesAreStable) {
  Begin({.devices = 2});
  cudaDeviceProp first, second;
  ASSERT_EQ(cudaGetDeviceProperties(&first, 0), cudaSuccess);
  ASSERT_EQ(cudaGetDeviceProperties(&second, 1), cudaSuccess);
  EXPECT_STREQ(first.name, "Emulated CUDA device");
  // GPU-e3a1c0de-0000-4000-8000-000000000001
  const unsigned char want[16] = {0xe3, 0xa1, 0xc0, 0xde, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, 1};
  EXPECT_EQ(std::memcmp(second.uuid.bytes, want, 16), 0);
  char text[16];
  ASSERT_EQ(cudaDeviceGetPCIBusId(text, sizeof(text), 1), cudaSuccess);
  EXPECT_STREQ(text, "0000:02:00.0");
}

TEST_F(Control, AFaultComesOnceAndWhenItIsDue) {
  FailAfter(Api::cudaMalloc, 2, cudaErrorMemoryAllocation);
  EXPECT_EQ(Malloc(), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "other calls do not count";
  EXPECT_EQ(Malloc(), cudaSuccess);
  EXPECT_EQ(Malloc(), cudaErrorMemoryAllocation);
  EXPECT_EQ(Malloc(), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
}

TEST_F(Control, AStickyFaultStays) {
  Begin({.devices = 2});
  FailAfter(Api::cudaMalloc, 0, cudaErrorECCUncorrectable, true);
  EXPECT_EQ(Malloc(), cudaErrorECCUncorrectable);
  EXPECT_EQ(Malloc(), cudaErrorECCUncorrectable);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorECCUncorrectable);
  EXPECT_EQ(cudaGetLastError(), cudaErrorECCUncorrectable);
  EXPECT_EQ(cudaGetLastError(), cudaErrorECCUncorrectable);
  EXPECT_EQ(cudaDeviceReset(), cudaErrorECCUncorrectable);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess) << "the other device goes on";
  EXPECT_EQ(Malloc(), cudaSuccess);
  Revive(0);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(Malloc(), cudaSuccess);
}

// What a fault matrix does: count, then fail each call.
cudaError_t Scenario() {
  void* data = nullptr;
  cudaStream_t stream = nullptr;
  cudaError_t error = cudaStreamCreate(&stream);
  if (error != cudaSuccess) return error;
  error = cudaMalloc(&data, 1024);
  if (error == cudaSuccess) error = LaunchFill(static_cast<float*>(data), 1, 256, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  const cudaError_t freed = data == nullptr ? cudaSuccess : cudaFree(data);
  const cudaError_t destroyed = cudaStreamDestroy(stream);
  return error != cudaSuccess ? error : freed != cudaSuccess ? freed : destroyed;
}

TEST_F(Control, EveryCallCanBeMadeToFail) {
  const uint64_t before = CallCount();
  ASSERT_EQ(Scenario(), cudaSuccess);
  const uint64_t calls = CallCount() - before;
  EXPECT_EQ(calls, 6U);
  for (uint64_t n = 1; n <= calls; ++n) {
    FailNth(n, cudaErrorUnknown);
    EXPECT_EQ(Scenario(), cudaErrorUnknown) << n;
    ClearFaults();
  }
  FailNth(calls + 1, cudaErrorUnknown);
  EXPECT_EQ(Scenario(), cudaSuccess);
}

TEST_F(Control, KilledDevicesAnswerWithTheirError) {
  for (const cudaError_t error :
       {cudaErrorDevicesUnavailable, cudaErrorECCUncorrectable, cudaErrorContained, cudaErrorIllegalAddress,
        cudaErrorLaunchTimeout, cudaErrorMisalignedAddress, cudaErrorLaunchFailure, cudaErrorUnknown}) {
    KillDevice(0, error);
    EXPECT_EQ(Malloc(), error);
    EXPECT_EQ(cudaDeviceSynchronize(), error);
    int count = 0;
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess) << "devices are still there to be listed";
    Revive(0);
  }
}

TEST_F(Control, OperationsFailWhenSomebodyWaits) {
  for (const Mode mode : {Mode::kEager, Mode::kLazy, Mode::kBackground}) {
    Begin({.mode = mode});
    float* data = Device<float>(64);
    FailOperation(0, 2, cudaErrorLaunchFailure);
    EXPECT_EQ(LaunchFill(data, 1, 64, nullptr), cudaSuccess);
    EXPECT_EQ(LaunchFill(data, 2, 64, nullptr), cudaSuccess) << "a launch is only enqueued";
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaFree(data), cudaErrorLaunchFailure) << "sticky";
  }
}

TEST_F(Control, AtTheStartThereMayBeNoDriver) {
  for (const cudaError_t error : {cudaErrorInsufficientDriver, cudaErrorNoDevice, cudaErrorSystemDriverMismatch}) {
    Options options = Quiet();
    options.startup_error = error;
    Configure(options);
    int count = -1;
    EXPECT_EQ(cudaGetDeviceCount(&count), error);
    EXPECT_EQ(cudaSetDevice(0), error);
    EXPECT_EQ(Malloc(), error);
    EXPECT_EQ(cudaGetLastError(), error);
    int driver = -1;
    EXPECT_EQ(cudaDriverGetVersion(&driver), cudaSuccess);
    EXPECT_EQ(driver == 0, error == cudaErrorInsufficientDriver);
  }
  Options options = Quiet();
  options.devices = 0;
  Configure(options);
  int count = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
}

TEST_F(Control, LeaksAreCounted) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  void* pinned = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, 100), cudaSuccess);
  EXPECT_EQ(LiveStreams(), 1U);
  EXPECT_EQ(LiveEvents(), 1U);
  EXPECT_EQ(LiveAllocations(), 1U);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(LiveStreams() + LiveEvents() + LiveAllocations(), 0U);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle) << "handles die once";
  EXPECT_EQ(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
}

TEST_F(Control, LazyWorkWaitsForSomebody) {
  int late = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Begin({.mode = Mode::kLazy, .seed = seed});
    int ran = 0;
    EXPECT_EQ(cudaLaunchHostFunc(
                  nullptr, [](void* out) { ++*static_cast<int*>(out); }, &ran),
              cudaSuccess);
    late += ran == 0 ? 1 : 0;
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    EXPECT_EQ(ran, 1);
  }
  EXPECT_GT(late, 0);
}

TEST_F(Control, BackgroundWorkNeedsNobody) {
  Begin({.mode = Mode::kBackground});
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  float* data = Device<float>(256);
  EXPECT_EQ(LaunchFill(data, 1, 256, nullptr), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, nullptr), cudaSuccess);
  while (cudaEventQuery(event) == cudaErrorNotReady) std::this_thread::yield();
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
}

TEST_F(Control, ThreadsAndDevicesSideBySide) {
  for (const Mode mode : {Mode::kEager, Mode::kLazy, Mode::kBackground}) {
    Begin({.mode = mode, .order = Order::kRandom, .devices = 2});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([t] {
        EXPECT_EQ(cudaSetDevice(t % 2), cudaSuccess);
        cudaStream_t stream = nullptr;
        EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
        float* sum = Device(std::vector<float>{0});
        const float* data = Device(std::vector<float>(300, 2));
        for (int round = 1; round <= 5; ++round) {
          EXPECT_EQ(LaunchSum(data, sum, 300, stream), cudaSuccess);
          float got = 0;
          EXPECT_EQ(cudaMemcpyAsync(&got, sum, sizeof(got), cudaMemcpyDeviceToHost, stream), cudaSuccess);
          EXPECT_EQ(got, 600.0F * static_cast<float>(round));
        }
        EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_F(Control, LibrariesWorkInStreamOrder) {
  Begin({.mode = Mode::kLazy, .seed = 3});
  float* data = Device(std::vector<float>(4, 1));
  EXPECT_EQ(LaunchIncrement(data, 4, nullptr), cudaSuccess);
  EXPECT_EQ(Enqueue(nullptr,
                    [data] {
                      for (int i = 0; i < 4; ++i) data[i] *= 10;  // device memory is open to it
                      return cudaSuccess;
                    }),
            cudaSuccess);
  EXPECT_EQ(LaunchIncrement(data, 4, nullptr), cudaSuccess);
  EXPECT_EQ(Host(data, 4), std::vector<float>(4, 21));
}

TEST_F(Control, TheEnvironmentSaysWhatAProcessBeginsWith) {
  setenv("TENSORD_EMULATED_CUDA", "devices=3,memory=5MiB,mode=lazy,order=descending,seed=9,peers=0,guard=1,fill=0", 1);
  const Options options = OptionsFromEnvironment();
  EXPECT_EQ(options.devices, 3);
  EXPECT_EQ(options.memory_bytes, size_t{5} << 20);
  EXPECT_EQ(options.mode, Mode::kLazy);
  EXPECT_EQ(options.order, Order::kDescending);
  EXPECT_EQ(options.seed, 9U);
  EXPECT_FALSE(options.peers);
  EXPECT_TRUE(options.guard_pages);
  EXPECT_FALSE(options.fill_fresh);
  for (const char* wrong : {"devices", "devices=", "devices=x", "memory=1TiB", "mode=now", "colour=red", "seed=1,,"}) {
    setenv("TENSORD_EMULATED_CUDA", wrong, 1);
    EXPECT_EXIT(OptionsFromEnvironment(), testing::ExitedWithCode(2), "TENSORD_EMULATED_CUDA: cannot read") << wrong;
  }
  unsetenv("TENSORD_EMULATED_CUDA");
  EXPECT_EQ(OptionsFromEnvironment().devices, 1);
}

TEST_F(Control, NamesOfCalls) {
  EXPECT_STREQ(NameOf(Api::cudaMalloc), "cudaMalloc");
  EXPECT_STREQ(NameOf(Api::kCount), "any");
}

// A device without its sizes' worth of host memory: nothing is touched before somebody writes.
TEST_F(Control, UnfilledMemoryCostsNothing) {
  Options options = Quiet();
  options.memory_bytes = size_t{1} << 40;
  options.fill_fresh = false;
  Configure(options);
  EXPECT_EQ(Malloc(size_t{1} << 31), cudaSuccess);
}

}  // namespace
}  // namespace tensord::emulated
