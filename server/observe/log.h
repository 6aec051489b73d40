// The daemon's log: one line an event, to stderr, as text or as JSON.
//
//   TENSORD_RETURN_IF_ERROR(ConfigureLog({.format = LogFormat::kJson, .topics = "rpc"}));
//   LogInfo("device", {{"name", "cpu"}, {"model", info.model}});
//   2026-12-01T12:00:00.123Z info device name=cpu model="Xeon 8592"
//
// Start, stop, warnings and errors always show. Topics add more: "rpc" one line for every call, "debug" what a
// developer of the daemon wants to see. Values are quoted where they hold anything but plain characters, so that no
// client can forge a line. Secrets are the caller's to keep out: session tokens never go into a field; LogCall takes
// the public id.
//
// Thread safe. Lines of different threads never mix.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tensord {

enum class LogFormat { kText, kJson };

struct LogOptions {
  LogFormat format = LogFormat::kText;
  std::string topics;  // comma separated: "rpc", "debug"; empty: neither
};

// FIELD_INVALID for a topic that is none.
absl::Status CheckLogTopics(std::string_view topics);
// Takes effect at once. Error: as CheckLogTopics; nothing changes then.
absl::Status ConfigureLog(const LogOptions& options);
bool LogsCalls();
bool LogsDebug();

struct LogField {
  std::string_view key;
  std::string value;
};
using LogFields = std::initializer_list<LogField>;

void LogDebug(std::string_view event, LogFields fields = {});
void LogInfo(std::string_view event, LogFields fields = {});
void LogWarning(std::string_view event, LogFields fields = {});
void LogError(std::string_view event, LogFields fields = {});

// A call that has ended.
struct CallRecord {
  std::string_view method;  // "Tensors/GetTensor"
  std::string session;      // public id, or empty
  std::string peer;
  absl::Status status;  // with reason, if it is a refusal
  absl::Duration duration;
};

// Shows the call if the topic "rpc" is on; a call that ended by the daemon's own fault (INTERNAL, UNKNOWN) shows as a
// warning always.
void LogCall(const CallRecord& call);

// What follows time and level in a line: `event key=value …`, or `"event":"…","key":"value"…`.
std::string FormatEvent(LogFormat format, std::string_view event, LogFields fields);

}  // namespace tensord
