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

void Draw(uint64_t seed, uint64_t block, uint32_t stream, Words& out) {
#pragma omp simd
  for (int i = 0; i < kLanes; ++i) {
    const PhiloxBlock b = Philox(seed, block + static_cast<uint64_t>(i), stream);
    out.word[0][i] = b.word[0];
    out.word[1][i] = b.word[1];
    out.word[2][i] = b.word[2];
    out.word[3][i] = b.word[3];
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
    for (int k = 0; k < 4; ++k) {
#pragma omp simd
      for (int i = 0; i < kLanes; ++i) values[4 * i + k] = Fraction()(words.word[k][i]);
    }
  });
}

void UniformFloat64(void* out, uint64_t seed, uint64_t counter, int64_t n) {
  Generate<double, 2>(out, seed, counter, n, [](const Words& words, double* values) {
    for (int k = 0; k < 2; ++k) {
#pragma omp simd
      for (int i = 0; i < kLanes; ++i) values[2 * i + k] = FractionFloat64(words.word[2 * k][i], words.word[2 * k + 1][i]);
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
