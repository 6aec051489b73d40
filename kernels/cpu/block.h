// The block executor: runs a short program of loops over elements, a block at a time, so that what passes between two
// loops stays in the cache.
//
// A plan is a shape, sources that are brought to the block, steps (a loop, the slots it reads, the slot it writes) and
// the outputs. Running one op is a plan of one step; a fused group is a plan of many. Slots are numbered: the sources
// first, then what steps make.
//
//   Plan plan;
//   plan.shape = out.shape;
//   const int a = plan.AddTensor(x.data, 4, x.strides);     // strides as broadcast to plan.shape, in elements
//   const int r = plan.AddStep(loop, {a}, 4);               // 4: bytes of an element of the result
//   plan.AddOutput(r, out.data);
//   RunPlan(plan);
//
// Outputs are contiguous. One may be the memory of a source that is contiguous too and has elements of the same size;
// any other overlap is the caller's to avoid. RunPlan opens a parallel region for 64 Ki elements and more (team.h).
// Plans may run on several threads at a time.
#pragma once

#include <array>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "kernels/core/shape.h"
#include "kernels/cpu/loops.h"

namespace tensord::cpu {

// Elements brought together at a time.
inline constexpr int64_t kBlockElements = 1024;

struct Plan {
  struct Source {
    const void* data = nullptr;  // element [0, …, 0]; null: `value` everywhere
    Dims strides;                // elements, one a dimension of `shape`
    std::array<uint8_t, 8> value{};
    uint8_t item = 0;  // bytes of an element
  };
  struct Step {
    Loop loop = nullptr;
    std::array<uint8_t, 3> inputs{};  // slots
    uint8_t input_count = 0;
    uint8_t item = 0;  // bytes of an element of the result
  };
  struct Output {
    int slot = 0;
    void* data = nullptr;
  };

  // Each returns the slot. All sources are added before the first step.
  int AddTensor(const void* data, size_t item, absl::Span<const int64_t> strides);
  int AddValue(const void* value, size_t item);
  int AddStep(Loop loop, std::initializer_list<int> inputs, size_t item);
  void AddOutput(int slot, void* data) { outputs.push_back({slot, data}); }
  size_t ItemOf(int slot) const {
    const auto s = static_cast<size_t>(slot);
    return s < sources.size() ? sources[s].item : steps[s - sources.size()].item;
  }

  Dims shape;
  absl::InlinedVector<Source, 3> sources;
  absl::InlinedVector<Step, 6> steps;
  absl::InlinedVector<Output, 1> outputs;
};

void RunPlan(const Plan& plan);

}  // namespace tensord::cpu
