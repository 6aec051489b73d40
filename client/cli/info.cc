// tensorctl ping, version, explain, ops, sessions.
#include <algorithm>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "client/cli/commands.h"
#include "client/cli/execute.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cpp/expr/problem.h"
#include "kernels/core/error.h"
#include "kernels/core/nearest.h"

namespace tensord::cli {
namespace {

absl::Status Ping(Context& context) {
  TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
  const absl::Time start = absl::Now();
  TENSORD_ASSIGN_OR_RETURN(const ListDevicesResponse response, engine->ListDevices(context.caller(), {"cpu"}, false));
  const double milliseconds = absl::ToDoubleMilliseconds(absl::Now() - start);
  if (context.json()) {
    JsonObject json;
    json.Text("hostname", response.host.hostname).Text("daemon_version", response.host.daemon_version);
    context.PrintJson(json.Number("milliseconds", milliseconds).Done());
  } else {
    context.Print(StrCat("tensord ", response.host.daemon_version, " on ", response.host.hostname, " answers in ",
                         static_cast<int64_t>(milliseconds * 1000), " us\n"));
  }
  return absl::OkStatus();
}

absl::Status Version(Context& context) {
  absl::StatusOr<Engine*> engine = context.engine();
  absl::StatusOr<ListDevicesResponse> response =
      engine.ok() ? (*engine)->ListDevices(context.caller(), {"cpu"}, false) : engine.status();
  const std::string daemon = response.ok() ? response->host.daemon_version : "";
  if (context.json()) {
    JsonObject json;
    json.Text("client", ClientVersion());
    json.MaybeText("daemon", response.ok() ? std::optional(daemon) : std::nullopt);
    context.PrintJson(json.Done());
    return absl::OkStatus();
  }
  context.Print(StrCat("tensorctl ", ClientVersion(), "\n"));
  context.Print(response.ok() ? StrCat("tensord ", daemon, "\n")
                              : StrCat("tensord: ", std::string(response.status().message()), "\n"));
  return absl::OkStatus();
}

std::string RowJson(std::string_view name, std::string_view code, std::string_view message, std::string_view advice,
                    bool retry) {
  JsonObject json;
  json.Text("reason", name).Text("code", code).Text("message", message).Text("advice", advice);
  return json.Bool("retry", retry).Done();
}

absl::Status Explain(Context& context, const std::string& given) {
  std::string name = given;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c == '-' ? '_' : std::toupper(c); });
  std::string code, message, advice;
  bool retry = false;
  if (name == expr::kExpressionInvalid) {
    code = "INVALID_ARGUMENT";
    message = "line {line}, column {column}: {problem}";
    advice = expr::kExpressionAdvice;
  } else if (const std::optional<Reason> reason = ParseReason(name)) {
    const ErrorRow& row = RowOf(*reason);
    code = absl::StatusCodeToString(row.code);
    message = row.message;
    advice = row.advice;
    retry = row.retry;
  } else {
    std::vector<std::string_view> known{expr::kExpressionInvalid};
    for (const ErrorRow& row : ErrorRows()) known.push_back(row.name);
    Error error(Reason::kNameUnknown);
    error = std::move(error).With("name", given).With("kind", "error reason");
    if (const std::string nearest = NearestNames(name, known); !nearest.empty())
      error = std::move(error).With("nearest", nearest);
    return error;
  }
  if (context.json()) {
    context.PrintJson(RowJson(name, code, message, advice, retry));
  } else {
    context.Print(StrCat(name, "\n  code: ", code, "\n  message: ", message, "\n  next: ", advice,
                         retry ? "\n  the same call may succeed later" : "", "\n"));
  }
  return absl::OkStatus();
}

absl::Status ExplainAll(Context& context) {
  std::vector<std::vector<std::string>> rows{{"REASON", "CODE", "NEXT"}};
  std::vector<std::string> items;
  for (const ErrorRow& row : ErrorRows()) {
    rows.push_back({std::string(row.name), absl::StatusCodeToString(row.code), std::string(row.advice)});
    items.push_back(RowJson(row.name, absl::StatusCodeToString(row.code), row.message, row.advice, row.retry));
  }
  if (context.json()) {
    context.PrintJson(JsonObject().Raw("reasons", JsonList(items)).Done());
  } else {
    context.Print(Table(rows));
  }
  return absl::OkStatus();
}

std::string DtypesText(const OpSupport& support) {
  std::vector<std::string_view> names;
  for (const Dtype dtype : support.dtypes) names.push_back(DtypeName(dtype));
  return StrJoin(names, " ");
}

