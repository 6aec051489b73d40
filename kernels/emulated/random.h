// A small random generator with a seed (splitmix64): what a seed chose once it chooses again.
#pragma once

#include <cstdint>

namespace tensord::emulated {

class Random {
 public:
  explicit Random(uint64_t seed = 1) : state_(seed) {}
  uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  // A number below `bound`, which is not 0.
  uint64_t Below(uint64_t bound) { return Next() % bound; }

 private:
  uint64_t state_;
};

}  // namespace tensord::emulated
