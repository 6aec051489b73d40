#include <array>
#include <ostream>
#include <string_view>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/texts.h"
#include "kernels/core/error.h"
#include "kernels/core/nearest.h"

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

// The first word that should name a command and does not, and the nearest that do; empty where there is none.
std::string UnknownCommand(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with('-')) {
      // A global option whose value is the next word.
      for (const std::string_view option : {"-s", "--server", "-w", "--workspace", "-o", "--output"}) {
        if (word == option) ++i;
      }
      continue;
    }
    const std::vector<const CLI::App*> commands = at->get_subcommands([](const CLI::App*) { return true; });
    if (commands.empty()) return "";
    std::vector<std::string> names;
    const CLI::App* next = nullptr;
    for (const CLI::App* command : commands) {
      names.push_back(command->get_name());
      if (names.back() == word) next = command;
    }
    if (next == nullptr) {
      const std::string nearest = NearestNames(word, std::vector<std::string_view>(names.begin(), names.end()));
      return StrCat("no command is called ", at == &app ? "" : at->get_name() + " ", word,
                    nearest.empty() ? "" : "; nearest: ", nearest);
    }
    at = next;
  }
  return "";
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

}  // namespace

namespace {

int RunCommand(int argc, const char* const* argv, Context& context) {
  CLI::App app(std::string(kAbout), "tensorctl");
  app.footer(std::string(kExamples));
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("-s,--server", context.server, "Where the daemon listens: HOST:PORT or unix:/path")
      ->envname("TENSORD_SERVER");
  app.add_option("-w,--workspace", context.workspace, "Workspace of names")->envname("TENSORD_WORKSPACE");
  app.add_option("-o,--output", context.output, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->option_text("FORMAT");
  Chosen chosen;
  AddDeviceCommands(app, context, chosen);
  AddTensorCommands(app, context, chosen);
  AddTransferCommands(app, context, chosen);
  AddModelCommands(app, context, chosen);
  AddShellCommands(app, context, chosen);
  AddInfoCommands(app, context, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    context.Print(app.help());
    return 0;
  } catch (const CLI::CallForAllHelp& help) {
    context.Print(app.help("", CLI::AppFormatMode::All));
    return 0;
  } catch (const CLI::ParseError& error) {
    const std::string unknown = UnknownCommand(app, argc, argv);
    return Usage(context, WantsJson(argc, argv), unknown.empty() ? error.what() : unknown);
  }
  const absl::Status status = chosen.action();
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
