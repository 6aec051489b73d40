// Lines for the shell: from a terminal with editing, history and completion, or from any stream.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tensord::cli {

class LineReader {
 public:
  virtual ~LineReader() = default;
  // A line without its newline; empty at the end of input. `more` asks for a further line of an unfinished statement.
  virtual std::optional<std::string> Next(bool more) = 0;
};

// `complete` gets the text before the cursor and gives all words that could stand in place of its last one.
using Completer = std::function<std::vector<std::string>(std::string_view)>;

// Standard input is a terminal: libedit, with the history in ~/.tensorctl_history. Errors of history are of no
// consequence.
std::unique_ptr<LineReader> MakeTerminalReader(Completer complete);
std::unique_ptr<LineReader> MakeStreamReader(std::istream& in);

// A line as pasted from a Python session: without ">>> " or "... " in front.
std::string_view StripPrompt(std::string_view line);

}  // namespace tensord::cli
