// Fills, sequences, diagonals and random numbers.
#include "kernels/cuda/create.cuh"
#include "kernels/cuda/layout_index.cuh"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/program_values.cuh"
#include "kernels/ops/functors/math.h"
#include "kernels/ops/philox.h"

namespace tensord::cuda {
namespace {

__device__ __forceinline__ uint8_t PatternByte(const FillPattern& fill, int64_t at) {
  return static_cast<uint8_t>((at < 8 ? fill.low : fill.high) >> (8 * (at & 7)));
}

__global__ void __launch_bounds__(kCreateThreads) Fill(const FillPattern fill) {
  uint8_t* const bytes = static_cast<uint8_t*>(fill.data);
  Unit16* const body = reinterpret_cast<Unit16*>(bytes + fill.head);
  for (int64_t i = FirstIndex(); i < fill.chunks; i += IndexStep()) body[i] = Unit16{fill.low, fill.high};
  const int64_t i = FirstIndex();
  if (i < fill.head) bytes[i] = PatternByte(fill, 16 - fill.head + i);
  if (i < fill.tail) bytes[fill.head + 16 * fill.chunks + i] = PatternByte(fill, i);
}

__global__ void __launch_bounds__(kCreateThreads) MakeIntegers(const IntegerSequence sequence) {
  const auto item = static_cast<uint32_t>(ItemSize(sequence.dtype));
  for (int64_t i = FirstIndex(); i < sequence.elements; i += IndexStep()) {
    const auto value = static_cast<int64_t>(sequence.from + static_cast<uint64_t>(i) * sequence.by);
    StoreBits(sequence.data, item, i, AnyBits(value, sequence.dtype));
  }
}

__global__ void __launch_bounds__(kCreateThreads) MakeReals(const RealSequence sequence) {
  const auto item = static_cast<uint32_t>(ItemSize(sequence.dtype));
  for (int64_t i = FirstIndex(); i < sequence.elements; i += IndexStep()) {
    const double value = i < sequence.turn ? sequence.from + static_cast<double>(i) * sequence.by
                                           : sequence.to - static_cast<double>(sequence.elements - 1 - i) * sequence.by;
    StoreBits(sequence.data, item, i, AnyBits(value, sequence.dtype));
  }
}

__global__ void __launch_bounds__(kCreateThreads) FillDiagonal(const DiagonalFill fill) {
  for (int64_t i = FirstIndex(); i < fill.matrices * fill.count; i += IndexStep()) {
    int64_t matrix = i;
    const int64_t place = TakeIndex(matrix, fill.count);
    StoreBits(fill.data, fill.item, matrix * fill.matrix_elements + fill.first + place * fill.step, fill.value);
  }
}

// Box-Muller.
__device__ __forceinline__ void Normals(double radius, double turn, double* cosine, double* sine) {
  const double r = math::Sqrt(-2.0 * ExactLog(radius));
  const CosSin direction = ExactCosSin(turn);
  *cosine = r * direction.cos;
  *sine = r * direction.sin;
}

__device__ __forceinline__ float Uniform(uint32_t word, Dtype dtype) {
  if (dtype == Dtype::kFloat16) return FractionFloat16(word);
  if (dtype == Dtype::kBfloat16) return FractionBfloat16(word);
  return FractionFloat32(word);
}

// Bits of the draws of a block: four of one word, or two of two words.
template <bool kNormal>
__device__ __forceinline__ void DrawSingle(const PhiloxBlock& block, Dtype dtype, uint64_t (&bits)[4]) {
  if constexpr (kNormal) {
    for (int k = 0; k < 4; k += 2) {
      double values[2];
      Normals(RadiusFraction(block.word[k]), AngleFraction(block.word[k + 1]), &values[0], &values[1]);
      for (int j = 0; j < 2; ++j) bits[k + j] = ToBits(Converted<float>(values[j], dtype), dtype);
    }
  } else {
    for (int k = 0; k < 4; ++k) bits[k] = ToBits(Uniform(block.word[k], dtype), dtype);
  }
}

template <bool kNormal>
__device__ __forceinline__ void DrawDouble(const PhiloxBlock& block, uint64_t (&bits)[2]) {
  double values[2] = {FractionFloat64(block.word[0], block.word[1]), FractionFloat64(block.word[2], block.word[3])};
  if constexpr (kNormal) Normals(1.0 - values[0], values[1], &values[0], &values[1]);
  for (int j = 0; j < 2; ++j) bits[j] = BitsAs<uint64_t>(values[j]);
}

template <bool kNormal, bool kDouble>
__global__ void __launch_bounds__(kCreateThreads) FillRandom(const RandomFill fill) {
  constexpr int kDraws = kDouble ? 2 : 4;
  const auto item = static_cast<uint32_t>(ItemSize(fill.dtype));
  for (int64_t t = FirstIndex(); t < fill.philox_blocks; t += IndexStep()) {
    const PhiloxBlock block =
        Philox(fill.seed, fill.first_block + static_cast<uint64_t>(t), kDouble ? kPhiloxDouble : kPhiloxSingle);
    uint64_t bits[kDraws];
    if constexpr (kDouble) {
      DrawDouble<kNormal>(block, bits);
    } else {
      DrawSingle<kNormal>(block, fill.dtype, bits);
    }
    const int64_t first = t * kDraws - fill.skip;
    if constexpr (!kDouble) {
      if (fill.aligned && first + kDraws <= fill.elements) {
        StoreQuad(fill.data, item, first, bits);
        continue;
      }
    }
    for (int k = 0; k < kDraws; ++k) {
      if (first + k >= 0 && first + k < fill.elements) StoreBits(fill.data, item, first + k, bits[k]);
    }
  }
}

}  // namespace

cudaError_t LaunchFill(const FillPattern& fill, unsigned blocks, cudaStream_t stream) {
  return TENSORD_LAUNCH_FLAT(Fill, blocks, kCreateThreads, stream, fill);
}

cudaError_t LaunchSequence(const IntegerSequence& sequence, unsigned blocks, cudaStream_t stream) {
  return TENSORD_LAUNCH_FLAT(MakeIntegers, blocks, kCreateThreads, stream, sequence);
}

cudaError_t LaunchSequence(const RealSequence& sequence, unsigned blocks, cudaStream_t stream) {
  return TENSORD_LAUNCH_FLAT(MakeReals, blocks, kCreateThreads, stream, sequence);
}

cudaError_t LaunchDiagonal(const DiagonalFill& fill, unsigned blocks, cudaStream_t stream) {
  return TENSORD_LAUNCH_FLAT(FillDiagonal, blocks, kCreateThreads, stream, fill);
}

cudaError_t LaunchRandom(const RandomFill& fill, unsigned blocks, cudaStream_t stream) {
  const bool wide = fill.dtype == Dtype::kFloat64;
  if (fill.normal) {
    return wide ? TENSORD_LAUNCH_FLAT((FillRandom<true, true>), blocks, kCreateThreads, stream, fill)
                : TENSORD_LAUNCH_FLAT((FillRandom<true, false>), blocks, kCreateThreads, stream, fill);
  }
  return wide ? TENSORD_LAUNCH_FLAT((FillRandom<false, true>), blocks, kCreateThreads, stream, fill)
              : TENSORD_LAUNCH_FLAT((FillRandom<false, false>), blocks, kCreateThreads, stream, fill);
}

}  // namespace tensord::cuda
