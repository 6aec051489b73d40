// Draws of the random ops. Every step is exact, so all variants give the same bits.
#include "kernels/cpu/isa/loop_kinds.h"
#include "kernels/ops/philox.h"

namespace tensord::cpu::TENSORD_ISA_NAMESPACE {
namespace {

// Philox blocks made at a time.
constexpr int kLanes = 128;

struct Words {
  alignas(64) uint32_t word[4][kLanes];
};

// Round by round over all lanes, through memory: the compiler multiplies words it has just loaded by the instruction
// for words, but not words that it has just computed.
void Draw(uint64_t seed, uint64_t block, uint32_t stream, Words& w) {
  for (int i = 0; i < kLanes; ++i) {
    const PhiloxBlock b = PhiloxCounter(block + static_cast<uint64_t>(i), stream);
    for (int k = 0; k < 4; ++k) w.word[k][i] = b.word[k];
  }
  auto k0 = static_cast<uint32_t>(seed);
  auto k1 = static_cast<uint32_t>(seed >> 32);
#pragma GCC unroll 1
  for (int round = 0; round < kPhiloxRounds; ++round) {
#pragma omp simd
    for (int i = 0; i < kLanes; ++i) {
      const PhiloxBlock b = PhiloxRound({{w.word[0][i], w.word[1][i], w.word[2][i], w.word[3][i]}}, k0, k1);
      w.word[0][i] = b.word[0];
      w.word[1][i] = b.word[1];
      w.word[2][i] = b.word[2];
      w.word[3][i] = b.word[3];
    }
    k0 += kPhiloxKey0;
    k1 += kPhiloxKey1;
  }
}

// `fill` writes the elements of kLanes blocks; here they are cut to the counters asked for.
template <class T, int kPerBlock, class Fill>
void Generate(void* out, uint64_t seed, uint64_t counter, int64_t n, const Fill& fill) {
  constexpr int64_t kElements = int64_t{kPerBlock} * kLanes;
  auto* target = static_cast<T*>(out);
  Words words;
  alignas(64) T values[kElements];
  uint64_t block = counter / kPerBlock;
  auto skip = static_cast<int64_t>(counter % kPerBlock);
  while (n > 0) {
    Draw(seed, block, kPerBlock == 2 ? kPhiloxDouble : kPhiloxSingle, words);
    fill(words, values);
    const int64_t count = n < kElements - skip ? n : kElements - skip;
    __builtin_memcpy(target, values + skip, static_cast<size_t>(count) * sizeof(T));
    target += count;
    n -= count;
    skip = 0;
    block += kLanes;
  }
}

template <class Fraction>
void Uniform(void* out, uint64_t seed, uint64_t counter, int64_t n) {
  Generate<float, 4>(out, seed, counter, n, [](const Words& words, float* values) {
#pragma omp simd
    for (int i = 0; i < kLanes; ++i) {
      values[4 * i] = Fraction()(words.word[0][i]);
      values[4 * i + 1] = Fraction()(words.word[1][i]);
      values[4 * i + 2] = Fraction()(words.word[2][i]);
      values[4 * i + 3] = Fraction()(words.word[3][i]);
    }
  });
}

void UniformFloat64(void* out, uint64_t seed, uint64_t counter, int64_t n) {
  Generate<double, 2>(out, seed, counter, n, [](const Words& words, double* values) {
#pragma omp simd
    for (int i = 0; i < kLanes; ++i) {
      values[2 * i] = FractionFloat64(words.word[0][i], words.word[1][i]);
      values[2 * i + 1] = FractionFloat64(words.word[2][i], words.word[3][i]);
    }
  });
}

// Box-Muller on radii in (0, 1] and turns in [0, 1), in place.
void Normals(double* radius_to_cos, double* turn_to_sin) {
#pragma omp simd
  for (int i = 0; i < kLanes; ++i) {
    const double r = __builtin_sqrt(-2.0 * ExactLog(radius_to_cos[i]));
    const CosSin direction = ExactCosSin(turn_to_sin[i]);
    radius_to_cos[i] = r * direction.cos;
    turn_to_sin[i] = r * direction.sin;
  }
}

void NormalSingle(void* out, uint64_t seed, uint64_t counter, int64_t n) {
  Generate<double, 4>(out, seed, counter, n, [](const Words& words, double* values) {
    alignas(64) double a[kLanes];
    alignas(64) double b[kLanes];
    for (int k = 0; k < 4; k += 2) {
#pragma omp simd
      for (int i = 0; i < kLanes; ++i) {
        a[i] = RadiusFraction(words.word[k][i]);
        b[i] = AngleFraction(words.word[k + 1][i]);
      }
      Normals(a, b);
      for (int i = 0; i < kLanes; ++i) {
        values[4 * i + k] = a[i];
        values[4 * i + k + 1] = b[i];
      }
    }
  });
}

void NormalDouble(void* out, uint64_t seed, uint64_t counter, int64_t n) {
  Generate<double, 2>(out, seed, counter, n, [](const Words& words, double* values) {
    alignas(64) double a[kLanes];
    alignas(64) double b[kLanes];
#pragma omp simd
    for (int i = 0; i < kLanes; ++i) {
      a[i] = 1.0 - FractionFloat64(words.word[0][i], words.word[1][i]);
      b[i] = FractionFloat64(words.word[2][i], words.word[3][i]);
    }
    Normals(a, b);
    for (int i = 0; i < kLanes; ++i) {
      values[2 * i] = a[i];
      values[2 * i + 1] = b[i];
    }
  });
}

struct Float32 {
  TENSORD_HD float operator()(uint32_t word) const { return FractionFloat32(word); }
};
struct Float16 {
  TENSORD_HD float operator()(uint32_t word) const { return FractionFloat16(word); }
};
struct Bfloat16 {
  TENSORD_HD float operator()(uint32_t word) const { return FractionBfloat16(word); }
};

}  // namespace

void FillRandom(LoopTable& table) {
  const auto set = [&table](Dtype dtype, RandomLoop uniform, RandomLoop normal) {
    table.uniform[static_cast<int>(dtype)] = uniform;
    table.normal[static_cast<int>(dtype)] = normal;
  };
  set(Dtype::kFloat16, Uniform<Float16>, NormalSingle);
  set(Dtype::kBfloat16, Uniform<Bfloat16>, NormalSingle);
  set(Dtype::kFloat32, Uniform<Float32>, NormalSingle);
  set(Dtype::kFloat64, UniformFloat64, NormalDouble);
}

}  // namespace tensord::cpu::TENSORD_ISA_NAMESPACE
