// Random numbers by counter: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"), and what
// rand and randn make of it.
//
// An element's number depends on the seed and on its counter c = seed_offset + element index alone. A draw of one word
// (float16, bfloat16, float32) takes word c % 4 of the block of counter (c / 4, stream 0); a draw of two words
// (float64) takes words 2 (c % 2) and the next of the block of counter (c / 2, stream 1). A block of counter (n,
// stream) is Philox's of the key (seed) and the counter words (low n, high n, stream, 0).
//   rand    the draw's upper bits as a fraction: 11 bits for float16, 8 for bfloat16, 24 for float32, 53 for float64
//   randn   Box-Muller on the draws of c and its neighbour: the even one of the two gives the radius, the odd one the
//           angle; an even c takes the cosine, an odd one the sine. The fractions have 53 bits for float64, all 32 bits
//           of the word for the others. Computed in float64 by the series below and rounded to the dtype
// The series use + - * / and square roots only, so that without contraction every device gets the same bits.
//
//   const PhiloxBlock block = Philox(seed, c / 4, kPhiloxSingle);
//
// Standard library only: device code includes this file.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/ops/functors/hd.h"

namespace tensord {

struct PhiloxBlock {
  uint32_t word[4];
};

inline constexpr uint32_t kPhiloxSingle = 0;  // stream of one-word draws
inline constexpr uint32_t kPhiloxDouble = 1;  // stream of two-word draws

inline constexpr int kPhiloxRounds = 10;
// What the key words grow by from round to round.
inline constexpr uint32_t kPhiloxKey0 = 0x9E3779B9U;
inline constexpr uint32_t kPhiloxKey1 = 0xBB67AE85U;

// One round.
TENSORD_HD PhiloxBlock PhiloxRound(const PhiloxBlock& c, uint32_t k0, uint32_t k1) {
  const uint64_t p0 = uint64_t{c.word[0]} * 0xD2511F53U;
  const uint64_t p1 = uint64_t{c.word[2]} * 0xCD9E8D57U;
  return {{static_cast<uint32_t>(p1 >> 32) ^ c.word[1] ^ k0, static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c.word[3] ^ k1, static_cast<uint32_t>(p0)}};
}

// The bijection itself: ten rounds over four counter words and two key words.
TENSORD_HD PhiloxBlock PhiloxRounds(PhiloxBlock block, uint32_t k0, uint32_t k1) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    block = PhiloxRound(block, k0, k1);
    k0 += kPhiloxKey0;
    k1 += kPhiloxKey1;
  }
  return block;
}

TENSORD_HD PhiloxBlock PhiloxCounter(uint64_t counter, uint32_t stream) {
  return {{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), stream, 0}};
}

TENSORD_HD PhiloxBlock Philox(uint64_t seed, uint64_t counter, uint32_t stream) {
  return PhiloxRounds(PhiloxCounter(counter, stream), static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
}

// Natural logarithm of 0 < x <= 1: x = m * 2^e with m between sqrt(1/2) and sqrt(2), ln m = 2 atanh((m - 1) / (m + 1)).
TENSORD_HD double ExactLog(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const double m1 = std::bit_cast<double>((bits & 0x000fffffffffffffU) | 0x3ff0000000000000U);
  const bool upper = m1 > 1.4142135623730951;
  const double m = upper ? m1 * 0.5 : m1;
  const double e = static_cast<double>(static_cast<int32_t>(bits >> 52) - 1023 + (upper ? 1 : 0));
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 21.0;
  p = p * z + 1.0 / 19.0;
  p = p * z + 1.0 / 17.0;
  p = p * z + 1.0 / 15.0;
  p = p * z + 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  p = p * z + 1.0;
  return e * 0.69314718055994530942 + 2.0 * s * p;
}

// Cosine and sine of `turn` full turns, 0 <= turn < 1, by Taylor's series on the nearest quarter.
struct CosSin {
  double cos;
  double sin;
};
TENSORD_HD CosSin ExactCosSin(double turn) {
  const double v = 4.0 * turn;
  const int32_t quarter = static_cast<int32_t>(v + 0.5);
  const double r = (v - static_cast<double>(quarter)) * 1.57079632679489661923;
  const double z = r * r;
  double s = 1.0 / 355687428096000.0;
  s = s * z - 1.0 / 1307674368000.0;
  s = s * z + 1.0 / 6227020800.0;
  s = s * z - 1.0 / 39916800.0;
  s = s * z + 1.0 / 362880.0;
  s = s * z - 1.0 / 5040.0;
  s = s * z + 1.0 / 120.0;
  s = s * z - 1.0 / 6.0;
  s = r + r * z * s;
  double c = -1.0 / 6402373705728000.0;
  c = c * z + 1.0 / 20922789888000.0;
  c = c * z - 1.0 / 87178291200.0;
  c = c * z + 1.0 / 479001600.0;
  c = c * z - 1.0 / 3628800.0;
  c = c * z + 1.0 / 40320.0;
  c = c * z - 1.0 / 720.0;
  c = c * z + 1.0 / 24.0;
  c = c * z - 0.5;
  c = 1.0 + z * c;
  const bool swap = (quarter & 1) != 0;
  const double x = swap ? s : c;
  const double y = swap ? c : s;
  return {((quarter + 1) & 2) != 0 ? -x : x, (quarter & 2) != 0 ? -y : y};
}

// Uniform fractions of draws.
TENSORD_HD float FractionFloat32(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24F;
}
TENSORD_HD float FractionFloat16(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 21)) * 0x1p-11F;
}
TENSORD_HD float FractionBfloat16(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 24)) * 0x1p-8F;
}
// The upper 53 bits of high:low; both parts are exact, and so is their sum.
TENSORD_HD double FractionFloat64(uint32_t high, uint32_t low) {
  return static_cast<double>(static_cast<int32_t>(high >> 1)) * 0x1p-31 +
         static_cast<double>(static_cast<int32_t>(((high & 1U) << 21) | (low >> 11))) * 0x1p-53;
}

// For Box-Muller: (0, 1] and [0, 1) of one word, all 32 bits.
TENSORD_HD double RadiusFraction(uint32_t word) {
  return (static_cast<double>(static_cast<int32_t>(word ^ 0x80000000U)) + 2147483649.0) * 0x1p-32;
}
TENSORD_HD double AngleFraction(uint32_t word) {
  return (static_cast<double>(static_cast<int32_t>(word ^ 0x80000000U)) + 2147483648.0) * 0x1p-32;
}

}  // namespace tensord
