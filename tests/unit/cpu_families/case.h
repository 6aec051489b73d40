// Tensors in random layouts, and how a test runs one call of a family.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/core/tensor_view.h"
#include "kernels/cpu/families.h"

namespace tensord::cpu {

// Counts what is allocated; fails on demand.
class TestMemory : public MemoryResource {
 public:
  absl::StatusOr<void*> Allocate(size_t bytes, StreamId stream) override;
  void Deallocate(void* block, size_t bytes, StreamId stream) override;
  MemoryStats Stats() const override { return {}; }
  int64_t live() const { return live_; }
  bool fail = false;

 private:
  std::atomic<int64_t> live_{0};
};

// How a tensor lies in memory.
enum class Lay { kContiguous, kPermuted, kSliced, kReversed, kRepeated, kAnyhow };

class TestTensor {
 public:
  TestTensor() = default;
  TestTensor(Dtype dtype, Dims shape, Lay lay, std::mt19937& random);
  static TestTensor Contiguous(Dtype dtype, Dims shape);
  // A contiguous tensor of these values.
  static TestTensor Of(Dtype dtype, Dims shape, const std::vector<long double>& values);

  const TensorView& view() const { return view_; }
  const Dims& shape() const { return view_.shape; }
  Dtype dtype() const { return view_.dtype; }
  int64_t elements() const { return view_.elements(); }
  // By row-major index. Reading is exact: a long double holds every int64, uint64 and float64.
  long double Get(int64_t index) const;
  void Set(int64_t index, long double value);
  std::vector<long double> Values() const;
  // Uniform in [low, high]; whole numbers for integers, which get their whole range where low == high.
  void Fill(std::mt19937& random, double low, double high);
  std::vector<std::byte> Bytes() const;  // of a contiguous tensor

 private:
  char* At(int64_t index) const;
  std::shared_ptr<std::vector<uint64_t>> storage_;
  TensorView view_;
};

// Index arithmetic of the references.
std::vector<int64_t> Unravel(int64_t index, const Dims& shape);
int64_t Ravel(const std::vector<int64_t>& at, const Dims& shape);

// Infers and runs one op; operands that are null are left out.
absl::StatusOr<TestTensor> RunOp(Op op, const std::vector<const TestTensor*>& operands,
                                 const Attributes& attributes = {});
// The memory that Run gives as scratch.
TestMemory& Memory();

// Runs `body` once for each variant of the loops, and leaves the best one in use.
void ForEachIsa(const std::function<void()>& body);

// Distance between neighbours of 1 in what a dtype computes in, and in itself.
long double ComputeEpsilon(Dtype dtype);
long double StorageEpsilon(Dtype dtype);

// |got - want| <= tolerance, NaN equals NaN, infinities equal themselves.
bool Near(long double got, long double want, long double tolerance);

inline const std::vector<Dtype>& Integers() {
  static const std::vector<Dtype> all = {Dtype::kInt8,  Dtype::kInt16,  Dtype::kInt32,  Dtype::kInt64,
                                         Dtype::kUint8, Dtype::kUint16, Dtype::kUint32, Dtype::kUint64};
  return all;
}
inline const std::vector<Dtype>& Reals() {
  static const std::vector<Dtype> all = {Dtype::kFloat16, Dtype::kBfloat16, Dtype::kFloat32, Dtype::kFloat64};
  return all;
}
inline const std::vector<Lay>& Lays() {
  static const std::vector<Lay> all = {Lay::kContiguous, Lay::kPermuted, Lay::kSliced,
                                       Lay::kReversed,   Lay::kRepeated, Lay::kAnyhow};
  return all;
}

}  // namespace tensord::cpu
