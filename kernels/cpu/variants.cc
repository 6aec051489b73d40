#include "kernels/cpu/variants.h"

#include <array>

#include "kernels/cpu/loops.h"

namespace tensord::cpu {

int CurrentVariant() {
  static const std::array<const LoopTable*, 3> tables = [] {
    std::array<const LoopTable*, 3> t{};
    for (int i = 0; i < IsaCount(); ++i) t[static_cast<size_t>(i)] = &LoopsFor(IsaName(i));
    return t;
  }();
  const LoopTable* current = &Loops();
  for (int i = IsaCount() - 1; i > 0; --i) {
    if (tables[static_cast<size_t>(i)] == current) return i;
  }
  return 0;
}

}  // namespace tensord::cpu
