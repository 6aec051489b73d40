// What tests may tell the fake NVML (nvml.cc): errors, missing functions, readings, and a call that hangs.
//
//   SetNvml({.results = {{"nvmlInit_v2", 18}}});          // driver and library versions differ
//   SetNvml({.missing = {"nvmlDeviceGetFanSpeed"}, .celsius = 41});
//   SetNvml({});
//
// The devices are those of the fake CUDA runtime. What is not told is "not supported" (3): nothing is made up.
// Thread safe. The controls are the process's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tensord::emulated {

struct NvmlControls {
  bool absent = false;                 // the library is not found
  std::map<std::string, int> results;  // function, the code that it returns instead of an answer
  std::set<std::string> missing;       // functions that the library lacks
  std::string hanging;                 // a function that does not return until ReleaseNvml

  std::optional<std::string> driver_version;
  std::optional<int> cuda_version;  // 13000
  std::optional<std::string> name;
  std::optional<unsigned> utilization_percent, memory_utilization_percent;
  std::optional<unsigned> celsius, milliwatts, milliwatts_limit, fan_percent, megahertz, memory_megahertz;
  std::optional<int> performance_state;
  std::optional<unsigned long long> ecc_uncorrected;
  std::optional<unsigned> mig;  // 1: enabled
  struct Process {
    unsigned pid = 0;
    unsigned long long used_bytes = 0;
    std::string name;  // empty: it may not be told
  };
  std::optional<std::vector<Process>> processes;
};

// Replaces all; releases a call that hangs.
void SetNvml(const NvmlControls& controls);
// Lets a hanging call return.
void ReleaseNvml();
// Whether a call hangs now.
bool NvmlHangs();

// Successful nvmlInit_v2 less nvmlShutdown, and nvmlShutdown alone.
int NvmlSessions();
int NvmlShutdowns();

}  // namespace tensord::emulated
