#include "kernels/cpu/loops.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "absl/types/span.h"

// Every variant compiles isa/*.cc in a namespace of its own.
#define TENSORD_DECLARE_ISA(variant)      \
  namespace tensord::cpu::isa_##variant { \
    void FillUnary(LoopTable& table);     \
    void FillBinary(LoopTable& table);    \
    void FillCompare(LoopTable& table);   \
    void FillConvert(LoopTable& table);   \
    void FillRandom(LoopTable& table);    \
  }

#ifdef TENSORD_ISA_X86
TENSORD_DECLARE_ISA(v2)
TENSORD_DECLARE_ISA(v3)
TENSORD_DECLARE_ISA(v4)
#else
TENSORD_DECLARE_ISA(generic)
#endif

namespace tensord::cpu {
namespace {

struct Variant {
  std::string_view name;
  bool (*runs)();
  const LoopTable& (*table)();
};

#define TENSORD_VARIANT_TABLE(variant)          \
  []() -> const LoopTable& {                    \
    static const LoopTable* const kTable = [] { \
      auto* t = new LoopTable();                \
      isa_##variant::FillUnary(*t);             \
      isa_##variant::FillBinary(*t);            \
      isa_##variant::FillCompare(*t);           \
      isa_##variant::FillConvert(*t);           \
      isa_##variant::FillRandom(*t);            \
      return t;                                 \
    }();                                        \
    return *kTable;                             \
  }

constexpr auto kVariants = std::to_array<Variant>({
#ifdef TENSORD_ISA_X86
    {"x86-64-v2", [] { return true; }, TENSORD_VARIANT_TABLE(v2)},
    {"x86-64-v3", [] { return __builtin_cpu_supports("x86-64-v3") != 0; }, TENSORD_VARIANT_TABLE(v3)},
    {"x86-64-v4", [] { return __builtin_cpu_supports("x86-64-v4") != 0; }, TENSORD_VARIANT_TABLE(v4)},
#else
    {"generic", [] { return true; }, TENSORD_VARIANT_TABLE(generic)},
#endif
});

std::atomic<const LoopTable*> in_use{nullptr};

}  // namespace

int IsaCount() {
  static const int count = [] {
    int n = 1;
    while (n < static_cast<int>(kVariants.size()) && kVariants[static_cast<size_t>(n)].runs()) ++n;
    return n;
  }();
  return count;
}

std::string_view IsaName(int index) {
  return kVariants[static_cast<size_t>(std::clamp(index, 0, IsaCount() - 1))].name;
}

std::string_view BestIsa() { return IsaName(IsaCount() - 1); }

const LoopTable& LoopsFor(std::string_view isa) {
  int chosen = IsaCount() - 1;
  for (int i = 0; i < IsaCount(); ++i) {
    if (kVariants[static_cast<size_t>(i)].name == isa) chosen = i;
  }
  return kVariants[static_cast<size_t>(chosen)].table();
}

const LoopTable& Loops() {
  const LoopTable* table = in_use.load(std::memory_order_acquire);
  return table != nullptr ? *table : LoopsFor("");
}

void UseIsa(std::string_view isa) { in_use.store(&LoopsFor(isa), std::memory_order_release); }

}  // namespace tensord::cpu
