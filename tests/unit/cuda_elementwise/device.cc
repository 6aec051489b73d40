#include "tests/unit/cuda_elementwise/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/core/error.h"

namespace tensord::testing {
namespace {

void Check(cudaError_t error, const char* what) { ASSERT_EQ(error, cudaSuccess) << what << cudaGetErrorName(error); }

// The bytes a view reaches: the first one, and how many.
std::pair<const char*, int64_t> Extent(const TensorView& view) {
  int64_t low = 0;
  int64_t high = 0;
  for (size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] == 0) return {static_cast<const char*>(view.data), 0};
    const int64_t reach = (view.shape[d] - 1) * view.strides[d];
    (reach < 0 ? low : high) += reach;
  }
  const auto item = static_cast<int64_t>(ItemSize(view.dtype));
  return {static_cast<const char*>(view.data) + low * item, (high - low + 1) * item};
}

}  // namespace

absl::StatusOr<void*> DeviceMemory::Allocate(size_t bytes, StreamId /*stream*/) {
  if (fail_from >= 0 && fail_from-- == 0) return Error(Reason::kMemoryExhausted).With("requested", bytes);
  void* data = nullptr;
  if (cudaMalloc(&data, bytes) != cudaSuccess) return Error(Reason::kMemoryExhausted).With("requested", bytes);
  ++live;
  return data;
}

void DeviceMemory::Deallocate(void* block, size_t /*bytes*/, StreamId /*stream*/) {
  --live;
  given_back_.push_back(block);
}

void DeviceMemory::Free() {
  for (void* block : given_back_) cudaFree(block);
  given_back_.clear();
}

Device::Device(const Options& options) : options_(options) {
  emulated::Options emulator;
  emulator.mode = options.mode;
  emulator.order = options.order;
  emulator.seed = options.seed;
  emulator.guard_pages = true;
  emulator.multiprocessors = options.multiprocessors;
  emulated::Configure(emulator);
  Check(cudaSetDevice(0), "cudaSetDevice ");
  Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate ");
  void* report = nullptr;
  Check(cudaMallocHost(&report, sizeof(*report_)), "cudaMallocHost ");
  report_ = static_cast<unsigned long long*>(report);
  *report_ = 0;
  traits_.id = {DeviceKind::kCuda, 0};
  traits_.multiprocessors = options.multiprocessors;
  context_.reset(new cuda::Context{scratch_, 0, stream_, traits_, report_, blas_});
}

Device::~Device() {
  Free();
  cudaFreeHost(report_);
  cudaStreamDestroy(stream_);
}

void Device::Free() {
  cudaStreamSynchronize(stream_);
  for (void* block : memory_) cudaFree(block);
  memory_.clear();
  scratch_.Free();
}

TensorView Device::Allocate(const TensorType& type) {
  const int64_t before = options_.shift * static_cast<int64_t>(ItemSize(type.dtype));
  const auto bytes = static_cast<size_t>(before + type.bytes());
  void* data = nullptr;
  if (bytes > 0) {
    Check(cudaMalloc(&data, bytes), "cudaMalloc ");
    memory_.push_back(data);
    Check(cudaMemsetAsync(data, 0x5a, bytes, stream_), "cudaMemsetAsync ");
  }
  return {type.dtype, type.shape, ContiguousStrides(type.shape), static_cast<char*>(data) + before};
}

TensorView Device::Upload(const TensorView& host) {
  const auto [first, bytes] = Extent(host);
  const int64_t before = options_.shift * static_cast<int64_t>(ItemSize(host.dtype));
  TensorView view = host;
  void* data = nullptr;
  Check(cudaMalloc(&data, static_cast<size_t>(std::max<int64_t>(before + bytes, 1))), "cudaMalloc ");
  memory_.push_back(data);
  char* const to = static_cast<char*>(data) + before;
  if (bytes > 0) Check(cudaMemcpy(to, first, static_cast<size_t>(bytes), cudaMemcpyHostToDevice), "cudaMemcpy ");
  view.data = to + (static_cast<const char*>(host.data) - first);
  return view;
}

