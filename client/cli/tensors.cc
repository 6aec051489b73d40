// tensorctl create, cat, ls, mv, cp, rm.
#include <algorithm>
#include <charconv>
#include <memory>
#include <ostream>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/execute.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/shape_text.h"
#include "client/cpp/expr/evaluator.h"
#include "client/cpp/expr/render.h"
#include "kernels/core/error.h"

namespace tensord::cli {
namespace {

std::string_view StateText(TensorState state) {
  switch (state) {
    case TensorState::kPending:
      return "pending";
    case TensorState::kReady:
      return "ready";
    case TensorState::kOffloaded:
      return "offloaded";
    case TensorState::kFailed:
      return "failed";
  }
  return "-";
}

// The fill of `create`: a number, or a name of an op that needs nothing but the spec.
struct Fill {
  Op op = Op::kZeros;
  std::optional<Scalar> value;
};
absl::StatusOr<Fill> ParseFill(const std::string& text) {
  for (const auto& [name, op] : {std::pair<std::string_view, Op>{"zeros", Op::kZeros},
                                 {"ones", Op::kOnes},
                                 {"rand", Op::kRand},
                                 {"randn", Op::kRandn},
                                 {"eye", Op::kEye}}) {
    if (text == name) return Fill{op, std::nullopt};
  }
  Scalar scalar;
  const char* end = text.data() + text.size();
  int64_t integer = 0;
  uint64_t large = 0;
  double real = 0;
  if (text == "true" || text == "True") {
    scalar.value = true;
  } else if (text == "false" || text == "False") {
    scalar.value = false;
  } else if (std::from_chars(text.data(), end, integer).ptr == end &&
             std::from_chars(text.data(), end, integer).ec == std::errc()) {
    scalar.value = integer;
  } else if (std::from_chars(text.data(), end, large).ptr == end &&
             std::from_chars(text.data(), end, large).ec == std::errc()) {
    scalar.value = large;
  } else if (std::from_chars(text.data(), end, real).ptr == end &&
             std::from_chars(text.data(), end, real).ec == std::errc() && !text.empty()) {
    scalar.value = real;
  } else {
    return Error(Reason::kFieldInvalid)
        .Say("field", "--fill")
        .With("value", text)
        .With("allowed", "a number, true, false, zeros, ones, rand, randn, eye");
  }
  return Fill{Op::kFull, scalar};
}

struct CreateOptions {
  std::string name, shape, dtype = "float32", device = "cpu", fill = "zeros";
  std::optional<uint64_t> seed;
};

absl::Status Create(Context& context, const CreateOptions& options) {
  TENSORD_RETURN_IF_ERROR(context.CheckName(options.name));
  CreateAttributes create;
  TENSORD_ASSIGN_OR_RETURN(create.spec.type.shape, ParseShape(options.shape));
  TENSORD_ASSIGN_OR_RETURN(create.spec.type.dtype, ParseDtypeOption(options.dtype));
  TENSORD_RETURN_IF_ERROR(CheckedBytes(create.spec.type.dtype, create.spec.type.shape).status());
  create.spec.device = options.device;
  create.seed = options.seed;
  TENSORD_ASSIGN_OR_RETURN(const Fill fill, ParseFill(options.fill));
  Program program;
  Instruction& instruction = program.instructions.emplace_back();
  instruction.op = fill.op;
  instruction.output = 1;
  if (fill.value) {
    instruction.inputs = {0};
    instruction.scalars = {*fill.value};
  }
  instruction.attributes = std::move(create);
  program.outputs.emplace_back().id = 1;
  TENSORD_ASSIGN_OR_RETURN(const TensorInfo info, ExecuteAs(context, std::move(program), {}, options.name));
  if (context.json()) {
    context.PrintJson(TensorInfoJson(info));
  } else {
    context.Print(StrCat(options.name, ": ", info.spec.ToString(), "\n"));
  }
  return absl::OkStatus();
}

// mv and cp: `to` another device, under a name.
absl::Status Move(Context& context, const std::string& from, const std::string& to, const std::string& device,
                  bool copy) {
  TENSORD_RETURN_IF_ERROR(context.CheckName(to));
  Program program;
  program.inputs.emplace_back().id = 1;
  Instruction& instruction = program.instructions.emplace_back();
  instruction.op = Op::kTo;
  instruction.inputs = {1};
  instruction.output = 2;
  instruction.attributes = ConvertAttributes{Dtype::kNone, device, copy};
  program.outputs.emplace_back().id = 2;
  TENSORD_ASSIGN_OR_RETURN(const TensorInfo info, ExecuteAs(context, std::move(program), {from}, to));
  if (context.json()) {
    context.PrintJson(TensorInfoJson(info));
  } else {
    context.Print(StrCat(to, ": ", info.spec.ToString(), "\n"));
  }
  return absl::OkStatus();
}

absl::Status MoveAny(Context& context, const std::string& name, const std::string& device) {
  const absl::Status status = Move(context, name, name, device, false);
  const Reason reason = ReasonOf(status);
  if (reason != Reason::kNameUnknown && reason != Reason::kKindMismatch) return status;
  // Not a tensor: perhaps a model.
  TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
  const ModelRef ref{0, context.Qualified(name)};
  if (!engine->GetModel(context.caller(), ref, false).ok()) return status;
  TENSORD_ASSIGN_OR_RETURN(const ModelInfo info, UpdateModel(context, {ref, {device}, {}}));
  if (context.json()) {
    context.PrintJson(ModelInfoJson(info));
  } else {
    context.Print(StrCat(name, ": model on ", device, "\n"));
  }
  return absl::OkStatus();
}

absl::Status Copy(Context& context, const std::string& from, const std::string& to, std::string device) {
  TENSORD_RETURN_IF_ERROR(context.CheckName(to));
  if (device.empty()) {
    TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
    TENSORD_ASSIGN_OR_RETURN(const TensorInfo info,
                             engine->GetTensor(context.caller(), TensorRef::Name(context.Qualified(from))));
    device = info.spec.device.ToString();
  }
  return Move(context, from, to, device, true);
}

absl::Status List(Context& context, const std::string& prefix, bool details) {
  TENSORD_ASSIGN_OR_RETURN(const std::vector<TensorInfo> tensors, ListAllTensors(context, prefix));
  TENSORD_ASSIGN_OR_RETURN(const std::vector<ModelInfo> models, ListAllModels(context, prefix));
  if (context.json()) {
    std::vector<std::string> t, m;
    for (const TensorInfo& info : tensors) t.push_back(TensorInfoJson(info));
    for (const ModelInfo& info : models) m.push_back(ModelInfoJson(info));
    context.PrintJson(JsonObject().Raw("tensors", JsonList(t)).Raw("models", JsonList(m)).Done());
    return absl::OkStatus();
  }
  std::vector<std::vector<std::string>> rows;
  const absl::Time now = absl::Now();
  if (details) rows.push_back({"NAME", "KIND", "DTYPE", "SHAPE", "DEVICE", "BYTES", "STATE", "CREATED"});
  for (const TensorInfo& info : tensors) {
    for (const std::string& name : info.names) {
      if (!details) {
        rows.push_back({ShortName(context, name)});
        continue;
      }
      rows.push_back({ShortName(context, name), "tensor", std::string(DtypeName(info.spec.type.dtype)),
                      ShapeText(info.spec.type.shape), info.spec.device.ToString(), BytesText(info.bytes),
                      std::string(StateText(info.state)), AgeText(info.create_time, now)});
    }
  }
  for (const ModelInfo& info : models) {
    std::vector<std::string> devices;
    for (const DeviceId& device : info.devices) devices.push_back(device.ToString());
    for (const std::string& name : info.names) {
      if (!details) {
        rows.push_back({ShortName(context, name)});
        continue;
      }
      rows.push_back({ShortName(context, name), "model", "-", "-", StrJoin(devices, ","),
                      BytesText(info.parameter_bytes), "ready", AgeText(info.create_time, now)});
    }
  }
  std::sort(rows.begin() + (details ? 1 : 0), rows.end());
  context.Print(Table(rows));
  return absl::OkStatus();
}

absl::Status RemoveOne(Context& context, Engine& engine, const std::string& name) {
  DeleteTensorsRequest request;
  request.tensors.push_back(TensorRef::Name(context.Qualified(name)));
  const absl::Status status = engine.DeleteTensors(context.caller(), request).status();
  const Reason reason = ReasonOf(status);
  if (reason != Reason::kNameUnknown && reason != Reason::kKindMismatch) return status;
  const absl::Status model = engine.DeleteModel(context.caller(), ModelRef{0, context.Qualified(name)}).status();
  return model.ok() ? model : status;
}

absl::Status Remove(Context& context, const std::vector<std::string>& names, bool all, bool force) {
  TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
  std::vector<std::string> list = names;
  if (all) {
    TENSORD_ASSIGN_OR_RETURN(const std::vector<TensorInfo> tensors, ListAllTensors(context, ""));
    TENSORD_ASSIGN_OR_RETURN(const std::vector<ModelInfo> models, ListAllModels(context, ""));
    for (const TensorInfo& info : tensors) list.insert(list.end(), info.names.begin(), info.names.end());
    for (const ModelInfo& info : models) list.insert(list.end(), info.names.begin(), info.names.end());
  }
  uint64_t removed = 0;
  absl::Status first;
  for (const std::string& name : list) {
    absl::Status status = RemoveOne(context, *engine, name);
    // With --all somebody else may have been faster.
    if ((all || force) && ReasonOf(status) == Reason::kNameUnknown) continue;
    if (status.ok()) ++removed;
    if (first.ok()) first = std::move(status);
  }
  if (context.json()) {
    if (first.ok()) context.PrintJson(JsonObject().Number("removed", removed).Done());
  } else if (first.ok() || removed > 0) {
    context.Print(StrCat("removed ", removed, removed == 1 ? " name\n" : " names\n"));
  }
  return first;
}

struct CatOptions {
  std::vector<std::string> names;
  int precision = 4;
  bool full = false;
};

absl::Status CatOne(Context& context, expr::Env& env, const std::string& name, bool head) {
  Engine& engine = env.graph->session().engine();
  const TensorRef ref = TensorRef::Name(context.Qualified(name));
  TENSORD_ASSIGN_OR_RETURN(TensorInfo info, engine.GetTensor(env.graph->session().caller(), ref));
  const TensorSpec spec = info.spec;
  const expr::Value value(expr::ExistingTensor(std::move(info), ref));
  TENSORD_ASSIGN_OR_RETURN(const std::string text, context.json() ? RenderJson(env, value) : RenderText(env, value));
  if (head && !context.json()) context.Print(StrCat(name, ":\n"));
  context.Print(text + "\n");
  if (!context.json() && expr::IsSummarized(spec.type.shape, env.print)) {
    context.err() << "(the edges of " << spec.type.ToString() << "; --full shows everything, -o json all digits)\n";
  }
  return absl::OkStatus();
}

absl::Status Cat(Context& context, const CatOptions& options) {
  TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
  OpenSessionRequest request;
  request.client = ClientName();
  TENSORD_ASSIGN_OR_RETURN(const std::shared_ptr<expr::ClientSession> session,
                           expr::ClientSession::Open(*engine, request));
  expr::Graph graph(session);
  expr::Env env;
  env.graph = &graph;
  env.json = context.json();
  env.print.precision = options.precision;
  if (options.full) env.print.threshold = INT64_MAX;
  for (const std::string& name : options.names)
    TENSORD_RETURN_IF_ERROR(CatOne(context, env, name, options.names.size() > 1));
  return absl::OkStatus();
}

}  // namespace

void AddTensorCommands(const Command& app, Context& context) {
  const Command create = app.Add("create", "Make a tensor on a device");
  auto c = std::make_shared<CreateOptions>();
  create.Value("NAME", c->name, "Its name").Required();
  create.Value("--shape", c->shape, "Sizes: 2,3; () for a single number").Required();
  create.Value("--dtype", c->dtype, "Element type").ShowDefault();
  create.Value("--device,-d", c->device, "Where: cpu, cuda:0").ShowDefault();
  create.Value("--fill", c->fill, "A number, zeros, ones, rand, randn or eye").ShowDefault();
  create.Value("--seed", c->seed, "Of rand and randn");
  create.Footer(
      "Examples:\n  tensorctl create X --shape 2,3\n  tensorctl create X --shape 1024,1024 --device cuda:0 --fill rand "
      "--seed 7\n  tensorctl create mask --shape 8 --dtype bool --fill true");
  create.Run([=, &context] { return Create(context, *c); });

  const Command cat = app.Add("cat", "Print tensors as PyTorch prints them");
  auto a = std::make_shared<CatOptions>();
  cat.Value("NAME", a->names, "Names").Required();
  cat.Value("--precision", a->precision, "Digits after the point").Between(0, 17).ShowDefault();
  cat.Flag("--full", a->full, "All elements of large tensors, too");
  cat.Footer(
      "Examples:\n  tensorctl cat X\n  tensorctl cat --precision 9 X\n  tensorctl -o json cat X      every digit");
  cat.Run([=, &context] { return Cat(context, *a); });

  const Command ls = app.Add("ls", "List the names of the workspace");
  auto prefix = std::make_shared<std::string>();
  auto details = std::make_shared<bool>(false);
  ls.Value("PREFIX", *prefix, "Only names that begin so");
  ls.Flag("-l,--long", *details, "Kind, dtype, shape, device, size, state");
  ls.Run([=, &context] { return List(context, *prefix, *details); });

  const Command mv = app.Add("mv", "Move a tensor or model to another device");
  auto name = std::make_shared<std::string>();
  auto device = std::make_shared<std::string>();
  mv.Value("NAME", *name, "Its name").Required();
  mv.Value("DEVICE", *device, "Where to: cpu, cuda:0").Required();
  mv.Footer("Example:\n  tensorctl mv X cuda:0\nWhere it is there already, nothing is copied.");
  mv.Run([=, &context] { return MoveAny(context, *name, *device); });

  const Command cp = app.Add("cp", "Copy a tensor to a new name, and perhaps another device");
  auto from = std::make_shared<std::string>();
  auto to = std::make_shared<std::string>();
  auto target = std::make_shared<std::string>();
  cp.Value("NAME", *from, "What to copy").Required();
  cp.Value("NEW", *to, "The copy's name").Required();
  cp.Value("--device,-d", *target, "Where to; where it is without this");
  cp.Run([=, &context] { return Copy(context, *from, *to, *target); });

  const Command rm = app.Add("rm", "Remove names; memory goes when its last holder goes");
  auto names = std::make_shared<std::vector<std::string>>();
  auto all = std::make_shared<bool>(false);
  auto force = std::make_shared<bool>(false);
  Option which = rm.Value("NAME", *names, "Names of tensors or models");
  const Option everything = rm.Flag("--all", *all, "Everything in the workspace");
  rm.Flag("-f,--force", *force, "A name that is not there is no error");
  which.Excludes(everything);
  rm.Run([=, &context] { return Remove(context, *names, *all, *force); },
         [=] { return names->empty() && !*all ? "NAME or --all" : ""; });
}

}  // namespace tensord::cli
