// Storage types for float16 and bfloat16: two bytes, converted by bits, no arithmetic of their own.
//
// Arithmetic happens in float32; `Half(f)` and `BFloat16(f)` round to nearest even, as the hardware does.
// NaN stays NaN (quiet), infinities and signed zeros are kept, subnormals are exact.
//
// Standard library only: device code includes this file.
#pragma once

#include <bit>
#include <cstdint>

namespace tensord {

// bfloat16: the upper half of a float32.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit constexpr BFloat16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = u + 0x7fffu + ((u >> 16) & 1u);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>(nan ? ((u >> 16) | 0x40u) : (rounded >> 16));
  }
  explicit constexpr operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

// IEEE 754 binary16.
struct Half {
  uint16_t bits = 0;

  Half() = default;
  explicit constexpr Half(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (u >> 16) & 0x8000u;
    const uint32_t mag = u & 0x7fffffffu;
    uint32_t out = 0;
    if (mag > 0x7f800000u) {
      out = 0x7e00u | ((mag >> 13) & 0x1ffu);  // NaN: quiet, payload kept as far as it fits
    } else if (mag >= 0x477ff000u) {
      out = 0x7c00u;  // 65520 and more round to infinity
    } else if (mag < 0x38800000u) {
      // Subnormal: adding 0.5 lines the bits up so that the FPU's own rounding does the work.
      const float f = std::bit_cast<float>(mag) + 0.5f;
      out = std::bit_cast<uint32_t>(f) - 0x3f000000u;
    } else {
      out = (mag - 0x38000000u + 0xfffu + ((mag >> 13) & 1u)) >> 13;
    }
    bits = static_cast<uint16_t>(sign | out);
  }
  explicit constexpr operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t mag = bits & 0x7fffu;
    uint32_t out = 0;
    if (mag >= 0x7c00u) {
      out = 0x7f800000u | ((mag & 0x3ffu) << 13);
    } else if (mag >= 0x400u) {
      out = (mag << 13) + 0x38000000u;
    } else {
      // Subnormal: mag * 2^-24 exactly.
      out = std::bit_cast<uint32_t>(static_cast<float>(mag) * 5.9604644775390625e-08f);
    }
    return std::bit_cast<float>(sign | out);
  }
};

static_assert(sizeof(Half) == 2 && sizeof(BFloat16) == 2);

}  // namespace tensord
