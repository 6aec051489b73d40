#include "case.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/core/error.h"
#include "kernels/cpu/loops.h"
#include "kernels/ops/infer.h"

namespace tensord::cpu {
namespace {

template <class T>
long double Read(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>) {
    return static_cast<long double>(static_cast<float>(value));
  } else {
    return static_cast<long double>(value);
  }
}

template <class T>
void Write(char* p, long double value) {
  T out;
  if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>) {
    out = T(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    out = value != 0;
  } else {
    out = static_cast<T>(value);
  }
  std::memcpy(p, &out, sizeof(T));
}

}  // namespace

absl::StatusOr<void*> TestMemory::Allocate(size_t bytes, StreamId) {
  if (fail)
    return Error(Reason::kMemoryExhausted)
        .With("device", "cpu")
        .With("requested", bytes)
        .With("free", 0)
        .With("cached", 0);
  ++live_;
  void* block = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  std::memset(block, 0xa5, bytes);
  return block;
}

void TestMemory::Deallocate(void* block, size_t, StreamId) {
  --live_;
  std::free(block);
}

TestMemory& Memory() {
  static TestMemory memory;
  return memory;
}

TestTensor::TestTensor(Dtype dtype, Dims shape, Lay lay, std::mt19937& random) {
  view_.dtype = dtype;
  view_.shape = std::move(shape);
  const size_t rank = view_.shape.size();
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  const bool any = lay == Lay::kAnyhow;
  const auto coin = [&] { return random() % 2 == 0; };
  if (lay == Lay::kPermuted || any) std::shuffle(order.begin(), order.end(), random);
  view_.strides.assign(rank, 0);
  int64_t step = 1;
  int64_t offset = 0;
  for (size_t i = rank; i-- > 0;) {
    const size_t d = order[i];
    const int64_t size = view_.shape[d];
    if ((lay == Lay::kRepeated && coin()) || (any && random() % 6 == 0)) continue;
    const int64_t skip = lay == Lay::kSliced || (any && coin()) ? 1 + static_cast<int64_t>(random() % 3) : 1;
    const int64_t gap = lay == Lay::kSliced ? static_cast<int64_t>(random() % 3) : 0;
    view_.strides[d] = step * skip;
    if ((lay == Lay::kReversed || any) && coin() && size > 0) {
      offset += (size - 1) * view_.strides[d];
      view_.strides[d] = -view_.strides[d];
    }
    step = step * skip * std::max<int64_t>(1, size) + gap;
  }
  const auto item = static_cast<int64_t>(ItemSize(dtype));
  storage_ = std::make_shared<std::vector<uint64_t>>(static_cast<size_t>((step * item + 63) / 8));
  view_.data = reinterpret_cast<char*>(storage_->data()) + offset * item;
}

TestTensor TestTensor::Contiguous(Dtype dtype, Dims shape) {
  std::mt19937 unused;
  return TestTensor(dtype, std::move(shape), Lay::kContiguous, unused);
}

TestTensor TestTensor::Of(Dtype dtype, Dims shape, const std::vector<long double>& values) {
  TestTensor x = Contiguous(dtype, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) x.Set(static_cast<int64_t>(i), values[i]);
  return x;
}

char* TestTensor::At(int64_t index) const {
  int64_t offset = 0;
  for (size_t d = view_.shape.size(); d-- > 0;) {
    offset += index % view_.shape[d] * view_.strides[d];
    index /= view_.shape[d];
  }
  return static_cast<char*>(view_.data) + offset * static_cast<int64_t>(ItemSize(view_.dtype));
}

long double TestTensor::Get(int64_t index) const {
  long double value = 0;
  VisitDtype(view_.dtype, [&]<class T>() { value = Read<T>(At(index)); });
  return value;
}

void TestTensor::Set(int64_t index, long double value) {
  VisitDtype(view_.dtype, [&]<class T>() { Write<T>(At(index), value); });
}

