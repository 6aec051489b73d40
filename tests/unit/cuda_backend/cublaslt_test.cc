// Gemm against plain loops in double precision, over every way an operand can lie, and every way the library can refuse.
#include "kernels/cuda/cublaslt.h"

#include <cmath>
#include <random>

#include "kernels/core/half.h"
#include "kernels/cuda/cublaslt_api.h"
#include "kernels/emulated/cublaslt.h"
#include "tests/unit/cuda_backend/harness.h"

namespace tensord::testing {
namespace {

using cuda::CublasLt;
using cuda::GemmCall;

class CublasLtTest : public ::testing::Test {
 protected:
  CublasLtTest() : emulator_({.memory_bytes = size_t{64} << 20}) { emulated::SetCublasLt({}); }
  ~CublasLtTest() override {
    blas_.reset();
    EXPECT_EQ(emulated::CountCublasLt().alive, 0U);
    emulated::SetCublasLt({});
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  absl::Status Gemm(const GemmCall& call) {
    if (stream_ == nullptr) {
      EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    }
    traits_.id = {DeviceKind::kCuda, 0};
    cuda::Context context{backend_.memory(), 0, stream_, traits_, nullptr, *blas_};
    const absl::Status status = blas_->Gemm(call, context);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    return status;
  }

  // A product of random values with the operands stored as said; checks every element of the output and that nothing
  // between its rows was touched.
  template <class T>
  void Check(Dtype dtype, int64_t m, int64_t n, int64_t k, int64_t batch, bool ta, bool tb, bool bias, int64_t pad = 0,
             size_t offset = 0, double tolerance = 1e-5) {
    SCOPED_TRACE(::testing::Message() << DtypeName(dtype) << " " << m << "x" << k << "x" << n << " batch " << batch
                                      << (ta ? " aT" : "") << (tb ? " bT" : "") << (bias ? " bias" : "") << " pad "
                                      << pad << " offset " << offset);
    GemmCall call;
    call.dtype = dtype;
    call.m = m;
    call.n = n;
    call.k = k;
    call.batch = batch;
    call.a_transposed = ta;
    call.b_transposed = tb;
    call.a_leading = (ta ? m : k) + pad;
    call.b_leading = (tb ? k : n) + pad;
    call.out_leading = n + pad;
    call.a_batch_stride = (ta ? k : m) * call.a_leading;
    call.b_batch_stride = (tb ? n : k) * call.b_leading;
    call.out_batch_stride = m * call.out_leading;
    const std::vector<T> a = Random<T>(static_cast<size_t>(batch * call.a_batch_stride) + offset);
    const std::vector<T> b = Random<T>(static_cast<size_t>(batch * call.b_batch_stride) + offset);
    const std::vector<T> added = Random<T>(static_cast<size_t>(n) + offset);
    std::vector<T> out(static_cast<size_t>(batch * call.out_batch_stride) + offset, T(77.0F));
    Block device_a(backend_, a.size() * sizeof(T));
    Block device_b(backend_, b.size() * sizeof(T));
    Block device_bias(backend_, added.size() * sizeof(T));
    Block device_out(backend_, out.size() * sizeof(T));
    ASSERT_TRUE(backend_.Upload(device_a.data(), a.data(), a.size() * sizeof(T), 0).ok());
    ASSERT_TRUE(backend_.Upload(device_b.data(), b.data(), b.size() * sizeof(T), 0).ok());
    ASSERT_TRUE(backend_.Upload(device_bias.data(), added.data(), added.size() * sizeof(T), 0).ok());
    ASSERT_TRUE(backend_.Upload(device_out.data(), out.data(), out.size() * sizeof(T), 0).ok());
    call.a = device_a.at(offset * sizeof(T));
    call.b = device_b.at(offset * sizeof(T));
    call.out = device_out.at(offset * sizeof(T));
    if (bias) call.bias = device_bias.at(offset * sizeof(T));
    const absl::Status status = Gemm(call);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(backend_.Download(out.data(), device_out.data(), out.size() * sizeof(T), 0).ok());
    const auto at = [](const std::vector<T>& v, int64_t i) { return AsDouble(v[static_cast<size_t>(i)]); };
    const auto skip = static_cast<int64_t>(offset);
    for (int64_t i = 0; i < batch; ++i) {
      for (int64_t row = 0; row < m; ++row) {
        for (int64_t column = 0; column < call.out_leading; ++column) {
          const double got = at(out, skip + i * call.out_batch_stride + row * call.out_leading + column);
          if (column >= n) {
            ASSERT_EQ(got, 77.0);
            continue;
          }
          double want = bias ? at(added, skip + column) : 0;
          for (int64_t j = 0; j < k; ++j) {
            const int64_t x = i * call.a_batch_stride + (ta ? j * call.a_leading + row : row * call.a_leading + j);
            const int64_t y =
                i * call.b_batch_stride + (tb ? column * call.b_leading + j : j * call.b_leading + column);
            want += at(a, skip + x) * at(b, skip + y);
          }
          ASSERT_NEAR(got, want, tolerance * (1 + std::abs(want))) << i << " " << row << " " << column;
        }
      }
    }
  }

  template <class T>
  static double AsDouble(T value) {
    if constexpr (std::is_same_v<T, double>)
      return value;
    else
      return static_cast<double>(static_cast<float>(value));
  }

  template <class T>
  std::vector<T> Random(size_t count) {
    std::uniform_real_distribution<float> values(-2, 2);
    std::vector<T> out(count);
    for (T& value : out) value = T(values(random_));
    return out;
  }

  Emulator emulator_;
  Backend& backend_ = emulator_.Make();
  cuda::DeviceTraits traits_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<CublasLt> blas_ = std::make_unique<CublasLt>();
  std::mt19937 random_{5};
};

TEST_F(CublasLtTest, EveryLayoutOfEveryType) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const bool bias : {false, true}) {
        for (const int64_t pad : {0, 3}) {
          Check<float>(Dtype::kFloat32, 5, 7, 9, 1, ta, tb, bias, pad);
          Check<float>(Dtype::kFloat32, 3, 4, 2, 3, ta, tb, bias, pad, 1);
          Check<double>(Dtype::kFloat64, 4, 3, 6, 2, ta, tb, bias, pad, 0, 1e-12);
          Check<Half>(Dtype::kFloat16, 6, 5, 4, 2, ta, tb, bias, pad, 1, 2e-3);
          Check<BFloat16>(Dtype::kBfloat16, 2, 9, 8, 1, ta, tb, bias, pad, 1, 1e-2);
        }
      }
    }
  }
}

