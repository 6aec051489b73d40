// The loops of pool_loops.h.
#include "kernels/cpu/pool_loops.h"

#include "kernels/cpu/isa/combine.h"
#include "kernels/cpu/isa/loop_kinds.h"

namespace tensord::cpu::TENSORD_ISA_NAMESPACE {
namespace {

template <class T, Combine kCombine>
void Merge(void* out, const void* in, int64_t n, int64_t stride) {
  using Op = Arithmetic<kCombine, T>;
  T* __restrict to = static_cast<T*>(out);
  const T* __restrict x = static_cast<const T*>(in);
  // Strides that the compiler knows become vectors.
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = Op::Apply(to[i], x[i]);
  } else if (stride == 2) {
    for (int64_t i = 0; i < n; ++i) to[i] = Op::Apply(to[i], x[2 * i]);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = Op::Apply(to[i], x[i * stride]);
  }
}

template <class T>
PoolLoops Make() {
  return {&Merge<T, Combine::kMax>, &Merge<T, Combine::kSum>};
}

}  // namespace

const PoolTable& PoolLoopTable() {
  static const PoolTable* const kTable = new PoolTable{Make<float>(), Make<double>()};
  return *kTable;
}

}  // namespace tensord::cpu::TENSORD_ISA_NAMESPACE
