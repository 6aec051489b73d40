// What the daemon makes for --emulate-cuda.
#include <atomic>
#include <set>
#include <thread>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/emulated/emulated_backend.h"
#include "tests/unit/cuda_backend/harness.h"

namespace tensord::testing {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(EmulatedBackends, AreCudaDevicesByNameTheSameEachTime) {
  std::set<std::string> identities;
  std::vector<std::string> first;
  for (int start = 0; start < 2; ++start) {
    const auto devices = Must(MakeEmulatedBackends({.devices = 64, .memory_bytes = kMiB}));
    ASSERT_EQ(devices.size(), 64U);
    for (uint32_t index = 0; index < 64; ++index) {
      const DeviceInfo& info = devices[index]->Info();
      EXPECT_EQ(info.id.ToString(), "cuda:" + std::to_string(index));
      EXPECT_TRUE(info.emulated);
      EXPECT_EQ(info.model, "Emulated CUDA device");
      ASSERT_TRUE(info.uuid && info.pci_bus_id);
      EXPECT_EQ(info.uuid->substr(0, 4), "GPU-");
      EXPECT_EQ(info.uuid->size(), 40U);
      EXPECT_FALSE(info.driver_version || info.cuda_version || info.numa_node);
      EXPECT_EQ(info.peers.size(), 63U);
      EXPECT_FALSE(devices[index]->host_addressable());
      EXPECT_FALSE(devices[index]->Telemetry().temperature_celsius.has_value());
      if (start == 0) {
        EXPECT_TRUE(identities.insert(*info.uuid).second);
        EXPECT_TRUE(identities.insert(*info.pci_bus_id).second);
        first.push_back(*info.uuid);
      } else {
        EXPECT_EQ(*info.uuid, first[index]);
      }
    }
  }
}

TEST(EmulatedBackends, HoldTheirLimitAmongThreads) {
  const auto devices = Must(MakeEmulatedBackends({.devices = 1, .memory_bytes = size_t{64} * 4096}));
  MemoryResource& memory = devices[0]->memory();
  std::vector<std::thread> threads;
  std::atomic<bool> exceeded{false};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        const absl::StatusOr<void*> block = memory.Allocate(20 * 4096, 0);
        const MemoryStats stats = memory.Stats();
        if (stats.free < 0 || stats.free > stats.total) exceeded = true;
        if (block.ok()) memory.Deallocate(*block, 20 * 4096, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded.load());
  EXPECT_EQ(memory.Stats().used, 0);
  EXPECT_EQ(memory.Stats().free, memory.Stats().total);
}

TEST(EmulatedBackends, ShareOneDriver) {
  auto one = Must(MakeEmulatedBackends({.devices = 2, .memory_bytes = kMiB}));
  const auto two = Must(MakeEmulatedBackends({.devices = 1, .memory_bytes = kMiB}));
  void* block = Must(one[0]->memory().Allocate(kMiB / 2, 0));
  EXPECT_EQ(two[0]->memory().Stats().free, static_cast<int64_t>(kMiB / 2));  // one card, two users
  EXPECT_EQ(two[0]->memory().Stats().used, 0);
  one[0]->memory().Deallocate(block, kMiB / 2, 0);
  EXPECT_EQ(ReasonOf(MakeEmulatedBackends({.devices = 3, .memory_bytes = kMiB}).status()), Reason::kFeatureUnavailable);
  EXPECT_EQ(ReasonOf(MakeEmulatedBackends({.devices = 2, .memory_bytes = 2 * kMiB}).status()),
            Reason::kFeatureUnavailable);
  one.clear();
  EXPECT_FALSE(MakeEmulatedBackends({.devices = 2, .memory_bytes = 2 * kMiB}).ok());  // `two` is still there
}

TEST(EmulatedBackends, RefuseUnderTheirOwnName) {
  const auto devices = Must(MakeEmulatedBackends({.devices = 4, .memory_bytes = kMiB}));
  Block block(*devices[3], 64);
  TensorView view{Dtype::kComplex64, {1}, {1}, block.data()};
  const KernelOperand operand{&view, nullptr};
  const Attributes none;
  const KernelCall call{Op::kExp, &none, Dtype::kComplex64, absl::MakeConstSpan(&operand, 1),
                        absl::MakeConstSpan(&view, 1)};
  const absl::Status status = devices[3]->Run(call, 0, devices[3]->memory());
  EXPECT_EQ(ReasonOf(status), Reason::kOpUnsupported) << status;
  EXPECT_EQ(DetailsOf(status).Get("device"), "cuda:3");
}

}  // namespace
}  // namespace tensord::testing
