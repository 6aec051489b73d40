// The CUDA backend on the emulated driver: what it is, its memory, transfers, copies between devices.
#include <atomic>
#include <thread>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/staging.h"
#include "tests/unit/cuda_backend/harness.h"

namespace tensord::testing {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
using emulated::Mode;

TEST(CudaDevices, AreListedByBusId) {
  Emulator emulator({.devices = 3});
  const cuda::CudaDevices found = cuda::ListCudaDevices();
  ASSERT_EQ(found.devices.size(), 3U);
  EXPECT_EQ(found.why, "");
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found.devices[i].id.ToString(), "cuda:" + std::to_string(i));
    EXPECT_EQ(found.devices[i].uuid.substr(0, 4), "GPU-");
    EXPECT_EQ(found.devices[i].uuid.size(), 40U);
    if (i > 0) {
      EXPECT_LT(found.devices[i - 1].pci_bus_id, found.devices[i].pci_bus_id);
      EXPECT_NE(found.devices[i - 1].uuid, found.devices[i].uuid);
    }
  }
  EXPECT_EQ(emulated::LiveStreams(), 0U);
}

TEST(CudaDevices, WhyThereAreNone) {
  for (const auto& [error, text] : std::vector<std::pair<cudaError_t, std::string>>{
           {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver (35): "},
           {cudaErrorNoDevice, "cudaErrorNoDevice (100): "},
           {cudaErrorSystemDriverMismatch, "cudaErrorSystemDriverMismatch (803): "}}) {
    Emulator emulator({.startup_error = error});
    const cuda::CudaDevices found = cuda::ListCudaDevices();
    EXPECT_TRUE(found.devices.empty());
    EXPECT_EQ(found.why.substr(0, text.size()), text) << found.why;
    EXPECT_GT(found.why.size(), text.size());
  }
}

TEST(CudaBackend, SaysWhatItIs) {
  Emulator emulator({.devices = 2, .multiprocessors = 5});
  Backend& one = emulator.Make(1);
  const DeviceInfo& info = one.Info();
  EXPECT_EQ(info.id.ToString(), "cuda:1");
  EXPECT_FALSE(info.model.empty());
  EXPECT_TRUE(info.uuid && info.pci_bus_id);
  EXPECT_EQ(info.compute_units, 5U);
  EXPECT_TRUE(info.compute_capability.has_value());
  ASSERT_EQ(info.peers.size(), 1U);
  EXPECT_EQ(info.peers[0].ToString(), "cuda:0");
  EXPECT_FALSE(info.emulated);  // not said to it
  EXPECT_TRUE(one.Health().ok());
  EXPECT_FALSE(one.host_addressable());
  EXPECT_TRUE(one.Supports(Op::kAdd, Dtype::kFloat32));
  EXPECT_FALSE(one.Supports(Op::kAdd, Dtype::kComplex64));
  EXPECT_FALSE(one.Supports(Op::kNone, Dtype::kFloat32));
}

TEST(CudaBackend, HoldsNothingBeforeItIsUsed) {
  Emulator emulator({.memory_bytes = 8 * kMiB});
  Backend& backend = emulator.Make();
  EXPECT_EQ(emulated::LiveAllocations(), 0U);
  EXPECT_EQ(emulated::UsedBytes(0), 0U);
  EXPECT_EQ(emulated::LiveStreams(), 1U);
  EXPECT_EQ(backend.memory().Stats().free, backend.memory().Stats().total);
}

TEST(CudaBackend, MemoryIsCountedAndEndsWhereTheDeviceDoes) {
  Emulator emulator({.memory_bytes = kMiB});
  Backend& backend = emulator.Make();
  MemoryResource& memory = backend.memory();
  EXPECT_EQ(memory.Stats().total, static_cast<int64_t>(kMiB));
  void* half = Must(memory.Allocate(kMiB / 2, 0));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(half) % MemoryResource::kAlignment, 0U);
  EXPECT_EQ(memory.Stats().used, static_cast<int64_t>(kMiB / 2));
  EXPECT_EQ(memory.Stats().free, static_cast<int64_t>(kMiB / 2));
  void* page = Must(memory.Allocate(1, 0));
  const absl::StatusOr<void*> refused = memory.Allocate(kMiB / 2, 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(ReasonOf(refused.status()), Reason::kMemoryExhausted);
  const ErrorDetails details = DetailsOf(refused.status());
  EXPECT_EQ(details.Get("device"), "cuda:0");
  EXPECT_EQ(details.Get("requested"), "524288");
  EXPECT_EQ(details.Get("free"), std::to_string(memory.Stats().free));
  ASSERT_TRUE(details.shortage.has_value());
  EXPECT_EQ(details.shortage->limit, kMiB);
  EXPECT_FALSE(memory.Allocate(~size_t{0}, 0).ok());
  EXPECT_TRUE(backend.Health().ok());  // out of memory is no fault
  memory.Deallocate(page, 1, 0);
  void* rest = Must(memory.Allocate(kMiB / 2, 0));
  EXPECT_EQ(memory.Stats().free, 0);
  memory.Deallocate(rest, kMiB / 2, 0);
  memory.Deallocate(half, kMiB / 2, 0);
  EXPECT_EQ(memory.Stats().used, 0);
  EXPECT_EQ(memory.Stats().peak, static_cast<int64_t>(kMiB));
  EXPECT_EQ(memory.Stats().allocations, 3U);
}

class Modes : public ::testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Streams, Modes, ::testing::Values(Mode::kEager, Mode::kLazy, Mode::kBackground));