Tensor Device::Download(const TensorView& device) {
  Tensor out(device.dtype, device.shape);
  if (!out.memory.empty()) {
    Check(cudaMemcpyAsync(out.memory.data(), device.data, out.memory.size(), cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpyAsync ");
  }
  Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize ");
  return out;
}

absl::Status Device::Dispatch(const KernelCall& call) {
  switch (RowOf(call.op).family) {
    case Family::kCreate:
      return cuda::RunCreate(call, *context_);
    case Family::kJoin:
      return cuda::RunJoin(call, *context_);
    case Family::kIndex:
      return cuda::RunIndex(call, *context_);
    default:
      return cuda::RunElementwise(call, *context_);
  }
}

absl::Status Device::TryRun(Op op, std::vector<KernelOperand> inputs, Dtype compute, const Attributes& attributes,
                            Tensor& out) {
  std::vector<TensorView> views;
  views.reserve(inputs.size());
  for (KernelOperand& operand : inputs) {
    if (operand.tensor == nullptr) continue;
    views.push_back(Upload(*operand.tensor));
    operand.tensor = &views.back();
  }
  const TensorView output = Allocate(out.view.type());
  const KernelCall call{op, &attributes, compute, inputs, absl::MakeConstSpan(&output, 1)};
  const size_t reports = emulated::Reports().size();
  absl::Status status = Dispatch(call);
  if (status.ok()) {
    const Tensor got = Download(output);
    std::copy(got.memory.begin(), got.memory.end(), out.memory.begin());
  }
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess) << RowOf(op).name;
  EXPECT_EQ(emulated::Reports().size(), reports) << RowOf(op).name << ": " << emulated::LastReport();
  EXPECT_EQ(scratch_.live, 0) << RowOf(op).name << " keeps scratch memory";
  EXPECT_EQ(*report_, 0U) << RowOf(op).name << " leaves a report";
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  Free();
  return status;
}

Tensor Device::Run(Op op, std::vector<KernelOperand> inputs, TensorType output, Dtype compute,
                   const Attributes& attributes) {
  Tensor out(output.dtype, output.shape);
  const absl::Status status = TryRun(op, std::move(inputs), compute, attributes, out);
  EXPECT_TRUE(status.ok()) << RowOf(op).name << ": " << status;
  return out;
}

Tensor Device::RunInPlace(Op op, std::vector<KernelOperand> inputs, Dtype output, Dtype compute) {
  std::vector<TensorView> views;
  views.reserve(inputs.size());
  for (KernelOperand& operand : inputs) {
    if (operand.tensor == nullptr) continue;
    views.push_back(Upload(*operand.tensor));
    operand.tensor = &views.back();
  }
  TensorView out = views[0];
  out.dtype = output;
  const Attributes none;
  const KernelCall call{op, &none, compute, inputs, absl::MakeConstSpan(&out, 1)};
  const absl::Status status = Dispatch(call);
  EXPECT_TRUE(status.ok()) << status;
  Tensor got = Download(out);
  Free();
  return got;
}

std::vector<Device::Options> AllOrders() {
  std::vector<Device::Options> all(5);
  all[1].order = emulated::Order::kDescending;
  all[2].order = emulated::Order::kRandom;
  all[3].mode = emulated::Mode::kLazy;
  all[3].order = emulated::Order::kRandom;
  all[3].seed = 7;
  all[4].mode = emulated::Mode::kBackground;
  all[4].shift = 1;
  return all;
}

void ExpectSame(const Tensor& got, const Tensor& want, const std::string& what, double ulps) {
  ASSERT_EQ(got.view.type(), want.view.type()) << what;
  int wrong = 0;
  for (int64_t i = 0; i < want.view.elements() && wrong < 3; ++i) {
    if (Same(want.view.dtype, got.At(i), want.At(i), ulps)) continue;
    ++wrong;
    ADD_FAILURE() << what << ": element " << i << " is " << Text(want.view.dtype, got.At(i)) << ", expected "
                  << Text(want.view.dtype, want.At(i));
  }
}

}  // namespace tensord::testing
