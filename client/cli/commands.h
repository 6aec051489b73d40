// The commands of tensorctl. Each group adds its own to the parser; Main runs the one that was chosen.
#pragma once

#include "client/cli/command.h"
#include "client/cli/context.h"

namespace tensord::cli {

void AddDeviceCommands(const Command& app, Context& context);    // devices
void AddTensorCommands(const Command& app, Context& context);    // create cat ls mv cp rm
void AddTransferCommands(const Command& app, Context& context);  // put get
void AddModelCommands(const Command& app, Context& context);     // model …
void AddShellCommands(const Command& app, Context& context);     // run shell tutorial
void AddInfoCommands(const Command& app, Context& context);      // ping version explain ops sessions

// Parses and runs; returns the exit code. Errors go to context.err(), as JSON with -o json.
int Main(int argc, const char* const* argv, Context& context);

}  // namespace tensord::cli
