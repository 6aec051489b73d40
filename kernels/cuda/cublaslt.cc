// Gemm on cuBLASLt. The library thinks in columns: a row-major m×n matrix is its column-major n×m one, so
// out = a·b is asked for as outᵀ = bᵀ·aᵀ, with the operands swapped and nothing transposed in memory. `bias` has one
// value for every row of outᵀ, which is what the library's bias epilogue adds.
#include "kernels/cuda/cublaslt.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "kernels/cuda/cublaslt_api.h"

namespace tensord::cuda {
namespace {

using namespace cublaslt;  // NOLINT(google-build-using-namespace): the vendor's names, wanted here and nowhere else

// What an algorithm may take beside its operands: enough for split sums and Hopper's kernels, small beside a device.
constexpr uint64_t kMostWorkspace = uint64_t{32} << 20;
// The library assumes 256 where it is not told; more does not help it.
constexpr uint32_t kMostAlignment = 256;
// Plans kept: heuristics cost tens of microseconds, and a model multiplies the same shapes again and again.
constexpr size_t kMostPlans = 512;

uint32_t AlignmentOf(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return address == 0 ? kMostAlignment
                      : std::min(kMostAlignment, uint32_t{1} << std::min(std::countr_zero(address), 8));
}

struct Types {
  DataType data;
  DataType scale;
  ComputeType compute;
};

std::optional<Types> TypesOf(Dtype dtype, bool allow_tf32) {
  switch (dtype) {
    case Dtype::kFloat16:
      return Types{kReal16, kReal32, kCompute32};
    case Dtype::kBfloat16:
      return Types{kBfloat16, kReal32, kCompute32};
    case Dtype::kFloat32:
      return Types{kReal32, kReal32, allow_tf32 ? kCompute32FastTf32 : kCompute32};
    case Dtype::kFloat64:
      return Types{kReal64, kReal64, kCompute64};
    default:
      return std::nullopt;
  }
}

// All that an algorithm is chosen by.
struct PlanKey {
  Dtype dtype;
  bool tf32, a_transposed, b_transposed;
  int64_t m, n, k, batch, a_leading, a_stride, b_leading, b_stride, out_leading, out_stride;
  uint32_t a_alignment, b_alignment, out_alignment, bias_alignment;  // bias_alignment 0: no bias
  uint64_t workspace;                                                // allowed

  auto operator<=>(const PlanKey&) const = default;
};

PlanKey KeyOf(const GemmCall& call, bool tf32, uint64_t workspace) {
  return {call.dtype,
          tf32,
          call.a_transposed,
          call.b_transposed,
          call.m,
          call.n,
          call.k,
          call.batch,
          call.a_leading,
          call.a_batch_stride,
          call.b_leading,
          call.b_batch_stride,
          call.out_leading,
          call.out_batch_stride,
          AlignmentOf(call.a),
          AlignmentOf(call.b),
          AlignmentOf(call.out),
          call.bias == nullptr ? 0 : AlignmentOf(call.bias),
          workspace};
}

// Descriptors and the algorithm for one key. Owns what the library made.
class Plan {
 public:
  explicit Plan(const Api& api) : api_(&api) {}
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    for (MatrixLayout layout : {a, b, out}) {
      if (layout != nullptr) api_->LayoutDestroy(layout);
    }
    if (desc != nullptr) api_->DescDestroy(desc);
  }

  MatmulDesc desc = nullptr;
  MatrixLayout a = nullptr, b = nullptr, out = nullptr;  // as the caller names them
  HeuristicResult chosen{};

 private:
  const Api* api_;
};

class ScopedPreference {
 public:
  explicit ScopedPreference(const Api& api) : api_(api) {}
  ~ScopedPreference() {
    if (value != nullptr) api_.PreferenceDestroy(value);
  }
  ScopedPreference(const ScopedPreference&) = delete;
  ScopedPreference& operator=(const ScopedPreference&) = delete;
  Preference value = nullptr;

