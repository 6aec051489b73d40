// The shell: statements read line by line and run, errors printed, until the input ends.
#pragma once

#include "absl/status/status.h"
#include "client/cli/context.h"
#include "client/cli/line_reader.h"

namespace tensord::cli {

struct ShellOptions {
  bool strict = false;  // a line that failed makes the exit code
  bool echo = false;    // print each line before what it answers
};

// The status of the first line that failed where strict is set, else OK (or why the daemon cannot be reached at all).
absl::Status RunShell(Context& context, const ShellOptions& options);
// The same over a given reader; `terminal` greets.
absl::Status RunShellOver(Context& context, const ShellOptions& options, LineReader& reader);

}  // namespace tensord::cli
