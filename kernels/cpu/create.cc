// Create: tensors from nothing.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <variant>

#include "kernels/core/error.h"
#include "kernels/cpu/block.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/gather.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/team.h"
#include "kernels/ops/op.h"

namespace tensord::cpu {
namespace {

// Calls body(first, count) for the chunks of `elements`.
template <class F>
void ForChunks(int64_t elements, const F& body) {
  const int64_t chunks = (elements + kChunkElements - 1) / kChunkElements;
  ParallelFor(chunks, elements >= kParallelElements, [&](int64_t i) {
    const int64_t first = i * kChunkElements;
    body(first, std::min(kChunkElements, elements - first));
  });
}

char* At(const TensorView& output, int64_t element) {
  return output.as<char>() + element * static_cast<int64_t>(ItemSize(output.dtype));
}

void FillWith(const TensorView& output, const void* value) {
  const size_t item = ItemSize(output.dtype);
  ForChunks(output.elements(), [&](int64_t first, int64_t count) { FillItems(At(output, first), value, item, count); });
}

// One element of `dtype` from a number that it holds exactly.
absl::Status Store(int64_t value, Dtype dtype, void* out) {
  return StoreScalar(Scalar{value, Dtype::kNone}, dtype, out);
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
  FillWith(output, bytes);
  return absl::OkStatus();
}

// Writes make(i) of every element, a T, converted to the output's dtype where that is another.
template <class T, class F>
absl::Status Generate(const TensorView& output, const F& make) {
  constexpr Dtype kFrom = DtypeOf<T>;
  const Loop convert = Loops().convert[static_cast<size_t>(kFrom)][static_cast<size_t>(output.dtype)];
  if (convert == nullptr) {
    return Error(Reason::kInternal).With("id", "create").With("cause", StrCat("no loop from ", DtypeName(kFrom)));
  }
  if (kFrom == output.dtype) {
    ForChunks(output.elements(), [&](int64_t first, int64_t count) { make(first, count, output.as<T>() + first); });
    return absl::OkStatus();
  }
  const auto item = static_cast<int64_t>(ItemSize(output.dtype));
  ForChunks(output.elements(), [&](int64_t first, int64_t count) {
    alignas(64) T values[kBlockElements];
    alignas(64) char converted[kBlockElements * 8];
    for (int64_t done = 0; done < count; done += kBlockElements) {
      const int64_t here = std::min(kBlockElements, count - done);
      make(first + done, here, values);
      std::fill(values + here, values + (here + kLoopUnit - 1) / kLoopUnit * kLoopUnit, T(0));
      const void* inputs[1] = {values};
      convert(converted, inputs, (here + kLoopUnit - 1) / kLoopUnit * kLoopUnit);
      std::memcpy(At(output, first + done), converted, static_cast<size_t>(here * item));
    }
  });
  return absl::OkStatus();
}

bool IsReal(const Scalar& scalar) { return std::holds_alternative<double>(scalar.value); }

// Integers exactly, modulo 2^64; reals in float64, rounded once.
absl::Status RunArange(const KernelCall& call) {
  const TensorView& output = call.outputs[0];
  static const Scalar kZero{int64_t{0}, Dtype::kNone};
  static const Scalar kOne{int64_t{1}, Dtype::kNone};
  const auto operand = [&call](size_t i, const Scalar& otherwise) -> const Scalar& {
    return call.inputs.size() > i && !call.inputs[i].absent() ? *call.inputs[i].scalar : otherwise;
  };
  const bool has_stop = call.inputs.size() > 1 && !call.inputs[1].absent();
  const Scalar& start = has_stop ? operand(0, kZero) : kZero;
  const Scalar& step = operand(2, kOne);
  if (!IsReal(start) && !IsReal(step)) {
    const auto from = static_cast<uint64_t>(start.AsInt64());
    const auto by = static_cast<uint64_t>(step.AsInt64());
    const auto at = [from, by](int64_t i) { return static_cast<int64_t>(from + static_cast<uint64_t>(i) * by); };
    if (output.dtype == Dtype::kFloat16 || output.dtype == Dtype::kBfloat16) {
      // No loop goes there from int64; what float64 cannot hold is far beyond their digits.
      return Generate<double>(output, [at](int64_t first, int64_t count, double* values) {
        for (int64_t i = 0; i < count; ++i) values[i] = static_cast<double>(at(first + i));
      });
    }
    return Generate<int64_t>(output, [at](int64_t first, int64_t count, int64_t* values) {
      for (int64_t i = 0; i < count; ++i) values[i] = at(first + i);
    });
  }
  const double from = start.AsDouble();
  const double by = step.AsDouble();
  return Generate<double>(output, [from, by](int64_t first, int64_t count, double* values) {
    for (int64_t i = 0; i < count; ++i) values[i] = from + static_cast<double>(first + i) * by;
  });
}

// From both ends towards the middle, so that both ends are exact and the numbers symmetric.
absl::Status RunLinspace(const KernelCall& call, const CreateAttributes& attributes) {
  const TensorView& output = call.outputs[0];
  const double start = call.inputs[0].scalar->AsDouble();
  const double stop = call.inputs[1].scalar->AsDouble();
  const int64_t n = output.elements();
  const bool open = attributes.exclude_stop;
  const int64_t intervals = std::max<int64_t>(open ? n : n - 1, 1);
  const double step = (stop - start) / static_cast<double>(intervals);
  const int64_t turn = open || n == 1 ? n : (n + 1) / 2;
  return Generate<double>(output, [=](int64_t first, int64_t count, double* values) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = first + i;
      values[i] = at < turn ? start + static_cast<double>(at) * step : stop - static_cast<double>(n - 1 - at) * step;
    }
  });
}

