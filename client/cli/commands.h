// The commands of tensorctl. Each group adds its own to the parser; Main runs the one that was chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/cli/context.h"

namespace tensord::cli {

// What the chosen command does, set while arguments are parsed and run afterwards.
struct Chosen {
  std::function<absl::Status()> action;
};

void AddDeviceCommands(CLI::App& app, Context& context, Chosen& chosen);    // devices
void AddTensorCommands(CLI::App& app, Context& context, Chosen& chosen);    // create cat ls mv cp rm
void AddTransferCommands(CLI::App& app, Context& context, Chosen& chosen);  // put get
void AddModelCommands(CLI::App& app, Context& context, Chosen& chosen);     // model …
void AddShellCommands(CLI::App& app, Context& context, Chosen& chosen);     // run shell tutorial
void AddInfoCommands(CLI::App& app, Context& context, Chosen& chosen);      // ping version explain ops sessions

// Parses and runs; returns the exit code. Errors go to context.err(), as JSON with -o json.
int Main(int argc, const char* const* argv, Context& context);

}  // namespace tensord::cli
