// tensorctl: the command line of tensord.
#include <iostream>
#include <memory>

#include "client/cli/commands.h"
#include "client/cpp/remote_engine.h"

int main(int argc, char** argv) {
  tensord::cli::Context context(
      [](const std::string& server) {
        tensord::RemoteOptions options;
        if (!server.empty()) options.server = server;
        return tensord::ConnectEngine(options);
      },
      std::cout, std::cerr);
  return tensord::cli::Main(argc, argv, context);
}
