#include "kernels/cpu/host_info.h"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "kernels/cpu/loops.h"

namespace tensord::cpu {
namespace {

// The value of the first line "key : value" of /proc/cpuinfo; empty where there is none.
std::string CpuInfo(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t end = line.find_last_not_of(" \t", colon == 0 ? 0 : colon - 1);
    if (std::string_view(line).substr(0, end + 1) != key) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? std::string() : line.substr(start);
  }
  return {};
}

}  // namespace

std::string ProcessorName() {
  for (const std::string_view key : {"model name", "Model", "Hardware"}) {
    if (std::string name = CpuInfo(key); !name.empty()) return name;
  }
  return "CPU";
}

std::vector<std::string> ProcessorFeatures() {
  std::vector<std::string> features{std::string(BestIsa())};
  std::string text = CpuInfo("flags");
  if (text.empty()) text = CpuInfo("Features");
  std::istringstream words(text);
  std::set<std::string> flags;
  for (std::string word; words >> word;) flags.insert(word);
  for (const auto& [flag, name] :
       {std::pair{"avx512_bf16", "avx512-bf16"}, std::pair{"avx512_fp16", "avx512-fp16"},
        std::pair{"avx512_vnni", "avx512-vnni"}, std::pair{"avx_vnni", "avx-vnni"}, std::pair{"amx_tile", "amx-tile"},
        std::pair{"amx_bf16", "amx-bf16"}, std::pair{"amx_int8", "amx-int8"}, std::pair{"sve", "sve"},
        std::pair{"bf16", "bf16"}}) {
    if (flags.contains(flag)) features.emplace_back(name);
  }
  return features;
}

DeviceTelemetry LoadMeter::Read() {
  DeviceTelemetry telemetry;
  double load = 0;
  if (getloadavg(&load, 1) == 1) telemetry.load_average = static_cast<float>(load);

  // "cpu user nice system idle iowait irq softirq steal …", in ticks since the start of the machine.
  std::ifstream file("/proc/stat");
  std::string word;
  uint64_t ticks[8] = {};
  if (!(file >> word) || word != "cpu") return telemetry;
  for (uint64_t& t : ticks) {
    if (!(file >> t)) return telemetry;
  }
  uint64_t total = 0;
  for (const uint64_t t : ticks) total += t;
  const uint64_t busy = total - ticks[3] - ticks[4];
  absl::MutexLock lock(&mutex_);
  if (total_ != 0 && total > total_ && busy >= busy_) {
    telemetry.utilization_percent = 100.0F * static_cast<float>(busy - busy_) / static_cast<float>(total - total_);
  }
  busy_ = busy;
  total_ = total;
  return telemetry;
}

}  // namespace tensord::cpu
