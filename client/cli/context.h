// What every command works with: the daemon, the workspace, and how to answer.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/engine/engine.h"

namespace tensord::cli {

class Context {
 public:
  // `connect` makes the engine when the first call needs it; tests give one of their own.
  using Connect = std::function<absl::StatusOr<std::unique_ptr<Engine>>(const std::string& server)>;
  Context(Connect connect, std::ostream& out, std::ostream& err) : connect_(std::move(connect)), out_(out), err_(err) {}

  // Set from the global options before a command runs.
  std::string server;
  std::string workspace;
  std::string output = "table";

  bool json() const { return output == "json"; }
  absl::StatusOr<Engine*> engine();
  // Without a session: names and inline values only.
  Caller caller() const { return {}; }
  // The name in the workspace chosen with --workspace.
  std::string Qualified(const std::string& name) const;
  // Refuses what no command makes or moves: "" (NAME_INVALID), and names that begin with _, which expressions keep for
  // the session (FIELD_INVALID).
  absl::Status CheckName(std::string_view name) const;

  // To standard output; JSON documents get their newline here.
  void Print(std::string_view text);
  void PrintJson(std::string_view json);
  // In table mode only: what was done.
  void Say(std::string_view text);
  std::ostream& out() { return out_; }
  std::ostream& err() { return err_; }

 private:
  Connect connect_;
  std::unique_ptr<Engine> engine_;
  std::ostream& out_;
  std::ostream& err_;
};

// Each adds its commands; a command's callback returns its status through `run`.
using Run = std::function<void(std::function<absl::Status()>)>;

}  // namespace tensord::cli
