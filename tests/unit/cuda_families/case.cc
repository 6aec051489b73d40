#include "case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "kernels/ops/infer.h"

namespace tensord::cuda {
namespace {

void Check(cudaError_t error) { ASSERT_EQ(error, cudaSuccess) << cudaGetErrorName(error); }

std::shared_ptr<void> OnDevice(const void* bytes, size_t count) {
  void* block = nullptr;
  Check(cudaMalloc(&block, std::max<size_t>(1, count)));
  if (count > 0) Check(cudaMemcpy(block, bytes, count, cudaMemcpyHostToDevice));
  return std::shared_ptr<void>(block, [](void* p) { cudaFree(p); });
}

}  // namespace

absl::StatusOr<void*> TestMemory::Allocate(size_t bytes, StreamId) {
  void* block = nullptr;
  if (fail_after == 0 || cudaMalloc(&block, bytes) != cudaSuccess) {
    return Error(Reason::kMemoryExhausted)
        .With("device", "cuda:0")
        .With("requested", bytes)
        .With("free", 0)
        .With("cached", 0);
  }
  if (fail_after > 0) --fail_after;
  ++live_;
  return block;
}

void TestMemory::Deallocate(void* block, size_t, StreamId) {
  --live_;
  given_back_.push_back(block);
}

void TestMemory::Collect() {
  for (void* block : given_back_) Check(cudaFree(block));
  given_back_.clear();
}

std::string Tensor::Text() const {
  return StrCat(view.type().ToString(), " strides [", StrJoin(view.strides, ","), "]");
}

void FamilyTest::SetUp() {
  emulated::Options options;
  options.memory_bytes = size_t{256} << 20;
  options.multiprocessors = 4;
  options.guard_pages = true;
  options.order = GetParam();
  emulated::Configure(options);
  Check(cudaSetDevice(0));
  Check(cudaStreamCreate(&stream_));
  Check(cudaMallocHost(reinterpret_cast<void**>(&report_), sizeof(*report_)));
  *report_ = 0;
  scratch_ = std::make_unique<TestMemory>();
  blas_ = std::make_unique<CublasLt>();
  traits_.multiprocessors = options.multiprocessors;
}

void FamilyTest::TearDown() {
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(emulated::LastReport(), "");
  blas_.reset();
  scratch_->Collect();
  EXPECT_EQ(scratch_->live(), 0);
  scratch_.reset();
  Check(cudaFreeHost(report_));
  Check(cudaStreamDestroy(stream_));
}

Tensor FamilyTest::Make(Dtype dtype, Dims shape, Lay lay, Range range) {
  Tensor tensor;
  TensorView& view = tensor.view;
  view.dtype = dtype;
  view.shape = std::move(shape);
  const size_t rank = view.shape.size();
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  const bool any = lay == Lay::kAnyhow;
  const auto coin = [&] { return random_() % 2 == 0; };
  if (lay == Lay::kPermuted || any) std::shuffle(order.begin(), order.end(), random_);
  view.strides.assign(rank, 0);
  int64_t step = 1;
  int64_t offset = 0;
  for (size_t i = rank; i-- > 0;) {
    const size_t d = order[i];
    const int64_t size = view.shape[d];
    if ((lay == Lay::kRepeated && coin()) || (any && random_() % 6 == 0)) continue;
    const int64_t skip = lay == Lay::kSliced || (any && coin()) ? 1 + static_cast<int64_t>(random_() % 3) : 1;
    view.strides[d] = step * skip;
    if ((lay == Lay::kReversed || any) && coin() && size > 0) {
      offset += (size - 1) * view.strides[d];
      view.strides[d] = -view.strides[d];
    }
    step = step * skip * std::max<int64_t>(1, size) + (lay == Lay::kSliced ? 1 : 0);
  }

  Array storage = Array::Zeros(dtype, {step});
  for (int64_t i = 0; i < step; ++i) {
    if (IsReal(dtype)) {
      storage.Set(i, Number::Real(std::uniform_real_distribution<double>(range.low, range.high)(random_)));
    } else if (range.low == range.high) {
      storage.Set(i, Number::Integer(static_cast<__int128>(static_cast<uint64_t>(random_()) << 32 | random_())));
    } else {
      const auto span = static_cast<uint64_t>(range.high - range.low) + 1;
      storage.Set(i, Number::Integer(static_cast<__int128>(range.low) + static_cast<__int128>(random_() % span)));
    }
  }
  const size_t item = ItemSize(dtype);
  tensor.memory = OnDevice(storage.bytes.data(), storage.bytes.size());
  view.data = static_cast<char*>(tensor.memory.get()) + offset * static_cast<int64_t>(item);
  tensor.host = Array::Zeros(dtype, view.shape);
  oracle::ForEachIndex(view.shape, [&](const Dims& index, int64_t flat) {
    int64_t at = offset;
    for (size_t d = 0; d < rank; ++d) at += index[d] * view.strides[d];
    std::memcpy(tensor.host.bytes.data() + static_cast<size_t>(flat) * item,
                storage.bytes.data() + static_cast<size_t>(at) * item, item);
  });
  return tensor;
}

Tensor FamilyTest::Of(const Array& array) {
  Tensor tensor;
  tensor.host = array;
  tensor.memory = OnDevice(array.bytes.data(), array.bytes.size());
  tensor.view = {array.type.dtype, array.type.shape, ContiguousStrides(array.type.shape), tensor.memory.get()};
  return tensor;
}

Tensor FamilyTest::Of(Dtype dtype, Dims shape, const std::vector<long double>& values) {
  Array array = Array::Zeros(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i) {
    array.Set(static_cast<int64_t>(i),
              IsReal(dtype) ? Number::Real(values[i]) : Number::Integer(static_cast<__int128>(values[i])));
  }
  return Of(array);
}

absl::StatusOr<Array> FamilyTest::Run(Op op, const std::vector<const Tensor*>& operands, const Attributes& attributes) {
  Instruction instruction;
  instruction.op = op;
  instruction.attributes = attributes;
  std::vector<TensorType> types(operands.size());
  std::vector<OperandType> operand_types(operands.size());
  std::vector<KernelOperand> inputs(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    instruction.inputs.push_back(i + 1);
    if (operands[i] == nullptr) continue;
    types[i] = operands[i]->view.type();
    operand_types[i].tensor = &types[i];
    inputs[i].tensor = &operands[i]->view;
  }
  TENSORD_ASSIGN_OR_RETURN(const Inference inference, Infer(instruction, operand_types));
  Array result = Array::Zeros(inference.outputs[0].dtype, inference.outputs[0].shape);
  std::fill(result.bytes.begin(), result.bytes.end(), '\x5a');
  const Tensor out = Of(result);
  KernelCall call;
  call.op = op;
  call.attributes = &instruction.attributes;
  call.compute = inference.compute;
  call.inputs = inputs;
  call.outputs = absl::MakeConstSpan(&out.view, 1);
  Context context{*scratch_, 0, stream_, traits_, report_, *blas_};
  absl::Status status;
  switch (RowOf(op).family) {
    case Family::kReduce:
      status = RunReduce(call, context);
      break;
    case Family::kSoftmax:
      status = RunSoftmax(call, context);
      break;
    case Family::kMatmul:
      status = RunMatmul(call, context);
      break;
    case Family::kWindow:
      status = RunWindow(call, context);
      break;
    case Family::kNorm:
      status = RunNorm(call, context);
      break;
    default:
      status = Error(Reason::kInternal).Say("id", "test");
  }
  const cudaError_t waited = cudaStreamSynchronize(stream_);
  scratch_->Collect();
  if (!status.ok()) return status;
  TENSORD_RETURN_IF_ERROR(ToStatus(waited, traits_, "cudaStreamSynchronize"));
  if (!result.bytes.empty()) {
    const cudaError_t copied =
        cudaMemcpy(result.bytes.data(), out.view.data, result.bytes.size(), cudaMemcpyDeviceToHost);
    TENSORD_RETURN_IF_ERROR(ToStatus(copied, traits_, "cudaMemcpy"));
  }
  return result;
}

double ComputeEpsilon(Dtype dtype) { return dtype == Dtype::kFloat64 ? 0x1p-52 : 0x1p-23; }

double Largest(const Array& array) {
  double largest = 0;
  for (int64_t i = 0; i < array.size(); ++i) {
    const auto magnitude = static_cast<double>(std::fabs(array.At(i).AsReal()));
    if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
  }
  return largest;
}

::testing::AssertionResult Agrees(const absl::StatusOr<Array>& got, const Array& expected, double ulps,
                                  double absolute) {
  if (!got.ok()) return ::testing::AssertionFailure() << got.status();
  const std::string difference = oracle::Compare(*got, expected, ulps, absolute);
  if (difference.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << difference;
}

}  // namespace tensord::cuda
