#include "kernels/cuda/nvml.h"

#include <array>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/core/text.h"

namespace tensord::cuda {
namespace nvml {

std::string ReturnText(Return code) {
  const auto text = [code]() -> std::string_view {
    switch (code) {
      case kSuccess:
        return "success";
      case kUninitialized:
        return "not initialised";
      case kInvalidArgument:
        return "invalid argument";
      case kNotSupported:
        return "not supported";
      case kNoPermission:
        return "no permission";
      case kNotFound:
        return "not found";
      case kInsufficientSize:
        return "insufficient size";
      case kDriverNotLoaded:
        return "the NVIDIA driver is not loaded";
      case kLibraryNotFound:
        return "a library was not found";
      case kFunctionNotFound:
        return "a function was not found";
      case kGpuIsLost:
        return "the GPU is lost";
      case kResetRequired:
        return "the GPU needs a reset";
      case kLibraryMismatch:
        return "driver and library versions differ";
      case kUnknown:
        break;
    }
    return "unknown error";
  };
  return StrCat(text(), " (", static_cast<int>(code), ")");
}

}  // namespace nvml

namespace {

using namespace nvml;  // NOLINT(google-build-using-namespace): the library's names, wanted here and nowhere else

// One device's questions. `device` may be a MIG instance, which has no sensors; `board` is the card it is on.
class Questions {
 public:
  Questions(const Api& api, NvmlReading& out) : api_(api), out_(out) {}

  bool Find(const NvmlIdentity& identity) {
    Return by_uuid = kNotFound;
    if (!identity.uuid.empty() && api_.DeviceByUuid != nullptr) {
      by_uuid = api_.DeviceByUuid(identity.uuid.c_str(), &device_);
      Note("nvmlDeviceGetHandleByUUID", by_uuid);
    }
    const Return by_pci = api_.DeviceByPci(identity.pci_bus_id.c_str(), &board_);
    Note("nvmlDeviceGetHandleByPciBusId_v2", by_pci);
    if (by_pci != kSuccess) board_ = device_;
    if (by_uuid != kSuccess) device_ = board_;
    if (by_uuid == kSuccess || by_pci == kSuccess) return true;
    out_.why = StrCat("nvmlDeviceGetHandleByPciBusId_v2(", identity.pci_bus_id, "): ", ReturnText(by_pci));
    return false;
  }

  void Ask() {
    DeviceTelemetry& t = out_.telemetry;
    std::array<char, 128> text{};
    if (Of(api_.DeviceName, device_, text.data(), static_cast<unsigned>(text.size()))) out_.model = text.data();
    if (Of(api_.DeviceUuid, device_, text.data(), static_cast<unsigned>(text.size()))) out_.uuid = text.data();
    Utilization utilization{};
    if (Either(api_.DeviceUtilization, &utilization)) {
      t.utilization_percent = static_cast<float>(utilization.gpu);
      t.memory_utilization_percent = static_cast<float>(utilization.memory);
    }
    unsigned int value = 0;
    if (Either(api_.DeviceTemperature, kSensorGpu, &value)) t.temperature_celsius = static_cast<float>(value);
    if (Either(api_.DevicePower, &value)) t.power_watts = static_cast<float>(value) / 1000.0F;
    if (Either(api_.DevicePowerLimit, &value)) t.power_limit_watts = static_cast<float>(value) / 1000.0F;
    if (Either(api_.DeviceFan, &value)) t.fan_percent = static_cast<float>(value);
    if (Either(api_.DeviceClock, kClockStreamingMultiprocessor, &value)) t.clock_mhz = value;
    if (Either(api_.DeviceClock, kClockMemory, &value)) t.memory_clock_mhz = value;
    int state = 0;
    // 32: the driver does not know.
    if (Either(api_.DevicePerformanceState, &state) && state >= 0 && state < 32) {
      t.performance_state = static_cast<uint32_t>(state);
    }
    unsigned long long errors = 0;
    if (Either(api_.DeviceEccErrors, kErrorUncorrected, kSinceDriverLoad, &errors)) t.ecc_uncorrected = errors;
    unsigned int current = 0;
    unsigned int pending = 0;
    if (Of(api_.DeviceMigMode, board_, &current, &pending)) t.mig_mode = current != 0 ? "enabled" : "disabled";
    AskProcesses();
  }

 private:
  // True where the function is there and succeeded on `device`.
  template <class F, class... A>
  bool Of(F function, Device device, A... arguments) {
    if (function == nullptr) return false;
    const Return code = function(device, arguments...);
    Note("nvml", code);
    return code == kSuccess;
  }
  template <class F, class... A>
  bool Either(F function, A... arguments) {
    return Of(function, device_, arguments...) || (board_ != device_ && Of(function, board_, arguments...));
  }

  void Note(const char* what, Return code) {
    if (code != kGpuIsLost && code != kResetRequired) return;
    out_.lost = true;
    out_.why = StrCat(what, ": ", ReturnText(code));
  }

