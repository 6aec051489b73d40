// tensord, the daemon: reads flags, puts devices, engine and server together, waits for a signal, takes them apart.
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "proto/wire/config.h"
#include "server/devices.h"
#include "server/engine/local_engine.h"
#include "server/flags.h"
#include "server/observe/log.h"
#include "server/rpc/server.h"

namespace tensord {
namespace {

constexpr std::string_view kVersion = TENSORD_VERSION;
constexpr int kBadFlags = 2;
constexpr int kCannotStart = 1;
constexpr int kDeviceLost = 75;  // EX_TEMPFAIL: supervisors start the daemon again
// Beyond the grace: for taking apart what has ended.
constexpr absl::Duration kLastWords = absl::Seconds(2);

// libgomp reads GOMP_SPINCOUNT while it is loaded. By default its idle threads spin for milliseconds, which takes half
// a core from the transport; so the process sets it and executes itself again, once, unless the operator has chosen.
void ExecuteAgainWithShortSpin(char** argv) {
  if (getenv("GOMP_SPINCOUNT") != nullptr || getenv("OMP_WAIT_POLICY") != nullptr)
    return;                              // NOLINT(concurrency-mt-unsafe)
  setenv("GOMP_SPINCOUNT", "10000", 0);  // NOLINT(concurrency-mt-unsafe)
  execv("/proc/self/exe", argv);
  // Without /proc the daemon only runs a little slower.
}

// Buffers of messages are freed and wanted again all the time: the allocator keeps them, and does not fault them in
// anew. Tensors are not affected: their pool maps and unmaps memory itself.
void TuneAllocator() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 2'000'000'000);
  mallopt(M_TOP_PAD, 64 << 20);
}

// Every connection is a descriptor; the soft limit is often 1024 where the hard one is far higher.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, 65536));
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::string VersionText() { return StrCat("tensord ", kVersion, "\nprotocol 1\n", BackendsText()); }

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

// Takes the daemon apart while the main thread listens for a second signal: not ready, no new calls; what is open may
// end by itself within the grace.
void ShutDown(Server& server, LocalEngine& engine, absl::Duration grace) {
  const absl::Time deadline = absl::Now() + grace;
  server.BeginDrain(grace);
  if (!server.AwaitCalls(deadline)) LogWarning("calls are still open after the grace and are ended");
  engine.Shutdown(std::max(deadline - absl::Now(), absl::ZeroDuration()));
  server.Stop();
}

// Tells the main thread, by SIGUSR2, that devices were lost and what the operator wants then; and the server, whose
// health of the device turns NOT_SERVING. Called by the engine's threads, once a device.
class LossWatch {
 public:
  LossWatch(OnDeviceLoss wanted, pthread_t main_thread) : wanted_(wanted), main_thread_(main_thread) {}

  // The devices whose loss is watched; before the first may be lost.
  void Count(size_t cuda_devices) { left_ = cuda_devices; }
  void Lost(DeviceId device, const absl::Status& loss) {
    LogWarning("device lost", {{"name", device.ToString()}, {"why", std::string(loss.message())}});
    {
      absl::MutexLock lock(&mutex_);
      lost_.push_back(device.ToString());
      if (server_ != nullptr) server_->DeviceLost(lost_.back());
    }
    const bool last = left_.fetch_sub(1) == 1;
    if (wanted_ == OnDeviceLoss::kStay) return;
    if (wanted_ == OnDeviceLoss::kExit || (wanted_ == OnDeviceLoss::kDefault && last)) at_once_ = true;
    ends_ = true;
    pthread_kill(main_thread_, SIGUSR2);
  }
  // From now on the server is told, of what was lost before, too; null: no longer.
  void Tell(Server* server) {
    absl::MutexLock lock(&mutex_);
    server_ = server;
    if (server == nullptr) return;
    for (const std::string& device : lost_) server->DeviceLost(device);
  }
  bool ends() const { return ends_; }
  bool at_once() const { return at_once_; }