TEST_F(CublasLtTest, EdgesOfShape) {
  for (const auto& [m, n, k] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {1, 1, 1}, {1, 33, 5}, {33, 1, 5}, {1, 1, 100}, {17, 31, 33}, {64, 64, 64}}) {
    Check<float>(Dtype::kFloat32, m, n, k, 1, false, false, true);
    Check<float>(Dtype::kFloat32, m, n, k, 2, true, true, false);
  }
  GemmCall empty;
  empty.m = 0;
  empty.n = 3;
  empty.k = 2;
  EXPECT_TRUE(Gemm(empty).ok());
}

TEST_F(CublasLtTest, BatchesLongerThanTheLibrarysCountAreSplit) {
  Check<float>(Dtype::kFloat32, 1, 1, 2, 65535 + 10, false, false, true);
  EXPECT_EQ(emulated::CountCublasLt().products, 2U);
}

TEST_F(CublasLtTest, PlansAreKept) {
  for (int i = 0; i < 5; ++i) Check<float>(Dtype::kFloat32, 4, 4, 4, 1, false, false, true);
  EXPECT_EQ(emulated::CountCublasLt().products, 5U);
  EXPECT_EQ(emulated::CountCublasLt().heuristics, 1U);
  Check<float>(Dtype::kFloat32, 4, 4, 4, 1, false, true, true);
  EXPECT_EQ(emulated::CountCublasLt().heuristics, 2U);
  // Another alignment is another plan: the fake refuses an algorithm that promised more.
  Check<float>(Dtype::kFloat32, 4, 4, 4, 1, false, false, true, 0, 1);
  EXPECT_EQ(emulated::CountCublasLt().heuristics, 3U);
}

TEST_F(CublasLtTest, Tf32OnlyWhereItIsAllowed) {
  Check<float>(Dtype::kFloat32, 4, 4, 4, 1, false, false, false);
  EXPECT_FALSE(emulated::CountCublasLt().tf32);
  traits_.allow_tf32 = true;
  Check<float>(Dtype::kFloat32, 4, 4, 4, 1, false, false, false);
  EXPECT_TRUE(emulated::CountCublasLt().tf32);
  Check<double>(Dtype::kFloat64, 4, 4, 4, 1, false, false, false);
  EXPECT_FALSE(emulated::CountCublasLt().tf32);
}

