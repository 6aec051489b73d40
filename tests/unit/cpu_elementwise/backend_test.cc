// The CPU as a backend: what it is, its memory.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/core/error.h"
#include "kernels/cpu/cpu_backend.h"
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

}  // namespace
}  // namespace tensord::testing
