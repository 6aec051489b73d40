// Atomics and fences of device code, for the types CUDA has them for and no others. Part of device.h.
//
// In random order a thread may be pre-empted before each: blocks then meet atomics in other orders.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

namespace tensord::emulated {

__attribute__((visibility("default"))) void MaybePreempt();

template <class T>
inline T FetchAdd(T* data, T value) {
  MaybePreempt();
  return __atomic_fetch_add(data, value, __ATOMIC_RELAXED);
}

// Replaces *data by change(*data), whatever the type: the bits are compared.
template <class Bits, class T, class F>
inline T FetchChange(T* data, F change) {
  static_assert(sizeof(Bits) == sizeof(T));
  MaybePreempt();
  Bits* bits = reinterpret_cast<Bits*>(data);
  Bits old_bits = __atomic_load_n(bits, __ATOMIC_RELAXED);
  for (;;) {
    T old_value;
    std::memcpy(&old_value, &old_bits, sizeof(T));
    const T new_value = change(old_value);
    Bits new_bits;
    std::memcpy(&new_bits, &new_value, sizeof(T));
    if (__atomic_compare_exchange_n(bits, &old_bits, new_bits, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      return old_value;
    }
  }
}

}  // namespace tensord::emulated

inline int atomicAdd(int* data, int value) { return ::tensord::emulated::FetchAdd(data, value); }
inline unsigned atomicAdd(unsigned* data, unsigned value) { return ::tensord::emulated::FetchAdd(data, value); }
inline unsigned long long atomicAdd(unsigned long long* data, unsigned long long value) {
  return ::tensord::emulated::FetchAdd(data, value);
}
inline float atomicAdd(float* data, float value) {
  return ::tensord::emulated::FetchChange<uint32_t>(data, [value](float old) { return old + value; });
}
inline double atomicAdd(double* data, double value) {
  return ::tensord::emulated::FetchChange<uint64_t>(data, [value](double old) { return old + value; });
}
inline int atomicSub(int* data, int value) {
  return ::tensord::emulated::FetchChange<uint32_t>(
      data, [value](int old) { return static_cast<int>(static_cast<unsigned>(old) - static_cast<unsigned>(value)); });
}
inline unsigned atomicSub(unsigned* data, unsigned value) { return ::tensord::emulated::FetchAdd(data, 0U - value); }

#define TENSORD_ATOMICS(T, Bits)                                                                                 \
  inline T atomicMin(T* data, T value) {                                                                         \
    return ::tensord::emulated::FetchChange<Bits>(data, [value](T old) { return value < old ? value : old; });   \
  }                                                                                                              \
  inline T atomicMax(T* data, T value) {                                                                         \
    return ::tensord::emulated::FetchChange<Bits>(data, [value](T old) { return old < value ? value : old; });   \
  }                                                                                                              \
  inline T atomicAnd(T* data, T value) {                                                                         \
    return ::tensord::emulated::FetchChange<Bits>(data, [value](T old) { return static_cast<T>(old & value); }); \
  }                                                                                                              \
  inline T atomicOr(T* data, T value) {                                                                          \
    return ::tensord::emulated::FetchChange<Bits>(data, [value](T old) { return static_cast<T>(old | value); }); \
  }                                                                                                              \
  inline T atomicXor(T* data, T value) {                                                                         \
    return ::tensord::emulated::FetchChange<Bits>(data, [value](T old) { return static_cast<T>(old ^ value); }); \
  }
TENSORD_ATOMICS(int, uint32_t)
TENSORD_ATOMICS(unsigned, uint32_t)
TENSORD_ATOMICS(long long, uint64_t)
TENSORD_ATOMICS(unsigned long long, uint64_t)
#undef TENSORD_ATOMICS

#define TENSORD_ATOMICS(T)                                                                         \
  inline T atomicCAS(T* data, T compare, T value) {                                                \
    ::tensord::emulated::MaybePreempt();                                                           \
    __atomic_compare_exchange_n(data, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
    return compare;                                                                                \
  }                                                                                                \
  inline T atomicExch(T* data, T value) {                                                          \
    ::tensord::emulated::MaybePreempt();                                                           \
    return __atomic_exchange_n(data, value, __ATOMIC_RELAXED);                                     \
  }
TENSORD_ATOMICS(int)
TENSORD_ATOMICS(unsigned)
TENSORD_ATOMICS(unsigned long long)
#undef TENSORD_ATOMICS
inline float atomicExch(float* data, float value) {
  return ::tensord::emulated::FetchChange<uint32_t>(data, [value](float) { return value; });
}

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