TEST_F(CublasLtTest, AWorkspaceIsTakenAndGivenBack) {
  emulated::SetCublasLt({.workspace_bytes = size_t{1} << 20});
  const int64_t before = backend_.memory().Stats().used;
  Check<float>(Dtype::kFloat32, 8, 8, 8, 1, false, false, true);
  EXPECT_EQ(backend_.memory().Stats().used, before);
  EXPECT_GE(backend_.memory().Stats().peak, int64_t{1} << 20);
}

TEST_F(CublasLtTest, AFullDeviceMultipliesWithoutWorkspaceWhereItCan) {
  emulated::SetCublasLt({.workspace_bytes = size_t{16} << 20});
  Block most(backend_, size_t{56} << 20);
  Check<float>(Dtype::kFloat32, 8, 8, 8, 1, false, false, false);
  emulated::SetCublasLt({.only_with_workspace = true, .workspace_bytes = size_t{16} << 20});
  GemmCall call;
  call.m = call.n = call.k = 9;
  call.a_leading = call.b_leading = call.out_leading = 9;
  Block data(backend_, 1024);
  call.a = call.b = call.out = data.data();
  EXPECT_EQ(ReasonOf(Gemm(call)), Reason::kMemoryExhausted);
  EXPECT_TRUE(backend_.Health().ok());
}

TEST_F(CublasLtTest, ABiasThatNoAlgorithmAddsIsAddedAllTheSame) {
  emulated::SetCublasLt({.no_bias = true});
  Check<float>(Dtype::kFloat32, 5, 7, 9, 1, false, false, true);
  Check<float>(Dtype::kFloat32, 5, 7, 9, 3, true, false, true);
  Check<Half>(Dtype::kFloat16, 5, 7, 9, 1, false, true, true, 0, 0, 2e-3);
}

TEST_F(CublasLtTest, RefusalsSayWhat) {
  Block data(backend_, 1024);
  GemmCall call;
  call.m = call.n = call.k = 4;
  call.a_leading = call.b_leading = call.out_leading = 4;
  call.a = call.b = call.out = data.data();
  emulated::SetCublasLt({.absent = true});
  absl::Status status = Gemm(call);
  EXPECT_EQ(ReasonOf(status), Reason::kFeatureUnavailable);
  EXPECT_NE(std::string(status.message()).find("libcublasLt.so.13"), std::string::npos) << status;
  emulated::SetCublasLt({.no_algorithm = true});
  status = Gemm(call);
  EXPECT_EQ(ReasonOf(status), Reason::kInternal);
  EXPECT_NE(std::string(status.message()).find("no algorithm for float32 4x4x4"), std::string::npos) << status;
  for (const auto& [code, reason, text] : std::vector<std::tuple<int, Reason, std::string>>{
           {cuda::cublaslt::kAllocationFailed, Reason::kMemoryExhausted, ""},
           {cuda::cublaslt::kExecutionFailed, Reason::kInternal, "cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"},
           {cuda::cublaslt::kInvalidValue, Reason::kInternal, "CUBLAS_STATUS_INVALID_VALUE"}}) {
    emulated::SetCublasLt({.fail_matmul = code});
    call.k = call.k == 4 ? 3 : 4;  // not what was found to have no algorithm
    call.m = 3;
    status = Gemm(call);
    EXPECT_EQ(ReasonOf(status), reason) << status;
    EXPECT_NE(std::string(status.message()).find(text), std::string::npos) << status;
  }
  emulated::SetCublasLt({.fail_heuristic = cuda::cublaslt::kNotInitialized});
  call.m = 2;
  status = Gemm(call);
  EXPECT_NE(std::string(status.message()).find("CUBLAS_STATUS_NOT_INITIALIZED"), std::string::npos) << status;
  call.dtype = Dtype::kInt32;
  EXPECT_EQ(ReasonOf(Gemm(call)), Reason::kInternal);
}

TEST_F(CublasLtTest, AnExecutionThatFailedWithTheDeviceIsTheDevicesLoss) {
  Block data(backend_, 1024);
  GemmCall call;
  call.m = call.n = call.k = 4;
  call.a_leading = call.b_leading = call.out_leading = 4;
  call.a = call.b = call.out = data.data();
  ASSERT_TRUE(Gemm(call).ok());
  emulated::KillDevice(0, cudaErrorECCUncorrectable);
  cuda::Context context{backend_.memory(), 0, stream_, traits_, nullptr, *blas_};
  EXPECT_EQ(ReasonOf(blas_->Gemm(call, context)), Reason::kDeviceLost);
  emulated::Revive(0);
}

}  // namespace
}  // namespace tensord::testing
