// The inner loops of pooling, for the machine's instruction set. Thread safe.
#pragma once

#include <cstdint>

namespace tensord::cpu {

struct PoolLoops {
  // to[i] = max(to[i], x[i * stride]), NaN stays; or to[i] += x[i * stride].
  using Merge = void (*)(void* to, const void* x, int64_t n, int64_t stride);
  Merge max = nullptr;
  Merge add = nullptr;
};

struct PoolTable {
  PoolLoops f32;
  PoolLoops f64;
};

}  // namespace tensord::cpu
