// Devices, errors and versions, as CUDA has them.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>

namespace {

int DeviceCount() {
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  return count;
}

class RuntimeDevice : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_GE(DeviceCount(), 1);
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    cudaGetLastError();
  }
};

TEST_F(RuntimeDevice, CurrentDeviceIsTheThreads) {
  if (DeviceCount() < 2) GTEST_SKIP() << "needs two devices";
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  std::thread([] {
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0);
  }).join();
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_F(RuntimeDevice, DeviceThatIsNotThere) {
  EXPECT_EQ(cudaSetDevice(DeviceCount()), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  cudaDeviceProp properties;
  EXPECT_EQ(cudaGetDeviceProperties(&properties, DeviceCount()), cudaErrorInvalidDevice);
  int value = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, DeviceCount()), cudaErrorInvalidDevice);
  char text[32];
  EXPECT_EQ(cudaDeviceGetPCIBusId(text, sizeof(text), DeviceCount()), cudaErrorInvalidDevice);
  int device = 0;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 0) << "a refused device changes nothing";
}

TEST_F(RuntimeDevice, PropertiesAndAttributesAgree) {
  cudaDeviceProp p;
  ASSERT_EQ(cudaGetDeviceProperties(&p, 0), cudaSuccess);
  const auto attribute = [](cudaDeviceAttr which) {
    int value = -1;
    EXPECT_EQ(cudaDeviceGetAttribute(&value, which, 0), cudaSuccess) << which;
    return value;
  };
  EXPECT_NE(std::strlen(p.name), 0U);
  EXPECT_EQ(p.warpSize, 32);
  EXPECT_EQ(attribute(cudaDevAttrWarpSize), 32);
  EXPECT_EQ(attribute(cudaDevAttrMaxThreadsPerBlock), p.maxThreadsPerBlock);
  EXPECT_EQ(p.maxThreadsPerBlock, 1024);
  EXPECT_EQ(attribute(cudaDevAttrMaxBlockDimX), p.maxThreadsDim[0]);
  EXPECT_EQ(attribute(cudaDevAttrMaxBlockDimZ), 64);
  EXPECT_EQ(attribute(cudaDevAttrMaxGridDimX), 0x7fffffff);
  EXPECT_EQ(attribute(cudaDevAttrMaxGridDimY), 65535);
  EXPECT_EQ(attribute(cudaDevAttrMaxGridDimZ), 65535);
  EXPECT_EQ(attribute(cudaDevAttrMaxSharedMemoryPerBlock), static_cast<int>(p.sharedMemPerBlock));
  EXPECT_EQ(p.sharedMemPerBlock, 49152U);
  EXPECT_EQ(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin), static_cast<int>(p.sharedMemPerBlockOptin));
  EXPECT_EQ(attribute(cudaDevAttrMultiProcessorCount), p.multiProcessorCount);
  EXPECT_GT(p.multiProcessorCount, 0);
  EXPECT_EQ(attribute(cudaDevAttrMaxThreadsPerMultiProcessor), p.maxThreadsPerMultiProcessor);
  EXPECT_EQ(attribute(cudaDevAttrComputeCapabilityMajor), p.major);
  EXPECT_EQ(attribute(cudaDevAttrComputeCapabilityMinor), p.minor);
  EXPECT_EQ(attribute(cudaDevAttrPciBusId), p.pciBusID);
  EXPECT_EQ(attribute(cudaDevAttrPciDomainId), p.pciDomainID);
  EXPECT_EQ(attribute(cudaDevAttrUnifiedAddressing), 1);
  EXPECT_EQ(attribute(cudaDevAttrMemoryPoolsSupported), 1);
}

TEST_F(RuntimeDevice, BusIdNamesTheDevice) {
  for (int i = 0; i < DeviceCount(); ++i) {
    char text[32] = "";
    ASSERT_EQ(cudaDeviceGetPCIBusId(text, sizeof(text), i), cudaSuccess);
    EXPECT_EQ(std::strlen(text), 12U) << text;
    int device = -1;
    EXPECT_EQ(cudaDeviceGetByPCIBusId(&device, text), cudaSuccess);
    EXPECT_EQ(device, i);
  }
  char small[5];
  EXPECT_NE(cudaDeviceGetPCIBusId(small, sizeof(small), 0), cudaSuccess);
}

TEST_F(RuntimeDevice, VersionsFit) {
  int driver = 0, runtime = 0;
  EXPECT_EQ(cudaDriverGetVersion(&driver), cudaSuccess);
  EXPECT_EQ(cudaRuntimeGetVersion(&runtime), cudaSuccess);
  EXPECT_GE(runtime, 12000);
  EXPECT_GE(driver, runtime / 1000 * 1000);
}

TEST_F(RuntimeDevice, PeersAreOthers) {
  int can = -1;
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, DeviceCount()), cudaErrorInvalidDevice);
  if (DeviceCount() < 2) GTEST_SKIP() << "needs two devices";
  ASSERT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
  if (can == 0) GTEST_SKIP() << "no peers here";
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaSuccess);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
}

TEST_F(RuntimeDevice, LastErrorIsTakenOnceAndEveryThreadsOwn) {
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  std::thread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  int device = 0;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess) << "and it fails nothing";
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(RuntimeDevice, ErrorsHaveNames) {
  EXPECT_STREQ(cudaGetErrorName(cudaSuccess), "cudaSuccess");
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorName(cudaErrorECCUncorrectable), "cudaErrorECCUncorrectable");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
}

TEST_F(RuntimeDevice, PrioritiesRise) {
  int least = -1, greatest = 1;
  EXPECT_EQ(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
  EXPECT_LE(greatest, least);
}

}  // namespace
