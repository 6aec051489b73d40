// Tensors from nothing: the same bits as the CPU's, random numbers included.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/core/error.h"
#include "tests/unit/cuda_elementwise/device.h"

namespace tensord::testing {
namespace {

Attributes Create(uint64_t seed = 0, uint64_t offset = 0, int64_t diagonal = 0, bool exclude_stop = false) {
  Attributes result;
  auto& attributes = result.emplace<CreateAttributes>();
  attributes.seed = seed;
  attributes.seed_offset = offset;
  attributes.diagonal = diagonal;
  attributes.exclude_stop = exclude_stop;
  return result;
}
Scalar I(int64_t v) { return {v, Dtype::kNone}; }
Scalar R(double v) { return {v, Dtype::kNone}; }

void ExpectAsOnCpu(Device& device, Op op, const std::vector<KernelOperand>& inputs, const TensorType& type,
                   const Attributes& attributes) {
  const Tensor got = device.Run(op, inputs, type, type.dtype, attributes);
  const Tensor want = OnCpu(op, inputs, type, type.dtype, attributes);
  if (got.memory == want.memory) return;  // to the bit
  ExpectSame(got, want, StrCat(RowOf(op).name, " ", type.ToString()));
  ADD_FAILURE() << RowOf(op).name << " " << type.ToString() << " differs";
}

// Aligned memory, memory that is not, odd orders.
class CudaCreate : public ::testing::TestWithParam<int> {
 protected:
  static Device::Options Parameter() {
    Device::Options options = AllOrders()[static_cast<size_t>(GetParam())];
    options.multiprocessors = 1;
    return options;
  }
  Device device_{Parameter()};
};
INSTANTIATE_TEST_SUITE_P(Orders, CudaCreate, ::testing::Range(0, 5));

TEST_P(CudaCreate, ZerosOnesAndFull) {
  for (const Dtype dtype : AllDtypes()) {
    for (const int64_t n : {0, 1, 2, 3, 7, 8, 9, 31, 33, 1000, 9001}) {
      const TensorType type{dtype, {n}};
      ExpectAsOnCpu(device_, Op::kZeros, {}, type, Create());
      ExpectAsOnCpu(device_, Op::kOnes, {}, type, Create());
      const Scalar value = dtype == Dtype::kBool ? Scalar{true, Dtype::kNone} : I(-7 & (IsInteger(dtype) ? 0x77 : -1));
      ExpectAsOnCpu(device_, Op::kFull, {In(value)}, type, Create());
    }
  }
  const Tensor one = Vector(Dtype::kInt16, {Number::Of(258)});
  ExpectAsOnCpu(device_, Op::kFull, {In(one)}, {Dtype::kInt16, {3, 33}}, Create());
  ExpectAsOnCpu(device_, Op::kFull, {In(one)}, {Dtype::kFloat32, {3, 33}}, Create());
  ExpectAsOnCpu(device_, Op::kOnes, {}, {Dtype::kFloat32, {}}, Create());
  const Scalar large = I(300);
  Tensor out(Dtype::kInt8, {2});
  EXPECT_EQ(ReasonOf(device_.TryRun(Op::kFull, {In(large)}, Dtype::kInt8, Create(), out)), Reason::kScalarRange);
}

TEST_P(CudaCreate, Arange) {
  const Scalar start = I((int64_t{1} << 53) + 1);
  const Scalar stop = I((int64_t{1} << 53) + 3001);
  const Scalar three = I(3);
  ExpectAsOnCpu(device_, Op::kArange, {In(start), In(stop), In(three)}, {Dtype::kInt64, {1000}}, Create());
  const Scalar half = R(0.5);
  const Scalar hundred = R(100);
  const Scalar tenth = R(0.1);
  const Scalar ten = I(10);
  const Scalar down = I(-2);
  for (const Dtype dtype : AllDtypes()) {
    if (dtype == Dtype::kBool) continue;
    if (dtype != Dtype::kFloat16) {
      ExpectAsOnCpu(device_, Op::kArange, {In(ten)}, {dtype, {10}}, Create());
      ExpectAsOnCpu(device_, Op::kArange, {In(ten), In(three), In(down)}, {dtype, {4}}, Create());
    }
    ExpectAsOnCpu(device_, Op::kArange, {In(half), In(hundred), In(tenth)}, {dtype, {995}}, Create());
  }
  const Scalar huge{~uint64_t{0} - 1, Dtype::kNone};
  const Scalar end{~uint64_t{0}, Dtype::kNone};
  ExpectAsOnCpu(device_, Op::kArange, {In(huge), In(end)}, {Dtype::kUint64, {1}}, Create());
  // Of float16, from integers.
  const Tensor got = device_.Run(Op::kArange, {In(ten)}, {Dtype::kFloat16, {10}}, Dtype::kFloat16, Create());
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(got.At(i).value, i);
}

TEST_P(CudaCreate, Linspace) {
  const Scalar a = R(-1);
  const Scalar b = R(0.7);
  for (const Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16, Dtype::kFloat32, Dtype::kFloat64}) {
    for (const bool open : {false, true}) {
      for (const int64_t n : {1, 2, 3, 7, 1001})
        ExpectAsOnCpu(device_, Op::kLinspace, {In(a), In(b)}, {dtype, {n}}, Create(0, 0, 0, open));
    }
  }
}

TEST_P(CudaCreate, EyeOnEveryDiagonal) {
  for (const int64_t k :
       {int64_t{0}, int64_t{1}, int64_t{-2}, int64_t{4}, int64_t{5}, int64_t{-3}, INT64_MAX, INT64_MIN}) {
    for (const Dtype dtype : {Dtype::kBool, Dtype::kFloat16, Dtype::kFloat32, Dtype::kInt64}) {
      ExpectAsOnCpu(device_, Op::kEye, {}, {dtype, {3, 5}}, Create(0, 0, k));
      ExpectAsOnCpu(device_, Op::kEye, {}, {dtype, {2, 2, 40, 33}}, Create(0, 0, k));
    }
  }
}

TEST_P(CudaCreate, RandomNumbersAreTheCpus) {
  for (const Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16, Dtype::kFloat32, Dtype::kFloat64}) {
    for (const uint64_t offset :
         {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{7}, (uint64_t{1} << 34) + 3, ~uint64_t{0} - 200000}) {
      for (const int64_t n : {1, 2, 3, 4, 5, 33, 3001}) {
        for (const Op op : {Op::kRand, Op::kRandn})
          ExpectAsOnCpu(device_, op, {}, {dtype, {n}}, Create(0x123456789abcdefULL, offset));
      }
    }
  }
  Tensor out(Dtype::kInt32, {4});
  const absl::Status refused = device_.TryRun(Op::kRand, {}, Dtype::kInt32, Create(), out);
  EXPECT_EQ(ReasonOf(refused), Reason::kOpUnsupported);
  EXPECT_EQ(DetailsOf(refused).Get("device"), "cuda:0");
}

TEST(CudaCreateRandom, TheMoments) {
  Device device;
  const int64_t n = 100000;
  const Tensor normal = device.Run(Op::kRandn, {}, {Dtype::kFloat32, {n}}, Dtype::kFloat32, Create(2));
  long double mean = 0;
  long double square = 0;
  for (int64_t i = 0; i < n; ++i) {
    mean += normal.At(i).value;
    square += normal.At(i).value * normal.At(i).value;
  }
  EXPECT_NEAR(static_cast<double>(mean / n), 0, 0.02);
  EXPECT_NEAR(static_cast<double>(square / n), 1, 0.03);
}

}  // namespace
}  // namespace tensord::testing
