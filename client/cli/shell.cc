// tensorctl run, shell, tutorial.
#include "client/cli/shell.h"

#include <unistd.h>

#include <iostream>
#include <memory>

#include "client/cli/commands.h"
#include "client/cli/execute.h"
#include "client/cli/format.h"
#include "client/cli/texts.h"
#include "client/cpp/expr/evaluator.h"
#include "client/cpp/expr/parser.h"
#include "kernels/core/error.h"

namespace tensord::cli {
namespace {

expr::EvaluatorOptions OptionsOf(const Context& context) {
  expr::EvaluatorOptions options;
  options.client = ClientName();
  options.workspace = context.workspace;
  options.json = context.json();
  return options;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Reads, runs, prints.
class Shell {
 public:
  Shell(Context& context, const ShellOptions& options, expr::Evaluator& evaluator, LineReader& reader)
      : context_(context), options_(options), evaluator_(evaluator), reader_(reader) {
    evaluator_.SetOutput([&context](std::string_view text) { context.Print(text); });
  }

  absl::Status Loop() {
    while (std::optional<std::string> source = Statement()) {
      const std::string_view word = Trim(*source);
      if (word == "exit" || word == "quit" || word == "exit()" || word == "quit()") break;
      if (word == "help" || word == "help()" || word == "?") {
        context_.Print(std::string(kShellHelp) + std::string(kTutorial));
        continue;
      }
      const absl::Status status = evaluator_.Run(*source);
      if (status.ok()) continue;
      // Between the answers, so that a reader of the output sees which line failed.
      context_.Print(context_.json() ? ErrorJson(status) + "\n" : ErrorText(status));
      if (first_failure_.ok()) first_failure_ = status;
    }
    return options_.strict ? first_failure_ : absl::OkStatus();
  }

 private:
  // A statement with all its lines; empty at the end.
  std::optional<std::string> Statement() {
    std::optional<std::string> line = reader_.Next(false);
    if (!line) return std::nullopt;
    Echo(*line, ">>> ");
    std::string source(StripPrompt(*line));
    while (expr::NeedsMoreLines(source)) {
      line = reader_.Next(true);
      if (!line) break;
      Echo(*line, "... ");
      source += "\n";
      source += StripPrompt(*line);
    }
    return source;
  }

  void Echo(std::string_view line, std::string_view prompt) {
    if (options_.echo && !Trim(line).empty()) context_.Print(StrCat(prompt, StripPrompt(line), "\n"));
  }

  Context& context_;
  const ShellOptions options_;
  expr::Evaluator& evaluator_;
  LineReader& reader_;
  absl::Status first_failure_;
};

}  // namespace

absl::Status RunShellOver(Context& context, const ShellOptions& options, LineReader& reader) {
  TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
  expr::Evaluator evaluator(*engine, OptionsOf(context));
  return Shell(context, options, evaluator, reader).Loop();
}

absl::Status RunShell(Context& context, const ShellOptions& options) {
  TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
  expr::Evaluator evaluator(*engine, OptionsOf(context));
  std::unique_ptr<LineReader> reader;
  if (isatty(STDIN_FILENO) != 0) {
    context.Say(
        StrCat("tensorctl ", ClientVersion(), ". help shows the language by example; exit, or Ctrl-D, ends.\n"));
    reader = MakeTerminalReader([&evaluator](std::string_view text) { return evaluator.Complete(text); });
  } else {
    reader = MakeStreamReader(std::cin);
  }
  return Shell(context, options, evaluator, *reader).Loop();
}

void AddShellCommands(const Command& app, Context& context) {
  const Command run = app.Add("run", "Run an expression or assignments, and print values");
  auto source = std::make_shared<std::string>();
  run.Value("EXPR", *source, "Statements, with ; or newlines between them; - reads standard input").Required();
  run.Footer(
      "Examples:\n  tensorctl run 'X = rand(2, 3, device=\"cuda:0\")'\n  tensorctl run 'X.sum(axis=0)'\n  tensorctl -o "
      "json run 'X @ X.T'\n"
      "Names are those of the workspace; an assignment makes one. The language: tensorctl tutorial.");
  run.Run([=, &context]() -> absl::Status {
    std::string text = *source;
    if (text == "-") text.assign(std::istreambuf_iterator<char>(std::cin), {});
    TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
    expr::Evaluator evaluator(*engine, OptionsOf(context));
    evaluator.SetOutput([&context](std::string_view shown) { context.Print(shown); });
    return evaluator.Run(text);
  });

  const Command shell = app.Add("shell", "A session: lines from the terminal, or from standard input");
  auto options = std::make_shared<ShellOptions>();
  shell.Flag("--strict", options->strict, "End with an exit code where a line failed");
  shell.Flag("--echo", options->echo, "Print each line before its answer");
  shell.Footer(kTutorial);
  shell.Run([=, &context] { return RunShell(context, *options); });

  const Command tutorial = app.Add("tutorial", "Show the tutorial");
  tutorial.Run([&context] {
    context.Print(kTutorial);
    return absl::OkStatus();
  });
}

}  // namespace tensord::cli
