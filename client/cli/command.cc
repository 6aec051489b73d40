#include "client/cli/command.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "kernels/core/nearest.h"
#include "kernels/core/text.h"

namespace tensord::cli {
namespace {

// The first word that should name a command and does not, and the nearest that do; empty where there is none.
std::string UnknownCommand(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with('-')) {
      // A global option whose value is the next word.
      const CLI::Option* option = app.get_option_no_throw(word);
      if (option != nullptr && option->get_items_expected_min() > 0) ++i;
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

}  // namespace

Option& Option::Required() {
  option_->required();
  return *this;
}
Option& Option::ShowDefault() {
  option_->capture_default_str();
  return *this;
}
Option& Option::Environment(const char* variable) {
  option_->envname(variable);
  return *this;
}
Option& Option::OneOf(const std::vector<std::string>& words, const char* called) {
  option_->check(CLI::IsMember(words))->option_text(called);
  return *this;
}
Option& Option::Between(int least, int most) {
  option_->check(CLI::Range(least, most));
  return *this;
}
Option& Option::Separator(char separator) {
  option_->delimiter(separator);
  return *this;
}
Option& Option::Repeated() {
  option_->take_all();
  return *this;
}
Option& Option::Excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Command Command::Add(const char* name, const char* about) const { return {app_->add_subcommand(name, about), chosen_}; }
Option Command::Value(const char* names, std::string& target, const char* about) const {
  return Option(app_->add_option(names, target, about));
}
Option Command::Value(const char* names, std::vector<std::string>& target, const char* about) const {
  return Option(app_->add_option(names, target, about));
}
Option Command::Value(const char* names, std::optional<uint64_t>& target, const char* about) const {
  // Or else -1 would be taken for 2^64 - 1.
  const auto natural = [](const std::string& text) {
    return std::string(text.starts_with('-') ? "a number >= 0 is wanted, not " + text : "");
  };
  return Option(app_->add_option(names, target, about)->check(CLI::Validator(natural, "")));
}
Option Command::Value(const char* names, int& target, const char* about) const {
  return Option(app_->add_option(names, target, about));
}
Option Command::Flag(const char* names, bool& target, const char* about) const {
  return Option(app_->add_flag(names, target, about));
}
void Command::Footer(std::string_view text) const { app_->footer(std::string(text)); }
void Command::Group() const {
  app_->require_subcommand(1);
  app_->fallthrough();
}
void Command::Run(Action action, std::function<std::string()> check) const {
  app_->callback([chosen = chosen_, action = std::move(action), check = std::move(check)] {
    if (check) {
      if (const std::string missing = check(); !missing.empty()) throw CLI::RequiredError(missing);
    }
    *chosen = action;
  });
}

CommandLine::CommandLine(std::string_view about, const char* name, std::string_view footer)
    : app_(std::make_unique<CLI::App>(std::string(about), name)) {
  app_->footer(std::string(footer));
  root().Group();
}

CommandLine::~CommandLine() = default;

Command CommandLine::root() { return {app_.get(), &chosen_}; }

CommandLine::Parsed CommandLine::Parse(int argc, const char* const* argv) {
  Parsed parsed;
  try {
    app_->parse(argc, argv);
    parsed.action = std::move(chosen_);
  } catch (const CLI::CallForHelp&) {
    parsed.help = app_->help();
  } catch (const CLI::CallForAllHelp&) {
    parsed.help = app_->help("", CLI::AppFormatMode::All);
  } catch (const CLI::ParseError& error) {
    parsed.error = UnknownCommand(*app_, argc, argv);
    if (parsed.error.empty()) parsed.error = error.what();
  }
  return parsed;
}

}  // namespace tensord::cli
