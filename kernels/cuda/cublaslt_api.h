// The part of cuBLASLt that we call, declared here: its header is not needed to build, and the library (half a gigabyte)
// is opened when a matrix is first multiplied. The types and numbers are the library's ABI, the same in 12 and 13;
// tests/unit/cuda_backend compares them with the vendor's header where there is one.
//
//   std::string why;
//   const cublaslt::Api* api = cublaslt::Load(&why);   // null: `why` says what was looked for
//   api->Create(&handle);
//
// The table is filled by plugin/cublaslt_dlopen.cc from the library, and in the emulator by its fake
// (kernels/emulated/cublaslt.cc). Loading is thread safe and happens once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace tensord::cuda::cublaslt {

// Handles and descriptors are opaque.
using Handle = void*;
using MatmulDesc = void*;
using MatrixLayout = void*;
using Preference = void*;

enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocationFailed = 3,
  kInvalidValue = 7,
  kArchitectureMismatch = 8,
  kMappingError = 11,
  kExecutionFailed = 13,
  kInternalError = 14,
  kNotSupported = 15,
};

enum DataType : int { kReal32 = 0, kReal64 = 1, kReal16 = 2, kBfloat16 = 14 };
enum ComputeType : int { kCompute32 = 68, kCompute64 = 70, kCompute32FastTf32 = 77 };
enum Operation : int32_t { kNone = 0, kTranspose = 1 };
enum Epilogue : int32_t { kEpilogueDefault = 1, kEpilogueBias = 4 };
enum ReductionScheme : uint32_t { kReduceInComputeType = 2 };

enum LayoutAttribute : int { kLayoutBatchCount = 5, kLayoutBatchStride = 6 };
enum DescAttribute : int { kDescTransposeA = 3, kDescTransposeB = 4, kDescEpilogue = 7, kDescBiasPointer = 8 };
enum PreferenceAttribute : int {
  kPreferenceWorkspaceBytes = 1,
  kPreferenceReductionSchemes = 3,
  kPreferenceAlignmentA = 5,
  kPreferenceAlignmentB = 6,
  kPreferenceAlignmentC = 7,
  kPreferenceAlignmentD = 8,
};

struct Algorithm {
  uint64_t data[8];
};
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

// X(member, symbol, return type, parameters)
#define TENSORD_CUBLASLT_API(X)                                                                                       \
  X(Version, cublasLtGetVersion, size_t, ())                                                                          \
  X(StatusName, cublasLtGetStatusName, const char*, (Status))                                                         \
  X(Create, cublasLtCreate, Status, (Handle*))                                                                        \
  X(Destroy, cublasLtDestroy, Status, (Handle))                                                                       \
  X(DescCreate, cublasLtMatmulDescCreate, Status, (MatmulDesc*, ComputeType, DataType scale))                         \
  X(DescDestroy, cublasLtMatmulDescDestroy, Status, (MatmulDesc))                                                     \
  X(DescSet, cublasLtMatmulDescSetAttribute, Status, (MatmulDesc, DescAttribute, const void*, size_t))                \
  X(LayoutCreate, cublasLtMatrixLayoutCreate, Status, (MatrixLayout*, DataType, uint64_t, uint64_t, int64_t leading)) \
  X(LayoutDestroy, cublasLtMatrixLayoutDestroy, Status, (MatrixLayout))                                               \
  X(LayoutSet, cublasLtMatrixLayoutSetAttribute, Status, (MatrixLayout, LayoutAttribute, const void*, size_t))        \
  X(PreferenceCreate, cublasLtMatmulPreferenceCreate, Status, (Preference*))                                          \
  X(PreferenceDestroy, cublasLtMatmulPreferenceDestroy, Status, (Preference))                                         \
  X(PreferenceSet, cublasLtMatmulPreferenceSetAttribute, Status,                                                      \
    (Preference, PreferenceAttribute, const void*, size_t))                                                           \
  X(Heuristic, cublasLtMatmulAlgoGetHeuristic, Status,                                                                \
    (Handle, MatmulDesc, MatrixLayout a, MatrixLayout b, MatrixLayout c, MatrixLayout d, Preference, int wanted,      \
     HeuristicResult*, int* found))                                                                                   \
  X(Matmul, cublasLtMatmul, Status,                                                                                   \
    (Handle, MatmulDesc, const void* alpha, const void* a, MatrixLayout, const void* b, MatrixLayout,                 \
     const void* beta, const void* c, MatrixLayout, void* d, MatrixLayout, const Algorithm*, void* workspace,         \
     size_t workspace_bytes, cudaStream_t))

struct Api {
#define TENSORD_CUBLASLT_MEMBER(member, symbol, result, parameters) result(*member) parameters = nullptr;
  TENSORD_CUBLASLT_API(TENSORD_CUBLASLT_MEMBER)
#undef TENSORD_CUBLASLT_MEMBER
};

// The table, or null with the reason. Never unloaded.
const Api* Load(std::string* why);

}  // namespace tensord::cuda::cublaslt