TEST_P(Modes, TransfersKeepEveryByteWhateverTheirSize) {
  constexpr size_t kChunk = cuda::Staging::kChunk;
  Emulator emulator({.memory_bytes = 64 * kMiB, .mode = GetParam()});
  Backend& backend = emulator.Make();
  Block block(backend, 3 * kChunk + 2);
  for (const size_t bytes : {size_t{1}, size_t{4096}, kChunk - 1, kChunk, kChunk + 1, 2 * kChunk, 3 * kChunk + 1}) {
    const std::vector<char> sent = Pattern(bytes, bytes);
    ASSERT_TRUE(backend.Upload(block.at(1), sent.data(), bytes, 0).ok());
    EXPECT_TRUE(Read(backend, block.at(1), bytes) == sent) << bytes;
  }
  EXPECT_TRUE(backend.Upload(nullptr, nullptr, 0, 0).ok());
  EXPECT_TRUE(backend.Download(nullptr, nullptr, 0, 0).ok());
}

TEST_P(Modes, TransfersComeAfterTheWorkThatWasEnqueued) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Emulator emulator({.memory_bytes = 8 * kMiB, .mode = GetParam(), .seed = seed});
    Backend& backend = emulator.Make();
    Block a(backend, 4096);
    Block b(backend, 4096);
    std::vector<float> values(1024, 3.0F);
    ASSERT_TRUE(backend.Upload(a.data(), values.data(), 4096, 0).ok());
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(RunUnary(backend, Op::kNegative, a.data(), b.data(), 1024).ok());
      ASSERT_TRUE(RunUnary(backend, Op::kNegative, b.data(), a.data(), 1024).ok());
    }
    ASSERT_TRUE(RunUnary(backend, Op::kNegative, a.data(), b.data(), 1024).ok());
    ASSERT_TRUE(backend.Download(values.data(), b.data(), 4096, 0).ok());
    EXPECT_EQ(values, std::vector<float>(1024, -3.0F));
    // An upload into memory that work still reads comes behind that work.
    ASSERT_TRUE(RunUnary(backend, Op::kNegative, b.data(), a.data(), 1024).ok());
    const std::vector<float> other(1024, 7.0F);
    ASSERT_TRUE(backend.Upload(b.data(), other.data(), 4096, 0).ok());
    ASSERT_TRUE(backend.Download(values.data(), a.data(), 4096, 0).ok());
    EXPECT_EQ(values, std::vector<float>(1024, 3.0F));
    EXPECT_TRUE(backend.Synchronize(0).ok());
  }
}

