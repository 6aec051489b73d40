// Kernels that are right give the right numbers in every order, and indices, collectives and atomics do what CUDA says.
#include "tests/unit/emulated/kernels.cuh"

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/unit/emulated/fixture.h"

namespace tensord::emulated {
namespace {

// Every order and mode; random ones with several seeds.
struct Way {
  Mode mode;
  Order order;
  uint64_t seed;
};
class Ways : public EmulatorTest, public testing::WithParamInterface<Way> {
 protected:
  Ways() { Begin({.mode = GetParam().mode, .order = GetParam().order, .seed = GetParam().seed}); }
};

TEST_P(Ways, Fill) {
  const int64_t count = 1000;
  float* data = Device<float>(count);
  EXPECT_EQ(LaunchFill(data, 3, count, nullptr), cudaSuccess);
  EXPECT_EQ(Host(data, count), std::vector<float>(count, 3));
}

TEST_P(Ways, TransposeThroughSharedMemory) {
  const int rows = 37, columns = 50;
  std::vector<float> values(rows * columns);
  std::iota(values.begin(), values.end(), 0.0F);
  const float* from = Device(values);
  float* to = Device<float>(values.size());
  EXPECT_EQ(LaunchTranspose(from, to, rows, columns, true, nullptr), cudaSuccess);
  const std::vector<float> got = Host(to, values.size());
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) ASSERT_EQ(got[c * rows + r], values[r * columns + c]) << r << ' ' << c;
  }
}

TEST_P(Ways, SumThroughDynamicSharedMemoryAndAtomics) {
  std::vector<float> values(3001);
  std::iota(values.begin(), values.end(), 0.0F);
  const float* data = Device(values);
  float* sum = Device(std::vector<float>{0});
  EXPECT_EQ(LaunchSum(data, sum, 3001, nullptr), cudaSuccess);
  EXPECT_EQ(Host(sum, 1)[0], 3000.0F * 3001 / 2);
}

TEST_P(Ways, Collectives) {
  int* out = Device<int>(13 * 64);
  EXPECT_EQ(LaunchCollectives(out, nullptr), cudaSuccess);
  const std::vector<int> got = Host(out, 13 * 64);
  for (int t = 0; t < 64; ++t) {
    const int lane = t % 32, warp = t - lane;
    const int want[13] = {warp + 5,
                          warp + lane / 8 * 8 + 3,
                          warp + (lane ^ 3),
                          lane < 2 ? t : t - 2,
                          lane >= 30 ? t : t + 2,
                          lane % 4 >= 2 ? t : t + 2,
                          static_cast<int>(0x49249249U),
                          t >= 32 ? 1 : 0,
                          t < 32 ? 1 : 0,
                          t ^ 1,
                          (warp + 31) * 3 / 2,
                          t ^ 1,
                          63 - t};
    for (int row = 0; row < 13; ++row) EXPECT_EQ(got[row * 64 + t], want[row]) << "row " << row << ", thread " << t;
  }
}

TEST_P(Ways, Atomics) {
  AtomicCells start = {};
  start.min = 1000;
  start.bits_and = -1;
  AtomicCells* cells = Device(std::vector<AtomicCells>{start});
  EXPECT_EQ(LaunchAtomics(cells, nullptr), cudaSuccess);
  const AtomicCells got = Host(cells, 1)[0];
  EXPECT_EQ(got.add, 2 * 31 * 32 / 2);
  EXPECT_EQ(got.min, 69);
  EXPECT_EQ(got.max, 31);
  EXPECT_EQ(got.sub, -128);
  EXPECT_EQ(got.bits_and, ~4);
  EXPECT_EQ(got.bits_or, 255);
  EXPECT_EQ(got.bits_xor, 0);
  EXPECT_EQ(got.cas, 192U);
  EXPECT_EQ(got.wide, 64ULL << 33);
  EXPECT_EQ(got.real, 32.0F);
  EXPECT_EQ(got.twice, 16.0);
}

