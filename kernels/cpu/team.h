// The CPU's one team of threads: the only file (with team.cc) that names OpenMP.
//
// Only the device's executor thread opens parallel regions or calls oneDNN, because libgomp keeps a team for each
// calling thread and two teams stall each other. Below the threshold of work everything stays on the calling thread.
#pragma once

#include <cstdint>
#include <functional>

namespace tensord::cpu {

// Elements below which a loop stays on one thread.
inline constexpr int64_t kParallelElements = 64 * 1024;
// Elements handed out at a time. Partial results are combined in chunk order, so results do not depend on the number of
// threads.
inline constexpr int64_t kChunkElements = 64 * 1024;

// Threads a parallel region uses: cores the process may run on, or what SetThreads said. At least 1.
int Threads();
// 0: as many as there are cores. Call before the first region.
void SetThreads(int threads);

// Calls body(i) for every i in [0, count), handed out dynamically; on the calling thread alone where `parallel` is
// false or count is 1. `body` must not throw and must not open a region itself.
void ParallelFor(int64_t count, bool parallel, const std::function<void(int64_t)>& body);

}  // namespace tensord::cpu