 private:
  const Api& api_;
};

absl::Status Failed(const Api& api, Status status, const char* what, const Context& context) {
  // The library says only that the device failed; the device says how.
  if (status == kExecutionFailed || status == kInternalError || status == kMappingError) {
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
      return ToStatus(error, context.traits, what);
    }
    if (const cudaError_t error = cudaStreamQuery(context.stream); error != cudaSuccess && error != cudaErrorNotReady) {
      return ToStatus(error, context.traits, what);
    }
  }
  if (status == kAllocationFailed) return ToStatus(cudaErrorMemoryAllocation, context.traits, what);
  return Error(Reason::kInternal).With("id", "cublaslt").With("cause", StrCat(what, ": ", api.StatusName(status)));
}

}  // namespace

struct CublasLt::State {
  const Api* api = nullptr;
  Handle handle = nullptr;
  std::map<PlanKey, std::unique_ptr<Plan>> plans;

  absl::Status Load(Context& context);
  // Null: the library has no algorithm for it.
  absl::StatusOr<Plan*> PlanFor(const GemmCall& call, uint64_t workspace, Context& context);
  absl::Status Describe(const GemmCall& call, const Types& types, Plan& plan, Context& context);
  absl::Status Choose(const GemmCall& call, uint64_t workspace, Plan& plan, bool& found, Context& context);
  absl::Status Multiply(const GemmCall& call, const Plan& plan, bool add_to_out, void* workspace, Context& context);
  // False: no algorithm.
  absl::StatusOr<bool> Try(const GemmCall& call, bool add_to_out, Context& context);
};

absl::Status CublasLt::State::Load(Context& context) {
  if (handle != nullptr) return absl::OkStatus();
  std::string why;
  api = cublaslt::Load(&why);
  if (api == nullptr) {
    return Error(Reason::kFeatureUnavailable)
        .With("feature", StrCat("matmul of floats on ", context.traits.id.ToString(), " (", why, ")"))
        .With("available", "matmul on cpu, and of integers");
  }
  if (const Status status = api->Create(&handle); status != kSuccess) {
    handle = nullptr;
    return Failed(*api, status, "cublasLtCreate", context);
  }
  return absl::OkStatus();
}

absl::Status CublasLt::State::Describe(const GemmCall& call, const Types& types, Plan& plan, Context& context) {
  Status status = api->DescCreate(&plan.desc, types.compute, types.scale);
  if (status != kSuccess) return Failed(*api, status, "cublasLtMatmulDescCreate", context);
  const auto set = [&](DescAttribute attribute, const auto& value) {
    if (status == kSuccess) status = api->DescSet(plan.desc, attribute, &value, sizeof(value));
  };
  // The library's A is our b, its B our a.
  set(kDescTransposeA, call.b_transposed ? kTranspose : kNone);
  set(kDescTransposeB, call.a_transposed ? kTranspose : kNone);
  if (call.bias != nullptr) {
    set(kDescEpilogue, kEpilogueBias);
    set(kDescBiasPointer, call.bias);
  }
  if (status != kSuccess) return Failed(*api, status, "cublasLtMatmulDescSetAttribute", context);

  const auto layout = [&](MatrixLayout& made, int64_t rows, int64_t columns, int64_t leading, int64_t stride) {
    if (status != kSuccess) return;
    // A matrix of one row may say anything for the distance to its next.
    status = api->LayoutCreate(&made, types.data, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                               std::max(leading, rows));
    if (status != kSuccess || call.batch == 1) return;
    const auto batch = static_cast<int32_t>(call.batch);
    status = api->LayoutSet(made, kLayoutBatchCount, &batch, sizeof(batch));
    if (status == kSuccess) status = api->LayoutSet(made, kLayoutBatchStride, &stride, sizeof(stride));
  };
  // Columns of a row-major matrix are the library's rows.
  layout(plan.a, call.a_transposed ? call.m : call.k, call.a_transposed ? call.k : call.m, call.a_leading,
         call.a_batch_stride);
  layout(plan.b, call.b_transposed ? call.k : call.n, call.b_transposed ? call.n : call.k, call.b_leading,
         call.b_batch_stride);
  layout(plan.out, call.n, call.m, call.out_leading, call.out_batch_stride);
  if (status != kSuccess) return Failed(*api, status, "cublasLtMatrixLayoutCreate", context);
  return absl::OkStatus();
}

