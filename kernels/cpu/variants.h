// Which of the loops built for several instruction sets is in use, for tables beside LoopTable (loops.h).
//
//   TENSORD_DECLARE_VARIANTS(const ReduceLoops& ReduceTable())      // at namespace scope, outside namespace tensord
//   const ReduceLoops& Get() { return TENSORD_CURRENT_VARIANT(ReduceTable)(); }
//
// A file isa/x.cc defines the function in namespace tensord::cpu::TENSORD_ISA_NAMESPACE (isa/loop_kinds.h). Thread
// safe.
#pragma once

namespace tensord::cpu {

// The index (IsaName) of the variant that Loops() is of.
int CurrentVariant();

}  // namespace tensord::cpu

#ifdef TENSORD_ISA_X86
#define TENSORD_DECLARE_VARIANTS(declaration) \
  namespace tensord::cpu::isa_v2 {            \
  declaration;                                \
  }                                           \
  namespace tensord::cpu::isa_v3 {            \
  declaration;                                \
  }                                           \
  namespace tensord::cpu::isa_v4 {            \
  declaration;                                \
  }
#define TENSORD_CURRENT_VARIANT(function)                      \
  (::tensord::cpu::CurrentVariant() == 0   ? &isa_v2::function \
   : ::tensord::cpu::CurrentVariant() == 1 ? &isa_v3::function \
                                           : &isa_v4::function)
#else
#define TENSORD_DECLARE_VARIANTS(declaration) \
  namespace tensord::cpu::isa_generic {       \
  declaration;                                \
  }
#define TENSORD_CURRENT_VARIANT(function) (&isa_generic::function)
#endif
