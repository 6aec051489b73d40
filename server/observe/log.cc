#include "server/observe/log.h"

#include <atomic>
#include <cctype>
#include <memory>
#include <nlohmann/json.hpp>

#include "kernels/core/error.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace tensord {
namespace {

std::atomic<LogFormat> format_now = LogFormat::kText;
std::atomic<bool> calls_now = false;

// Every character outside printable ASCII is escaped; bytes that are no UTF-8 become U+FFFD.
std::string Quote(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

bool IsPlain(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (!std::isgraph(static_cast<unsigned char>(c)) || c == '"' || c == '=' || c == '\\') return false;
  }
  return true;
}

void SetPattern(spdlog::logger& logger, LogFormat format) {
  const char* pattern = format == LogFormat::kJson ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})"
                                                   : "%Y-%m-%dT%H:%M:%S.%eZ %l %v";
  logger.set_pattern(pattern, spdlog::pattern_time_type::utc);
}

spdlog::logger& Logger() {
  // Never destroyed: threads of libraries may log while the process ends.
  static spdlog::logger* const logger = [] {
    auto* made = new spdlog::logger("tensord", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    SetPattern(*made, LogFormat::kText);
    made->set_level(spdlog::level::info);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *logger;
}

void Write(spdlog::level::level_enum level, std::string_view event, LogFields fields) {
  spdlog::logger& logger = Logger();
  if (!logger.should_log(level)) return;
  logger.log(level, spdlog::string_view_t(FormatEvent(format_now, event, fields)));
}

bool IsOurFault(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown;
}

struct Topics {
  bool calls = false;
  bool debug = false;
};

absl::StatusOr<Topics> ReadTopics(std::string_view text) {
  Topics topics;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view topic = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    if (topic == "rpc") {
      topics.calls = true;
    } else if (topic == "debug") {
      topics.debug = true;
    } else if (!topic.empty() && topic != "info") {
      return Error(Reason::kFieldInvalid)
          .Say("field", "log")
          .With("value", topic)
          .With("allowed", "info, rpc, debug, separated by commas")
          .At("log");
    }
  }
  return topics;
}

}  // namespace

absl::Status CheckLogTopics(std::string_view topics) { return ReadTopics(topics).status(); }

absl::Status ConfigureLog(const LogOptions& options) {
  TENSORD_ASSIGN_OR_RETURN(const Topics topics, ReadTopics(options.topics));
  format_now = options.format;
  calls_now = topics.calls;
  SetPattern(Logger(), options.format);
  Logger().set_level(topics.debug ? spdlog::level::debug : spdlog::level::info);
  return absl::OkStatus();
}

bool LogsCalls() { return calls_now; }
bool LogsDebug() { return Logger().should_log(spdlog::level::debug); }

void LogDebug(std::string_view event, LogFields fields) { Write(spdlog::level::debug, event, fields); }
void LogInfo(std::string_view event, LogFields fields) { Write(spdlog::level::info, event, fields); }
void LogWarning(std::string_view event, LogFields fields) { Write(spdlog::level::warn, event, fields); }
void LogError(std::string_view event, LogFields fields) { Write(spdlog::level::err, event, fields); }

void LogCall(const CallRecord& call) {
  const bool fault = IsOurFault(call.status.code());
  if (!fault && !LogsCalls()) return;
  const std::string none(1, '-');
  std::string reason = call.status.ok() ? none : DetailsOf(call.status).reason_name;
  if (reason.empty()) reason = none;
  Write(fault ? spdlog::level::warn : spdlog::level::info, "call",
        {{"method", std::string(call.method)},
         {"session", call.session.empty() ? none : call.session},
         {"peer", call.peer},
         {"code", absl::StatusCodeToString(call.status.code())},
         {"reason", std::move(reason)},
         {"ms", StrCat(absl::ToDoubleMilliseconds(call.duration))},
         {"message", std::string(call.status.message())}});
}

std::string FormatEvent(LogFormat format, std::string_view event, LogFields fields) {
  std::string line;
  if (format == LogFormat::kJson) {
    line = StrCat("\"event\":", Quote(event));
    for (const LogField& field : fields) line += StrCat(",", Quote(field.key), ":", Quote(field.value));
    return line;
  }
  line = IsPlain(event) ? std::string(event) : Quote(event);
  for (const LogField& field : fields) {
    // An empty message would only be noise in a line for people; every other field keeps its place.
    if (field.value.empty()) continue;
    line += StrCat(" ", field.key, "=", IsPlain(field.value) ? field.value : Quote(field.value));
  }
  return line;
}

}  // namespace tensord
