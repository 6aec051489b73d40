// The CPU backend and the emulated device as backends: what they are, their memory, copies between them.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <thread>

#include "kernels/core/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/emulated/emulated_backend.h"
#include "tests/unit/cpu_elementwise/harness.h"

namespace tensord::testing {
namespace {

TEST(CpuBackend, SaysWhatItIs) {
  const DeviceInfo& info = Cpu().Info();
  EXPECT_EQ(info.id.ToString(), "cpu");
  EXPECT_FALSE(info.model.empty());
  EXPECT_GE(info.compute_units.value_or(0), 1u);
  EXPECT_FALSE(info.features.empty());
  EXPECT_FALSE(info.emulated);
  EXPECT_FALSE(info.driver_version.has_value());
  EXPECT_TRUE(Cpu().Health().ok());
  EXPECT_TRUE(Cpu().host_addressable());
  const DeviceTelemetry telemetry = Cpu().Telemetry();
  EXPECT_TRUE(telemetry.load_average.has_value());
  EXPECT_FALSE(telemetry.temperature_celsius.has_value());
}

TEST(CpuBackend, MemoryIsAlignedCountedAndGivenBack) {
  MemoryResource& memory = Cpu().memory();
  const MemoryStats before = memory.Stats();
  EXPECT_GT(before.total, 0);
  EXPECT_GT(before.free, 0);
  EXPECT_LE(before.free, before.total);
  std::vector<std::pair<void*, size_t>> blocks;
  for (const size_t bytes : {size_t{1}, size_t{256}, size_t{4097}, size_t{2} << 20, (size_t{3} << 20) + 5}) {
    const absl::StatusOr<void*> block = memory.Allocate(bytes, 0);
    ASSERT_TRUE(block.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*block) % MemoryResource::kAlignment, 0u);
    if (bytes >= size_t{2} << 20) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(*block) % (size_t{2} << 20), 0u);
    }
    std::memset(*block, 0x5a, bytes);
    blocks.emplace_back(*block, bytes);
  }
  EXPECT_GT(memory.Stats().used, before.used);
  EXPECT_EQ(memory.Stats().allocations, before.allocations + blocks.size());
  for (const auto& [block, bytes] : blocks) memory.Deallocate(block, bytes, 0);
  EXPECT_EQ(memory.Stats().used, before.used);
  EXPECT_GE(memory.Stats().peak, before.used);
}

TEST(CpuBackend, WhatTheMachineDoesNotHaveIsRefusedWithNumbers) {
  for (const size_t bytes :
       {size_t{138780701932912640}, ~size_t{0}, static_cast<size_t>(Cpu().memory().Stats().total) + 1}) {
    const absl::StatusOr<void*> block = Cpu().memory().Allocate(bytes, 0);
    ASSERT_FALSE(block.ok());
    EXPECT_EQ(ReasonOf(block.status()), Reason::kMemoryExhausted);
    EXPECT_EQ(block.status().code(), absl::StatusCode::kResourceExhausted);
    const ErrorDetails details = DetailsOf(block.status());
    EXPECT_EQ(details.Get("device"), "cpu");
    EXPECT_EQ(details.Get("requested"), std::to_string(bytes));
    EXPECT_FALSE(details.Get("free").empty());
    ASSERT_TRUE(details.shortage.has_value());
    EXPECT_EQ(details.shortage->requested, bytes);
  }
}

TEST(CpuBackend, OpsThatAreTheEnginesDoNotRunHere) {
  Tensor x(Dtype::kFloat32, {2});
  const KernelOperand operand = In(x);
  const Attributes none;
  KernelCall call{Op::kReshape, &none, Dtype::kFloat32, absl::MakeConstSpan(&operand, 1),
                  absl::MakeConstSpan(&x.view, 1)};
  EXPECT_EQ(ReasonOf(Cpu().Run(call, 0, Cpu().memory())), Reason::kInternal);
}

TEST(EmulatedBackend, IsACudaDeviceByName) {
  std::set<std::string> identities;
  for (const uint32_t index : {0u, 1u, 7u, 300u}) {
    const auto device = MakeEmulatedBackend({index, size_t{1} << 20});
    const auto again = MakeEmulatedBackend({index, size_t{1} << 20});
    const DeviceInfo& info = device->Info();
    EXPECT_EQ(info.id.ToString(), "cuda:" + std::to_string(index));
    EXPECT_TRUE(info.emulated);
    ASSERT_TRUE(info.uuid && info.pci_bus_id);
    EXPECT_EQ(info.uuid->substr(0, 4), "GPU-");
    EXPECT_EQ(info.uuid->size(), 40u);
    EXPECT_EQ(info.uuid, again->Info().uuid);
    EXPECT_FALSE(info.driver_version.has_value());
    EXPECT_FALSE(info.cuda_version.has_value());
    EXPECT_FALSE(device->host_addressable());
    EXPECT_FALSE(device->Telemetry().temperature_celsius.has_value());
    EXPECT_TRUE(identities.insert(*info.uuid).second);
    EXPECT_TRUE(identities.insert(*info.pci_bus_id).second);
  }
}

