// One loop source, built for several instruction sets in one object file, and chosen when the process starts.
//
//   namespace tensord::cpu {
//   #define TENSORD_ISA_LOOPS "kernels/cpu/isa/reduce_loops.inc"
//   #include "kernels/cpu/isa/each_isa.inc"     // makes generic::MakeTable(), and v3:: and v4:: on x86
//   const Table& Get() { return TENSORD_PICK_VARIANT(Table, MakeTable); }
//   }
//
// Loops keep a fixed number of lanes that does not depend on the instruction set, so that results do not either.
// Thread safe.
#pragma once

#include <cstdint>

namespace tensord::cpu {

// Generic: what the compiler's flags say. The others are x86's levels.
enum class Variant : uint8_t { kGeneric = 0, kV3 = 1, kV4 = 2 };

// The best the machine has, or less where LimitVariant said so.
Variant CurrentVariant();

// Uses no better variant than this one from now on. For tests, and for a device that is told its instruction set.
void LimitVariant(Variant most);

}  // namespace tensord::cpu

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TENSORD_ISA_X86 1
// A static table of the three variants, and the current one of them.
#define TENSORD_PICK_VARIANT(Table, Make)                                          \
  ([]() -> const Table& {                                                          \
    static const Table tables[] = {generic::Make(), v3::Make(), v4::Make()};       \
    return tables[static_cast<int>(::tensord::cpu::CurrentVariant())];             \
  }())
#else
#define TENSORD_ISA_X86 0
#define TENSORD_PICK_VARIANT(Table, Make)              \
  ([]() -> const Table& {                              \
    static const Table tables[] = {generic::Make()};   \
    return tables[0];                                  \
  }())
#endif