 private:
  const OnDeviceLoss wanted_;
  const pthread_t main_thread_;
  std::atomic<size_t> left_{0};
  std::atomic<bool> ends_{false};
  std::atomic<bool> at_once_{false};
  absl::Mutex mutex_;
  Server* server_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<std::string> lost_ ABSL_GUARDED_BY(mutex_);
};

std::string_view NameOf(int signal) {
  return signal == SIGUSR2 ? "device lost" : signal == SIGTERM ? "SIGTERM" : "SIGINT";
}

int Run(const DaemonFlags& flags) {
  // Blocked before any thread is made, so that only the main thread takes them.
  sigset_t waited = StopSignals();
  sigaddset(&waited, SIGUSR1);
  sigaddset(&waited, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &waited, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  wire::SetDaemonVersion(kVersion);
  wire::SetLimits(flags.server.limits);
  LogInfo("start", {{"version", std::string(kVersion)}, {"pid", StrCat(getpid())}});
  EngineOptions options;
  options.limits = flags.server.limits;
  options.daemon_version = std::string(kVersion);
  options.default_lease = flags.lease;
  options.default_grace = flags.grace;
  const pthread_t main_thread = pthread_self();
  LossWatch watch(flags.on_device_loss, main_thread);  // outlives the engine
  options.on_device_loss = [&watch](DeviceId device, const absl::Status& loss) { watch.Lost(device, loss); };
  absl::StatusOr<std::vector<EngineDevice>> devices = MakeDevices(flags);
  if (!devices.ok()) {
    std::fprintf(stderr, "tensord: %s\n", std::string(devices.status().message()).c_str());
    return ReasonOf(devices.status()) == Reason::kDeviceUnknown ? kBadFlags : kCannotStart;
  }
  watch.Count(devices->size() - 1);
  ServerOptions served = flags.server;
  for (const EngineDevice& device : *devices) served.devices.push_back(device.backend->Info().id.ToString());
  const std::unique_ptr<LocalEngine> engine = LocalEngine::Create(*std::move(devices), std::move(options));

  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(*engine, std::move(served));
  if (!server.ok()) {
    std::fprintf(stderr, "tensord: %s\n", std::string(server.status().message()).c_str());
    return server.status().code() == absl::StatusCode::kInvalidArgument ? kBadFlags : kCannotStart;
  }
  watch.Tell(server->get());
  if (flags.server.insecure)
    LogWarning("--insecure: no encryption, no authentication; whoever reaches the port owns the devices");
  for (const std::string& address : (*server)->addresses()) std::printf("listening on %s\n", address.c_str());
  std::fflush(stdout);

  int signal = 0;
  do sigwait(&waited, &signal);
  while (signal == SIGUSR1 || (signal == SIGUSR2 && !watch.ends()));
  const int code = signal == SIGUSR2 ? kDeviceLost : 0;
  const absl::Duration grace = code == kDeviceLost && watch.at_once() ? absl::ZeroDuration() : flags.shutdown_grace;
  LogInfo("stop", {{"signal", std::string(NameOf(signal))}, {"grace", absl::FormatDuration(grace)}});

  std::thread worker([&] {
    ShutDown(**server, *engine, grace);
    pthread_kill(main_thread, SIGUSR1);
  });
  sigdelset(&waited, SIGUSR2);  // more devices may be lost meanwhile
  const timespec patience = absl::ToTimespec(grace + kLastWords);
  const int second = sigtimedwait(&waited, nullptr, &patience);
  if (second != SIGUSR1) {
    // A kernel that runs cannot be interrupted: the process goes, and the system takes back what it held.
    LogWarning(second > 0 ? "second signal: ending at once"
                          : "work is still running after the grace: ending without it");
    (*server)->RemoveSockets();
    _exit(second > 0 ? 128 + second : code);
  }
  worker.join();
  watch.Tell(nullptr);
  LogInfo("stopped");
  return code;
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) {
  tensord::ExecuteAgainWithShortSpin(argv);
  tensord::TuneAllocator();
  tensord::RaiseDescriptorLimit();
  // Debian's Abseil looks for lock cycles at every lock, also in release builds: a tool for tests, a cost here.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  tensord::DaemonFlags flags;
  if (const std::optional<int> code = tensord::ParseFlags(argc, argv, tensord::VersionText(), flags)) return *code;
  if (const absl::Status status = tensord::ConfigureLog(flags.log); !status.ok()) {
    std::fprintf(stderr, "tensord: %s\n", std::string(status.message()).c_str());
    return tensord::kBadFlags;
  }
  return tensord::Run(flags);
}
