#include "kernels/cpu/reduce_loops.h"

#include "kernels/cpu/variants.h"

TENSORD_DECLARE_VARIANTS(const ReduceLoops& ReduceTable())

namespace tensord::cpu {

const ReduceLoops& GetReduceLoops() { return TENSORD_CURRENT_VARIANT(ReduceTable)(); }

}  // namespace tensord::cpu
