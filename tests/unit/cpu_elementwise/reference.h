// What every elementwise op must give for one element, written from the semantics and not from the functors.
#pragma once

#include <functional>

#include "tests/unit/cpu_elementwise/harness.h"

namespace tensord::testing {

struct Expected {
  Number exact;     // before rounding into the result's dtype
  double ulps = 0;  // how far the result may be off, in units of the result's last place; 0: the nearest, to the bit
  long double slack = 0;  // and beyond that, absolutely
  bool ignore_zero_sign = false;
  bool any = false;  // not defined: not compared
};

// The result for operands of `dtype` (one or two; for one the second is ignored). Fails the test where the op has no
// reference.
Expected Reference(Op op, Dtype dtype, Number a, Number b);
bool HasReference(Op op);

// Whether the op takes `dtype`, by its rule.
bool Takes(Op op, Dtype dtype);
bool MakesBool(Op op);

// Whether `got`, an element of `dtype`, is as expected.
bool Agrees(Dtype dtype, Number got, const Expected& expected);

}  // namespace tensord::testing
