// What NVML tells, and every way in which it does not.
#include "kernels/cuda/nvml.h"

#include <thread>

#include "kernels/emulated/nvml.h"
#include "tests/unit/cuda_backend/harness.h"

namespace tensord::testing {
namespace {

using cuda::Nvml;
using cuda::NvmlReading;
using emulated::SetNvml;

constexpr absl::Duration kLong = absl::Minutes(5);  // never waited for

class NvmlTest : public ::testing::Test {
 protected:
  NvmlTest() : emulator_({.devices = 2}) { SetNvml({}); }
  ~NvmlTest() override {
    SetNvml({});
    nvml_.reset();
    EXPECT_EQ(emulated::NvmlSessions(), sessions_);
  }
  NvmlReading Read(int ordinal = 0) {
    const cuda::CudaDevice device = cuda::ListCudaDevices().devices.at(static_cast<size_t>(ordinal));
    return nvml_->Read({device.uuid, device.pci_bus_id}, kLong);
  }

  const int sessions_ = emulated::NvmlSessions();  // the process's own reader may have one
  Emulator emulator_;
  std::unique_ptr<Nvml> nvml_ = std::make_unique<Nvml>();
};

emulated::NvmlControls Full() {
  emulated::NvmlControls c;
  c.driver_version = "580.82.07";
  c.cuda_version = 13000;
  c.name = "NVIDIA H200";
  c.utilization_percent = 37;
  c.memory_utilization_percent = 12;
  c.celsius = 41;
  c.milliwatts = 123500;
  c.milliwatts_limit = 700000;
  c.fan_percent = 30;
  c.megahertz = 1980;
  c.memory_megahertz = 3201;
  c.performance_state = 0;
  c.ecc_uncorrected = 2;
  c.mig = 0;
  c.processes = {{11, 1 << 20, "train"}, {12, cuda::nvml::kNotAvailable, ""}};
  return c;
}

TEST_F(NvmlTest, EveryFieldIsRead) {
  SetNvml(Full());
  const NvmlReading reading = Read(1);
  EXPECT_EQ(reading.why, "");
  EXPECT_FALSE(reading.lost);
  EXPECT_EQ(reading.model, "NVIDIA H200");
  EXPECT_EQ(reading.uuid, cuda::ListCudaDevices().devices[1].uuid);
  EXPECT_EQ(reading.driver_version, "580.82.07");
  EXPECT_EQ(reading.cuda_version, "13.0");
  const DeviceTelemetry& t = reading.telemetry;
  EXPECT_EQ(t.utilization_percent, 37.0F);
  EXPECT_EQ(t.memory_utilization_percent, 12.0F);
  EXPECT_EQ(t.temperature_celsius, 41.0F);
  EXPECT_EQ(t.power_watts, 123.5F);
  EXPECT_EQ(t.power_limit_watts, 700.0F);
  EXPECT_EQ(t.fan_percent, 30.0F);
  EXPECT_EQ(t.clock_mhz, 1980U);
  EXPECT_EQ(t.memory_clock_mhz, 3201U);
  EXPECT_EQ(t.performance_state, 0U);
  EXPECT_EQ(t.ecc_uncorrected, 2U);
  EXPECT_EQ(t.mig_mode, "disabled");
  ASSERT_EQ(t.processes.size(), 2U);
  EXPECT_EQ(t.processes[0].pid, 11U);
  EXPECT_EQ(t.processes[0].name, "train");
  EXPECT_EQ(t.processes[0].used_bytes, uint64_t{1} << 20);
  EXPECT_FALSE(t.processes[1].name.has_value());
  EXPECT_FALSE(t.processes[1].used_bytes.has_value());
}

void ExpectNoSensors(const DeviceTelemetry& t) {
  EXPECT_FALSE(t.utilization_percent || t.memory_utilization_percent || t.temperature_celsius || t.power_watts ||
               t.power_limit_watts || t.fan_percent || t.clock_mhz || t.memory_clock_mhz || t.performance_state ||
               t.ecc_uncorrected || t.mig_mode);
  EXPECT_TRUE(t.processes.empty());
}

TEST_F(NvmlTest, WhatIsNotSupportedIsLeftOut) {
  const NvmlReading reading = Read();
  EXPECT_EQ(reading.why, "");
  EXPECT_FALSE(reading.driver_version || reading.cuda_version || reading.model);
  EXPECT_TRUE(reading.uuid.has_value());
  ExpectNoSensors(reading.telemetry);
}

constexpr const char* kDeviceFunctions[] = {
    "nvmlDeviceGetName",           "nvmlDeviceGetUUID",       "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetTemperature",    "nvmlDeviceGetPowerUsage", "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetFanSpeed",       "nvmlDeviceGetClockInfo",  "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetMigMode",    "nvmlDeviceGetComputeRunningProcesses_v3"};

TEST_F(NvmlTest, NoPermissionForAnythingIsNoFailure) {
  emulated::NvmlControls controls = Full();
  for (const char* function : kDeviceFunctions) controls.results[function] = cuda::nvml::kNoPermission;
  SetNvml(controls);
  const NvmlReading reading = Read();
  EXPECT_EQ(reading.why, "");
  EXPECT_FALSE(reading.lost);
  EXPECT_EQ(reading.driver_version, "580.82.07");
  ExpectNoSensors(reading.telemetry);
}

TEST_F(NvmlTest, FunctionsThatTheDriverLacksLeaveTheirFieldOut) {
  emulated::NvmlControls controls = Full();
  for (const char* function : kDeviceFunctions) controls.missing.insert(function);
  controls.missing.insert({"nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2",
                           "nvmlSystemGetProcessName", "nvmlDeviceGetHandleByUUID"});
  SetNvml(controls);
  const NvmlReading reading = Read();
  EXPECT_EQ(reading.why, "");
  EXPECT_FALSE(reading.driver_version || reading.model || reading.uuid);
  ExpectNoSensors(reading.telemetry);
}

TEST_F(NvmlTest, ADriverThatDoesNotFitItsLibraryIsNamedAndAskedAgainLater) {
  emulated::NvmlControls controls = Full();
  controls.results["nvmlInit_v2"] = cuda::nvml::kLibraryMismatch;
  SetNvml(controls);
  const NvmlReading reading = Read();
  EXPECT_EQ(reading.why, "nvmlInit_v2: driver and library versions differ (18)");
  EXPECT_FALSE(reading.lost);
  ExpectNoSensors(reading.telemetry);
  controls.results["nvmlInit_v2"] = cuda::nvml::kDriverNotLoaded;
  SetNvml(controls);
  EXPECT_EQ(Read().why, "nvmlInit_v2: the NVIDIA driver is not loaded (9)");
  SetNvml(Full());
  EXPECT_EQ(Read().telemetry.temperature_celsius, 41.0F);
}

TEST_F(NvmlTest, NoLibrary) {
  SetNvml({.absent = true});
  EXPECT_NE(Read().why.find("libnvidia-ml.so.1"), std::string::npos);
}

TEST_F(NvmlTest, ADeviceItDoesNotKnow) {
  const NvmlReading reading = nvml_->Read({"GPU-00000000-0000-0000-0000-000000000000", "ffff:ff:00.0"}, kLong);
  EXPECT_EQ(reading.why, "nvmlDeviceGetHandleByPciBusId_v2(ffff:ff:00.0): not found (6)");
  EXPECT_FALSE(reading.lost);
}

TEST_F(NvmlTest, AUuidItDoesNotKnowIsFoundByItsPlace) {
  SetNvml(Full());
  const std::string bus = cuda::ListCudaDevices().devices[1].pci_bus_id;
  EXPECT_EQ(nvml_->Read({"MIG-00000000-0000-0000-0000-000000000000", bus}, kLong).uuid,
            cuda::ListCudaDevices().devices[1].uuid);
}

TEST_F(NvmlTest, ALostGpuLosesTheBackend) {
  Backend& backend = emulator_.Make(0, {.nvml = nvml_.get()});
  EXPECT_TRUE(backend.Health().ok());
  for (const auto& [code, text] :
       std::vector<std::pair<int, std::string>>{{cuda::nvml::kGpuIsLost, "the GPU is lost (15)"}}) {
    emulated::NvmlControls controls = Full();
    controls.results["nvmlDeviceGetTemperature"] = code;
    SetNvml(controls);
    EXPECT_FALSE(backend.Telemetry().temperature_celsius.has_value());
    const absl::Status health = backend.Health();
    EXPECT_EQ(ReasonOf(health), Reason::kDeviceLost);
    EXPECT_NE(std::string(health.message()).find(text), std::string::npos) << health;
    EXPECT_EQ(ReasonOf(backend.memory().Allocate(64, 0).status()), Reason::kDeviceLost);
  }
  emulator_.DestroyBackends();
  emulated::Configure({.devices = 2});
}

TEST_F(NvmlTest, AGpuThatNeedsAResetIsLostAtTheFirstQuestion) {
  SetNvml({.results = {{"nvmlDeviceGetHandleByPciBusId_v2", cuda::nvml::kResetRequired}}});
  const NvmlReading reading = Read();
  EXPECT_TRUE(reading.lost);
  EXPECT_NE(reading.why.find("the GPU needs a reset (16)"), std::string::npos) << reading.why;
}

TEST_F(NvmlTest, ManyProcesses) {
  emulated::NvmlControls controls;
  controls.processes.emplace();
  for (unsigned pid = 1; pid <= 100; ++pid) controls.processes->push_back({pid, pid * 100ULL, ""});
  SetNvml(controls);
  const DeviceTelemetry telemetry = Read().telemetry;
  ASSERT_EQ(telemetry.processes.size(), 100U);
  EXPECT_EQ(telemetry.processes[99].used_bytes, 10000U);
}

TEST_F(NvmlTest, ACallThatHangsHoldsNobodyUp) {
  emulated::NvmlControls controls = Full();
  controls.hanging = "nvmlDeviceGetPowerUsage";
  SetNvml(controls);
  const cuda::CudaDevice device = cuda::ListCudaDevices().devices[0];
  // A question that nobody waits for any more when its turn comes is not asked: so again, until one is.
  while (!emulated::NvmlHangs()) {
    EXPECT_EQ(nvml_->Read({device.uuid, device.pci_bus_id}, absl::Milliseconds(1)).why, "NVML does not answer");
  }
  EXPECT_EQ(nvml_->Read({device.uuid, device.pci_bus_id}, absl::Milliseconds(1)).why, "NVML does not answer");
  // At once now, however patient.
  EXPECT_EQ(Read().why, "NVML does not answer");
  EXPECT_EQ(Read(1).why, "NVML does not answer");
  emulated::ReleaseNvml();
  while (Read().why == "NVML does not answer") std::this_thread::yield();
  EXPECT_EQ(Read().telemetry.temperature_celsius, 41.0F);
}

TEST_F(NvmlTest, ADestroyedReaderDoesNotWaitForACallThatHangs) {
  SetNvml({.hanging = "nvmlInit_v2"});
  const cuda::CudaDevice device = cuda::ListCudaDevices().devices[0];
  auto reader = std::make_unique<Nvml>();
  while (!emulated::NvmlHangs()) {
    EXPECT_EQ(reader->Read({device.uuid, device.pci_bus_id}, absl::Milliseconds(1)).why, "NVML does not answer");
  }
  const int before = emulated::NvmlShutdowns();
  reader.reset();
  emulated::ReleaseNvml();
  while (emulated::NvmlShutdowns() == before) std::this_thread::yield();
}

TEST_F(NvmlTest, ManyThreadsAsk) {
  SetNvml(Full());
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) right += Read(t % 2).telemetry.temperature_celsius == 41.0F ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), 160);
}

}  // namespace
}  // namespace tensord::testing
