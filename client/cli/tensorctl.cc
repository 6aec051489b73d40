#include <array>
#include <ostream>
#include <string_view>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/texts.h"
#include "kernels/core/error.h"

namespace tensord::cli {
namespace {

// Whether JSON was asked for, before (or although not) the arguments could be parsed.
bool WantsJson(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view a = argv[i];
    if (a == "-ojson" || a == "-o=json" || a == "--output=json") return true;
    if ((a == "-o" || a == "--output") && i + 1 < argc && std::string_view(argv[i + 1]) == "json") return true;
  }
  return false;
}

int Usage(Context& context, bool json, const std::string& message) {
  if (json) {
    JsonObject error;
    error.Text("code", "INVALID_ARGUMENT").Text("reason", "USAGE").Text("message", message).Raw("metadata", "{}");
    error.Text("advice", "tensorctl --help, or tensorctl COMMAND --help");
    context.err() << JsonObject().Raw("error", error.Done()).Done() << "\n";
  } else {
    context.err() << "error " << message << "\nnext: tensorctl --help, or tensorctl COMMAND --help\n";
  }
  return kExitUsage;
}

int RunCommand(int argc, const char* const* argv, Context& context) {
  CommandLine line(kAbout, "tensorctl", kExamples);
  const Command app = line.root();
  app.Value("-s,--server", context.server, "Where the daemon listens: HOST:PORT or unix:/path")
      .Environment("TENSORD_SERVER");
  app.Value("-w,--workspace", context.workspace, "Workspace of names").Environment("TENSORD_WORKSPACE");
  app.Value("-o,--output", context.output, "table or json").OneOf({"table", "json"}, "FORMAT");
  AddDeviceCommands(app, context);
  AddTensorCommands(app, context);
  AddTransferCommands(app, context);
  AddModelCommands(app, context);
  AddShellCommands(app, context);
  AddInfoCommands(app, context);
  const CommandLine::Parsed parsed = line.Parse(argc, argv);
  if (!parsed.error.empty()) return Usage(context, WantsJson(argc, argv), parsed.error);
  if (!parsed.action) {
    context.Print(parsed.help);
    return 0;
  }
  const absl::Status status = parsed.action();
  if (status.ok()) return 0;
  context.out().flush();
  context.err() << (context.json() ? ErrorJson(status) + "\n" : ErrorText(status));
  return ExitCode(status);
}

}  // namespace

int Main(int argc, const char* const* argv, Context& context) {
  const int code = RunCommand(argc, argv, context);
  if (context.out().flush()) return code;
  const std::string message = "standard output cannot be written: what was printed is incomplete";
  if (context.json()) {
    JsonObject error;
    error.Text("code", "DATA_LOSS").Text("reason", "OUTPUT").Text("message", message).Raw("metadata", "{}");
    error.Text("advice", "mend where the output goes, then run it again");
    context.err() << JsonObject().Raw("error", error.Done()).Done() << "\n";
  } else {
    context.err() << "error " << message << "\nnext: mend where the output goes, then run it again\n";
  }
  return code == 0 ? 1 : code;
}

}  // namespace tensord::cli
