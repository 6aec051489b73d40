// Launches: limits and what passes them, as CUDA has them.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "tests/unit/emulated/kernels.cuh"

namespace tensord::emulated {
namespace {

class RuntimeLaunch : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    cudaGetLastError();
  }
  void TearDown() override {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "a refused launch is not sticky";
    cudaGetLastError();
  }
};

TEST_F(RuntimeLaunch, AllowedGeometry) {
  EXPECT_EQ(LaunchEmpty(dim3(1), dim3(1024), 0, nullptr), cudaSuccess);
  EXPECT_EQ(LaunchEmpty(dim3(1), dim3(1, 1024), 0, nullptr), cudaSuccess);
  EXPECT_EQ(LaunchEmpty(dim3(1), dim3(4, 4, 64), 0, nullptr), cudaSuccess);
  EXPECT_EQ(LaunchEmpty(dim3(70000), dim3(1), 0, nullptr), cudaSuccess);
  EXPECT_EQ(LaunchEmpty(dim3(1, 65535), dim3(1), 0, nullptr), cudaSuccess);
  EXPECT_EQ(LaunchEmpty(dim3(1, 1, 65535), dim3(1), 0, nullptr), cudaSuccess);
  EXPECT_EQ(LaunchEmpty(dim3(1), dim3(32), 49152, nullptr), cudaSuccess);
}

TEST_F(RuntimeLaunch, RefusedGeometry) {
  EXPECT_EQ(LaunchEmpty(dim3(0), dim3(32), 0, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(LaunchEmpty(dim3(1, 0), dim3(32), 0, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(LaunchEmpty(dim3(1), dim3(0), 0, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(LaunchEmpty(dim3(1), dim3(1025), 0, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(LaunchEmpty(dim3(1), dim3(64, 32), 0, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(LaunchEmpty(dim3(1), dim3(1, 1, 65), 0, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(LaunchEmpty(dim3(1, 65536), dim3(1), 0, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(LaunchEmpty(dim3(1, 1, 65536), dim3(1), 0, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(LaunchEmpty(dim3(0x80000000U), dim3(1), 0, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
}

TEST_F(RuntimeLaunch, MoreSharedMemoryIsAskedFor) {
  EXPECT_EQ(LaunchEmpty(dim3(1), dim3(32), 49153, nullptr), cudaErrorInvalidValue);
  int most = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), cudaSuccess);
  const auto set = [](int bytes) {
    return cudaFuncSetAttribute(EmptyKernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  EXPECT_EQ(set(most + 1), cudaErrorInvalidValue);
  EXPECT_EQ(set(most), cudaSuccess);
  EXPECT_EQ(LaunchEmpty(dim3(1), dim3(32), static_cast<size_t>(most), nullptr), cudaSuccess);
  cudaFuncAttributes attributes;
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, EmptyKernel()), cudaSuccess);
  EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, most);
  EXPECT_EQ(set(49152), cudaSuccess);
}

TEST_F(RuntimeLaunch, ByFunctionPointer) {
  void* none[] = {nullptr};
  EXPECT_EQ(cudaLaunchKernel(EmptyKernel(), dim3(2), dim3(32), none, 0, nullptr), cudaSuccess);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(2);
  config.blockDim = dim3(32);
  EXPECT_EQ(cudaLaunchKernelExC(&config, EmptyKernel(), none), cudaSuccess);
  static int not_a_kernel;
  EXPECT_EQ(cudaLaunchKernel(&not_a_kernel, dim3(1), dim3(32), none, 0, nullptr), cudaErrorInvalidDeviceFunction);
}

TEST_F(RuntimeLaunch, Occupancy) {
  int blocks = 0;
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, EmptyKernel(), 1024, 0), cudaSuccess);
  EXPECT_GE(blocks, 1);
  EXPECT_LE(blocks, 2);
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, EmptyKernel(), 0, 0), cudaErrorInvalidValue);
}

TEST_F(RuntimeLaunch, StreamOfAnotherDevice) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  if (count < 2) GTEST_SKIP() << "needs two devices";
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  cudaStream_t other = nullptr;
  ASSERT_EQ(cudaStreamCreate(&other), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(LaunchEmpty(dim3(1), dim3(32), 0, other), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
}

}  // namespace
}  // namespace tensord::emulated
