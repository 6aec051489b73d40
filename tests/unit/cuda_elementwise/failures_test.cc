// What fails under the families: memory, launches, the device.
#include <gtest/gtest.h>

#include "kernels/core/error.h"
#include "tests/unit/cuda_elementwise/device.h"

namespace tensord::testing {
namespace {

using emulated::Api;

TEST(CudaStatus, StickyErrorsAreALostDevice) {
  Device device;
  const cuda::DeviceTraits& traits = device.context().traits;
  EXPECT_TRUE(cuda::ToStatus(cudaSuccess, traits, "cudaFree").ok());
  for (const cudaError_t error : {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorECCUncorrectable,
                                  cudaErrorLaunchTimeout, cudaErrorMisalignedAddress, cudaErrorContained,
                                  cudaErrorDevicesUnavailable, cudaErrorUnknown, cudaErrorAssert}) {
    const absl::Status status = cuda::ToStatus(error, traits, "cudaStreamSynchronize");
    EXPECT_EQ(ReasonOf(status), Reason::kDeviceLost) << status;
    EXPECT_EQ(DetailsOf(status).Get("device"), "cuda:0");
    EXPECT_NE(DetailsOf(status).Get("cause").find(cudaGetErrorName(error)), std::string_view::npos) << status;
    EXPECT_NE(DetailsOf(status).Get("cause").find("cudaStreamSynchronize"), std::string_view::npos) << status;
  }
  const absl::Status memory = cuda::ToStatus(cudaErrorMemoryAllocation, traits, "cudaLaunchKernel");
  EXPECT_EQ(ReasonOf(memory), Reason::kMemoryExhausted) << memory;
  EXPECT_NE(DetailsOf(memory).Get("free"), "0");
  for (const cudaError_t error : {cudaErrorInvalidValue, cudaErrorInvalidConfiguration, cudaErrorNotPermitted}) {
    const absl::Status status = cuda::ToStatus(error, traits, "cudaMemcpyAsync");
    EXPECT_EQ(ReasonOf(status), Reason::kInternal) << status;
    EXPECT_NE(status.message().find(cudaGetErrorName(error)), absl::string_view::npos) << status;
  }
}

TEST(CudaStatus, AnErrorToldIsNotLeftForTheNextCall) {
  Device device;
  EXPECT_NE(cudaMalloc(nullptr, 16), cudaSuccess);
  EXPECT_NE(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_FALSE(cuda::ToStatus(cudaErrorInvalidValue, device.context().traits, "cudaMalloc").ok());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(CudaGrid, AsManyBlocksAsNeededAndNoMoreThanFit) {
  cuda::DeviceTraits traits;
  traits.multiprocessors = 10;
  traits.threads_per_multiprocessor = 2048;
  EXPECT_EQ(cuda::GridFor(0, 256, traits), 1U);
  EXPECT_EQ(cuda::GridFor(1, 256, traits), 1U);
  EXPECT_EQ(cuda::GridFor(256, 256, traits), 1U);
  EXPECT_EQ(cuda::GridFor(257, 256, traits), 2U);
  EXPECT_EQ(cuda::GridFor(int64_t{1} << 40, 256, traits), 80U);
  traits.threads_per_multiprocessor = 0;
  EXPECT_EQ(cuda::GridFor(int64_t{1} << 40, 256, traits), 10U);
}

TEST(CudaScratch, GivesBackOnce) {
  Device device;
  {
    auto a = cuda::Scratch::Allocate(0, device.context());  // a resource hands out no empty blocks
    ASSERT_TRUE(a.ok());
    cuda::Scratch b = *std::move(a);
    auto c = cuda::Scratch::Allocate(100, device.context());
    ASSERT_TRUE(c.ok());
    EXPECT_EQ(device.scratch().live, 2);
    b = *std::move(c);
  }
  EXPECT_EQ(device.scratch().live, 0);
  device.scratch().fail_from = 0;
  EXPECT_EQ(ReasonOf(cuda::Scratch::Allocate(8, device.context()).status()), Reason::kMemoryExhausted);
}

// Every call that needs scratch memory, with each of its allocations refused in turn.
TEST(CudaFailures, EveryAllocationMayFail) {
  Device device;
  Tensor x(Dtype::kInt32, {40, 40});
  for (int64_t i = 0; i < 1600; ++i) x.Set(i, Number::Of(i % 40));
  const TensorView turned{Dtype::kInt32, {40, 40}, {1, 40}, x.view.data};
  const TensorView deep{Dtype::kInt32, Dims(10, 2), {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}, x.view.data};
  Tensor indices(Dtype::kInt16, {5});
  for (int64_t i = 0; i < 5; ++i) indices.Set(i, Number::Of(i));
  const TensorView backwards{Dtype::kInt16, {5}, {-1}, indices.view.as<int16_t>() + 4};
  Tensor small(Dtype::kInt8, {3, 40});
  Attributes join;
  join.emplace<JoinAttributes>().axis = 0;
  Attributes index;
  index.emplace<IndexAttributes>().axis = 1;
  struct Case {
    Op op;
    std::vector<KernelOperand> inputs;
    TensorType type;
    Attributes attributes;
    int allocations;
  };
  const std::vector<Case> cases = {
      {Op::kNegative, {In(deep)}, deep.type(), {}, 1},
      {Op::kConcat, {In(x), In(small), In(turned), In(small)}, {Dtype::kInt32, {86, 40}}, join, 2},
      {Op::kTake, {In(turned), In(backwards)}, {Dtype::kInt32, {40, 5}}, index, 2},
  };
  for (const Case& c : cases) {
    int failed = 0;
    for (int64_t nth = 0;; ++nth) {
      device.scratch().fail_from = nth;
      Tensor out(c.type.dtype, c.type.shape);
      const absl::Status status = device.TryRun(c.op, c.inputs, c.type.dtype, c.attributes, out);
      if (status.ok()) break;
      EXPECT_EQ(ReasonOf(status), Reason::kMemoryExhausted) << status;
      ++failed;
    }
    device.scratch().fail_from = -1;
    EXPECT_GE(failed, c.allocations) << RowOf(c.op).name;
  }
}

// Each CUDA call of a take fails in turn, once: the status says so, nothing is left behind, and the next take is right.
TEST(CudaFailures, EveryCallMayFail) {
  Tensor x(Dtype::kFloat32, {6, 8});
  for (int64_t i = 0; i < 48; ++i) x.Set(i, Number::Of(i));
  const TensorView turned{Dtype::kFloat32, {8, 6}, {1, 8}, x.view.data};
  Tensor indices(Dtype::kInt32, {2});
  indices.Set(0, Number::Of(5));
  indices.Set(1, Number::Of(-1));
  Attributes index;
  index.emplace<IndexAttributes>().axis = 0;
  for (const cudaError_t error : {cudaErrorInvalidValue, cudaErrorMemoryAllocation}) {
    Device device;
    const TensorView a = device.Upload(turned);
    const TensorView b = device.Upload(indices.view);
    const TensorView out = device.Allocate({Dtype::kFloat32, {2, 6}});
    const KernelOperand inputs[2] = {In(a), In(b)};
    const KernelCall call{Op::kTake, &index, Dtype::kFloat32, inputs, absl::MakeConstSpan(&out, 1)};
    int failed = 0;
    for (uint64_t nth = 1; nth < 100; ++nth) {
      emulated::FailNth(nth, error);
      const absl::Status status = cuda::RunIndex(call, device.context());
      emulated::ClearFaults();
      EXPECT_EQ(cudaStreamSynchronize(device.stream()), cudaSuccess);
      EXPECT_EQ(device.report(), 0U);
      EXPECT_EQ(device.scratch().live, 0);
      if (status.ok()) break;
      ++failed;
      const Reason reason = error == cudaErrorInvalidValue ? Reason::kInternal : Reason::kMemoryExhausted;
      EXPECT_TRUE(ReasonOf(status) == reason || ReasonOf(status) == Reason::kMemoryExhausted) << status;
    }
    EXPECT_GE(failed, 3);
    const Tensor got = device.Download(out);
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(got.At(i).value, 8 * i + 5);
      EXPECT_EQ(got.At(6 + i).value, 8 * i + 7);
    }
  }
}

TEST(CudaFailures, AFaultInAKernelIsALostDevice) {
  Device device;
  Tensor x(Dtype::kInt32, {2});
  const TensorView a = device.Upload(x.view);
  const KernelOperand inputs[2] = {In(a), In(a)};
  Attributes index;
  index.emplace<IndexAttributes>().axis = 0;
  const TensorView out = device.Allocate({Dtype::kInt32, {2}});
  const KernelCall call{Op::kTake, &index, Dtype::kInt32, inputs, absl::MakeConstSpan(&out, 1)};
  emulated::FailOperation(0, 1, cudaErrorLaunchFailure);
  const absl::Status status = cuda::RunIndex(call, device.context());
  EXPECT_EQ(ReasonOf(status), Reason::kDeviceLost) << status;
  EXPECT_EQ(device.report(), 0U);
  emulated::ClearFaults();
}

}  // namespace
}  // namespace tensord::testing
