// Views by enumeration, and the generator of random numbers.
#include <algorithm>

#include "tests/oracle/families.h"

namespace tensord::oracle {

Array Permute(const Array& x, const Axes& axes) {
  Dims shape;
  for (const int32_t axis : axes) shape.push_back(x.type.shape[static_cast<size_t>(axis)]);
  Array out = Array::Zeros(x.type.dtype, shape);
  ForEachIndex(shape, [&](const Dims& index, int64_t flat) {
    Dims at(shape.size(), 0);
    for (size_t i = 0; i < axes.size(); ++i) at[static_cast<size_t>(axes[i])] = index[i];
    out.Set(flat, x.At(FlatIndex(at, x.type.shape)));
  });
  return out;
}

Array Slice(const Array& x, const ViewAttributes& attributes) {
  std::vector<std::vector<int64_t>> places;
  for (const int64_t size : x.type.shape) {
    auto& all = places.emplace_back();
    for (int64_t i = 0; i < size; ++i) all.push_back(i);
  }
  for (size_t i = 0; i < attributes.axes.size(); ++i) {
    const int32_t axis =
        attributes.axes[i] < 0 ? attributes.axes[i] + static_cast<int32_t>(x.type.shape.size()) : attributes.axes[i];
    const int64_t size = x.type.shape[static_cast<size_t>(axis)];
    const int64_t step = attributes.steps.empty() ? 1 : attributes.steps[i];
    // Python's rules: negative numbers count from the end, then they are cut to the axis.
    const auto place = [&](int64_t p) {
      if (p < 0) p += size;
      return step > 0 ? std::clamp<int64_t>(p, 0, size) : std::clamp<int64_t>(p, -1, size - 1);
    };
    auto& list = places[static_cast<size_t>(axis)];
    list.clear();
    const int64_t stop = place(attributes.stops[i]);
    for (int64_t p = place(attributes.starts[i]); step > 0 ? p < stop : p > stop; p += step) list.push_back(p);
  }
  Dims shape;
  for (const auto& list : places) shape.push_back(static_cast<int64_t>(list.size()));
  Array out = Array::Zeros(x.type.dtype, shape);
  ForEachIndex(shape, [&](const Dims& index, int64_t flat) {
    Dims at;
    for (size_t i = 0; i < index.size(); ++i) at.push_back(places[i][static_cast<size_t>(index[i])]);
    out.Set(flat, x.At(FlatIndex(at, x.type.shape)));
  });
  return out;
}

Array Expand(const Array& x, const Dims& shape) {
  Array out = Array::Zeros(x.type.dtype, shape);
  ForEachIndex(shape, [&](const Dims& index, int64_t flat) { out.Set(flat, BroadcastAt(x, index)); });
  return out;
}

Array Diagonal(const Array& x, int axis1, int axis2, int64_t offset) {
  const Dims& xs = x.type.shape;
  const int64_t rows = xs[static_cast<size_t>(axis1)];
  const int64_t columns = xs[static_cast<size_t>(axis2)];
  const int64_t length =
      std::max<int64_t>(0, std::min(rows - std::max<int64_t>(-offset, 0), columns - std::max<int64_t>(offset, 0)));
  Dims shape;
  for (size_t i = 0; i < xs.size(); ++i) {
    if (static_cast<int>(i) != axis1 && static_cast<int>(i) != axis2) shape.push_back(xs[i]);
  }
  shape.push_back(length);
  Array out = Array::Zeros(x.type.dtype, shape);
  ForEachIndex(shape, [&](const Dims& index, int64_t flat) {
    Dims at(xs.size(), 0);
    size_t next = 0;
    for (size_t i = 0; i < xs.size(); ++i) {
      if (static_cast<int>(i) == axis1) {
        at[i] = index.back() + std::max<int64_t>(-offset, 0);
      } else if (static_cast<int>(i) == axis2) {
        at[i] = index.back() + std::max<int64_t>(offset, 0);
      } else {
        at[i] = index[next++];
      }
    }
    out.Set(flat, x.At(FlatIndex(at, xs)));
  });
  return out;
}

PhiloxWords Philox(uint64_t counter_low, uint64_t counter_high, uint64_t key) {
  // The generator's definition: ten rounds of two 32 x 32 -> 64 bit products, the key stepped by the Weyl constants between rounds.
  uint32_t c0 = static_cast<uint32_t>(counter_low);
  uint32_t c1 = static_cast<uint32_t>(counter_low >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high);
  uint32_t c3 = static_cast<uint32_t>(counter_high >> 32);
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace tensord::oracle
