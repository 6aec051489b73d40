#include "kernels/cpu/row_loops.h"

#include "kernels/cpu/variants.h"

TENSORD_DECLARE_VARIANTS(const RowTable& RowLoopTable())

namespace tensord::cpu {

const RowLoops& GetRowLoops(Dtype dtype) {
  return TENSORD_CURRENT_VARIANT(RowLoopTable)().dtypes[static_cast<size_t>(dtype)];
}

}  // namespace tensord::cpu
