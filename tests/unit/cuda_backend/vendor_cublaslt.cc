// Our declarations of cuBLASLt against the vendor's header. Compiles or does not; there is nothing to run.
#include <cublasLt.h>

#include <type_traits>

#include "kernels/cuda/cublaslt_api.h"

namespace tensord::cuda::cublaslt {
namespace {

// What passes through a register or points the same way: our opaque handles are void*, our enums of one size.
template <class Ours, class Theirs>
constexpr bool kAlike = std::is_same_v<Ours, Theirs> || (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) ||
                        (std::is_enum_v<Ours> && std::is_enum_v<Theirs> && sizeof(Ours) == sizeof(Theirs));
template <class Ours, class Theirs>
struct Same : std::false_type {};
template <class R, class... P, class S, class... Q>
struct Same<R (*)(P...), S (*)(Q...)>
    : std::bool_constant<sizeof...(P) == sizeof...(Q) && kAlike<R, S> && (kAlike<P, Q> && ...)> {};

#define TENSORD_SAME(member, symbol, result, parameters) \
  static_assert(Same<decltype(Api::member), decltype(&::symbol)>::value, #symbol);
TENSORD_CUBLASLT_API(TENSORD_SAME)
#undef TENSORD_SAME

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(HeuristicResult, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(HeuristicResult, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));

#define TENSORD_EQUAL(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
TENSORD_EQUAL(kSuccess, CUBLAS_STATUS_SUCCESS);
TENSORD_EQUAL(kNotInitialized, CUBLAS_STATUS_NOT_INITIALIZED);
TENSORD_EQUAL(kAllocationFailed, CUBLAS_STATUS_ALLOC_FAILED);
TENSORD_EQUAL(kInvalidValue, CUBLAS_STATUS_INVALID_VALUE);
TENSORD_EQUAL(kArchitectureMismatch, CUBLAS_STATUS_ARCH_MISMATCH);
TENSORD_EQUAL(kMappingError, CUBLAS_STATUS_MAPPING_ERROR);
TENSORD_EQUAL(kExecutionFailed, CUBLAS_STATUS_EXECUTION_FAILED);
TENSORD_EQUAL(kInternalError, CUBLAS_STATUS_INTERNAL_ERROR);
TENSORD_EQUAL(kNotSupported, CUBLAS_STATUS_NOT_SUPPORTED);
TENSORD_EQUAL(kReal32, CUDA_R_32F);
TENSORD_EQUAL(kReal64, CUDA_R_64F);
TENSORD_EQUAL(kReal16, CUDA_R_16F);
TENSORD_EQUAL(kBfloat16, CUDA_R_16BF);
TENSORD_EQUAL(kCompute32, CUBLAS_COMPUTE_32F);
TENSORD_EQUAL(kCompute64, CUBLAS_COMPUTE_64F);
TENSORD_EQUAL(kCompute32FastTf32, CUBLAS_COMPUTE_32F_FAST_TF32);
TENSORD_EQUAL(kNone, CUBLAS_OP_N);
TENSORD_EQUAL(kTranspose, CUBLAS_OP_T);
TENSORD_EQUAL(kEpilogueDefault, CUBLASLT_EPILOGUE_DEFAULT);
TENSORD_EQUAL(kEpilogueBias, CUBLASLT_EPILOGUE_BIAS);
TENSORD_EQUAL(kReduceInComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
TENSORD_EQUAL(kLayoutBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
TENSORD_EQUAL(kLayoutBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
TENSORD_EQUAL(kDescTransposeA, CUBLASLT_MATMUL_DESC_TRANSA);
TENSORD_EQUAL(kDescTransposeB, CUBLASLT_MATMUL_DESC_TRANSB);
TENSORD_EQUAL(kDescEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
TENSORD_EQUAL(kDescBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
TENSORD_EQUAL(kPreferenceWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
TENSORD_EQUAL(kPreferenceReductionSchemes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
TENSORD_EQUAL(kPreferenceAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
TENSORD_EQUAL(kPreferenceAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
TENSORD_EQUAL(kPreferenceAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
TENSORD_EQUAL(kPreferenceAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);

}  // namespace
}  // namespace tensord::cuda::cublaslt
