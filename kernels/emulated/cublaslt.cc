// cuBLASLt for the emulator: the functions of kernels/cuda/cublaslt_api.h under their own names, right numbers, no
// speed. A product is a kernel of the emulated device, so it runs in stream order, sees device memory and faults as
// kernels do. Sums of float16, bfloat16 and float32 are made in float32, of float64 in float64, in order of k.
//
// It is stricter than the library: an algorithm is taken only with the problem and the alignment it was found for.
#include "kernels/emulated/cublaslt.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <type_traits>

#include "kernels/core/half.h"
#include "kernels/cuda/cublaslt_api.h"
#include "kernels/cuda/portable.h"

namespace tensord::emulated {
namespace {

using namespace cuda::cublaslt;  // NOLINT(google-build-using-namespace): the library this is a fake of

std::mutex mutex;
CublasLtControls controls;  // guarded by mutex
CublasLtCounts counts;      // guarded by mutex, but for `alive`
std::atomic<uint64_t> alive{0};

CublasLtControls Controls() {
  const std::lock_guard lock(mutex);
  return controls;
}

struct HandleData {};
struct DescData {
  ComputeType compute = kCompute32;
  DataType scale = kReal32;
  int32_t transpose_a = kNone, transpose_b = kNone;
  int32_t epilogue = kEpilogueDefault;
  const void* bias = nullptr;
};
struct LayoutData {
  DataType type = kReal32;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0;
  int32_t batch = 1;
  int64_t stride = 0;
};
struct PreferenceData {
  uint64_t workspace = 0;
  uint32_t alignment_a = 256, alignment_b = 256, alignment_c = 256, alignment_d = 256;
  uint32_t reductions = 7;
};

// A product as the kernel gets it.
struct Product {
  const void *a, *b, *c, *bias;
  void* d;
  int64_t m, n, k, batch;
  int64_t a_row, a_column, a_stride;  // steps in elements
  int64_t b_row, b_column, b_stride;
  int64_t c_leading, c_stride, d_leading, d_stride;
  double alpha, beta;
};

template <class T>
using SumOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
__global__ void Multiply(Product p) {
  using Sum = SumOf<T>;
  const auto* a = static_cast<const T*>(p.a);
  const auto* b = static_cast<const T*>(p.b);
  for (int64_t i = cuda::FirstIndex(); i < p.m * p.n * p.batch; i += cuda::IndexStep()) {
    const int64_t row = i % p.m;
    const int64_t column = i / p.m % p.n;
    const int64_t batch = i / p.m / p.n;
    Sum sum = 0;
    const T* x = a + batch * p.a_stride + row * p.a_row;
    const T* y = b + batch * p.b_stride + column * p.b_column;
    for (int64_t j = 0; j < p.k; ++j) {
      sum += static_cast<Sum>(x[j * p.a_column]) * static_cast<Sum>(y[j * p.b_row]);
    }
    sum *= static_cast<Sum>(p.alpha);
    if (p.beta != 0) {
      sum += static_cast<Sum>(p.beta) *
             static_cast<Sum>(static_cast<const T*>(p.c)[batch * p.c_stride + column * p.c_leading + row]);
    }
    if (p.bias != nullptr) sum += static_cast<Sum>(static_cast<const T*>(p.bias)[row]);
    static_cast<T*>(p.d)[batch * p.d_stride + column * p.d_leading + row] = static_cast<T>(sum);
  }
}

// What an algorithm of ours carries, in the library's 64 bytes.
struct Found {
  uint64_t mark;
  uint64_t problem;
  uint64_t workspace;
  uint32_t alignment_a, alignment_b, alignment_c, alignment_d;
};
static_assert(sizeof(Found) <= sizeof(Algorithm));
constexpr uint64_t kMark = 0x746e736f72644c74;

uint64_t Mix(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x9e3779b97f4a7c15U + (hash >> 29); }

uint64_t ProblemOf(const DescData& desc, const LayoutData& a, const LayoutData& b, const LayoutData& c,
                   const LayoutData& d) {
  uint64_t hash = Mix(static_cast<uint64_t>(desc.compute), static_cast<uint64_t>(desc.transpose_a));
  hash = Mix(Mix(hash, static_cast<uint64_t>(desc.transpose_b)), static_cast<uint64_t>(desc.epilogue));
  for (const LayoutData* layout : {&a, &b, &c, &d}) {
    hash = Mix(Mix(hash, static_cast<uint64_t>(layout->type)), layout->rows);
    hash = Mix(Mix(hash, layout->columns), static_cast<uint64_t>(layout->leading));
    hash = Mix(Mix(hash, static_cast<uint64_t>(layout->batch)), static_cast<uint64_t>(layout->stride));
  }
  return hash;
}

bool SameShape(const LayoutData& x, const LayoutData& y) {
  return x.type == y.type && x.rows == y.rows && x.columns == y.columns && x.batch == y.batch;
}

bool Fits(const DescData& desc, const LayoutData& a, const LayoutData& b, const LayoutData& c, const LayoutData& d) {
  const bool ta = desc.transpose_a != kNone;
  const bool tb = desc.transpose_b != kNone;
  for (const LayoutData* layout : {&a, &b, &c, &d}) {
    if (layout->type != d.type || layout->batch != d.batch) return false;
    if (layout->rows == 0 || layout->columns == 0 || layout->leading < static_cast<int64_t>(layout->rows)) return false;
  }
  return SameShape(c, d) && (ta ? a.columns : a.rows) == d.rows && (tb ? b.rows : b.columns) == d.columns &&
         (ta ? a.rows : a.columns) == (tb ? b.columns : b.rows) &&
         (d.type == kReal64) == (desc.compute == kCompute64) && desc.scale == (d.type == kReal64 ? kReal64 : kReal32);
}

bool Aligned(const void* data, uint32_t alignment) { return reinterpret_cast<uintptr_t>(data) % alignment == 0; }

double ScalarAt(const void* data, DataType type) {
  return type == kReal64 ? *static_cast<const double*>(data) : *static_cast<const float*>(data);
}

template <class T>
Status LaunchProduct(const Product& product, cudaStream_t stream) {
  constexpr int kThreads = 256;
  constexpr int64_t kMostBlocks = 1024;
  const int64_t elements = product.m * product.n * product.batch;
  const int64_t blocks = (elements + kThreads - 1) / kThreads;
  const cudaError_t error = TENSORD_LAUNCH_FLAT(
      Multiply<T>, static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks), kThreads, stream, product);
  return error == cudaSuccess ? kSuccess : kExecutionFailed;
}

template <class T>
Status Make(void** made, T value) {
  if (made == nullptr) return kInvalidValue;
  *made = new T(std::move(value));
  alive.fetch_add(1);
  return kSuccess;
}
template <class T>
Status Unmake(void* made) {
  if (made == nullptr) return kInvalidValue;
  delete static_cast<T*>(made);
  alive.fetch_sub(1);
  return kSuccess;
}

template <class T>
Status Copy(T& to, const void* from, size_t bytes) {
  if (from == nullptr || bytes != sizeof(T)) return kInvalidValue;
  std::memcpy(&to, from, sizeof(T));
  return kSuccess;
}

}  // namespace

