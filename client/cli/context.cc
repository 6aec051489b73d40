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

absl::Status Context::CheckName(std::string_view name) const {
  const std::string_view last = name.substr(name.find('/') + 1);
  if (last.empty()) return Error(Reason::kNameInvalid).Say("name", StrCat("\"", name, "\"")).At("name");
  if (!last.starts_with('_')) return absl::OkStatus();
  return Error(Reason::kFieldInvalid)
      .Say("field", "NAME")
      .With("value", StrCat("\"", name, "\""))
      .With("allowed", "a name that begins with a letter or digit: those with _ in front are a shell's own");
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