  void AskProcesses() {
    if (api_.DeviceProcesses == nullptr) return;
    std::vector<ProcessInfo> list(32);
    auto count = static_cast<unsigned int>(list.size());
    Return code = api_.DeviceProcesses(device_, &count, list.data());
    if (code == kInsufficientSize) {  // `count` is how many there are; more may come meanwhile
      list.resize(size_t{count} + 16);
      count = static_cast<unsigned int>(list.size());
      code = api_.DeviceProcesses(device_, &count, list.data());
    }
    Note("nvmlDeviceGetComputeRunningProcesses_v3", code);
    if (code != kSuccess) return;
    for (size_t i = 0; i < count && i < list.size(); ++i) {
      DeviceTelemetry::Process process;
      process.pid = list[i].pid;
      if (list[i].used_bytes != kNotAvailable) process.used_bytes = list[i].used_bytes;
      std::array<char, 256> name{};
      if (api_.ProcessName != nullptr &&
          api_.ProcessName(process.pid, name.data(), static_cast<unsigned>(name.size())) == kSuccess) {
        name.back() = '\0';
        process.name = name.data();
      }
      out_.telemetry.processes.push_back(std::move(process));
    }
  }

  const Api& api_;
  NvmlReading& out_;
  Device device_ = nullptr;
  Device board_ = nullptr;
};

// The library as the reading thread has it.
class Session {
 public:
  explicit Session(Nvml::Loader load) : load_(load) {}
  ~Session() {
    if (ready_) api_->Shutdown();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  NvmlReading Read(const NvmlIdentity& identity) {
    NvmlReading out;
    if (!Ready(out.why)) return out;
    std::array<char, 96> text{};
    if (api_->DriverVersion != nullptr && api_->DriverVersion(text.data(), text.size()) == kSuccess) {
      out.driver_version = text.data();
    }
    int version = 0;
    if (api_->CudaVersion != nullptr && api_->CudaVersion(&version) == kSuccess) {
      out.cuda_version = StrCat(version / 1000, ".", version % 1000 / 10);
    }
    Questions questions(*api_, out);
    if (questions.Find(identity)) questions.Ask();
    return out;
  }

 private:
  // Asked again each time: a driver may be loaded later.
  bool Ready(std::string& why) {
    if (ready_) return true;
    if (api_ == nullptr) api_ = load_(&why);
    if (api_ == nullptr) return false;
    const Return code = api_->Init();
    ready_ = code == kSuccess;
    if (!ready_) why = StrCat("nvmlInit_v2: ", ReturnText(code));
    return ready_;
  }

  const Nvml::Loader load_;
  const Api* api_ = nullptr;
  bool ready_ = false;
};

}  // namespace

// Outlives the Nvml object for as long as a call hangs.
struct Nvml::Shared {
  struct Question {
    NvmlIdentity identity;
    NvmlReading reading;
    bool done = false;
    bool abandoned = false;
  };

  explicit Shared(Loader l) : load(l) {}

  const Loader load;
  absl::Mutex mutex;
  std::deque<std::shared_ptr<Question>> queue ABSL_GUARDED_BY(mutex);
  std::thread thread ABSL_GUARDED_BY(mutex);
  bool busy ABSL_GUARDED_BY(mutex) = false;  // a call is under way
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  bool hanging ABSL_GUARDED_BY(mutex) = false;  // somebody gave up waiting for the call that runs

  static void Serve(const std::shared_ptr<Shared>& shared);
};

void Nvml::Shared::Serve(const std::shared_ptr<Shared>& shared) {
  Session session(shared->load);
  while (true) {
    std::shared_ptr<Question> question;
    {
      absl::MutexLock lock(&shared->mutex);
      const auto wanted = [&] { return shared->stopping || !shared->queue.empty(); };
      shared->mutex.Await(absl::Condition(&wanted));
      if (shared->stopping) return;
      question = std::move(shared->queue.front());
      shared->queue.pop_front();
      shared->hanging = false;
      if (question->abandoned) continue;
      shared->busy = true;
    }
    NvmlReading reading = session.Read(question->identity);
    absl::MutexLock lock(&shared->mutex);
    question->reading = std::move(reading);
    question->done = true;
    shared->busy = false;
    shared->hanging = false;
  }
}

Nvml::Nvml(Loader load) : shared_(std::make_shared<Shared>(load)) {}

Nvml::~Nvml() {
  std::thread thread;
  bool busy = false;
  {
    absl::MutexLock lock(&shared_->mutex);
    shared_->stopping = true;
    busy = shared_->busy;
    thread = std::move(shared_->thread);
  }
  if (!thread.joinable()) return;
  if (busy) {
    thread.detach();  // whether that call ever returns is not ours to say
  } else {
    thread.join();
  }
}

NvmlReading Nvml::Read(const NvmlIdentity& device, absl::Duration patience) {
  auto question = std::make_shared<Shared::Question>();
  question->identity = device;
  absl::MutexLock lock(&shared_->mutex);
  const auto no_answer = [] {
    NvmlReading reading;
    reading.why = "NVML does not answer";
    return reading;
  };
  if (shared_->hanging) return no_answer();
  if (!shared_->thread.joinable()) shared_->thread = std::thread(Shared::Serve, shared_);
  shared_->queue.push_back(question);
  if (shared_->mutex.AwaitWithTimeout(absl::Condition(&question->done), patience)) return question->reading;
  question->abandoned = true;
  shared_->hanging = true;
  return no_answer();
}

Nvml& SharedNvml() {
  static Nvml* const nvml = new Nvml();
  return *nvml;
}

}  // namespace tensord::cuda
