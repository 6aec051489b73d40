// An emulated CUDA device for tests of kernel families: calls over host tensors, in a context made by hand.
//
//   Device device;                       // a new one; guard pages around every allocation
//   const Tensor got = device.Run(Op::kAdd, {In(x), In(y)}, x.view.type(), Dtype::kFloat32);
//
// Operands are uploaded byte by byte as far as their views reach; the output is as large as it must be, so that whoever
// reads or writes beside them faults. Work runs as lazily as the options say. One thread and one Device at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/families.h"
#include "kernels/emulated/control.h"
#include "tests/unit/cpu_elementwise/harness.h"

namespace tensord::testing {

// Device memory straight from cudaMalloc; given back when the device is idle.
class DeviceMemory : public MemoryResource {
 public:
  ~DeviceMemory() override { Free(); }
  absl::StatusOr<void*> Allocate(size_t bytes, StreamId stream) override;
  void Deallocate(void* block, size_t bytes, StreamId stream) override;
  MemoryStats Stats() const override { return {}; }

  // Frees what was given back. The stream must be idle.
  void Free();
  int64_t live = 0;        // blocks handed out and not given back
  int64_t fail_from = -1;  // the allocation, counted from now, that fails; -1: none

 private:
  std::vector<void*> given_back_;
};

class Device {
 public:
  struct Options {
    emulated::Mode mode = emulated::Mode::kEager;
    emulated::Order order = emulated::Order::kAscending;
    uint64_t seed = 1;
    int multiprocessors = 4;
    int64_t shift = 0;  // elements before every operand and output, so that they are not aligned
  };
  Device() : Device(Options{}) {}
  explicit Device(const Options& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Runs a call into a new host tensor of `output`. Fails the test where the call fails or the emulator reports.
  Tensor Run(Op op, std::vector<KernelOperand> inputs, TensorType output, Dtype compute,
             const Attributes& attributes = {});
  // The same, with the status; `out` holds what was written where it is OK.
  absl::Status TryRun(Op op, std::vector<KernelOperand> inputs, Dtype compute, const Attributes& attributes,
                      Tensor& out);
  // Runs in place: the output is the memory of input 0, which is contiguous, of its shape and item size.
  Tensor RunInPlace(Op op, std::vector<KernelOperand> inputs, Dtype output, Dtype compute);

  // A view on the device of what a host view shows. Lives as long as the Device, or until Free.
  TensorView Upload(const TensorView& host);
  Tensor Download(const TensorView& device);
  // Device memory with a fill of 0x5A.
  TensorView Allocate(const TensorType& type);
  void Free();

  cuda::Context& context() { return *context_; }
  DeviceMemory& scratch() { return scratch_; }
  cudaStream_t stream() const { return stream_; }
  unsigned long long report() const { return *report_; }

 private:
  absl::Status Dispatch(const KernelCall& call);

  Options options_;
  cuda::DeviceTraits traits_;
  DeviceMemory scratch_;
  cuda::CublasLt blas_;
  cudaStream_t stream_ = nullptr;
  unsigned long long* report_ = nullptr;
  std::vector<void*> memory_;
  std::unique_ptr<cuda::Context> context_;
};

// Every way to run: three orders of threads, and late.
std::vector<Device::Options> AllOrders();

// What the CPU backend makes of the same call.
inline Tensor OnCpu(Op op, std::vector<KernelOperand> inputs, TensorType output, Dtype compute,
                    const Attributes& attributes = {}) {
  return RunOp(op, std::move(inputs), std::move(output), compute, attributes);
}

// Fails the test where an element differs in value (any NaN is like any other) or, for reals, in more than `ulps`.
void ExpectSame(const Tensor& got, const Tensor& want, const std::string& what, double ulps = 0);

}  // namespace tensord::testing
