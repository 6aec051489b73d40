// Kernels against what the memory or a plain loop can do.
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/ops/infer.h"
#include "server/memory/memory.h"
#include "tests/bench/ratio.h"

namespace tensord::bench {
namespace {

constexpr int64_t kElements = int64_t{16} << 20;

struct Owned {
  MemoryResource& resource;
  TensorView view;
  Owned(MemoryResource& from, Dtype dtype, const Dims& shape) : resource(from) {
    view = {dtype, shape, ContiguousStrides(shape), nullptr};
    view.data = *resource.Allocate(static_cast<size_t>(view.bytes()), 0);
    std::memset(view.data, 0, static_cast<size_t>(view.bytes()));
  }
  ~Owned() { resource.Deallocate(view.data, static_cast<size_t>(view.bytes()), 0); }
  Owned(const Owned&) = delete;
};

class Kernels {
 public:
  Kernels() : backend_(MakeCpuBackend({})), pool_(MakeCachingPool(backend_->memory())) {}
  MemoryResource& memory() { return *pool_; }
  // Runs an op on tensors that are there, output included.
  void Run(Op op, const std::vector<const TensorView*>& inputs, const TensorView& output,
           const Attributes& attributes = {}) {
    std::vector<KernelOperand> operands;
    for (const TensorView* input : inputs) operands.push_back({input, nullptr});
    const KernelCall call{op, &attributes, inputs[0]->dtype, operands, {&output, 1}};
    const absl::Status status = backend_->Run(call, backend_->default_stream(), *pool_);
    if (!status.ok()) std::printf("%s\n", status.ToString().c_str());
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<MemoryResource> pool_;
};

void Bandwidth(Kernels& kernels) {
  Owned a(kernels.memory(), Dtype::kFloat32, {kElements});
  Owned b(kernels.memory(), Dtype::kFloat32, {kElements});
  Owned out(kernels.memory(), Dtype::kFloat32, {kElements});
  Owned total(kernels.memory(), Dtype::kFloat32, {});
  const auto copy = [&] { std::memcpy(out.view.data, a.view.data, static_cast<size_t>(a.view.bytes())); };
  Ratio(
      "relu of 16 Mi float32 / memcpy, one thread", [&] { kernels.Run(Op::kRelu, {&a.view}, out.view); }, copy);
  Ratio(
      "add of 16 Mi float32 / memcpy, one thread",
      [&] {
        kernels.Run(Op::kAdd, {&a.view, &b.view}, out.view);
      },
      copy);
  Ratio(
      "exp of 16 Mi float32 / memcpy, one thread", [&] { kernels.Run(Op::kExp, {&a.view}, out.view); }, copy);
  ReduceAttributes all;
  all.all_axes = true;
  Ratio(
      "sum of 16 Mi float32 / memcpy, one thread", [&] { kernels.Run(Op::kSum, {&a.view}, total.view, all); }, copy);
  Owned matrix(kernels.memory(), Dtype::kFloat32, {4096, 4096});
  Owned flat(kernels.memory(), Dtype::kFloat32, {4096, 4096});
  TensorView transposed = matrix.view;
  std::swap(transposed.strides[0], transposed.strides[1]);
  Ratio(
      "transpose of 4096 x 4096 float32 / memcpy, one thread",
      [&] { kernels.Run(Op::kCast, {&transposed}, flat.view); }, copy);
  ReduceAttributes last;
  last.axes = {1};
  Ratio(
      "softmax of 4096 x 4096 float32 / memcpy, one thread",
      [&] { kernels.Run(Op::kSoftmax, {&matrix.view}, flat.view, last); }, copy);
}

void Products(Kernels& kernels) {
  Owned a(kernels.memory(), Dtype::kFloat32, {1024, 1024});
  Owned b(kernels.memory(), Dtype::kFloat32, {1024, 1024});
  Owned c(kernels.memory(), Dtype::kFloat32, {1024, 1024});
  // The same product by a plain vectorised loop over rows.
  const auto plain = [&] {
    const float* x = a.view.as<float>();
    const float* y = b.view.as<float>();
    float* z = c.view.as<float>();
    std::memset(z, 0, static_cast<size_t>(c.view.bytes()));
    for (int i = 0; i < 1024; ++i) {
      for (int k = 0; k < 1024; ++k) {
        for (int j = 0; j < 1024; ++j) z[i * 1024 + j] += x[i * 1024 + k] * y[k * 1024 + j];
      }
    }
  };
  Ratio(
      "matmul of 1024^3 float32 / plain loop, one thread",
      [&] {
        kernels.Run(Op::kMatmul, {&a.view, &b.view}, c.view);
      },
      plain);
}

}  // namespace
}  // namespace tensord::bench

int main() {
  tensord::bench::Kernels kernels;
  tensord::bench::Bandwidth(kernels);
  tensord::bench::Products(kernels);
  return 0;
}
