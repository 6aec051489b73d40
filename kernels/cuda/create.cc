// Create: tensors from nothing.
#include "kernels/cuda/create.cuh"

#include <algorithm>
#include <cstring>
#include <limits>
#include <variant>

#include "kernels/core/error.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/layout.h"
#include "kernels/ops/op.h"

namespace tensord::cuda {
namespace {

bool IsReal(const Scalar& scalar) { return std::holds_alternative<double>(scalar.value); }

unsigned Blocks(int64_t n, const Context& context) { return GridFor(n, kCreateThreads, context.traits); }

// Every element is the one at `value`.
absl::Status FillWith(const TensorView& output, const char* value, Context& context) {
  const size_t item = ItemSize(output.dtype);
  const auto bytes = static_cast<size_t>(output.bytes());
  if (std::all_of(value, value + item, [value](char b) { return b == value[0]; })) {
    return ToStatus(cudaMemsetAsync(output.data, static_cast<unsigned char>(value[0]), bytes, context.stream),
                    context.traits, "cudaMemsetAsync");
  }
  constexpr size_t kChunk = 16;
  FillPattern fill{};
  fill.data = output.data;
  const size_t beyond = reinterpret_cast<uintptr_t>(output.data) % kChunk;
  const size_t head = std::min(beyond == 0 ? 0 : kChunk - beyond, bytes);
  fill.head = static_cast<int32_t>(head);
  fill.chunks = static_cast<int64_t>((bytes - head) / kChunk);
  fill.tail = static_cast<int32_t>((bytes - head) % kChunk);
  // The first byte of the memory is the first of an element; the head ends a pattern.
  char pattern[kChunk];
  for (size_t b = 0; b < kChunk; ++b) pattern[b] = value[(head + b) % item];
  std::memcpy(&fill.low, pattern, sizeof(fill.low));
  std::memcpy(&fill.high, pattern + sizeof(fill.low), sizeof(fill.high));
  return ToStatus(LaunchFill(fill, Blocks(std::max<int64_t>(fill.chunks, kChunk), context), context.stream),
                  context.traits, "fill");
}

absl::Status FillWithOne(const TensorView& output, Context& context) {
  alignas(8) char one[8] = {};
  TENSORD_RETURN_IF_ERROR(StoreScalar(Scalar{int64_t{1}, Dtype::kNone}, output.dtype, one));
  return FillWith(output, one, context);
}

absl::Status RunFull(const KernelCall& call, Context& context) {
  const TensorView& output = call.outputs[0];
  const KernelOperand& value = call.inputs[0];
  if (value.tensor != nullptr) {
    TensorView everywhere = *value.tensor;
    everywhere.shape = output.shape;
    everywhere.strides = Dims(output.shape.size(), 0);
    return CopyStrided(everywhere, output, context);
  }
  alignas(8) char bytes[8] = {};
  TENSORD_RETURN_IF_ERROR(StoreScalar(*value.scalar, output.dtype, bytes));
  return FillWith(output, bytes, context);
}

// Integers exactly, modulo 2^64; reals in float64, rounded once.
absl::Status RunArange(const KernelCall& call, Context& context) {
  const TensorView& output = call.outputs[0];
  static const Scalar kZero{int64_t{0}, Dtype::kNone};
  static const Scalar kOne{int64_t{1}, Dtype::kNone};
  const auto operand = [&call](size_t i, const Scalar& otherwise) -> const Scalar& {
    return call.inputs.size() > i && !call.inputs[i].absent() ? *call.inputs[i].scalar : otherwise;
  };
  const bool has_stop = call.inputs.size() > 1 && !call.inputs[1].absent();
  const Scalar& start = has_stop ? operand(0, kZero) : kZero;
  const Scalar& step = operand(2, kOne);
  const int64_t n = output.elements();
  if (!IsReal(start) && !IsReal(step)) {
    const IntegerSequence sequence{output.data, n, static_cast<uint64_t>(start.AsInt64()),
                                   static_cast<uint64_t>(step.AsInt64()), output.dtype};
    return ToStatus(LaunchSequence(sequence, Blocks(n, context), context.stream), context.traits, "arange");
  }
  const RealSequence sequence{output.data, n, n, start.AsDouble(), 0, step.AsDouble(), output.dtype};
  return ToStatus(LaunchSequence(sequence, Blocks(n, context), context.stream), context.traits, "arange");
}

// From both ends towards the middle, so that both ends are exact and the numbers symmetric.
absl::Status RunLinspace(const KernelCall& call, const CreateAttributes& attributes, Context& context) {
  const TensorView& output = call.outputs[0];
  const double start = call.inputs[0].scalar->AsDouble();
  const double stop = call.inputs[1].scalar->AsDouble();
  const int64_t n = output.elements();
  const bool open = attributes.exclude_stop;
  const int64_t intervals = std::max<int64_t>(open ? n : n - 1, 1);
  const double step = (stop - start) / static_cast<double>(intervals);
  const int64_t turn = open || n == 1 ? n : (n + 1) / 2;
  const RealSequence sequence{output.data, n, turn, start, stop, step, output.dtype};
  return ToStatus(LaunchSequence(sequence, Blocks(n, context), context.stream), context.traits, "linspace");
}

// The last two dimensions are the matrix.
absl::Status RunEye(const KernelCall& call, const CreateAttributes& attributes, Context& context) {
  const TensorView& output = call.outputs[0];
  alignas(8) char zero[8] = {};
  TENSORD_RETURN_IF_ERROR(FillWith(output, zero, context));
  DiagonalFill fill{};
  TENSORD_RETURN_IF_ERROR(StoreScalar(Scalar{int64_t{1}, Dtype::kNone}, output.dtype, &fill.value));
  const auto rank = static_cast<size_t>(output.rank());
  if (rank < 2) return absl::OkStatus();
  const int64_t rows = output.shape[rank - 2];
  const int64_t columns = output.shape[rank - 1];
  const int64_t k = attributes.diagonal;
  if (k >= columns || k <= -rows) return absl::OkStatus();  // beside the matrix; from here on k is small
  const int64_t first_row = std::max<int64_t>(0, -k);
  fill.data = output.data;
  fill.matrix_elements = rows * columns;
  fill.matrices = output.elements() / fill.matrix_elements;
  fill.first = first_row * columns + first_row + k;
  fill.step = columns + 1;
  fill.count = std::min(rows, columns - k) - first_row;
  fill.item = static_cast<uint32_t>(ItemSize(output.dtype));
  return ToStatus(LaunchDiagonal(fill, Blocks(fill.matrices * fill.count, context), context.stream), context.traits,
                  "eye");
}

absl::Status RunRandom(const KernelCall& call, const CreateAttributes& attributes, Context& context) {
  const TensorView& output = call.outputs[0];
  if (!tensord::IsReal(output.dtype)) {
    return Error(Reason::kOpUnsupported)
        .With("op", RowOf(call.op).name)
        .With("dtype", DtypeName(output.dtype))
        .With("device", context.traits.id.ToString())
        .With("supported", "float16, bfloat16, float32, float64");
  }
  const uint64_t draws = output.dtype == Dtype::kFloat64 ? 2 : 4;  // of a Philox block
  RandomFill fill{};
  fill.data = output.data;
  fill.elements = output.elements();
  fill.seed = attributes.seed.value_or(0);
  fill.first_block = attributes.seed_offset / draws;
  fill.skip = static_cast<int32_t>(attributes.seed_offset % draws);
  fill.philox_blocks = static_cast<int64_t>(
      (static_cast<uint64_t>(fill.elements) + static_cast<uint64_t>(fill.skip) + draws - 1) / draws);
  fill.dtype = output.dtype;
  fill.normal = call.op == Op::kRandn;
  fill.aligned = fill.skip == 0 && IsAligned(output.data, std::min<size_t>(ItemSize(output.dtype) * 4, 16));
  return ToStatus(LaunchRandom(fill, Blocks(fill.philox_blocks, context), context.stream), context.traits, "random");
}

}  // namespace

absl::Status RunCreate(const KernelCall& call, Context& context) {
  const TensorView& output = call.outputs[0];
  if (output.elements() == 0) return absl::OkStatus();
  const auto& attributes = AttributesAs<CreateAttributes>(*call.attributes);
  switch (call.op) {
    case Op::kZeros: {
      alignas(8) char zero[8] = {};
      return FillWith(output, zero, context);
    }
    case Op::kOnes:
      return FillWithOne(output, context);
    case Op::kFull:
      return RunFull(call, context);
    case Op::kArange:
      return RunArange(call, context);
    case Op::kLinspace:
      return RunLinspace(call, attributes, context);
    case Op::kEye:
      return RunEye(call, attributes, context);
    case Op::kRand:
    case Op::kRandn:
      return RunRandom(call, attributes, context);
    default:
      return Error(Reason::kInternal)
          .With("id", "create")
          .With("cause", StrCat("op ", RowOf(call.op).name, " does not run on a device"));
  }
}

}  // namespace tensord::cuda
