// Sticky errors latch, others do not; whatever CUDA call fails, the status is clean and nothing stays behind.
#include "kernels/cuda/staging.h"
#include "tests/unit/cuda_backend/harness.h"

namespace tensord::testing {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
using emulated::Api;
using emulated::Mode;

const cudaError_t kSticky[] = {cudaErrorDevicesUnavailable, cudaErrorECCUncorrectable, cudaErrorContained,
                               cudaErrorIllegalAddress,     cudaErrorLaunchTimeout,    cudaErrorMisalignedAddress,
                               cudaErrorLaunchFailure,      cudaErrorUnknown};

void ExpectLost(const absl::Status& status, cudaError_t cause) {
  EXPECT_EQ(ReasonOf(status), Reason::kDeviceLost) << status;
  EXPECT_EQ(DetailsOf(status).Get("device"), "cuda:0");
  EXPECT_NE(DetailsOf(status).Get("cause").find(cudaGetErrorName(cause)), std::string_view::npos) << status;
}

TEST(CudaFaults, AStickyErrorIsRepeatedByEverythingWithoutCallingCuda) {
  for (const cudaError_t cause : kSticky) {
    SCOPED_TRACE(cudaGetErrorName(cause));
    Emulator emulator({.devices = 2, .memory_bytes = 16 * kMiB});
    Backend& sick = emulator.Make(0);
    Backend& well = emulator.Make(1);
    {
      Block block(sick, 4096);
      Block other(well, 4096);
      std::vector<float> values(1024, 1.0F);
      ASSERT_TRUE(sick.Upload(block.data(), values.data(), 4096, 0).ok());
      emulated::KillDevice(0, cause);
      const absl::Status first = RunUnary(sick, Op::kNegative, block.data(), block.data(), 1024);
      ExpectLost(first, cause);
      const uint64_t calls = emulated::CallCount();
      EXPECT_EQ(sick.Health(), first);
      EXPECT_EQ(RunUnary(sick, Op::kExp, block.data(), block.data(), 1024), first);
      EXPECT_EQ(sick.Upload(block.data(), values.data(), 4096, 0), first);
      EXPECT_EQ(sick.Download(values.data(), block.data(), 4096, 0), first);
      EXPECT_EQ(sick.Upload(nullptr, nullptr, 0, 0), first);
      EXPECT_EQ(sick.CopyFrom(well, other.data(), block.data(), 4096, 0), first);
      EXPECT_EQ(sick.Synchronize(0), first);
      EXPECT_EQ(sick.memory().Allocate(64, 0).status(), first);
      EXPECT_EQ(sick.memory().Stats().free, -1);
      EXPECT_EQ(emulated::CallCount(), calls);
      // The other device goes on; a copy from the lost one tells whose fault it is.
      EXPECT_EQ(well.CopyFrom(sick, block.data(), other.data(), 4096, 0), first);
      EXPECT_TRUE(well.Upload(other.data(), values.data(), 4096, 0).ok());
      EXPECT_TRUE(RunUnary(well, Op::kNegative, other.data(), other.data(), 1024).ok());
      EXPECT_TRUE(well.Health().ok());
    }
    EXPECT_EQ(sick.memory().Stats().used, 0);
    // Destroyed without touching the device, and made again once the device is back.
    emulator.DestroyBackends();
    EXPECT_EQ(ReasonOf(emulator.TryMake(0).status()), Reason::kDeviceLost);
    emulated::Configure({.devices = 2, .memory_bytes = 16 * kMiB});
    Backend& again = emulator.Make(0);
    Block block(again, 64);
    EXPECT_TRUE(again.Health().ok());
  }
}

TEST(CudaFaults, AFaultOfAKernelSurfacesWhereSomebodyWaits) {
  for (const Mode mode : {Mode::kEager, Mode::kLazy, Mode::kBackground}) {
    Emulator emulator({.memory_bytes = 16 * kMiB, .mode = mode});
    Backend& device = emulator.Make();
    {
      Block block(device, 4096);
      emulated::FailOperation(0, 1, cudaErrorIllegalAddress);
      const absl::Status run = RunUnary(device, Op::kNegative, block.data(), block.data(), 1024);
      if (!run.ok()) ExpectLost(run, cudaErrorIllegalAddress);
      ExpectLost(device.Synchronize(0), cudaErrorIllegalAddress);
      ExpectLost(device.Health(), cudaErrorIllegalAddress);
    }
    emulator.DestroyBackends();
    emulated::Configure({});
  }
}

TEST(CudaFaults, ErrorsThatAreNotStickyPass) {
  Emulator emulator({.memory_bytes = 16 * kMiB});
  Backend& device = emulator.Make();
  Block block(device, 4096);
  std::vector<char> bytes(4096, 1);
  emulated::FailAfter(Api::cudaMemcpyAsync, 0, cudaErrorInvalidValue);
  const absl::Status failed = device.Upload(block.data(), bytes.data(), 4096, 0);
  EXPECT_EQ(ReasonOf(failed), Reason::kInternal) << failed;
  EXPECT_NE(std::string(failed.message()).find("cudaErrorInvalidValue"), std::string::npos) << failed;
  EXPECT_TRUE(device.Upload(block.data(), bytes.data(), 4096, 0).ok());
  EXPECT_TRUE(device.Health().ok());
  EXPECT_TRUE(RunUnary(device, Op::kNegative, block.data(), block.data(), 1024).ok());
}

// Creates, transfers, computes, copies, frees. The first status that is not OK, or OK.
absl::Status Scenario(Emulator& emulator) {
  TENSORD_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> one, emulator.TryMake(0));
  TENSORD_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> two, emulator.TryMake(1));
  struct Owned {
    Backend& backend;
    void* data = nullptr;
    ~Owned() {
      if (data != nullptr) backend.memory().Deallocate(data, 4096, 0);
    }
  } a{*one}, b{*two};
  TENSORD_ASSIGN_OR_RETURN(a.data, one->memory().Allocate(4096, 0));
  TENSORD_ASSIGN_OR_RETURN(b.data, two->memory().Allocate(4096, 0));
  std::vector<float> values(1024, 2.0F);
  TENSORD_RETURN_IF_ERROR(one->Upload(a.data, values.data(), 4096, 0));
  TENSORD_RETURN_IF_ERROR(RunUnary(*one, Op::kNegative, a.data, a.data, 1024));
  TENSORD_RETURN_IF_ERROR(two->CopyFrom(*one, a.data, b.data, 4096, 0));
  TENSORD_RETURN_IF_ERROR(RunUnary(*two, Op::kNegative, b.data, b.data, 1024));
  TENSORD_RETURN_IF_ERROR(two->Synchronize(0));
  TENSORD_RETURN_IF_ERROR(two->Health());
  TENSORD_RETURN_IF_ERROR(two->Download(values.data(), b.data, 4096, 0));
  return values == std::vector<float>(1024, 2.0F) ? absl::OkStatus() : absl::DataLossError("wrong values");
}