std::vector<long double> TestTensor::Values() const {
  std::vector<long double> values(static_cast<size_t>(elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = Get(static_cast<int64_t>(i));
  return values;
}

void TestTensor::Fill(std::mt19937& random, double low, double high) {
  for (int64_t i = 0; i < elements(); ++i) {
    if (dtype() == Dtype::kBool) {
      Set(i, random() % 2);
    } else if (IsInteger(dtype())) {
      const uint64_t bits = (static_cast<uint64_t>(random()) << 32) | random();
      if (low == high) {
        VisitDtype(dtype(), [&]<class T>() {
          if constexpr (std::is_integral_v<T>) Set(i, static_cast<long double>(static_cast<T>(bits)));
        });
      } else {
        const auto span = static_cast<uint64_t>(high - low) + 1;
        const long double value = static_cast<long double>(low) + static_cast<long double>(bits % span);
        Set(i, KindOf(dtype()) == DtypeKind::kUnsigned ? std::abs(value) : value);
      }
    } else {
      Set(i, std::uniform_real_distribution<double>(low, high)(random));
    }
  }
}

std::vector<std::byte> TestTensor::Bytes() const {
  const auto* from = static_cast<const std::byte*>(view_.data);
  return std::vector<std::byte>(from, from + view_.bytes());
}

std::vector<int64_t> Unravel(int64_t index, const Dims& shape) {
  std::vector<int64_t> at(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    at[d] = index % shape[d];
    index /= shape[d];
  }
  return at;
}

int64_t Ravel(const std::vector<int64_t>& at, const Dims& shape) {
  int64_t index = 0;
  for (size_t d = 0; d < shape.size(); ++d) index = index * shape[d] + at[d];
  return index;
}

absl::StatusOr<TestTensor> RunOp(Op op, const std::vector<const TestTensor*>& operands, const Attributes& attributes) {
  Instruction instruction;
  instruction.op = op;
  instruction.attributes = attributes;
  std::vector<TensorType> types(operands.size());
  std::vector<OperandType> operand_types(operands.size());
  std::vector<KernelOperand> inputs(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    instruction.inputs.push_back(i + 1);
    if (operands[i] == nullptr) continue;
    types[i] = operands[i]->view().type();
    operand_types[i].tensor = &types[i];
    inputs[i].tensor = &operands[i]->view();
  }
  TENSORD_ASSIGN_OR_RETURN(const Inference inference, Infer(instruction, operand_types));
  const TensorType& type = inference.outputs[0];
  TestTensor out = TestTensor::Contiguous(type.dtype, type.shape);
  // What is not written shows.
  std::memset(out.view().data, 0x5a, static_cast<size_t>(out.view().bytes()));
  KernelCall call;
  call.op = op;
  call.attributes = &instruction.attributes;
  call.compute = inference.compute;
  call.inputs = inputs;
  call.outputs = absl::MakeConstSpan(&out.view(), 1);
  Context context{Memory()};
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
    case Family::kJoin:
      status = RunJoin(call, context);
      break;
    case Family::kIndex:
      status = RunIndex(call, context);
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
  if (!status.ok()) return status;
  return out;
}

void ForEachIsa(const std::function<void()>& body) {
  for (int i = 0; i < IsaCount(); ++i) {
    UseIsa(IsaName(i));
    body();
  }
  UseIsa("");
}

long double StorageEpsilon(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat16:
      return 0x1p-10L;
    case Dtype::kBfloat16:
      return 0x1p-7L;
    case Dtype::kFloat32:
      return 0x1p-23L;
    default:
      return 0x1p-52L;
  }
}

long double ComputeEpsilon(Dtype dtype) { return dtype == Dtype::kFloat64 ? 0x1p-52L : 0x1p-23L; }

bool Near(long double got, long double want, long double tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::abs(got - want) <= tolerance;
}

}  // namespace tensord::cpu
