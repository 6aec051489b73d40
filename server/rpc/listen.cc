#include "server/rpc/listen.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/core/error.h"

namespace tensord {
namespace {

constexpr std::string_view kAllowed = "HOST:PORT, [IPV6]:PORT or unix:/path";

absl::Status Invalid(std::string_view text, std::string_view allowed) {
  return Error(Reason::kFieldInvalid)
      .Say("field", "--listen")
      .With("value", StrCat("\"", text, "\""))
      .With("allowed", allowed)
      .At("listen");
}

// Start-up errors of the operating system are outside the catalogue: no client ever sees one.
absl::Status Unavailable(const ListenAddress& address, std::string_view why) {
  return absl::UnavailableError(std::string(StrCat("cannot listen on ", address.ToString(), ": ", why)));
}

std::string ErrnoText(int error) { return std::strerror(error); }  // NOLINT(concurrency-mt-unsafe)

bool IsLoopbackHost(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return false;
}

bool IsHostName(std::string_view host) {
  if (host.empty()) return false;
  for (const char c : host) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
    if (!plain) return false;
  }
  return true;
}

class Socket {
 public:
  Socket(int family, int type) : fd_(socket(family, type | SOCK_CLOEXEC, 0)) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

// errno of binding and listening, or 0.
int TryBind(const sockaddr* address, socklen_t length) {
  const Socket socket(address->sa_family, SOCK_STREAM);
  if (socket.fd() < 0) return errno;
  const int on = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->sa_family == AF_INET6) setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (bind(socket.fd(), address, length) != 0) return errno;
  return listen(socket.fd(), 1) != 0 ? errno : 0;
}

bool HasIpv6Loopback() {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const Socket socket(AF_INET6, SOCK_STREAM);
  return socket.fd() >= 0 && bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

absl::Status ProbeTcp(const ListenAddress& address) {
  if (address.port == 0) return absl::OkStatus();
  std::vector<std::string> hosts = {address.host};
  if (address.host == "localhost") {
    hosts = {"127.0.0.1"};
    if (HasIpv6Loopback()) hosts.push_back("::1");
  }
  for (const std::string& host : hosts) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const int failed = getaddrinfo(host.c_str(), StrCat(address.port).c_str(), &hints, &found);
    if (failed != 0) return Unavailable(address, StrCat("no such host (", gai_strerror(failed), ")"));
    int error = 0;
    for (const addrinfo* each = found; each != nullptr && error == 0; each = each->ai_next)
      error = TryBind(each->ai_addr, each->ai_addrlen);
    freeaddrinfo(found);
    if (error == EADDRINUSE)
      return Unavailable(address,
                         "another process listens there; stop it, or choose another port (port 0 takes a free one)");
    if (error == EACCES) return Unavailable(address, "not permitted; ports below 1024 belong to root");
    if (error == EADDRNOTAVAIL) return Unavailable(address, "this machine has no such address");
    if (error != 0) return Unavailable(address, ErrnoText(error));
  }
  return absl::OkStatus();
}

sockaddr_un SocketAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// errno of connecting, or 0 where somebody answers.
int TryConnect(const std::string& path) {
  const sockaddr_un address = SocketAddress(path);
  const Socket socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK);
  if (socket.fd() < 0) return errno;
  return connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

// A lock on the folder, gone with the descriptor: no file is left behind. Whoever keeps it for long only loses the
// others this protection.
ListenGuard LockFolder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ListenGuard();
  const absl::Time deadline = absl::Now() + absl::Seconds(2);
  while (flock(fd, LOCK_EX | LOCK_NB) != 0 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(10));
  return ListenGuard(fd);
}

absl::StatusOr<ListenGuard> ProbeUnix(const ListenAddress& address) {
  const size_t slash = address.path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : address.path.substr(0, slash);
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) return Unavailable(address, StrCat("folder ", folder, ": ", ErrnoText(errno)));
  if (!S_ISDIR(info.st_mode)) return Unavailable(address, StrCat(folder, " is no folder"));
  ListenGuard guard = LockFolder(folder);
  if (lstat(address.path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) return Unavailable(address, "a file that is no socket is there; it is left as it is");
    const int error = TryConnect(address.path);
    if (error == 0 || error == EAGAIN || error == EINPROGRESS) {
      return Unavailable(address, "another daemon answers there; stop it, or choose another path");
    }
    if (error != ECONNREFUSED)
      return Unavailable(address, StrCat("a socket is there that cannot be tried: ", ErrnoText(error)));
    if (unlink(address.path.c_str()) != 0)
      return Unavailable(address, StrCat("the stale socket there cannot be removed: ", ErrnoText(errno)));
  } else if (errno != ENOENT) {
    return Unavailable(address, ErrnoText(errno));
  }
  if (faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    return Unavailable(address, StrCat("folder ", folder, ": ", ErrnoText(errno)));
  return guard;
}

}  // namespace

std::string ListenAddress::ToString() const {
  if (kind == Kind::kUnix) return StrCat("unix:", path);
  return host.find(':') == std::string::npos ? StrCat(host, ":", port) : StrCat("[", host, "]:", port);
}

ListenGuard::~ListenGuard() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text) {
  ListenAddress address;
  if (text.starts_with("unix-abstract:") || text.starts_with("unix:@") ||
      text.starts_with(std::string_view("unix:\0", 6))) {
    return Invalid(text, "unix:/path; an abstract socket has no file whose mode could keep others out");
  }
  if (text.starts_with("unix:")) {
    address.kind = ListenAddress::Kind::kUnix;
    address.loopback = true;
    std::string_view path = text.substr(5);
    if (path.starts_with("//")) path.remove_prefix(2);
    if (path.empty() || path.find('\0') != std::string_view::npos || path.back() == '/') return Invalid(text, kAllowed);
    if (path.size() > kMaxSocketPath) {
      return Error(Reason::kLimitExceeded)
          .With("limit", "socket path bytes")
          .With("maximum", kMaxSocketPath)
          .With("value", path.size())
          .At("listen");
    }
    address.path = std::string(path);
    return address;
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return Invalid(text, kAllowed);
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  address.host = std::string(host);
  in6_addr v6{};
  const bool known = brackets ? inet_pton(AF_INET6, address.host.c_str(), &v6) == 1 : IsHostName(host);
  if (!known) return Invalid(text, kAllowed);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size())
    return Invalid(text, StrCat(kAllowed, "; PORT is 0 to 65535"));
  address.loopback = IsLoopbackHost(address.host);
  return address;
}

absl::Status RefuseExposed(const ListenAddress& address, bool insecure) {
  if (address.loopback || insecure) return absl::OkStatus();
  return Invalid(address.ToString(),
                 "localhost, 127.0.0.0/8, [::1] or a Unix socket, because this daemon has no encryption and asks "
                 "nobody who he is: whoever reaches the "
                 "port owns the devices. Reach it through an SSH tunnel, or add --insecure on a network you trust");
}

std::vector<std::string> BindTargets(const ListenAddress& address) {
  if (address.kind == ListenAddress::Kind::kTcp && address.host == "localhost") {
    std::vector<std::string> targets = {StrCat("127.0.0.1:", address.port)};
    if (HasIpv6Loopback()) targets.push_back(StrCat("[::1]:", address.port));
    return targets;
  }
  return {address.ToString()};
}

absl::StatusOr<ListenGuard> ProbeListenAddress(const ListenAddress& address) {
  if (address.kind == ListenAddress::Kind::kUnix) return ProbeUnix(address);
  TENSORD_RETURN_IF_ERROR(ProbeTcp(address));
  return ListenGuard();
}

}  // namespace tensord
