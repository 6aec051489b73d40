// Memory: allocation, copies, pinned memory, pools, as CUDA has them.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

namespace {

class RuntimeMemory : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    cudaGetLastError();
  }
  void TearDown() override { EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess); }
  static size_t Free() {
    size_t free = 0, total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    EXPECT_LE(free, total);
    return free;
  }
  static void* Allocate(size_t bytes) {
    void* data = nullptr;
    EXPECT_EQ(cudaMalloc(&data, bytes), cudaSuccess);
    return data;
  }
};

TEST_F(RuntimeMemory, AllocationsAreAlignedAndApart) {
  char* a = static_cast<char*>(Allocate(1));
  char* b = static_cast<char*>(Allocate(1000));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 256, 0U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 256, 0U);
  EXPECT_TRUE(a + 1 <= b || b + 1000 <= a);
  EXPECT_EQ(cudaFree(a), cudaSuccess);
  EXPECT_EQ(cudaFree(b), cudaSuccess);
}

TEST_F(RuntimeMemory, NothingIsNull) {
  void* data = &data;
  EXPECT_EQ(cudaMalloc(&data, 0), cudaSuccess);
  EXPECT_EQ(data, nullptr);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(nullptr), cudaSuccess);
}

TEST_F(RuntimeMemory, TooMuchIsRefusedAndNothingElse) {
  size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, total + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  std::thread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }).join();
  void* small = Allocate(256);
  EXPECT_EQ(cudaMemset(small, 0, 256), cudaSuccess) << "not sticky";
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&data, SIZE_MAX), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaFree(small), cudaSuccess);
  cudaGetLastError();
}

TEST_F(RuntimeMemory, FreeMemoryFallsAndComesBack) {
  const size_t before = Free();
  const size_t bytes = size_t{8} << 20;
  void* data = Allocate(bytes);
  EXPECT_LE(Free(), before - bytes);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(Free(), before);
}

