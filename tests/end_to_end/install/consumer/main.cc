// A program of somebody else's: links the whole client, and asks a daemon that is not there.
#include <tensord/tensord.h>

#include <cstdio>
#include <string>

namespace td = tensord::client;

int main() {
  const absl::StatusOr<td::Client> client =
      td::Client::connect({.server = "127.0.0.1:1", .connect_timeout = absl::Milliseconds(50)});
  if (client.ok() || client.status().code() != absl::StatusCode::kUnavailable) return 1;
  const td::Tensor none = (td::Tensor() + 1.0).relu();
  if (none.get<float>().status().code() != absl::StatusCode::kFailedPrecondition) return 2;
  std::printf("%s\n", std::string(client.status().message()).c_str());
  return 0;
}
