// The scalar meaning of the Compare rows: one struct a row, named as its enumerator (unary.h says how they are used).
//
// Standard library only: device code includes this file.
#pragma once

#include "kernels/ops/functors/math.h"

namespace tensord::functors {

#define TENSORD_COMPARISON(Name, op)             \
  struct Name {                                  \
    template <class T>                           \
    TENSORD_HD bool operator()(T a, T b) const { \
      return a op b;                             \
    }                                            \
  };
TENSORD_COMPARISON(Equal, ==)
TENSORD_COMPARISON(Greater, >)
TENSORD_COMPARISON(GreaterEqual, >=)
TENSORD_COMPARISON(Less, <)
TENSORD_COMPARISON(LessEqual, <=)
TENSORD_COMPARISON(NotEqual, !=)
#undef TENSORD_COMPARISON

// The operators & | != take bools without a branch.
#define TENSORD_LOGICAL(Name, op)                \
  struct Name {                                  \
    template <class T>                           \
    TENSORD_HD bool operator()(T a, T b) const { \
      return (a != T(0)) op(b != T(0));          \
    }                                            \
  };
TENSORD_LOGICAL(LogicalAnd, &)
TENSORD_LOGICAL(LogicalOr, |)
TENSORD_LOGICAL(LogicalXor, !=)
#undef TENSORD_LOGICAL

}  // namespace tensord::functors
