#include "client/cli/context.h"

#include <ostream>

#include "kernels/core/error.h"

namespace tensord::cli {

absl::StatusOr<Engine*> Context::engine() {
  if (engine_ == nullptr) {
    TENSORD_ASSIGN_OR_RETURN(engine_, connect_(server));
  }
  return engine_.get();
}

std::string Context::Qualified(const std::string& name) const {
  if (workspace.empty() || name.find('/') != std::string::npos) return name;
  return StrCat(workspace, "/", name);
}

void Context::Print(std::string_view text) {
  out_ << text;
  out_.flush();
}

void Context::PrintJson(std::string_view json) {
  out_ << json << "\n";
  out_.flush();
}

void Context::Say(std::string_view text) {
  if (!json()) Print(text);
}

}  // namespace tensord::cli