TEST(CudaFaults, WhicheverCallFailsTheStatusIsCleanAndNothingStays) {
  for (const bool peers : {true, false}) {
    const emulated::Options options = {.devices = 2, .memory_bytes = 16 * kMiB, .peers = peers};
    uint64_t calls = 0;
    {
      Emulator emulator(options);
      const uint64_t before = emulated::CallCount();
      ASSERT_TRUE(Scenario(emulator).ok());
      calls = emulated::CallCount() - before;
    }
    ASSERT_GT(calls, 30U);
    for (const cudaError_t error : {cudaErrorInvalidValue, cudaErrorMemoryAllocation, cudaErrorLaunchFailure}) {
      const bool sticky = error == cudaErrorLaunchFailure;
      for (uint64_t n = 1; n <= calls; ++n) {
        SCOPED_TRACE(::testing::Message() << cudaGetErrorName(error) << " at call " << n << (peers ? ", peers" : ""));
        Emulator emulator(options);
        emulated::FailNth(n, error, sticky);
        const absl::Status status = Scenario(emulator);
        if (!status.ok()) {
          const Reason reason = ReasonOf(status);
          // NotFound: the list of devices is shorter by one that did not answer.
          EXPECT_TRUE(reason == Reason::kInternal || reason == Reason::kMemoryExhausted ||
                      reason == Reason::kDeviceLost || status.code() == absl::StatusCode::kNotFound)
              << status;
          if (sticky) {
            EXPECT_NE(reason, Reason::kMemoryExhausted);
          }
        }
        emulated::ClearFaults();
        // A call that only gives back may fail unseen, and then keeps what it was to give back; a lost device keeps all.
        if (sticky || emulated::LiveAllocations() + emulated::LiveStreams() + emulated::LiveEvents() > 0) {
          EXPECT_TRUE(sticky || emulated::LiveAllocations() + emulated::LiveStreams() + emulated::LiveEvents() <= 1U)
              << emulated::LiveAllocations() << " " << emulated::LiveStreams() << " " << emulated::LiveEvents();
          emulated::Configure(options);
        }
        EXPECT_TRUE(Scenario(emulator).ok());
      }
    }
  }
}

}  // namespace
}  // namespace tensord::testing
