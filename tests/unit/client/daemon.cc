#include "tests/unit/client/daemon.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/emulated/emulated_backend.h"
#include "server/memory/memory.h"

namespace tensord::testing {
namespace {

template <class T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
    std::abort();
  }
  return *std::move(value);
}

EngineDevice Stacked(std::unique_ptr<Backend> backend) {
  EngineDevice device{std::move(backend), {}};
  device.stack.push_back(MakeCachingPool(device.backend->memory()));
  device.stack.push_back(MakeLimit(*device.stack.back(), device.backend->Info().id.ToString(), 0));
  return device;
}

int Port(const std::string& address) { return std::stoi(address.substr(address.rfind(':') + 1)); }

sockaddr_in Loopback(int port) {
  sockaddr_in out = {};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  out.sin_port = htons(static_cast<uint16_t>(port));
  return out;
}

}  // namespace

Daemon::Daemon(EngineOptions options) {
  std::vector<EngineDevice> devices;
  devices.push_back(Stacked(MakeCpuBackend({})));
  for (std::unique_ptr<Backend>& backend :
       Must(MakeEmulatedBackends({.devices = 2, .memory_bytes = size_t{256} << 20})))
    devices.push_back(Stacked(std::move(backend)));
  engine_ = LocalEngine::Create(std::move(devices), options);
  server_ = Must(Server::Start(*engine_, {.listen = {"127.0.0.1:0"}, .limits = options.limits}));
  address_ = server_->addresses()[0];
}

Daemon::~Daemon() {
  engine_->Shutdown(absl::ZeroDuration());
  server_.reset();
}

std::unique_ptr<Engine> Daemon::Connect() const { return Must(ConnectEngine({.server = address_})); }
client::Client Daemon::Client() const { return Must(client::Client::connect({.server = address_})); }

client::Client ClientOn(Engine& engine) {
  OpenSessionRequest request;
  request.client = "test";
  return client::Client(Must(ClientSession::Open(std::shared_ptr<Engine>(std::shared_ptr<void>(), &engine), request)));
}

Wire::Wire(const std::string& target) : target_port_(Port(target)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at = Loopback(0);
  socklen_t length = sizeof(at);
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0 || ::listen(listener_, 16) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &length) != 0 || ::pipe(wake_) != 0) {
    std::abort();
  }
  address_ = StrCat("127.0.0.1:", ntohs(at.sin_port));
  thread_ = std::thread([this] { Run(); });
}

Wire::~Wire() {
  stop_ = true;
  if (::write(wake_[1], "x", 1) != 1) std::abort();
  thread_.join();
  for (const int fd : {listener_, wake_[0], wake_[1]}) ::close(fd);
}

void Wire::Cut() {
  const int before = acknowledged_cuts_;
  cut_ = true;
  if (::write(wake_[1], "x", 1) != 1) std::abort();
  while (acknowledged_cuts_ == before) std::this_thread::yield();
}

void Wire::Mend() { cut_ = false; }

void Wire::Run() {
  std::map<int, int> peers;  // both ways
  const auto hang_up = [&peers](int fd) {
    const int other = peers[fd];
    for (const int end : {fd, other}) {
      ::close(end);
      peers.erase(end);
    }
  };
  std::vector<char> buffer(1 << 16);
  for (;;) {
    std::vector<pollfd> fds = {{listener_, POLLIN, 0}, {wake_[0], POLLIN, 0}};
    for (const auto& [fd, other] : peers) fds.push_back({fd, POLLIN, 0});
    if (::poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[1].revents != 0) {
      char byte;
      if (::read(wake_[0], &byte, 1) != 1) std::abort();
      while (!peers.empty()) hang_up(peers.begin()->first);
      if (stop_) return;
      ++acknowledged_cuts_;
      continue;
    }
    if (fds[0].revents != 0) {
      const int fd = ::accept(listener_, nullptr, nullptr);
      if (fd >= 0 && cut_) {
        ::close(fd);
      } else if (fd >= 0) {
        const int other = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in to = Loopback(target_port_);
        if (::connect(other, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) std::abort();
        const int one = 1;
        for (const int end : {fd, other}) ::setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        peers[fd] = other;
        peers[other] = fd;
      }
    }
    for (size_t i = 2; i < fds.size(); ++i) {
      if (fds[i].revents == 0 || !peers.contains(fds[i].fd)) continue;
      const ssize_t n = ::read(fds[i].fd, buffer.data(), buffer.size());
      bool alive = n > 0;
      for (ssize_t done = 0; alive && done < n;) {
        const ssize_t sent =
            ::send(peers[fds[i].fd], buffer.data() + done, static_cast<size_t>(n - done), MSG_NOSIGNAL);
        alive = sent > 0;
        done += sent;
      }
      if (!alive) hang_up(fds[i].fd);
    }
  }
}

}  // namespace tensord::testing