TEST(EmulatedBackend, MemoryEndsWhereItSays) {
  const auto device = MakeEmulatedBackend({1, size_t{1} << 20});
  MemoryResource& memory = device->memory();
  EXPECT_EQ(memory.Stats().total, 1 << 20);
  EXPECT_EQ(memory.Stats().free, 1 << 20);
  const absl::StatusOr<void*> half = memory.Allocate(size_t{1} << 19, 0);
  ASSERT_TRUE(half.ok());
  const absl::StatusOr<void*> page = memory.Allocate(1, 0);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(memory.Stats().used, (1 << 19) + 4096);
  const absl::StatusOr<void*> refused = memory.Allocate(size_t{1} << 19, 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(ReasonOf(refused.status()), Reason::kMemoryExhausted);
  const ErrorDetails details = DetailsOf(refused.status());
  EXPECT_EQ(details.Get("device"), "cuda:1");
  EXPECT_EQ(details.Get("requested"), "524288");
  EXPECT_EQ(details.Get("free"), "520192");
  EXPECT_FALSE(memory.Allocate(~size_t{0}, 0).ok());
  memory.Deallocate(*page, 1, 0);
  const absl::StatusOr<void*> rest = memory.Allocate(size_t{1} << 19, 0);
  ASSERT_TRUE(rest.ok());
  EXPECT_EQ(memory.Stats().free, 0);
  EXPECT_FALSE(memory.Allocate(1, 0).ok());
  memory.Deallocate(*rest, size_t{1} << 19, 0);
  memory.Deallocate(*half, size_t{1} << 19, 0);
  EXPECT_EQ(memory.Stats().used, 0);
  EXPECT_EQ(memory.Stats().peak, 1 << 20);
}

TEST(EmulatedBackend, MemoryHoldsItsLimitAmongThreads) {
  const auto device = MakeEmulatedBackend({0, size_t{64} * 4096});
  std::vector<std::thread> threads;
  std::atomic<int> most{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        const absl::StatusOr<void*> block = device->memory().Allocate(20 * 4096, 0);
        const MemoryStats stats = device->memory().Stats();
        if (stats.used > stats.total) most = 1;
        if (block.ok()) device->memory().Deallocate(*block, 20 * 4096, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most.load(), 0);
  EXPECT_EQ(device->memory().Stats().used, 0);
}

TEST(EmulatedBackend, ComputesAndCopiesBetweenDevices) {
  const auto one = MakeEmulatedBackend({0, size_t{1} << 20});
  const auto two = MakeEmulatedBackend({1, size_t{1} << 20});
  const std::vector<float> values = {1, -2, 3};
  void* a = *one->memory().Allocate(12, 0);
  void* b = *two->memory().Allocate(12, 0);
  ASSERT_TRUE(one->Upload(a, values.data(), 12, 0).ok());
  TensorView view{Dtype::kFloat32, {3}, {1}, a};
  const KernelOperand operand = In(view);
  const Attributes none;
  KernelCall call{Op::kNegative, &none, Dtype::kFloat32, absl::MakeConstSpan(&operand, 1),
                  absl::MakeConstSpan(&view, 1)};
  ASSERT_TRUE(one->Run(call, one->default_stream(), one->memory()).ok());
  ASSERT_TRUE(two->CopyFrom(*one, a, b, 12, two->default_stream()).ok());
  ASSERT_TRUE(two->Synchronize(two->default_stream()).ok());
  std::vector<float> host(3);
  ASSERT_TRUE(Cpu().CopyFrom(*two, b, host.data(), 12, 0).ok());
  EXPECT_EQ(host, (std::vector<float>{-1, 2, -3}));
  ASSERT_TRUE(two->CopyFrom(Cpu(), values.data(), b, 12, 0).ok());
  ASSERT_TRUE(two->Download(host.data(), b, 12, 0).ok());
  EXPECT_EQ(host, values);
  one->memory().Deallocate(a, 12, 0);
  two->memory().Deallocate(b, 12, 0);
}

TEST(EmulatedBackend, RefusesUnderItsOwnName) {
  const auto device = MakeEmulatedBackend({3, size_t{1} << 20});
  TensorView view{Dtype::kComplex64, {1}, {1}, nullptr};
  alignas(8) char memory[8] = {};
  view.data = memory;
  const KernelOperand operand = In(view);
  const Attributes none;
  KernelCall call{Op::kExp, &none, Dtype::kComplex64, absl::MakeConstSpan(&operand, 1), absl::MakeConstSpan(&view, 1)};
  const absl::Status status = device->Run(call, 0, device->memory());
  EXPECT_EQ(ReasonOf(status), Reason::kOpUnsupported);
  EXPECT_EQ(DetailsOf(status).Get("device"), "cuda:3");
}

}  // namespace
}  // namespace tensord::testing
