// A hundred thousand handles come and go, and the daemon's memory stays where it was; random programs of many sessions at once stay right.
#include <unistd.h>

#include <fstream>
#include <random>
#include <thread>

#include "tests/conformance/harness.h"
#include "tests/conformance/listener.h"

namespace tensord::conformance {
namespace {

// Resident bytes of this process.
int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

class StressTest : public ConformanceTest {
 protected:
  // Creates and frees `count` handles in messages of 1,000, each freed by the next instruction.
  void CreateAndFree(InstructionStream& stream, Collector& listener, uint64_t& sequence, uint64_t& id, int count) {
    for (int done = 0; done < count; done += 1000) {
      StreamMessage message;
      message.sequence = ++sequence;
      for (int i = 0; i < 1000; ++i) {
        CreateAttributes create;
        create.spec = {{Dtype::kFloat32, {2, 3}}, i % 2 == 0 ? "cpu" : "cuda:0"};
        Instruction ones;
        ones.op = Op::kOnes;
        ones.attributes = create;
        ones.output = ++id;
        message.instructions.push_back(ones);
        Instruction free;
        free.frees = {id};
        message.instructions.push_back(free);
      }
      message.reads = {{sequence, 0, ValueFormat::kNone}};
      ASSERT_TRUE(stream.Submit(std::move(message)).ok());
      ASSERT_TRUE(listener.Await(sequence).error.ok());
    }
  }
};

TEST_P(StressTest, AHundredThousandHandlesLeaveMemoryWhereItWas) {
  auto listener = std::make_shared<Collector>();
  auto stream = engine().OpenStream(session().caller(), listener);
  ASSERT_TRUE(stream.ok()) << stream.status();
  uint64_t sequence = 0;
  uint64_t id = 0;
  // The first ten thousand fill pools and tables that stay.
  CreateAndFree(**stream, *listener, sequence, id, 10'000);
  const LocalEngine::Counts counts = local().CountAlive();
  // Allocators may keep a little more of one round than of another, a leak adds to every round: five bytes a handle would
  // be past the bound each time.
  int64_t growth = INT64_MAX;
  for (int round = 0; round < 5 && growth > (int64_t{1} << 19); ++round) {
    const int64_t before = ResidentBytes();
    CreateAndFree(**stream, *listener, sequence, id, 100'000);
    growth = ResidentBytes() - before;
  }
  EXPECT_LE(growth, int64_t{1} << 19) << "every round of 100,000 handles added to the process";
  EXPECT_EQ(local().CountAlive().handles, counts.handles);
  EXPECT_EQ(local().CountAlive().buffers, counts.buffers);
}

TEST_P(StressTest, RandomProgramsOfManySessionsStayRight) {
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      TestSession own(engine());
      const std::string device = DeviceNames()[seed % 3];
      // Integers, so that every order of evaluation gives the same.
      std::vector<std::pair<uint64_t, std::vector<int64_t>>> values;
      for (int i = 0; i < 4; ++i) {
        std::vector<int64_t> numbers;
        std::vector<oracle::Number> elements;
        for (int k = 0; k < 6; ++k) {
          numbers.push_back(static_cast<int64_t>(random() % 1000));
          elements.push_back(oracle::Number::Integer(numbers.back()));
        }
        values.emplace_back(own.Put(oracle::Array::Of(Dtype::kInt64, {2, 3}, elements), device), numbers);
      }
      for (int step = 0; step < 150; ++step) {
        const auto& [a, x] = values[random() % values.size()];
        const auto& [b, y] = values[random() % values.size()];
        const int which = static_cast<int>(random() % 3);
        const Op op = which == 0 ? Op::kAdd : which == 1 ? Op::kSubtract : Op::kMultiply;
        std::vector<int64_t> expected;
        for (size_t k = 0; k < x.size(); ++k) {
          const auto u = static_cast<uint64_t>(x[k]);
          const auto v = static_cast<uint64_t>(y[k]);
          expected.push_back(static_cast<int64_t>(which == 0 ? u + v : which == 1 ? u - v : u * v));
        }
        values.emplace_back(own.MustRun(op, {a, b}), expected);
        if (values.size() > 12) {
          const size_t drop = random() % values.size();
          own.Free({values[drop].first});
          values.erase(values.begin() + static_cast<std::ptrdiff_t>(drop));
        }
      }
      for (const auto& [id, numbers] : values) {
        const oracle::Array got = own.MustGet(id);
        for (size_t k = 0; k < numbers.size(); ++k) {
          ASSERT_EQ(got.At(static_cast<int64_t>(k)).integer, numbers[k]) << "seed " << seed;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

// Uploads that nobody finishes end with their sessions, whatever they had sent.
TEST_P(StressTest, AbandonedUploadsLeaveNothing) {
  for (int i = 0; i < 20; ++i) {
    TestSession own(engine());
    auto sink = engine().Upload(
        own.caller(), {.id = own.NewId(), .spec = {{Dtype::kFloat32, {1 << 18}}, i % 2 == 0 ? "cpu" : "cuda:1"}});
    ASSERT_TRUE(sink.ok()) << sink.status();
    const std::string half(1 << 19, 'x');
    const std::string_view piece = half;
    ASSERT_TRUE((*sink)->Write(0, {&piece, 1}, std::nullopt).ok());
    if (i % 3 == 0) sink->reset();
    own.Close();
  }
}

INSTANTIATE_CONFORMANCE(StressTest);

}  // namespace
}  // namespace tensord::conformance
