// The variants for different instruction sets give the same bits wherever IEEE 754 says which.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

#include "kernels/cpu/loops.h"
#include "tests/unit/cpu_elementwise/harness.h"

namespace tensord::testing {
namespace {

constexpr int64_t kElements = 4096;

// Rows whose results go through a vectorised mathematical function, which may differ by an ulp.
bool UsesMath(Op op) {
  static const std::set<Op> kOps = {Op::kAcos,  Op::kAcosh,     Op::kAsin,  Op::kAsinh,   Op::kAtan,  Op::kAtan2,
                                    Op::kAtanh, Op::kCos,       Op::kCosh,  Op::kErf,     Op::kExp,   Op::kExpm1,
                                    Op::kGelu,  Op::kGeluTanh,  Op::kHypot, Op::kLog,     Op::kLog10, Op::kLog1p,
                                    Op::kLog2,  Op::kLogAddExp, Op::kPower, Op::kSigmoid, Op::kSilu,  Op::kSin,
                                    Op::kSinh,  Op::kSoftplus,  Op::kTan,   Op::kTanh};
  return kOps.contains(op);
}

// Random bits, edges among them; NaNs made one and the same, since which of two NaNs comes out is not said.
std::vector<uint64_t> Operand(Dtype dtype, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<uint64_t> memory(static_cast<size_t>(kElements));
  auto* bytes = reinterpret_cast<std::byte*>(memory.data());
  const std::vector<Number> edges = Edges(dtype);
  for (int64_t i = 0; i < kElements; ++i) {
    alignas(8) uint64_t bits = generator();
    if (dtype == Dtype::kBool) bits &= 1;
    if (i % 3 == 0) Write(dtype, edges[generator() % edges.size()], &bits);
    const Number n = Read(dtype, &bits);
    if (n.real && n.value != n.value) bits = 0;
    std::memcpy(bytes + i * static_cast<int64_t>(ItemSize(dtype)), &bits, ItemSize(dtype));
  }
  return memory;
}

void ExpectSame(Dtype dtype, const std::vector<uint64_t>& a, const std::vector<uint64_t>& b, std::string_view what) {
  const auto* x = reinterpret_cast<const std::byte*>(a.data());
  const auto* y = reinterpret_cast<const std::byte*>(b.data());
  const size_t item = ItemSize(dtype);
  for (size_t i = 0; i < static_cast<size_t>(kElements); ++i) {
    if (std::memcmp(x + i * item, y + i * item, item) == 0) continue;
    const Number m = Read(dtype, x + i * item);
    const Number n = Read(dtype, y + i * item);
    if (m.real && m.value != m.value && n.value != n.value) continue;
    ADD_FAILURE() << what << " " << DtypeName(dtype) << ": element " << i << " is " << Text(dtype, m) << " and "
                  << Text(dtype, n);
    return;
  }
}

TEST(Isa, VariantsAgreeToTheBit) {
  if (cpu::IsaCount() < 2) GTEST_SKIP() << "this build or machine has one variant";
  const cpu::LoopTable& first = cpu::LoopsFor(cpu::IsaName(0));
  for (int v = 1; v < cpu::IsaCount(); ++v) {
    const cpu::LoopTable& other = cpu::LoopsFor(cpu::IsaName(v));
    for (const Dtype dtype : AllDtypes()) {
      const std::vector<uint64_t> a = Operand(dtype, 1);
      const std::vector<uint64_t> b = Operand(dtype, 2);
      const std::vector<uint64_t> truth = Operand(Dtype::kBool, 3);
      const auto d = static_cast<size_t>(dtype);
      for (int o = 1; o <= kOpCount; ++o) {
        const Op op = static_cast<Op>(o);
        const cpu::Loop x = first.ops[o][d];
        const cpu::Loop y = other.ops[o][d];
        ASSERT_EQ(x == nullptr, y == nullptr);
        if (x == nullptr || (UsesMath(op) && IsReal(dtype))) continue;
        const void* inputs[3] = {op == Op::kWhere ? truth.data() : a.data(), op == Op::kWhere ? a.data() : b.data(),
                                 b.data()};
        std::vector<uint64_t> m(static_cast<size_t>(kElements));
        std::vector<uint64_t> n(static_cast<size_t>(kElements));
        x(m.data(), inputs, kElements);
        y(n.data(), inputs, kElements);
        const TypeRule rule = RowOf(op).types;
        const bool makes_bool =
            rule == TypeRule::kAnyToBool || rule == TypeRule::kNumericToBool || rule == TypeRule::kRealToBool;
        ExpectSame(makes_bool ? Dtype::kBool : dtype, m, n, RowOf(op).name);
      }
      for (const Dtype to : AllDtypes()) {
        const cpu::Loop x = first.convert[d][static_cast<size_t>(to)];
        const cpu::Loop y = other.convert[d][static_cast<size_t>(to)];
        ASSERT_EQ(x == nullptr, y == nullptr);
        if (x == nullptr) continue;
        const void* inputs[1] = {a.data()};
        std::vector<uint64_t> m(static_cast<size_t>(kElements));
        std::vector<uint64_t> n(static_cast<size_t>(kElements));
        x(m.data(), inputs, kElements);
        y(n.data(), inputs, kElements);
        ExpectSame(to, m, n, DtypeName(dtype));
      }
      for (const auto draw : {&cpu::LoopTable::uniform, &cpu::LoopTable::normal}) {
        const cpu::RandomLoop x = (first.*draw)[d];
        const cpu::RandomLoop y = (other.*draw)[d];
        ASSERT_EQ(x == nullptr, y == nullptr);
        if (x == nullptr) continue;
        std::vector<uint64_t> m(static_cast<size_t>(kElements));
        std::vector<uint64_t> n(static_cast<size_t>(kElements));
        x(m.data(), 99, 3, kElements);
        y(n.data(), 99, 3, kElements);
        EXPECT_EQ(m, n) << "random " << DtypeName(dtype);
      }
    }
  }
}

TEST(Isa, UnknownNamesGiveTheBest) {
  EXPECT_EQ(&cpu::LoopsFor("x86-64-v99"), &cpu::LoopsFor(cpu::BestIsa()));
  EXPECT_EQ(&cpu::LoopsFor(""), &cpu::LoopsFor(cpu::BestIsa()));
  EXPECT_EQ(cpu::IsaName(0), cpu::IsaCount() > 1 ? "x86-64-v2" : cpu::BestIsa());
}

}  // namespace
}  // namespace tensord::testing