// The last two dimensions are the matrix.
absl::Status RunEye(const KernelCall& call, const CreateAttributes& attributes) {
  const TensorView& output = call.outputs[0];
  alignas(8) char zero[8] = {};
  FillWith(output, zero);
  alignas(8) char one[8] = {};
  TENSORD_RETURN_IF_ERROR(Store(1, output.dtype, one));
  const auto rank = static_cast<size_t>(output.rank());
  if (rank < 2) return absl::OkStatus();
  const int64_t rows = output.shape[rank - 2];
  const int64_t columns = output.shape[rank - 1];
  const int64_t k = attributes.diagonal;
  if (k >= columns || k <= -rows) return absl::OkStatus();  // beside the matrix; from here on k is small
  const int64_t first_row = std::max<int64_t>(0, -k);
  const int64_t last_row = std::min(rows, columns - k);
  const size_t item = ItemSize(output.dtype);
  for (int64_t matrix = 0; matrix < output.elements(); matrix += rows * columns) {
    for (int64_t r = first_row; r < last_row; ++r) std::memcpy(At(output, matrix + r * columns + r + k), one, item);
  }
  return absl::OkStatus();
}

absl::Status RunRandom(const KernelCall& call, const CreateAttributes& attributes) {
  const TensorView& output = call.outputs[0];
  const auto dtype = static_cast<size_t>(output.dtype);
  const bool normal = call.op == Op::kRandn;
  const RandomLoop draw = normal ? Loops().normal[dtype] : Loops().uniform[dtype];
  if (draw == nullptr) {
    return Error(Reason::kOpUnsupported)
        .With("op", RowOf(call.op).name)
        .With("dtype", DtypeName(output.dtype))
        .With("device", "cpu")
        .With("supported", "float16, bfloat16, float32, float64");
  }
  const uint64_t seed = attributes.seed.value_or(0);
  const uint64_t offset = attributes.seed_offset;
  const auto make = [=](int64_t first, int64_t count, auto* values) {
    draw(values, seed, offset + static_cast<uint64_t>(first), count);
  };
  if (normal || output.dtype == Dtype::kFloat64) return Generate<double>(output, make);
  return Generate<float>(output, make);
}

}  // namespace

absl::Status RunCreate(const KernelCall& call, Context& context) {
  const TensorView& output = call.outputs[0];
  if (output.elements() == 0) return absl::OkStatus();
  const auto& attributes = AttributesAs<CreateAttributes>(*call.attributes);
  switch (call.op) {
    case Op::kZeros: {
      alignas(8) char zero[8] = {};
      FillWith(output, zero);
      return absl::OkStatus();
    }
    case Op::kOnes: {
      alignas(8) char one[8] = {};
      TENSORD_RETURN_IF_ERROR(Store(1, output.dtype, one));
      FillWith(output, one);
      return absl::OkStatus();
    }
    case Op::kFull:
      return RunFull(call, context);
    case Op::kArange:
      return RunArange(call);
    case Op::kLinspace:
      return RunLinspace(call, attributes);
    case Op::kEye:
      return RunEye(call, attributes);
    case Op::kRand:
    case Op::kRandn:
      return RunRandom(call, attributes);
    default:
      return Error(Reason::kInternal)
          .With("id", "create")
          .With("cause", StrCat("op ", RowOf(call.op).name, " does not run on a device"));
  }
}

}  // namespace tensord::cpu
