// The tables of loops: what the block executor calls, one table for each level of the instruction set.
//
// A loop reads contiguous inputs and writes a contiguous output, `n` elements, n a multiple of kLoopUnit: there is no
// scalar tail, so a result does not depend on where an element lies. The output may be one of the inputs.
//
// Loops exist for bool, the integers, float32 and float64. float16 and bfloat16 are converted to float32 before a loop
// and back after it, which are loops too (`convert`).
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/core/dtype.h"
#include "kernels/ops/op.h"

namespace tensord::cpu {

using Loop = void (*)(void* out, const void* const* inputs, int64_t n);

inline constexpr int64_t kLoopUnit = 64;

// Draws of the random ops: `n` elements of the counters from `counter` on (any n; kernels/ops/philox.h says what a
// counter gives). Uniform ones are written as float32, of float64 as float64; normal ones as float64: converting them
// to the dtype is the only rounding.
using RandomLoop = void (*)(void* out, uint64_t seed, uint64_t counter, int64_t n);

struct LoopTable {
  // By op and the dtype of the inputs. Null where the op does not take it. Select: by the dtype of the values.
  Loop ops[kOpCount + 1][kDtypeCount] = {};
  // By source and target dtype. Null: no direct loop, convert through float32.
  Loop convert[kDtypeCount][kDtypeCount] = {};
  RandomLoop uniform[kDtypeCount] = {};
  RandomLoop normal[kDtypeCount] = {};
};

// The name of the best variant the machine can run ("x86-64-v3"; "generic" on other processors).
std::string_view BestIsa();
// The variants the machine can run, worst first.
int IsaCount();
std::string_view IsaName(int index);

// The table of a variant; an unknown name or one the machine cannot run gives the best it can. Lives for ever.
const LoopTable& LoopsFor(std::string_view isa);
// The table in use: that of the last UseIsa, or the best. Thread safe; changing it while work runs is not.
const LoopTable& Loops();
void UseIsa(std::string_view isa);

}  // namespace tensord::cpu
