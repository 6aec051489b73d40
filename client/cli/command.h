// The command line as commands declare it. CLI11, which does the work, is compiled once, in command.cc: every file that
// reads it takes ten seconds longer.
//
//   Command create = app.Add("create", "Make a tensor on a device");
//   auto o = std::make_shared<CreateOptions>();
//   create.Value("NAME", o->name, "Its name").Required();
//   create.Value("--device,-d", o->device, "Where").ShowDefault();
//   create.Run([=, &context] { return Create(context, *o); });
//
// What values are read into must live until the action has run: actions hold it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tensord::cli {

using Action = std::function<absl::Status()>;

// An option or an argument ("NAME": by position; "-d,--device": by name).
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option& Required();
  // Help shows the value it has before.
  Option& ShowDefault();
  Option& Environment(const char* variable);
  Option& OneOf(const std::vector<std::string>& words, const char* called);
  Option& Between(int least, int most);
  // One word may hold several values.
  Option& Separator(char separator);
  // Given again, it adds a value.
  Option& Repeated();
  Option& Excludes(const Option& other);

 private:
  CLI::Option* option_;
};

class Command {
 public:
  Command(CLI::App* app, Action* chosen) : app_(app), chosen_(chosen) {}

  Command Add(const char* name, const char* about) const;
  Option Value(const char* names, std::string& target, const char* about) const;
  Option Value(const char* names, std::vector<std::string>& target, const char* about) const;
  Option Value(const char* names, std::optional<uint64_t>& target, const char* about) const;
  Option Value(const char* names, int& target, const char* about) const;
  Option Flag(const char* names, bool& target, const char* about) const;
  void Footer(std::string_view text) const;
  // It is nothing without one of its own commands.
  void Group() const;
  // What it does. `check`, after everything has been read, says what is wrong with it, or nothing.
  void Run(Action action, std::function<std::string()> check = nullptr) const;

 private:
  CLI::App* app_;
  Action* chosen_;
};

// The whole command line.
class CommandLine {
 public:
  CommandLine(std::string_view about, const char* name, std::string_view footer);
  ~CommandLine();
  Command root();

  struct Parsed {
    Action action;      // what was chosen
    std::string help;   // or help was asked for
    std::string error;  // or what is wrong
  };
  Parsed Parse(int argc, const char* const* argv);

 private:
  const std::unique_ptr<CLI::App> app_;
  Action chosen_;
};

}  // namespace tensord::cli
