// Elements of 1, 2, 4 or 8 bytes as bits: one, or four at once. Device code only.
#pragma once

#include "kernels/cuda/portable.h"
#include "kernels/ops/functors/hd.h"

namespace tensord::cuda {

TENSORD_HD uint64_t LoadBits(const void* data, uint32_t item, int64_t i) {
  switch (item) {
    case 1:
      return static_cast<const uint8_t*>(data)[i];
    case 2:
      return static_cast<const uint16_t*>(data)[i];
    case 4:
      return static_cast<const uint32_t*>(data)[i];
    default:
      return static_cast<const uint64_t*>(data)[i];
  }
}

TENSORD_HD void StoreBits(void* data, uint32_t item, int64_t i, uint64_t bits) {
  switch (item) {
    case 1:
      static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(bits);
      break;
    case 2:
      static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(bits);
      break;
    case 4:
      static_cast<uint32_t*>(data)[i] = static_cast<uint32_t>(bits);
      break;
    default:
      static_cast<uint64_t*>(data)[i] = bits;
      break;
  }
}

// Four elements that are read and written at once.
template <class U>
struct alignas(sizeof(U) == 8 ? 16 : 4 * sizeof(U)) Quad {
  U lane[4];
};

template <class U>
TENSORD_HD void LoadQuad(const void* data, int64_t i, uint64_t (&bits)[4]) {
  const Quad<U> quad = *reinterpret_cast<const Quad<U>*>(static_cast<const U*>(data) + i);
  for (int l = 0; l < 4; ++l) bits[l] = quad.lane[l];
}
TENSORD_HD void LoadQuad(const void* data, uint32_t item, int64_t i, uint64_t (&bits)[4]) {
  switch (item) {
    case 1:
      return LoadQuad<uint8_t>(data, i, bits);
    case 2:
      return LoadQuad<uint16_t>(data, i, bits);
    case 4:
      return LoadQuad<uint32_t>(data, i, bits);
    default:
      return LoadQuad<uint64_t>(data, i, bits);
  }
}

template <class U>
TENSORD_HD void LoadPlaces(const void* data, const int64_t (&places)[4], uint64_t (&bits)[4]) {
  for (int l = 0; l < 4; ++l) bits[l] = static_cast<const U*>(data)[places[l]];
}
TENSORD_HD void LoadPlaces(const void* data, uint32_t item, const int64_t (&places)[4], uint64_t (&bits)[4]) {
  switch (item) {
    case 1:
      return LoadPlaces<uint8_t>(data, places, bits);
    case 2:
      return LoadPlaces<uint16_t>(data, places, bits);
    case 4:
      return LoadPlaces<uint32_t>(data, places, bits);
    default:
      return LoadPlaces<uint64_t>(data, places, bits);
  }
}

template <class U>
TENSORD_HD void StoreQuad(void* data, int64_t i, const uint64_t (&bits)[4]) {
  Quad<U> quad;
  for (int l = 0; l < 4; ++l) quad.lane[l] = static_cast<U>(bits[l]);
  *reinterpret_cast<Quad<U>*>(static_cast<U*>(data) + i) = quad;
}
TENSORD_HD void StoreQuad(void* data, uint32_t item, int64_t i, const uint64_t (&bits)[4]) {
  switch (item) {
    case 1:
      return StoreQuad<uint8_t>(data, i, bits);
    case 2:
      return StoreQuad<uint16_t>(data, i, bits);
    case 4:
      return StoreQuad<uint32_t>(data, i, bits);
    default:
      return StoreQuad<uint64_t>(data, i, bits);
  }
}

}  // namespace tensord::cuda