TEST_F(RuntimeMemory, OnlyWhatWasAllocatedIsFreed) {
  void* data = Allocate(1024);
  EXPECT_EQ(cudaFree(static_cast<char*>(data) + 256), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaErrorInvalidValue);
  int local = 0;
  EXPECT_EQ(cudaFreeHost(&local), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_F(RuntimeMemory, CopiesRoundTrip) {
  std::vector<int> values(1000), back(1000);
  std::iota(values.begin(), values.end(), 0);
  const size_t bytes = values.size() * sizeof(int);
  void* a = Allocate(bytes);
  void* b = Allocate(bytes);
  EXPECT_EQ(cudaMemcpy(a, values.data(), bytes, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(b, a, bytes, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(back.data(), b, bytes, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(back, values);
  EXPECT_EQ(cudaMemset(b, 0, bytes / 2), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(back.data(), b, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back[499], 0);
  EXPECT_EQ(back[500], 500);
  EXPECT_EQ(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(a, b, 4, static_cast<cudaMemcpyKind>(7)), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaFree(a), cudaSuccess);
  EXPECT_EQ(cudaFree(b), cudaSuccess);
  cudaGetLastError();
}

TEST_F(RuntimeMemory, CopiesOfRows) {
  std::vector<unsigned char> values(8 * 10);
  std::iota(values.begin(), values.end(), static_cast<unsigned char>(0));
  void* data = Allocate(4 * 8);
  EXPECT_EQ(cudaMemcpy2DAsync(data, 4, values.data() + 2, 10, 4, 8, cudaMemcpyHostToDevice, nullptr), cudaSuccess);
  std::vector<unsigned char> back(4 * 8);
  EXPECT_EQ(cudaMemcpy(back.data(), data, back.size(), cudaMemcpyDeviceToHost), cudaSuccess);
  for (int row = 0; row < 8; ++row) {
    for (int i = 0; i < 4; ++i) EXPECT_EQ(back[static_cast<size_t>(row * 4 + i)], row * 10 + 2 + i);
  }
  EXPECT_EQ(cudaMemcpy2DAsync(data, 3, values.data(), 10, 4, 8, cudaMemcpyHostToDevice, nullptr),
            cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  cudaGetLastError();
}

TEST_F(RuntimeMemory, PageableSourceMayChangeAfterTheCall) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  std::vector<int> values(64, 7), back(64);
  void* data = Allocate(256);
  EXPECT_EQ(cudaMemcpyAsync(data, values.data(), 256, cudaMemcpyHostToDevice, stream), cudaSuccess);
  values.assign(64, 9);
  // A pageable target has its bytes when the call returns.
  EXPECT_EQ(cudaMemcpyAsync(back.data(), data, 256, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(back, std::vector<int>(64, 7));
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST_F(RuntimeMemory, PointersTellWhatTheyAre) {
  void* device = Allocate(1024);
  void* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, 1024, cudaHostAllocDefault), cudaSuccess);
  int local = 0;
  cudaPointerAttributes attributes;
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, static_cast<char*>(device) + 100), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, pinned), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes.hostPointer, pinned);
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, &local), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(RuntimeMemory, RegisteredMemoryIsPinned) {
  constexpr size_t kBytes = 8192;
  void* memory = std::aligned_alloc(4096, kBytes);
  ASSERT_EQ(cudaHostRegister(memory, kBytes, cudaHostRegisterDefault), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(memory, kBytes, cudaHostRegisterDefault), cudaErrorHostMemoryAlreadyRegistered);
  cudaPointerAttributes attributes;
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, memory), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(cudaHostUnregister(memory), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(memory), cudaErrorHostMemoryNotRegistered);
  std::free(memory);
  cudaGetLastError();
}

TEST_F(RuntimeMemory, PeerCopies) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  if (count < 2) GTEST_SKIP() << "needs two devices";
  std::vector<int> values(256, 5), back(256);
  void* first = Allocate(1024);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  void* second = Allocate(1024);
  EXPECT_EQ(cudaMemcpy(first, values.data(), 1024, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpyPeer(second, 1, first, 0, 1024), cudaSuccess) << "peer access need not be on";
  EXPECT_EQ(cudaMemcpy(back.data(), second, 1024, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back, values);
  EXPECT_EQ(cudaMemcpyPeer(second, count, first, 0, 1024), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  cudaGetLastError();
}

// ---- Stream-ordered allocation ----

uint64_t Counter(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  uint64_t value = 0;
  EXPECT_EQ(cudaMemPoolGetAttribute(pool, attribute, &value), cudaSuccess);
  return value;
}

class RuntimePool : public RuntimeMemory {
 protected:
  void SetUp() override {
    RuntimeMemory::SetUp();
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = 0;
    ASSERT_EQ(cudaMemPoolCreate(&pool_, &properties), cudaSuccess);
    ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaMemPoolDestroy(pool_), cudaSuccess);
    RuntimeMemory::TearDown();
  }
  cudaMemPool_t pool_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

TEST_F(RuntimePool, CountsWhatIsUsed) {
  void* data = nullptr;
  ASSERT_EQ(cudaMallocFromPoolAsync(&data, 1 << 20, pool_, stream_), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(data, 0, 1 << 20, stream_), cudaSuccess);
  EXPECT_GE(Counter(pool_, cudaMemPoolAttrUsedMemCurrent), uint64_t{1} << 20);
  EXPECT_GE(Counter(pool_, cudaMemPoolAttrReservedMemCurrent), Counter(pool_, cudaMemPoolAttrUsedMemCurrent));
  EXPECT_EQ(cudaFreeAsync(data, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(Counter(pool_, cudaMemPoolAttrUsedMemCurrent), 0U);
  EXPECT_GE(Counter(pool_, cudaMemPoolAttrUsedMemHigh), uint64_t{1} << 20);
}

TEST_F(RuntimePool, KeepsUpToItsThreshold) {
  uint64_t all = UINT64_MAX;
  ASSERT_EQ(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &all), cudaSuccess);
  void* data = nullptr;
  ASSERT_EQ(cudaMallocFromPoolAsync(&data, 1 << 20, pool_, stream_), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(data, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_GE(Counter(pool_, cudaMemPoolAttrReservedMemCurrent), uint64_t{1} << 20);
  EXPECT_EQ(cudaMemPoolTrimTo(pool_, 0), cudaSuccess);
  EXPECT_EQ(Counter(pool_, cudaMemPoolAttrReservedMemCurrent), 0U);
}

TEST_F(RuntimePool, TooMuchIsRefused) {
  size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  void* data = nullptr;
  EXPECT_EQ(cudaMallocFromPoolAsync(&data, total * 2, pool_, stream_), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMallocFromPoolAsync(&data, 256, pool_, stream_), cudaSuccess) << "not sticky";
  EXPECT_EQ(cudaFreeAsync(data, stream_), cudaSuccess);
}

TEST_F(RuntimePool, EveryDeviceHasOne) {
  cudaMemPool_t standard = nullptr, current = nullptr;
  EXPECT_EQ(cudaDeviceGetDefaultMemPool(&standard, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceGetMemPool(&current, 0), cudaSuccess);
  EXPECT_EQ(standard, current);
  EXPECT_EQ(cudaDeviceSetMemPool(0, pool_), cudaSuccess);
  EXPECT_EQ(cudaDeviceGetMemPool(&current, 0), cudaSuccess);
  EXPECT_EQ(current, pool_);
  void* data = nullptr;
  EXPECT_EQ(cudaMallocAsync(&data, 4096, stream_), cudaSuccess);
  EXPECT_GT(Counter(pool_, cudaMemPoolAttrUsedMemCurrent), 0U);
  EXPECT_EQ(cudaFree(data), cudaSuccess) << "cudaFree takes it too";
  EXPECT_EQ(cudaDeviceSetMemPool(0, standard), cudaSuccess);
}

}  // namespace
