// The scalar meaning of the Select rows: one struct a row, named as its enumerator (unary.h says how they are used).
//
// Standard library only: device code includes this file.
#pragma once

#include "kernels/ops/functors/binary.h"

namespace tensord::functors {

struct Where {
  template <class T>
  TENSORD_HD T operator()(bool condition, T a, T b) const {
    return condition ? a : b;
  }
};

// The upper bound wins where the two cross; NaN in any place gives NaN. A bound left out is a bound that is not
// applied.
struct Clip {
  template <class T>
  TENSORD_HD T operator()(T x, T low, T high) const {
    return Minimum()(Maximum()(x, low), high);
  }
};

}  // namespace tensord::functors
