// An emulated device, tensors in random layouts on it, and how a test runs one call of a family.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/families.h"
#include "kernels/emulated/control.h"
#include "tests/oracle/array.h"
#include "tests/oracle/families.h"

namespace tensord::cuda {

using oracle::Array;
using oracle::Number;

// Device memory from cudaMalloc; counts what lives, fails on demand.
class TestMemory : public MemoryResource {
 public:
  absl::StatusOr<void*> Allocate(size_t bytes, StreamId stream) override;
  // What the stream may still use is freed by Collect, when it is idle.
  void Deallocate(void* block, size_t bytes, StreamId stream) override;
  MemoryStats Stats() const override { return {}; }
  void Collect();
  int64_t live() const { return live_; }
  int64_t fail_after = -1;  // so many allocations succeed; -1: all

 private:
  int64_t live_ = 0;
  std::vector<void*> given_back_;
};

// How a tensor lies in memory.
enum class Lay { kContiguous, kPermuted, kSliced, kReversed, kRepeated, kAnyhow };
inline constexpr Lay kLays[] = {Lay::kContiguous, Lay::kPermuted, Lay::kSliced,
                                Lay::kReversed,   Lay::kRepeated, Lay::kAnyhow};

// A tensor on the device, and what its elements are.
struct Tensor {
  Array host;
  TensorView view;
  std::shared_ptr<void> memory;

  const Dims& shape() const { return view.shape; }
  std::string Text() const;  // "float32[2,3] strides [3,1]"
};

// Values of a test tensor: uniform in [low, high], whole for integers, which get their whole range where low == high.
struct Range {
  double low = -4;
  double high = 6;
};

// A parameter is the order of threads.
class FamilyTest : public ::testing::TestWithParam<emulated::Order> {
 protected:
  void SetUp() override;
  void TearDown() override;

  Tensor Make(Dtype dtype, Dims shape, Lay lay, Range range = {});
  Tensor Of(const Array& array);
  Tensor Of(Dtype dtype, Dims shape, const std::vector<long double>& values);
  Lay AnyLay() { return kLays[random_() % std::size(kLays)]; }
  std::mt19937& random() { return random_; }

  // Infers and runs one op; operands that are null are left out. What the op does not write is 0x5A.
  absl::StatusOr<Array> Run(Op op, const std::vector<const Tensor*>& operands, const Attributes& attributes = {});
  TestMemory& scratch() { return *scratch_; }

 private:
  std::mt19937 random_{7};
  std::unique_ptr<TestMemory> scratch_;
  std::unique_ptr<CublasLt> blas_;
  cudaStream_t stream_ = nullptr;
  unsigned long long* report_ = nullptr;
  DeviceTraits traits_;
};

// Distance between neighbours of 1 in what a dtype computes in.
double ComputeEpsilon(Dtype dtype);
// Largest magnitude of what is finite.
double Largest(const Array& array);

// Fails unless the run succeeds and agrees: reals within `ulps` units of their last place, or `absolute`.
::testing::AssertionResult Agrees(const absl::StatusOr<Array>& got, const Array& expected, double ulps = 0,
                                  double absolute = 0);

inline constexpr Dtype kIntegers[] = {Dtype::kInt8,  Dtype::kInt16,  Dtype::kInt32,  Dtype::kInt64,
                                      Dtype::kUint8, Dtype::kUint16, Dtype::kUint32, Dtype::kUint64};
inline constexpr Dtype kEveryDtype[] = {
    Dtype::kBool,   Dtype::kInt8,   Dtype::kInt16,   Dtype::kInt32,    Dtype::kInt64,   Dtype::kUint8,  Dtype::kUint16,
    Dtype::kUint32, Dtype::kUint64, Dtype::kFloat16, Dtype::kBfloat16, Dtype::kFloat32, Dtype::kFloat64};
inline constexpr Dtype kReals[] = {Dtype::kFloat16, Dtype::kBfloat16, Dtype::kFloat32, Dtype::kFloat64};

#define TENSORD_EVERY_ORDER(Suite)                                                                            \
  INSTANTIATE_TEST_SUITE_P(                                                                                   \
      Order, Suite,                                                                                           \
      ::testing::Values(emulated::Order::kAscending, emulated::Order::kDescending, emulated::Order::kRandom), \
      [](const auto& order) {                                                                                 \
        return order.param == emulated::Order::kAscending    ? "Ascending"                                    \
               : order.param == emulated::Order::kDescending ? "Descending"                                   \
                                                             : "Random";                                      \
      })

}  // namespace tensord::cuda