absl::Status CublasLt::State::Choose(const GemmCall& call, uint64_t workspace, Plan& plan, bool& found,
                                     Context& context) {
  ScopedPreference preference(*api);
  Status status = api->PreferenceCreate(&preference.value);
  const auto set = [&](PreferenceAttribute attribute, const auto& value) {
    if (status == kSuccess) status = api->PreferenceSet(preference.value, attribute, &value, sizeof(value));
  };
  set(kPreferenceWorkspaceBytes, workspace);
  // Sums split over blocks are put together in the type they were made in, never in float16.
  set(kPreferenceReductionSchemes, static_cast<uint32_t>(kReduceInComputeType));
  set(kPreferenceAlignmentA, AlignmentOf(call.b));
  set(kPreferenceAlignmentB, AlignmentOf(call.a));
  set(kPreferenceAlignmentC, AlignmentOf(call.out));
  set(kPreferenceAlignmentD, AlignmentOf(call.out));
  if (status != kSuccess) return Failed(*api, status, "cublasLtMatmulPreferenceSetAttribute", context);
  int count = 0;
  status =
      api->Heuristic(handle, plan.desc, plan.b, plan.a, plan.out, plan.out, preference.value, 1, &plan.chosen, &count);
  found = status == kSuccess && count > 0 && plan.chosen.state == kSuccess;
  if (status == kSuccess || status == kNotSupported) return absl::OkStatus();
  return Failed(*api, status, "cublasLtMatmulAlgoGetHeuristic", context);
}

absl::StatusOr<Plan*> CublasLt::State::PlanFor(const GemmCall& call, uint64_t workspace, Context& context) {
  const std::optional<Types> types = TypesOf(call.dtype, context.traits.allow_tf32);
  if (!types) {
    return Error(Reason::kInternal)
        .With("id", "cublaslt")
        .With("cause", StrCat("no product of ", DtypeName(call.dtype), " in cuBLASLt"));
  }
  const PlanKey key = KeyOf(call, context.traits.allow_tf32, workspace);
  if (const auto known = plans.find(key); known != plans.end()) {
    Plan* plan = known->second.get();
    if (plan != nullptr && call.bias != nullptr) {
      const Status status = api->DescSet(plan->desc, kDescBiasPointer, &call.bias, sizeof(call.bias));
      if (status != kSuccess) return Failed(*api, status, "cublasLtMatmulDescSetAttribute", context);
    }
    return plan;
  }
  auto plan = std::make_unique<Plan>(*api);
  bool found = false;
  TENSORD_RETURN_IF_ERROR(Describe(call, *types, *plan, context));
  TENSORD_RETURN_IF_ERROR(Choose(call, workspace, *plan, found, context));
  if (plans.size() >= kMostPlans) plans.clear();
  return (plans[key] = found ? std::move(plan) : nullptr).get();
}

absl::Status CublasLt::State::Multiply(const GemmCall& call, const Plan& plan, bool add_to_out, void* workspace,
                                       Context& context) {
  const float single[2] = {0.0F, 1.0F};
  const double twice[2] = {0.0, 1.0};
  const bool wide = call.dtype == Dtype::kFloat64;
  const auto number = [&](bool one) -> const void* {
    return wide ? static_cast<const void*>(&twice[one]) : &single[one];
  };
  const Status status = api->Matmul(handle, plan.desc, number(true), call.b, plan.b, call.a, plan.a, number(add_to_out),
                                    call.out, plan.out, call.out, plan.out, &plan.chosen.algorithm, workspace,
                                    workspace == nullptr ? 0 : plan.chosen.workspace_bytes, context.stream);
  return status == kSuccess ? absl::OkStatus() : Failed(*api, status, "cublasLtMatmul", context);
}

