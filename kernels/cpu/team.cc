#include "kernels/cpu/team.h"

#include <sched.h>

#include <algorithm>
#include <atomic>

// libgomp's barriers are invisible to the thread sanitizer, which would report every region.
#ifdef __SANITIZE_THREAD__
#include <thread>
#include <vector>
#else
#include <omp.h>
#endif

namespace tensord::cpu {
namespace {

int CoresAllowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return 1;
}

std::atomic<int>& ThreadSetting() {
  static std::atomic<int> threads{CoresAllowed()};
  return threads;
}

}  // namespace

int Threads() { return ThreadSetting().load(std::memory_order_relaxed); }

void SetThreads(int threads) {
  ThreadSetting().store(threads > 0 ? threads : CoresAllowed(), std::memory_order_relaxed);
#ifndef __SANITIZE_THREAD__
  omp_set_num_threads(Threads());  // for libraries that open regions of their own on this thread
#endif
}

void ParallelFor(int64_t count, bool parallel, const std::function<void(int64_t)>& body) {
  const int threads = static_cast<int>(std::min<int64_t>(Threads(), count));
  if (!parallel || threads <= 1) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
#ifdef __SANITIZE_THREAD__
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) body(i);
  };
  std::vector<std::thread> team;
  for (int t = 1; t < threads; ++t) team.emplace_back(work);
  work();
  for (std::thread& thread : team) thread.join();
#else
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (int64_t i = 0; i < count; ++i) body(i);
#endif
}

}  // namespace tensord::cpu
