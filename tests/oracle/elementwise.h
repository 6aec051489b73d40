// What each elementwise op means, in exact or extended arithmetic: one line an op in elementwise.cc.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tests/oracle/array.h"

namespace tensord::oracle {

// An op on one element each; `dtype` is the dtype that the operands were brought to. The result is stored by Store:
// integers wrap.
struct ElementwiseOracle {
  std::function<Number(const Number& x, Dtype dtype)> unary;
  std::function<Number(const Number& a, const Number& b, Dtype dtype)> binary;  // Binary and Compare
  // How far a real result may be off, in units of the last place of the result's dtype.
  double ulps = 0;
  // Or by so many times the distance from 1 to the next number: for what the row defines by a formula that cancels.
  double epsilons = 0;
};

// By wire name. Every row of the families Unary, Binary and Compare is here; a test says so.
const std::map<std::string, ElementwiseOracle>& Elementwise();

}  // namespace tensord::oracle
