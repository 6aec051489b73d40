// Where the daemon listens: reading an address, judging it, and making sure that it is free.
//
//   TENSORD_ASSIGN_OR_RETURN(ListenAddress address, ParseListenAddress("localhost:7070"));
//   if (!address.loopback && !insecure) …                    // RefuseExposed
//   TENSORD_ASSIGN_OR_RETURN(ListenGuard guard, ProbeListenAddress(address));
//
// Parse and Refuse are pure functions. No gRPC here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tensord {

struct ListenAddress {
  enum class Kind { kTcp, kUnix };
  Kind kind = Kind::kTcp;
  std::string host;       // kTcp: without brackets
  uint16_t port = 0;      // kTcp; 0: any free one
  std::string path;       // kUnix
  bool loopback = false;  // nobody outside this machine reaches it

  // "HOST:PORT", "[V6]:PORT", "unix:/path": as it was given, in its plainest spelling.
  std::string ToString() const;
};

// Bytes of a socket's path that the kernel takes.
inline constexpr size_t kMaxSocketPath = 107;

// "HOST:PORT" or "unix:/path". Loopback are localhost, 127.0.0.0/8, ::1 and Unix sockets; a host name other than
// localhost is not, whatever it resolves to. Error: FIELD_INVALID, which says what is allowed (abstract sockets and
// paths longer than kMaxSocketPath are not).
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text);

// FIELD_INVALID, saying why and what to do, for an address that others than this machine reach, unless `insecure`.
absl::Status RefuseExposed(const ListenAddress& address, bool insecure);

// The addresses that a server binds for `address`, as gRPC spells them: "localhost" becomes 127.0.0.1 and, where the
// machine has it, [::1].
std::vector<std::string> BindTargets(const ListenAddress& address);

// Held from the probe until the socket is bound: keeps another daemon that starts at the same moment from taking the
// same socket path. Movable.
class ListenGuard {
 public:
  explicit ListenGuard(int fd = -1) : fd_(fd) {}
  ListenGuard(ListenGuard&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  ListenGuard& operator=(ListenGuard&&) = delete;
  ~ListenGuard();

 private:
  int fd_;
};

// Looks whether `address` can be bound, so that a failure is told with its cause. A socket file that nobody answers on
// is removed; any other file is left alone. Error: UNAVAILABLE with a text for the operator (in use, not permitted, no
// such folder, no such address).
absl::StatusOr<ListenGuard> ProbeListenAddress(const ListenAddress& address);

}  // namespace tensord
