// Mistakes in kernels and in host code, one kind a test, each caught: by the plain build where it can, else by the
// sanitizer that can.
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/unit/emulated/fixture.h"
#include "tests/unit/emulated/kernels.cuh"

namespace tensord::emulated {
namespace {

using testing::ExitedWithCode;

class Bugs : public EmulatorTest {
 protected:
  Bugs() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // What the device says of the bug when somebody waits for it.
  static cudaError_t Run(Bug bug, size_t count = 64) {
    float* data = Device<float>(count);
    EXPECT_EQ(LaunchBug(bug, data, static_cast<int64_t>(count), 0, nullptr), cudaSuccess)
        << "a launch is only enqueued";
    return cudaDeviceSynchronize();
  }
  static void ExpectReport(Bug bug, cudaError_t error, const std::vector<std::string>& words) {
    EXPECT_EQ(Run(bug), error) << cudaGetErrorName(error);
    const std::string report = LastReport();
    for (const std::string& word : words) EXPECT_NE(report.find(word), std::string::npos) << word << " in: " << report;
    EXPECT_EQ(cudaDeviceSynchronize(), error) << "sticky";
  }
};

// ---- Memory ----

TEST_F(Bugs, WritePastTheEnd) {
  if (kTsan) GTEST_SKIP() << "ThreadSanitizer takes the signal";
  if (kAsan) {
    EXPECT_DEATH(Run(Bug::kWritePastEnd, 61), "AddressSanitizer.*");  // to the byte: 61 floats fill no 256 bytes
  } else {
    // The last element ends at a page that nobody may touch.
    ExpectReport(Bug::kWritePastEnd, cudaErrorIllegalAddress,
                 {"an illegal write at 0x", "Wrong", "block (0,0,0)", "thread (0,0,0)"});
  }
}

TEST_F(Bugs, TheFaultNamesTheThread) {
  if (kTsan || kAsan) GTEST_SKIP() << "the sanitizer takes the signal";
  ExpectReport(Bug::kThread37WritesPastEnd, cudaErrorIllegalAddress, {"thread (37,0,0)"});
}

TEST_F(Bugs, NullPointer) {
  if (kTsan || kAsan) GTEST_SKIP() << "the sanitizer takes the signal";
  ExpectReport(Bug::kReadNull, cudaErrorIllegalAddress, {"an illegal read at (nil)"});
}

TEST_F(Bugs, UseAfterFree) {
  if (kTsan) GTEST_SKIP() << "ThreadSanitizer takes the signal";
  float* data = Device<float>(64);
  ASSERT_EQ(cudaFree(data), cudaSuccess);
  if (kAsan) {
    EXPECT_DEATH(LaunchFill(data, 1, 64, nullptr), "AddressSanitizer");
    return;
  }
  EXPECT_EQ(LaunchFill(data, 1, 64, nullptr), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

TEST_F(Bugs, HostCodeReadsDeviceMemory) {
  float* data = Device<float>(64);
  EXPECT_DEATH(std::exit(static_cast<int>(*static_cast<volatile float*>(data))), "");
}

TEST_F(Bugs, SharedArrayPastItsEnd) {
  if (kTsan) GTEST_SKIP() << "found by the other builds";
  if (kAsan) {
    EXPECT_DEATH(Run(Bug::kSharedPastEnd), "AddressSanitizer|runtime error");
  } else {
    ExpectReport(Bug::kSharedPastEnd, cudaErrorIllegalAddress, {"a write past the end of a shared array of 128 bytes"});
  }
}

TEST_F(Bugs, EndlessRecursion) {
  if (kTsan || kAsan) GTEST_SKIP() << "the sanitizer takes the signal";
  ExpectReport(Bug::kEndlessRecursion, cudaErrorIllegalAddress, {"Wrong"});
}

TEST_F(Bugs, IntegerDivisionByZero) {
  if (kTsan || kAsan) GTEST_SKIP() << "the sanitizer takes the signal";
  ExpectReport(Bug::kDivideByZero, cudaErrorLaunchFailure, {"a division by zero"});
}

TEST_F(Bugs, TooMuchSharedMemory) {
  ExpectReport(Bug::kTooMuchShared, cudaErrorLaunchFailure,
               {"kernels.cu:", "no room for 32768 bytes of shared memory"});
}

TEST_F(Bugs, MisalignedAccess) {
  if (!kAsan) GTEST_SKIP() << "needs UndefinedBehaviorSanitizer, which comes with AddressSanitizer";
  EXPECT_DEATH(Run(Bug::kMisaligned), "misaligned address");
}

TEST_F(Bugs, CopyPastTheEnd) {
  float* data = Device<float>(64);
  std::vector<float> host(65);
  EXPECT_EQ(cudaMemcpy(data, host.data(), 65 * sizeof(float), cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(LastReport(), "a copy past the end of an allocation");
}

TEST_F(Bugs, CopyOfTheWrongKind) {
  float* data = Device<float>(64);
  std::vector<float> host(64);
  EXPECT_EQ(cudaMemcpy(data, host.data(), 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(LastReport(), "a copy whose kind does not fit its pointers");
}

// ---- Threads ----

TEST_F(Bugs, BarrierInABranch) {
  ExpectReport(Bug::kDivergentBarrier, cudaErrorLaunchFailure,
               {"kernels.cu:", "divergent __syncthreads: 32 of 64 threads wait, 32 have ended", "Wrong"});
}
TEST_F(Bugs, TwoBarriers) {
  ExpectReport(Bug::kTwoBarriers, cudaErrorLaunchFailure,
               {"divergent __syncthreads: 64 of 64 threads wait, some of them at", "kernels.cu:"});
}
TEST_F(Bugs, BarrierAfterOthersEnded) {
  ExpectReport(Bug::kBarrierAfterEnd, cudaErrorLaunchFailure, {"32 of 64 threads wait, 32 have ended"});
}
TEST_F(Bugs, FullMaskInHalfAWarp) {
  ExpectReport(Bug::kHalfWarpShuffle, cudaErrorLaunchFailure,
               {"kernels.cu:", "lane 16 waits with mask ffffffff, but lanes 0000ffff of it never arrive"});
}
TEST_F(Bugs, LaneNotInItsMask) {
  ExpectReport(Bug::kNotInMask, cudaErrorLaunchFailure,
               {"lane 31 calls a shuffle with mask 7fffffff, which does not name it"});
}
TEST_F(Bugs, MaskOfLanesThatAreNotThere) {
  ExpectReport(Bug::kMissingLanes, cudaErrorLaunchFailure,
               {"names lanes ffff0000, which the block of 48 threads has not"});
}
TEST_F(Bugs, ShuffleFromOutsideTheMask) {
  ExpectReport(Bug::kSourceOutOfMask, cudaErrorLaunchFailure,
               {"lane 0 reads lane 20, which mask 0000ffff does not name"});
}
TEST_F(Bugs, MasksThatDiffer) {
  ExpectReport(Bug::kDifferentMasks, cudaErrorLaunchFailure,
               {"lane 2 calls a shuffle with mask 00000007 while lane 0 of that mask waits at", "with mask 00000003"});
}
TEST_F(Bugs, BarrierInAFlatLaunch) {
  ExpectReport(Bug::kBarrierInFlat, cudaErrorLaunchFailure, {"kernels.cu:", "__syncthreads in a flat launch"});
}
TEST_F(Bugs, ShuffleInAFlatLaunch) {
  ExpectReport(Bug::kShuffleInFlat, cudaErrorLaunchFailure, {"kernels.cu:", "a shuffle in a flat launch"});
}
TEST_F(Bugs, SharedMemoryInAFlatLaunch) {
  ExpectReport(Bug::kSharedInFlat, cudaErrorLaunchFailure, {"kernels.cu:", "shared memory in a flat launch"});
}

// The device lives in the executor, and the executor is used again.
TEST_F(Bugs, AfterABrokenLaunchAnotherDeviceWorks) {
  Begin({.devices = 2});
  EXPECT_EQ(Run(Bug::kDivergentBarrier), cudaErrorLaunchFailure);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  float* sum = Device(std::vector<float>{0});
  const float* data = Device(std::vector<float>(500, 1));
  EXPECT_EQ(LaunchSum(data, sum, 500, nullptr), cudaSuccess);
  EXPECT_EQ(Host(sum, 1)[0], 500);
}

TEST_F(Bugs, MissingBarrierGivesWrongNumbers) {
  if (kTsan) GTEST_SKIP() << "found as a race";
  std::vector<float> values(64 * 64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  for (const Order order : {Order::kAscending, Order::kDescending, Order::kRandom}) {
    Begin({.order = order});
    const float* from = Device(values);
    float* to = Device<float>(values.size());
    EXPECT_EQ(LaunchTranspose(from, to, 64, 64, false, nullptr), cudaSuccess);
    const std::vector<float> got = Host(to, values.size());
    size_t wrong = 0;
    for (size_t i = 0; i < got.size(); ++i) wrong += got[i] != values[i % 64 * 64 + i / 64] ? 1 : 0;
    EXPECT_GT(wrong, 0U) << "order " << static_cast<int>(order);
  }
}

// ThreadSanitizer ends the process with this code at exit where it has seen a race.
constexpr int kRace = 66;

TEST_F(Bugs, RaceInABlock) {
  if (!kTsan) GTEST_SKIP() << "needs ThreadSanitizer";
  EXPECT_EXIT((Run(Bug::kRaceInBlock), std::exit(0)), ExitedWithCode(kRace), "data race");
}
TEST_F(Bugs, MissingBarrierIsARaceInEveryOrder) {
  if (!kTsan) GTEST_SKIP() << "needs ThreadSanitizer";
  for (const Order order : {Order::kAscending, Order::kDescending, Order::kRandom}) {
    EXPECT_EXIT(
        {
          Begin({.order = order});
          const float* from = Device(std::vector<float>(64 * 64));
          float* to = Device<float>(64 * 64);
          LaunchTranspose(from, to, 64, 64, false, nullptr);
          std::exit(0);
        },
        ExitedWithCode(kRace), "data race");
  }
}
TEST_F(Bugs, RaceBetweenBlocks) {
  if (!kTsan) GTEST_SKIP() << "needs ThreadSanitizer";
  for (const Order order : {Order::kAscending, Order::kDescending, Order::kRandom}) {
    EXPECT_EXIT((Begin({.order = order}), Run(Bug::kRaceBetweenBlocks), std::exit(0)), ExitedWithCode(kRace),
                "data race");
  }
}
TEST_F(Bugs, RaceInAFlatLaunchOnFibers) {
  if (!kTsan) GTEST_SKIP() << "needs ThreadSanitizer";
  EXPECT_EXIT(
      {
        Options options = Quiet();
        options.flat_on_fibers = true;
        Configure(options);
        Run(Bug::kRaceInFlat);
        std::exit(0);
      },
      ExitedWithCode(kRace), "data race");
}

// ---- Streams ----

// A producer on one stream, a consumer on another. How often the consumer comes too early, in 20 seeds.
int TooEarly(bool wait) {
  int wrong = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Options options;
    options.mode = Mode::kLazy;
    options.seed = seed;
    options.print_reports = false;
    Configure(options);
    cudaStream_t first = nullptr, second = nullptr;
    cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
    cudaEvent_t event = nullptr;
    cudaEventCreate(&event);
    void* data = nullptr;
    cudaMalloc(&data, 256 * sizeof(float));
    LaunchFill(static_cast<float*>(data), 1, 256, first);
    LaunchIncrement(static_cast<float*>(data), 256, first);
    cudaEventRecord(event, first);
    if (wait) cudaStreamWaitEvent(second, event, 0);
    LaunchIncrement(static_cast<float*>(data), 256, second);
    cudaDeviceSynchronize();
    std::vector<float> got(256);
    cudaMemcpy(got.data(), data, 256 * sizeof(float), cudaMemcpyDeviceToHost);
    wrong += got == std::vector<float>(256, 3) ? 0 : 1;
  }
  return wrong;
}
TEST_F(Bugs, NoWaitBetweenStreams) {
  EXPECT_GT(TooEarly(false), 0);
  EXPECT_EQ(TooEarly(true), 0);
}

TEST_F(Bugs, PinnedMemoryReadBeforeTheCopyIsThere) {
  int stale = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Begin({.mode = Mode::kLazy, .seed = seed});
    void* host = nullptr;
    ASSERT_EQ(cudaMallocHost(&host, 4 * sizeof(float)), cudaSuccess);
    std::memset(host, 0, 4 * sizeof(float));
    float* data = Device(std::vector<float>{1, 2, 3, 4});
    LaunchIncrement(data, 4, nullptr);
    EXPECT_EQ(cudaMemcpyAsync(host, data, 4 * sizeof(float), cudaMemcpyDeviceToHost, nullptr), cudaSuccess);
    if (static_cast<float*>(host)[3] != 5) ++stale;
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    EXPECT_EQ(static_cast<float*>(host)[3], 5);
  }
  EXPECT_GT(stale, 0);
}

TEST_F(Bugs, CudaInAHostFunction) {
  static cudaError_t answer;
  EXPECT_EQ(cudaLaunchHostFunc(
                nullptr, [](void*) { answer = cudaFree(nullptr); }, nullptr),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(answer, cudaErrorNotPermitted);
  EXPECT_EQ(LastReport(), "cudaFree called in a host function of a stream");
}

}  // namespace
}  // namespace tensord::emulated
