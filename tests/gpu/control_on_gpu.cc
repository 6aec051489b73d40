// The emulator's controls where there is no emulator: suites that ask for thread orders or stream modes run once, as the
// hardware runs them. What cannot be had (planned faults, counts of allocations) answers that nothing is wrong, or skips.
#include "kernels/emulated/control.h"
#include "kernels/emulated/cublaslt.h"

namespace tensord::emulated {

void Configure(const Options& /*options*/) {}
const Options& CurrentOptions() {
  static const Options options;
  return options;
}
void SetMode(Mode /*mode*/) {}
void SetOrder(Order /*order*/, uint64_t /*seed*/) {}
void ClearFaults() {}
size_t LiveAllocations() { return 0; }
size_t LiveStreams() { return 0; }
size_t LiveEvents() { return 0; }
std::vector<std::string> Reports() { return {}; }
std::string LastReport() { return {}; }
// Nobody counts the library's calls here: suites that ask are left out by `run`.
CublasLtCounts CountCublasLt() { return {}; }
DeviceAccess::DeviceAccess() = default;
DeviceAccess::~DeviceAccess() = default;

}  // namespace tensord::emulated