TEST_P(Modes, ManyThreadsTransferAtOnce) {
  Emulator emulator({.memory_bytes = 64 * kMiB, .mode = GetParam()});
  Backend& backend = emulator.Make();
  constexpr size_t kBytes = cuda::Staging::kChunk + 77;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 7; ++t) {  // more than there are lanes
    threads.emplace_back([&, t] {
      Block block(backend, kBytes);
      for (int round = 0; round < 2; ++round) {
        const std::vector<char> sent = Pattern(kBytes, static_cast<uint64_t>(t * 10 + round));
        if (!backend.Upload(block.data(), sent.data(), kBytes, 0).ok() || Read(backend, block.data(), kBytes) != sent) {
          wrong.fetch_add(1);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(Modes, CopiesBetweenDevicesWithAndWithoutPeers) {
  for (const bool peers : {true, false}) {
    Emulator emulator({.devices = 2, .memory_bytes = 64 * kMiB, .peers = peers, .mode = GetParam()});
    Backend& one = emulator.Make(0);
    Backend& two = emulator.Make(1);
    EXPECT_EQ(one.Info().peers.size(), peers ? 1U : 0U);
    constexpr int64_t kCount = (5 << 20) / 4;
    Block a(one, kCount * 4);
    Block b(one, kCount * 4);
    Block c(two, kCount * 4);
    std::vector<float> values(kCount);
    for (int64_t i = 0; i < kCount; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i % 1000);
    ASSERT_TRUE(one.Upload(a.data(), values.data(), kCount * 4, 0).ok());
    // The copy sees what the source's stream holds, and what the source enqueues next does not disturb it.
    ASSERT_TRUE(RunUnary(one, Op::kNegative, a.data(), b.data(), kCount).ok());
    ASSERT_TRUE(two.CopyFrom(one, b.data(), c.data(), kCount * 4, 0).ok());
    ASSERT_TRUE(RunUnary(one, Op::kNegative, b.data(), b.data(), kCount).ok());
    std::vector<float> got(kCount);
    ASSERT_TRUE(two.Download(got.data(), c.data(), kCount * 4, 0).ok());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], -values[i]) << i << (peers ? " peers" : " host");
    // Within one device, and nothing at all.
    ASSERT_TRUE(one.CopyFrom(one, b.data(), a.data(), kCount * 4, 0).ok());
    ASSERT_TRUE(one.Download(got.data(), a.data(), kCount * 4, 0).ok());
    EXPECT_EQ(got, values);
    EXPECT_TRUE(two.CopyFrom(one, nullptr, nullptr, 0, 0).ok());
  }
}

TEST_P(Modes, CopiesBetweenBackendsOnOneDevice) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Emulator emulator({.memory_bytes = 8 * kMiB, .mode = GetParam(), .seed = seed});
    Backend& one = emulator.Make(0);
    Backend& two = emulator.Make(0);
    Block a(one, 4096);
    Block b(two, 4096);
    const std::vector<float> values(1024, 3.0F);
    ASSERT_TRUE(one.Upload(a.data(), values.data(), 4096, 0).ok());
    ASSERT_TRUE(RunUnary(one, Op::kNegative, a.data(), a.data(), 1024).ok());
    ASSERT_TRUE(two.CopyFrom(one, a.data(), b.data(), 4096, 0).ok());
    ASSERT_TRUE(RunUnary(one, Op::kNegative, a.data(), a.data(), 1024).ok());
    std::vector<float> got(1024);
    ASSERT_TRUE(two.Download(got.data(), b.data(), 4096, 0).ok());
    EXPECT_EQ(got, std::vector<float>(1024, -3.0F));
  }
}

TEST(CudaBackend, CopiesToAndFromTheCpu) {
  Emulator emulator({.memory_bytes = 64 * kMiB, .mode = Mode::kLazy});
  Backend& device = emulator.Make();
  const std::unique_ptr<Backend> cpu = MakeCpuBackend({});
  const std::vector<char> sent = Pattern(9 * kMiB + 5, 1);
  Block block(device, sent.size());
  ASSERT_TRUE(device.CopyFrom(*cpu, sent.data(), block.data(), sent.size(), 0).ok());
  std::vector<char> got(sent.size());
  ASSERT_TRUE(cpu->CopyFrom(device, block.data(), got.data(), got.size(), 0).ok());
  EXPECT_TRUE(got == sent);
}

// A device that is neither ours nor the host's.
class Foreign final : public Backend {
 public:
  explicit Foreign(std::vector<char> bytes) : bytes_(std::move(bytes)) {}
  const DeviceInfo& Info() const override { return info_; }
  DeviceTelemetry Telemetry() override { return {}; }
  absl::Status Health() override { return absl::OkStatus(); }
  MemoryResource& memory() override { std::abort(); }
  bool host_addressable() const override { return false; }
  bool Supports(Op /*op*/, Dtype /*compute*/) const override { return false; }
  StreamId default_stream() const override { return 3; }
  absl::Status Run(const KernelCall& /*call*/, StreamId /*stream*/, MemoryResource& /*scratch*/) override {
    return absl::OkStatus();
  }
  absl::Status Upload(void* /*device*/, const void* /*host*/, size_t /*bytes*/, StreamId /*stream*/) override {
    return absl::OkStatus();
  }
  absl::Status Download(void* host, const void* device, size_t bytes, StreamId stream) override {
    EXPECT_EQ(stream, 3U);
    if (fail_at_ >= 0 && downloads_++ == fail_at_) return absl::UnavailableError("foreign");
    std::memcpy(host, bytes_.data() + reinterpret_cast<uintptr_t>(device), bytes);  // its addresses are offsets
    return absl::OkStatus();
  }
  absl::Status CopyFrom(Backend& /*source*/, const void* /*source_data*/, void* /*data*/, size_t /*bytes*/,
                        StreamId /*stream*/) override {
    return absl::OkStatus();
  }
  absl::Status Synchronize(StreamId /*stream*/) override { return absl::OkStatus(); }
  int fail_at_ = -1;

 private:
  DeviceInfo info_;
  std::vector<char> bytes_;
  int downloads_ = 0;
};

TEST(CudaBackend, CopiesFromBackendsItDoesNotKnow) {
  Emulator emulator({.memory_bytes = 64 * kMiB});
  Backend& device = emulator.Make();
  Foreign foreign(Pattern(9 * kMiB, 4));
  Block block(device, 9 * kMiB - 1);
  ASSERT_TRUE(device.CopyFrom(foreign, reinterpret_cast<void*>(1), block.data(), 9 * kMiB - 1, 0).ok());
  const std::vector<char> all = Pattern(9 * kMiB, 4);
  EXPECT_TRUE(Read(device, block.data(), 9 * kMiB - 1) == std::vector<char>(all.begin() + 1, all.end()));
  foreign.fail_at_ = 1;
  EXPECT_EQ(device.CopyFrom(foreign, reinterpret_cast<void*>(1), block.data(), 9 * kMiB - 1, 0),
            absl::UnavailableError("foreign"));
  EXPECT_TRUE(device.Health().ok());
}

TEST(CudaBackend, TransfersGoOnWhereNoMemoryCanBePinned) {
  Emulator emulator({.memory_bytes = 32 * kMiB, .mode = Mode::kLazy});
  Backend& device = emulator.Make();
  constexpr size_t kBytes = 2 * cuda::Staging::kChunk + 9;
  Block block(device, kBytes);
  const std::vector<char> sent = Pattern(kBytes, 8);
  for (const uint64_t pinned : {0, 1}) {  // none, then one chunk of two
    emulated::FailAfter(emulated::Api::cudaHostAlloc, pinned, cudaErrorMemoryAllocation);
    ASSERT_TRUE(device.Upload(block.data(), sent.data(), kBytes, 0).ok());
    emulated::ClearFaults();
    emulated::FailAfter(emulated::Api::cudaHostAlloc, 0, cudaErrorMemoryAllocation);
    EXPECT_TRUE(Read(device, block.data(), kBytes) == sent);
    emulated::ClearFaults();
  }
  EXPECT_TRUE(device.Health().ok());
}

TEST(CudaBackend, OpsThatAreTheEnginesDoNotRunHere) {
  Emulator emulator({.memory_bytes = 8 * kMiB});
  Backend& device = emulator.Make();
  Block block(device, 64);
  EXPECT_EQ(ReasonOf(RunUnary(device, Op::kReshape, block.data(), block.data(), 4)), Reason::kInternal);
}

}  // namespace
}  // namespace tensord::testing