absl::StatusOr<bool> CublasLt::State::Try(const GemmCall& call, bool add_to_out, Context& context) {
  TENSORD_ASSIGN_OR_RETURN(Plan * plan, PlanFor(call, kMostWorkspace, context));
  if (plan == nullptr) return false;
  if (plan->chosen.workspace_bytes == 0) {
    TENSORD_RETURN_IF_ERROR(Multiply(call, *plan, add_to_out, nullptr, context));
    return true;
  }
  absl::StatusOr<Scratch> workspace = Scratch::Allocate(plan->chosen.workspace_bytes, context);
  if (workspace.ok()) {
    TENSORD_RETURN_IF_ERROR(Multiply(call, *plan, add_to_out, workspace->data(), context));
    return true;
  }
  if (ReasonOf(workspace.status()) != Reason::kMemoryExhausted) return workspace.status();
  // The device is full: a slower algorithm that wants nothing is better than none.
  TENSORD_ASSIGN_OR_RETURN(plan, PlanFor(call, 0, context));
  if (plan == nullptr) return workspace.status();
  TENSORD_RETURN_IF_ERROR(Multiply(call, *plan, add_to_out, nullptr, context));
  return true;
}

CublasLt::CublasLt() : state_(std::make_unique<State>()) {}

CublasLt::~CublasLt() {
  state_->plans.clear();
  if (state_->handle != nullptr) state_->api->Destroy(state_->handle);
}

absl::Status CublasLt::Gemm(const GemmCall& call, Context& context) {
  if (call.m == 0 || call.n == 0 || call.batch == 0) return absl::OkStatus();
  TENSORD_RETURN_IF_ERROR(state_->Load(context));

  // The count of a batch is 32 bits wide there.
  constexpr int64_t kMostBatch = 65535;
  if (call.batch > kMostBatch) {
    for (int64_t first = 0; first < call.batch; first += kMostBatch) {
      GemmCall part = call;
      const auto item = static_cast<int64_t>(ItemSize(call.dtype));
      part.batch = std::min(kMostBatch, call.batch - first);
      part.a = static_cast<const char*>(call.a) + first * call.a_batch_stride * item;
      part.b = static_cast<const char*>(call.b) + first * call.b_batch_stride * item;
      part.out = static_cast<char*>(call.out) + first * call.out_batch_stride * item;
      TENSORD_RETURN_IF_ERROR(Gemm(part, context));
    }
    return absl::OkStatus();
  }

  TENSORD_ASSIGN_OR_RETURN(bool done, state_->Try(call, /*add_to_out=*/false, context));
  if (done) return absl::OkStatus();
  if (call.bias != nullptr) {
    // No algorithm adds it: the output begins as the bias, and the product is added to that.
    TensorView bias{call.dtype, {call.batch, call.m, call.n}, {0, 0, 1}, const_cast<void*>(call.bias)};
    if (call.out_leading == call.n && (call.batch == 1 || call.out_batch_stride == call.m * call.n)) {
      const TensorView out{call.dtype, {call.batch, call.m, call.n}, {call.m * call.n, call.n, 1}, call.out};
      TENSORD_RETURN_IF_ERROR(CopyStrided(bias, out, context));
      GemmCall plain = call;
      plain.bias = nullptr;
      TENSORD_ASSIGN_OR_RETURN(done, state_->Try(plain, /*add_to_out=*/true, context));
      if (done) return absl::OkStatus();
    }
  }
  return Error(Reason::kInternal)
      .With("id", "cublaslt")
      .With("cause", StrCat("cuBLASLt has no algorithm for ", DtypeName(call.dtype), " ", call.m, "x", call.k, "x",
                            call.n, ", batch ", call.batch));
}

}  // namespace tensord::cuda
