// Ratios, both sides measured in one run: interleaved pairs, the median of their quotients, and the spread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace tensord::bench {

inline double Seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Prints "name: ratio (least-most)": how many times as fast `ours` is as `other`. Each side runs once to warm up, then `pairs` times in turn.
inline void Ratio(const std::string& name, const std::function<void()>& ours, const std::function<void()>& other,
                  int pairs = 9) {
  ours();
  other();
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    // Which goes first alternates, so that neither always finds the other's leavings in the cache.
    double mine = 0;
    double theirs = 0;
    if (i % 2 == 0) {
      mine = Seconds(ours);
      theirs = Seconds(other);
    } else {
      theirs = Seconds(other);
      mine = Seconds(ours);
    }
    ratios.push_back(theirs / mine);
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf("%-72s %7.2f  (%.2f-%.2f)\n", name.c_str(), ratios[ratios.size() / 2], ratios.front(), ratios.back());
  std::fflush(stdout);
}

}  // namespace tensord::bench