INSTANTIATE_TEST_SUITE_P(All, Ways,
                         testing::Values(Way{Mode::kEager, Order::kAscending, 1},
                                         Way{Mode::kEager, Order::kDescending, 1}, Way{Mode::kEager, Order::kRandom, 1},
                                         Way{Mode::kEager, Order::kRandom, 2}, Way{Mode::kEager, Order::kRandom, 3},
                                         Way{Mode::kLazy, Order::kAscending, 1}, Way{Mode::kLazy, Order::kRandom, 2},
                                         Way{Mode::kLazy, Order::kRandom, 3},
                                         Way{Mode::kBackground, Order::kRandom, 4}));

class Kernels : public EmulatorTest {};

TEST_F(Kernels, IndicesOfThreeDimensions) {
  unsigned* out = Device<unsigned>(12);
  EXPECT_EQ(LaunchIndices(out, dim3(3, 4, 5), dim3(6, 7, 8), nullptr), cudaSuccess);
  EXPECT_EQ(Host(out, 12), (std::vector<unsigned>{5, 6, 7, 2, 3, 4, 6, 7, 8, 3, 4, 5}));
}

std::vector<unsigned> PlacesIn(unsigned blocks, unsigned threads) {
  void* counter = nullptr;
  void* places = nullptr;
  cudaMalloc(&counter, sizeof(unsigned));
  cudaMalloc(&places, sizeof(unsigned) * blocks * threads);
  cudaMemset(counter, 0, sizeof(unsigned));
  EXPECT_EQ(LaunchPlaces(static_cast<unsigned*>(counter), static_cast<unsigned*>(places), blocks, threads, nullptr),
            cudaSuccess);
  std::vector<unsigned> got(blocks * threads);
  cudaMemcpy(got.data(), places, sizeof(unsigned) * got.size(), cudaMemcpyDeviceToHost);
  return got;
}

TEST_F(Kernels, OrdersAreWhatTheySay) {
  std::vector<unsigned> rising(4 * 40);
  std::iota(rising.begin(), rising.end(), 0U);
  EXPECT_EQ(PlacesIn(4, 40), rising);
  SetOrder(Order::kDescending, 1);
  EXPECT_EQ(PlacesIn(4, 40), std::vector<unsigned>(rising.rbegin(), rising.rend()));
  SetOrder(Order::kRandom, 1);
  std::vector<unsigned> got = PlacesIn(4, 40);
  EXPECT_NE(got, rising);
  EXPECT_NE(got, PlacesIn(4, 40)) << "every launch has an order of its own";
  std::sort(got.begin(), got.end());
  EXPECT_EQ(got, rising) << "every thread runs once";
}

TEST_F(Kernels, RandomOrderIsTheSameForTheSameSeed) {
  Begin({.order = Order::kRandom, .seed = 7});
  const std::vector<unsigned> first = PlacesIn(8, 64);
  Begin({.order = Order::kRandom, .seed = 7});
  EXPECT_EQ(PlacesIn(8, 64), first);
  Begin({.order = Order::kRandom, .seed = 8});
  EXPECT_NE(PlacesIn(8, 64), first);
}

TEST_F(Kernels, EveryBlockRunsOnceInRandomOrderOfAnyCount) {
  for (const unsigned blocks : {1U, 2U, 3U, 7U, 64U, 97U, 360U}) {
    SetOrder(Order::kRandom, blocks);
    std::vector<unsigned> got = PlacesIn(blocks, 1);
    std::sort(got.begin(), got.end());
    for (unsigned i = 0; i < blocks; ++i) ASSERT_EQ(got[i], i) << blocks;
  }
}

TEST_F(Kernels, FreshMemoryIsNan) {
  const float* data = Device<float>(8);
  for (const float value : Host(data, 8)) EXPECT_NE(value, value);
}

}  // namespace
}  // namespace tensord::emulated
