// The program kernel: one instance a value class.
#include <type_traits>

#include "kernels/cuda/layout_index.cuh"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/program.cuh"
#include "kernels/cuda/program_values.cuh"
#include "kernels/ops/functors/binary.h"
#include "kernels/ops/functors/compare.h"
#include "kernels/ops/functors/select.h"
#include "kernels/ops/functors/unary.h"
#include "kernels/ops/op.h"

// Before a loop that stays a loop.
#if defined(__CUDACC__)
#define TENSORD_ROLLED _Pragma("unroll 1")
#else
#define TENSORD_ROLLED
#endif

namespace tensord::cuda {
namespace {

constexpr int kLanes = kProgramLanes;

// Whether a row of this rule computes in class C.
template <TypeRule kRule, class C>
constexpr bool Takes() {
  switch (kRule) {
    case TypeRule::kInteger:
    case TypeRule::kBoolOrInteger:
      return std::is_integral_v<C>;
    case TypeRule::kReal:
    case TypeRule::kRealToBool:
      return std::is_floating_point_v<C>;
    default:
      return true;
  }
}

// Rows of a few instructions: written out for the four elements. The others are there once and meet one element after
// the other, or a library of long functions would be compiled four times over, in registers for all four.
template <class F, class... Fs>
inline constexpr bool kOneOf = (std::is_same_v<F, Fs> || ...);
namespace f = functors;
template <class F>
inline constexpr bool kShort =
    kOneOf<F, f::Abs, f::BitwiseInvert, f::IsFinite, f::IsInf, f::IsNan, f::LogicalNot, f::Negative, f::Positive,
           f::Relu, f::Sign, f::Signbit, f::Square, f::Add, f::BitwiseAnd, f::BitwiseOr, f::BitwiseXor, f::Copysign,
           f::Maximum, f::Minimum, f::Multiply, f::Subtract, f::Equal, f::Greater, f::GreaterEqual, f::Less,
           f::LessEqual, f::LogicalAnd, f::LogicalOr, f::LogicalXor, f::NotEqual>;

// The next element of each lane array becomes the first: registers cannot be indexed by a variable.
template <class C>
__device__ __forceinline__ void Rotate(C (&values)[kLanes], C last) {
  values[0] = values[1];
  values[1] = values[2];
  values[2] = values[3];
  values[3] = last;
}

// One element of the rows that are not short.
template <class C>
__device__ __forceinline__ C ApplyLong(Op op, C a, C b) {
  switch (op) {
#define TENSORD_UNARY(Enum, name, Types, summary)                                                       \
  case Op::k##Enum:                                                                                     \
    if constexpr (Takes<TypeRule::Types, C>() && !kShort<f::Enum>) return static_cast<C>(f::Enum()(a)); \
    break;
#define TENSORD_BINARY(Enum, name, Types, summary)                                                         \
  case Op::k##Enum:                                                                                        \
    if constexpr (Takes<TypeRule::Types, C>() && !kShort<f::Enum>) return static_cast<C>(f::Enum()(a, b)); \
    break;
#define TENSORD_COMPARE TENSORD_BINARY
#define TENSORD_OP(Enum, name, Family, Types, operands, results, fields, summary)
#include "kernels/ops/ops.def"
#undef TENSORD_OP
    default:
      break;
  }
  return a;
}

// The op on four elements. Consumes the operands.
template <class C>
__device__ __forceinline__ void Apply(Op op, C (&a)[kLanes], C (&b)[kLanes], const C (&c)[kLanes],
                                      C (&result)[kLanes]) {
  switch (op) {
#define TENSORD_UNARY(Enum, name, Types, summary)                                   \
  case Op::k##Enum:                                                                 \
    if constexpr (Takes<TypeRule::Types, C>() && kShort<f::Enum>) {                 \
      for (int l = 0; l < kLanes; ++l) result[l] = static_cast<C>(f::Enum()(a[l])); \
      return;                                                                       \
    }                                                                               \
    break;
#define TENSORD_BINARY(Enum, name, Types, summary)                                        \
  case Op::k##Enum:                                                                       \
    if constexpr (Takes<TypeRule::Types, C>() && kShort<f::Enum>) {                       \
      for (int l = 0; l < kLanes; ++l) result[l] = static_cast<C>(f::Enum()(a[l], b[l])); \
      return;                                                                             \
    }                                                                                     \
    break;
#define TENSORD_COMPARE TENSORD_BINARY
#define TENSORD_OP(Enum, name, Family, Types, operands, results, fields, summary)
#include "kernels/ops/ops.def"
#undef TENSORD_OP
    case Op::kWhere:
      for (int l = 0; l < kLanes; ++l) result[l] = f::Where()(a[l] != C(0), b[l], c[l]);
      return;
    case Op::kCast:  // rounded by the caller
      for (int l = 0; l < kLanes; ++l) result[l] = a[l];
      return;
    default:
      break;
  }
  TENSORD_ROLLED
  for (int l = 0; l < kLanes; ++l) {
    Rotate(result, ApplyLong(op, a[0], b[0]));
    Rotate(a, a[0]);
    Rotate(b, b[0]);
  }
}

// Where element `i` lies, in elements of the input.
__device__ __forceinline__ int64_t OffsetOf(const Program& program, const int64_t (&strides)[kProgramDims], int64_t i) {
  int64_t offset = 0;
  for (int d = program.rank - 1; d > 0; --d) offset += TakeIndex(i, program.sizes[d]) * strides[d];
  return offset + i * strides[0];
}

// The bits of elements `first` … of an input, `count` of them; beyond, any element of it.
__device__ __forceinline__ void LoadInput(const Program& program, const ProgramInput& input, int64_t first, int count,
                                          uint64_t (&bits)[kLanes]) {
  const auto item = static_cast<uint32_t>(ItemSize(input.from));
  if (input.kind == ProgramInput::Kind::kContiguous && input.aligned && count == kLanes) {
    LoadQuad(input.data, item, first, bits);
    return;
  }
  if (input.kind == ProgramInput::Kind::kConstant || input.kind == ProgramInput::Kind::kEverywhere) {
    const uint64_t value = input.kind == ProgramInput::Kind::kConstant ? input.bits : LoadBits(input.data, item, 0);
    for (int l = 0; l < kLanes; ++l) bits[l] = value;
    return;
  }
  // Places first, in a loop, then all loads at once, so that they wait for memory together.
  int64_t places[kLanes] = {};
  TENSORD_ROLLED
  for (int l = 0; l < count; ++l) {
    Rotate(places,
           input.kind == ProgramInput::Kind::kContiguous ? first + l : OffsetOf(program, input.strides, first + l));
  }
  TENSORD_ROLLED
  for (int l = count; l < kLanes; ++l) Rotate(places, places[kLanes - 1]);  // the last one again
  LoadPlaces(input.data, item, places, bits);
}

// Elements of dtype `from` as values of dtype `to`. Those of the program's own class are written out; the full matrix
// of conversions is there once, as the long rows are.
template <class C>
__device__ __forceinline__ void Decode(uint64_t (&bits)[kLanes], Dtype from, Dtype to, C (&values)[kLanes]) {
  if (from == to) {
    OwnFromBits(bits, from, values);
    return;
  }
  TENSORD_ROLLED
  for (int l = 0; l < kLanes; ++l) {
    Rotate(values, FromBits<C>(bits[0], from, to));
    Rotate(bits, bits[0]);
  }
}

// The elements of one thread at a time.
template <class C>
struct Lanes {
  C previous[kLanes];
  C registers[kProgramRegisters][kLanes];
};

template <class C>
__device__ __forceinline__ void Recall(uint8_t operand, const Lanes<C>& lanes, C (&values)[kLanes]) {
  if (operand < kPrevious) {
    for (int l = 0; l < kLanes; ++l) values[l] = lanes.registers[operand - kFirstRegister][l];
  } else {
    for (int l = 0; l < kLanes; ++l) values[l] = lanes.previous[l];
  }
}

template <class C>
__device__ __forceinline__ void Step(const Program& program, const ProgramInstruction& instruction, int64_t first,
                                     int count, Lanes<C>& lanes) {
  C a[kLanes] = {}, b[kLanes] = {}, c[kLanes] = {};
  // Operands move up as they come, so that the code that fetches one is there once.
  TENSORD_ROLLED
  for (int k = 0; k < 3; ++k) {
    for (int l = 0; l < kLanes; ++l) {
      a[l] = b[l];
      b[l] = c[l];
    }
    const uint8_t operand = instruction.operands[k];
    if (operand < kFirstRegister) {
      const ProgramInput& input = program.inputs[operand];
      uint64_t bits[kLanes];
      LoadInput(program, input, first, count, bits);
      Decode(bits, input.from, input.to, c);
    } else if (operand != kNoOperand) {
      Recall(operand, lanes, c);
    }
  }
  Apply(static_cast<Op>(instruction.op), a, b, c, lanes.previous);
  for (int l = 0; l < kLanes; ++l) lanes.previous[l] = Rounded(lanes.previous[l], instruction.dtype);
  if (instruction.result != kNoOperand) {
    for (int l = 0; l < kLanes; ++l) lanes.registers[instruction.result - kFirstRegister][l] = lanes.previous[l];
  }
}

template <class C>
__device__ __forceinline__ void Store(const ProgramOutput& output, int64_t first, int count,
                                      const C (&values)[kLanes]) {
  const auto item = static_cast<uint32_t>(ItemSize(output.dtype));
  uint64_t bits[kLanes];
  for (int l = 0; l < kLanes; ++l) bits[l] = ToBits(values[l], output.dtype);
  if (output.aligned && count == kLanes) {
    StoreQuad(output.data, item, first, bits);
    return;
  }
  for (int l = 0; l < kLanes; ++l) {
    if (l < count) StoreBits(output.data, item, first + l, bits[l]);
  }
}

// Two blocks on a multiprocessor at least: left to itself the compiler spills to make room for more.
template <class C>
__global__ void __launch_bounds__(kProgramThreads, 2) RunProgram(const Program program) {
  const int64_t tiles = (program.elements + kLanes - 1) / kLanes;
  for (int64_t tile = FirstIndex(); tile < tiles; tile += IndexStep()) {
    const int64_t first = tile * kLanes;
    const int count = program.elements - first < kLanes ? static_cast<int>(program.elements - first) : kLanes;
    Lanes<C> lanes;
    for (int l = 0; l < kLanes; ++l) lanes.previous[l] = C(0);
    for (int k = 0; k < program.instruction_count; ++k) Step(program, program.instructions[k], first, count, lanes);
    for (int o = 0; o < program.output_count; ++o) {
      C values[kLanes];
      Recall(program.outputs[o].value, lanes, values);
      Store(program.outputs[o], first, count, values);
    }
  }
}

}  // namespace

cudaError_t LaunchProgram(const Program& program, unsigned blocks, cudaStream_t stream) {
  switch (program.value_class) {
    case ValueClass::kInt32:
      return TENSORD_LAUNCH_FLAT(RunProgram<int32_t>, blocks, kProgramThreads, stream, program);
    case ValueClass::kInt64:
      return TENSORD_LAUNCH_FLAT(RunProgram<int64_t>, blocks, kProgramThreads, stream, program);
    case ValueClass::kUint64:
      return TENSORD_LAUNCH_FLAT(RunProgram<uint64_t>, blocks, kProgramThreads, stream, program);
    case ValueClass::kFloat:
      return TENSORD_LAUNCH_FLAT(RunProgram<float>, blocks, kProgramThreads, stream, program);
    case ValueClass::kDouble:
      return TENSORD_LAUNCH_FLAT(RunProgram<double>, blocks, kProgramThreads, stream, program);
  }
  return cudaErrorInvalidValue;
}

}  // namespace tensord::cuda