void SetCublasLt(const CublasLtControls& wanted) {
  const std::lock_guard lock(mutex);
  controls = wanted;
  counts = {};
}

CublasLtCounts CountCublasLt() {
  const std::lock_guard lock(mutex);
  CublasLtCounts result = counts;
  result.alive = alive.load();
  return result;
}

}  // namespace tensord::emulated

using namespace tensord::cuda::cublaslt;  // NOLINT(google-build-using-namespace)
namespace fake = tensord::emulated;

extern "C" {

size_t cublasLtGetVersion() { return 130000; }

const char* cublasLtGetStatusName(Status status) {
  switch (status) {
    case kSuccess:
      return "CUBLAS_STATUS_SUCCESS";
    case kNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case kAllocationFailed:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case kInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case kArchitectureMismatch:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case kMappingError:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case kExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case kInternalError:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case kNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown cuBLAS status";
}

Status cublasLtCreate(Handle* handle) { return fake::Make(handle, fake::HandleData{}); }
Status cublasLtDestroy(Handle handle) { return fake::Unmake<fake::HandleData>(handle); }

Status cublasLtMatmulDescCreate(MatmulDesc* desc, ComputeType compute, DataType scale) {
  return fake::Make(desc, fake::DescData{.compute = compute, .scale = scale});
}
Status cublasLtMatmulDescDestroy(MatmulDesc desc) { return fake::Unmake<fake::DescData>(desc); }
Status cublasLtMatmulDescSetAttribute(MatmulDesc desc, DescAttribute attribute, const void* value, size_t bytes) {
  auto& data = *static_cast<fake::DescData*>(desc);
  switch (attribute) {
    case kDescTransposeA:
      return fake::Copy(data.transpose_a, value, bytes);
    case kDescTransposeB:
      return fake::Copy(data.transpose_b, value, bytes);
    case kDescEpilogue:
      return fake::Copy(data.epilogue, value, bytes);
    case kDescBiasPointer:
      return fake::Copy(data.bias, value, bytes);
  }
  return kNotSupported;
}

Status cublasLtMatrixLayoutCreate(MatrixLayout* layout, DataType type, uint64_t rows, uint64_t columns,
                                  int64_t leading) {
  return fake::Make(layout, fake::LayoutData{.type = type, .rows = rows, .columns = columns, .leading = leading});
}
Status cublasLtMatrixLayoutDestroy(MatrixLayout layout) { return fake::Unmake<fake::LayoutData>(layout); }
Status cublasLtMatrixLayoutSetAttribute(MatrixLayout layout, LayoutAttribute attribute, const void* value,
                                        size_t bytes) {
  auto& data = *static_cast<fake::LayoutData*>(layout);
  switch (attribute) {
    case kLayoutBatchCount:
      return fake::Copy(data.batch, value, bytes);
    case kLayoutBatchStride:
      return fake::Copy(data.stride, value, bytes);
  }
  return kNotSupported;
}

Status cublasLtMatmulPreferenceCreate(Preference* preference) { return fake::Make(preference, fake::PreferenceData{}); }
Status cublasLtMatmulPreferenceDestroy(Preference preference) { return fake::Unmake<fake::PreferenceData>(preference); }
Status cublasLtMatmulPreferenceSetAttribute(Preference preference, PreferenceAttribute attribute, const void* value,
                                            size_t bytes) {
  auto& data = *static_cast<fake::PreferenceData*>(preference);
  switch (attribute) {
    case kPreferenceWorkspaceBytes:
      return fake::Copy(data.workspace, value, bytes);
    case kPreferenceReductionSchemes:
      return fake::Copy(data.reductions, value, bytes);
    case kPreferenceAlignmentA:
      return fake::Copy(data.alignment_a, value, bytes);
    case kPreferenceAlignmentB:
      return fake::Copy(data.alignment_b, value, bytes);
    case kPreferenceAlignmentC:
      return fake::Copy(data.alignment_c, value, bytes);
    case kPreferenceAlignmentD:
      return fake::Copy(data.alignment_d, value, bytes);
  }
  return kNotSupported;
}

Status cublasLtMatmulAlgoGetHeuristic(Handle handle, MatmulDesc desc_, MatrixLayout a_, MatrixLayout b_,
                                      MatrixLayout c_, MatrixLayout d_, Preference preference_, int wanted,
                                      HeuristicResult* results, int* found) {
  if (handle == nullptr || wanted < 1 || results == nullptr || found == nullptr) return kInvalidValue;
  *found = 0;
  const auto& desc = *static_cast<fake::DescData*>(desc_);
  const auto& a = *static_cast<fake::LayoutData*>(a_);
  const auto& b = *static_cast<fake::LayoutData*>(b_);
  const auto& c = *static_cast<fake::LayoutData*>(c_);
  const auto& d = *static_cast<fake::LayoutData*>(d_);
  const auto& preference = *static_cast<fake::PreferenceData*>(preference_);
  const fake::CublasLtControls controls = fake::Controls();
  {
    const std::lock_guard lock(fake::mutex);
    ++fake::counts.heuristics;
  }
  if (controls.fail_heuristic != 0) return static_cast<Status>(controls.fail_heuristic);
  if (!fake::Fits(desc, a, b, c, d)) return kInvalidValue;
  const bool no_room = controls.only_with_workspace && preference.workspace < controls.workspace_bytes;
  if (controls.no_algorithm || no_room || (controls.no_bias && desc.epilogue == kEpilogueBias)) return kNotSupported;
  const fake::Found algorithm = {fake::kMark,
                                 fake::ProblemOf(desc, a, b, c, d),
                                 preference.workspace >= controls.workspace_bytes ? controls.workspace_bytes : 0,
                                 preference.alignment_a,
                                 preference.alignment_b,
                                 preference.alignment_c,
                                 preference.alignment_d};
  HeuristicResult& result = results[0];
  result = {};
  std::memcpy(&result.algorithm, &algorithm, sizeof(algorithm));
  result.workspace_bytes = algorithm.workspace;
  result.state = kSuccess;
  *found = 1;
  return kSuccess;
}

Status cublasLtMatmul(Handle handle, MatmulDesc desc_, const void* alpha, const void* a, MatrixLayout a_layout,
                      const void* b, MatrixLayout b_layout, const void* beta, const void* c, MatrixLayout c_layout,
                      void* d, MatrixLayout d_layout, const Algorithm* algorithm, void* workspace,
                      size_t workspace_bytes, cudaStream_t stream) {
  if (handle == nullptr || algorithm == nullptr) return kInvalidValue;
  const auto& desc = *static_cast<fake::DescData*>(desc_);
  const auto& la = *static_cast<fake::LayoutData*>(a_layout);
  const auto& lb = *static_cast<fake::LayoutData*>(b_layout);
  const auto& lc = *static_cast<fake::LayoutData*>(c_layout);
  const auto& ld = *static_cast<fake::LayoutData*>(d_layout);
  {
    const std::lock_guard lock(fake::mutex);
    ++fake::counts.products;
    fake::counts.tf32 = desc.compute == kCompute32FastTf32;
    if (fake::controls.fail_matmul != 0) return static_cast<Status>(fake::controls.fail_matmul);
  }
  fake::Found found;
  std::memcpy(&found, algorithm, sizeof(found));
  if (found.mark != fake::kMark || found.problem != fake::ProblemOf(desc, la, lb, lc, ld)) return kInvalidValue;
  if (workspace_bytes < found.workspace || (found.workspace > 0 && !fake::Aligned(workspace, 16))) return kInvalidValue;
  if (!fake::Aligned(a, found.alignment_a) || !fake::Aligned(b, found.alignment_b) ||
      !fake::Aligned(c, found.alignment_c) || !fake::Aligned(d, found.alignment_d)) {
    return kInvalidValue;
  }
  if (desc.epilogue == kEpilogueBias && desc.bias == nullptr) return kInvalidValue;
  const bool ta = desc.transpose_a != kNone;
  const bool tb = desc.transpose_b != kNone;
  fake::Product p = {};
  p.a = a;
  p.b = b;
  p.c = c;
  p.d = d;
  p.bias = desc.epilogue == kEpilogueBias ? desc.bias : nullptr;
  p.m = static_cast<int64_t>(ld.rows);
  p.n = static_cast<int64_t>(ld.columns);
  p.k = static_cast<int64_t>(ta ? la.rows : la.columns);
  p.batch = ld.batch;
  p.a_row = ta ? la.leading : 1;
  p.a_column = ta ? 1 : la.leading;
  p.a_stride = la.stride;
  p.b_row = tb ? lb.leading : 1;
  p.b_column = tb ? 1 : lb.leading;
  p.b_stride = lb.stride;
  p.c_leading = lc.leading;
  p.c_stride = lc.stride;
  p.d_leading = ld.leading;
  p.d_stride = ld.stride;
  p.alpha = fake::ScalarAt(alpha, desc.scale);
  p.beta = fake::ScalarAt(beta, desc.scale);
  switch (ld.type) {
    case kReal16:
      return fake::LaunchProduct<tensord::Half>(p, stream);
    case kBfloat16:
      return fake::LaunchProduct<tensord::BFloat16>(p, stream);
    case kReal32:
      return fake::LaunchProduct<float>(p, stream);
    case kReal64:
      return fake::LaunchProduct<double>(p, stream);
  }
  return kNotSupported;
}

}  // extern "C"

namespace tensord::cuda::cublaslt {

const Api* Load(std::string* why) {
#define TENSORD_CUBLASLT_ENTRY(member, symbol, result, parameters) .member = &::symbol,
  static constexpr Api api = {TENSORD_CUBLASLT_API(TENSORD_CUBLASLT_ENTRY)};
#undef TENSORD_CUBLASLT_ENTRY
  if (!fake::Controls().absent) return &api;
  *why = "libcublasLt.so.13: the fake is told to be absent";
  return nullptr;
}

}  // namespace tensord::cuda::cublaslt
