// Division of indices by what does not change during a launch. Hardware divides 64-bit integers in some hundred
// instructions, and by a subroutine that takes registers; this takes five.
//
//   params.columns = MakeDivisor(n);                    // host
//   row = DivMod(index, params.columns, &column);       // kernel
#pragma once

#include <cstdint>

namespace tensord::cuda {

// by > 0. Numbers that are divided lie in [0, 2^53): tensors have fewer elements.
struct Divisor {
  int64_t by = 1;
  double inverse = 1;
};

inline Divisor MakeDivisor(int64_t by) { return Divisor{by, 1.0 / static_cast<double>(by)}; }

}  // namespace tensord::cuda