absl::Status Ops(Context& context, const std::string& prefix) {
  TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
  TENSORD_ASSIGN_OR_RETURN(const std::vector<OpDescription> ops, engine->ListOps(context.caller(), prefix));
  if (context.json()) {
    std::vector<std::string> items;
    for (const OpDescription& op : ops) {
      const OpRow& row = RowOf(op.op);
      JsonObject support;
      for (const OpSupport& s : op.support) {
        std::vector<std::string> names;
        for (const Dtype dtype : s.dtypes) names.emplace_back(DtypeName(dtype));
        support.Raw(DeviceKindName(s.kind), JsonTexts(names));
      }
      JsonObject json;
      json.Text("name", row.name)
          .Text("family", FamilyName(row.family))
          .Text("operands", row.operands)
          .Text("fields", row.fields);
      items.push_back(json.Text("summary", row.summary).Raw("dtypes", support.Done()).Done());
    }
    context.PrintJson(JsonObject().Raw("ops", JsonList(items)).Done());
    return absl::OkStatus();
  }
  if (ops.size() == 1) {
    const OpRow& row = RowOf(ops[0].op);
    context.Print(StrCat(row.name, "(", row.operands, row.fields.empty() || row.operands.empty() ? "" : ", ",
                         row.fields, ")\n  ", row.summary, "\n"));
    for (const OpSupport& s : ops[0].support)
      context.Print(StrCat("  ", DeviceKindName(s.kind), ": ", DtypesText(s), "\n"));
    return absl::OkStatus();
  }
  std::vector<std::vector<std::string>> rows{{"OP", "FAMILY", "OPERANDS", "FIELDS", "MEANING"}};
  for (const OpDescription& op : ops) {
    const OpRow& row = RowOf(op.op);
    const auto or_dash = [](std::string_view text) { return text.empty() ? std::string("-") : std::string(text); };
    rows.push_back({std::string(row.name), std::string(FamilyName(row.family)), or_dash(row.operands),
                    or_dash(row.fields), std::string(row.summary)});
  }
  context.Print(Table(rows));
  return absl::OkStatus();
}

absl::Status Sessions(Context& context) {
  TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
  std::vector<SessionInfo> all;
  PageRequest page;
  do {
    TENSORD_ASSIGN_OR_RETURN(ListSessionsResponse response, engine->ListSessions(context.caller(), page));
    for (SessionInfo& info : response.sessions) all.push_back(std::move(info));
    page.page_token = response.next_page_token;
  } while (!page.page_token.empty());
  std::vector<std::vector<std::string>> rows{
      {"SESSION", "PRINCIPAL", "CLIENT", "PEER", "WORKSPACE", "OPENED", "HANDLES", "BYTES", "QUEUED", "DONE"}};
  std::vector<std::string> items;
  for (const SessionInfo& s : all) {
    std::vector<std::string> bytes;
    JsonObject held;
    for (const auto& [device, n] : s.bytes) {
      bytes.push_back(StrCat(device, " ", BytesText(n)));
      held.Number(device, n);
    }
    rows.push_back({s.session, s.principal, s.client, s.peer, s.workspace, AgeText(s.open_time, absl::Now()),
                    std::to_string(s.handles), bytes.empty() ? "-" : StrJoin(bytes, ", "),
                    std::to_string(s.queued_instructions), std::to_string(s.done_instructions)});
    JsonObject json;
    json.Text("session", s.session)
        .Text("principal", s.principal)
        .Text("client", s.client)
        .Text("peer", s.peer)
        .Text("workspace", s.workspace);
    json.Text("open_time", TimeText(s.open_time)).Number("handles", s.handles).Raw("bytes", held.Done());
    json.Number("queued_instructions", s.queued_instructions).Number("done_instructions", s.done_instructions);
    items.push_back(json.Done());
  }
  if (context.json()) {
    context.PrintJson(JsonObject().Raw("sessions", JsonList(items)).Done());
  } else {
    context.Print(Table(rows));
  }
  return absl::OkStatus();
}

}  // namespace

void AddInfoCommands(const Command& app, Context& context) {
  const Command ping = app.Add("ping", "Whether the daemon answers, and how fast");
  ping.Run([&context] { return Ping(context); });

  const Command version = app.Add("version", "Versions of client and daemon");
  version.Run([&context] { return Version(context); });

  const Command explain = app.Add("explain", "What an error reason means, and what to do");
  auto reason = std::make_shared<std::string>();
  explain.Value("REASON", *reason, "As errors show it: DEVICE_MISMATCH; all without it");
  explain.Run([=, &context] { return reason->empty() ? ExplainAll(context) : Explain(context, *reason); });

  const Command ops = app.Add("ops", "What can be computed");
  auto prefix = std::make_shared<std::string>();
  ops.Value("PREFIX", *prefix, "Only ops that begin so");
  ops.Run([=, &context] { return Ops(context, *prefix); });

  const Command sessions = app.Add("sessions", "Who is connected, and what they hold");
  sessions.Run([&context] { return Sessions(context); });
}

}  // namespace tensord::cli
