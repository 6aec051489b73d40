// tensorctl model …
#include <memory>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/execute.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cpp/expr/evaluator.h"
#include "client/cpp/expr/layers_text.h"
#include "kernels/core/error.h"
#include "server/engine/blocking.h"

namespace tensord::cli {
namespace {

std::string DevicesText(const ModelInfo& info) {
  std::vector<std::string> devices;
  for (const DeviceId& device : info.devices) devices.push_back(device.ToString());
  return StrJoin(devices, ",");
}

std::string ValueText(const ProgramValue& value) {
  std::string text =
      StrCat(value.name.empty() ? "-" : value.name, ": ", value.dtype == Dtype::kNone ? "any" : DtypeName(value.dtype));
  if (!value.shape) return text + " of any shape";
  std::vector<std::string> sizes;
  for (const int64_t size : *value.shape) {
    if (size >= 0) {
      sizes.push_back(std::to_string(size));
    } else if (size == ProgramValue::kAnySize || static_cast<size_t>(-1 - size) >= value.symbols.size()) {
      sizes.emplace_back("*");
    } else {
      sizes.push_back(value.symbols[static_cast<size_t>(-1 - size)]);
    }
  }
  return StrCat(text, "[", StrJoin(sizes, ","), "]");
}

void PrintModel(Context& context, const ModelInfo& info) {
  if (context.json()) {
    context.PrintJson(ModelInfoJson(info));
    return;
  }
  context.Print(
      StrCat("names: ", StrJoin(info.names, ", "), "\nsource: ", info.source, "\ndevices: ", DevicesText(info), "\n"));
  for (const ProgramValue& input : info.inputs) context.Print(StrCat("input ", ValueText(input), "\n"));
  for (const ProgramValue& output : info.outputs) context.Print(StrCat("output ", ValueText(output), "\n"));
  std::vector<std::vector<std::string>> rows{{"PARAMETER", "DTYPE", "SHAPE", "DEVICE", "BYTES"}};
  for (const ParameterInfo& p : info.parameters) {
    rows.push_back({p.path, std::string(DtypeName(p.spec.type.dtype)), ShapeText(p.spec.type.shape),
                    p.spec.device.ToString(), BytesText(static_cast<uint64_t>(p.spec.type.bytes()))});
  }
  context.Print(Table(rows));
}

struct CreateOptions {
  std::string name, layers;
  std::vector<std::string> devices, parameters;
  std::optional<uint64_t> seed;
};

absl::Status Create(Context& context, const CreateOptions& options) {
  TENSORD_RETURN_IF_ERROR(context.CheckName(options.name));
  CreateModelRequest request;
  request.name = context.Qualified(options.name);
  request.replace = true;
  TENSORD_ASSIGN_OR_RETURN(request.layers, expr::ParseLayers(options.layers));
  request.devices = options.devices;
  request.seed = options.seed;
  for (const std::string& parameter : options.parameters) {
    const size_t equals = parameter.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error(Reason::kFieldInvalid)
          .Say("field", "--param")
          .With("value", parameter)
          .With("allowed", "PATH=NAME, as 0.weight=W");
    }
    request.parameters.emplace(parameter.substr(0, equals),
                               TensorRef::Name(context.Qualified(parameter.substr(equals + 1))));
  }
  TENSORD_ASSIGN_OR_RETURN(const ModelInfo info, CreateModel(context, std::move(request)));
  PrintModel(context, info);
  return absl::OkStatus();
}

absl::Status Forward(Context& context, const std::string& model, const std::vector<std::string>& inputs,
                     const std::string& output) {
  if (!output.empty()) TENSORD_RETURN_IF_ERROR(context.CheckName(output));
  ExecuteRequest request;
  request.callee = ModelRef{0, context.Qualified(model)};
  for (const std::string& input : inputs) {
    const size_t equals = input.find('=');
    const std::string formal = equals == std::string::npos ? "" : input.substr(0, equals);
    request.inputs.push_back(Argument{
        formal, TensorRef::Name(context.Qualified(equals == std::string::npos ? input : input.substr(equals + 1))),
        false});
  }
  ResultRequest& result = request.outputs.emplace_back();
  if (output.empty()) {
    result.value = ValueFormat::kRaw;
  } else {
    result.publish = context.Qualified(output);
    result.replace = true;
  }
  TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
  TENSORD_ASSIGN_OR_RETURN(const ExecuteResponse response, Await<ExecuteResponse>([&](auto done) {
                             engine->Execute(context.caller(), std::move(request), std::move(done));
                           }));
  for (const ResultValue& value : response.outputs) {
    const TensorSpec& spec = value.tensor.spec;
    if (!value.data) {
      if (context.json()) {
        context.PrintJson(TensorInfoJson(value.tensor));
      } else {
        context.Print(StrCat(output, ": ", spec.ToString(), "\n"));
      }
      continue;
    }
    expr::PrintOptions all;
    all.threshold = INT64_MAX;
    context.Print((context.json() ? expr::TensorJson(spec, *value.data) : expr::TensorText(spec, *value.data, all)) +
                  "\n");
  }
  return absl::OkStatus();
}

absl::Status List(Context& context) {
  TENSORD_ASSIGN_OR_RETURN(const std::vector<ModelInfo> models, ListAllModels(context, ""));
  if (context.json()) {
    std::vector<std::string> items;
    for (const ModelInfo& info : models) items.push_back(ModelInfoJson(info));
    context.PrintJson(JsonObject().Raw("models", JsonList(items)).Done());
    return absl::OkStatus();
  }
  std::vector<std::vector<std::string>> rows{{"NAME", "SOURCE", "DEVICES", "BYTES", "RUNS", "FAILED", "CREATED"}};
  for (const ModelInfo& info : models) {
    for (const std::string& name : info.names) {
      rows.push_back({ShortName(context, name), info.source, DevicesText(info), BytesText(info.parameter_bytes),
                      std::to_string(info.statistics.runs), std::to_string(info.statistics.failed),
                      AgeText(info.create_time, absl::Now())});
    }
  }
  context.Print(Table(rows));
  return absl::OkStatus();
}

absl::Status Remove(Context& context, const std::vector<std::string>& names) {
  TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
  for (const std::string& name : names) {
    TENSORD_RETURN_IF_ERROR(engine->DeleteModel(context.caller(), ModelRef{0, context.Qualified(name)}).status());
  }
  if (context.json()) {
    context.PrintJson(JsonObject().Number("removed", names.size()).Done());
  } else {
    context.Print(StrCat("removed ", names.size(), names.size() == 1 ? " model\n" : " models\n"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddModelCommands(const Command& app, Context& context) {
  const Command model = app.Add("model", "Models: create, ls, show, forward, mv, rm");
  model.Group();
  model.Footer(
      "Examples:\n  tensorctl model create net 'nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))' "
      "--device cuda:0 --seed 1\n"
      "  tensorctl model create net 'nn.Sequential(nn.Linear(3, 1))' --param 0.weight=W --param 0.bias=B\n"
      "  tensorctl model show net\n  tensorctl model forward net X --out Y");

  const Command create = model.Add("create", "Make a model from layers");
  auto c = std::make_shared<CreateOptions>();
  create.Value("NAME", c->name, "Its name; what has it is replaced").Required();
  create.Value("LAYERS", c->layers, "'nn.Sequential(nn.Linear(3, 1))'").Required();
  create.Value("--device,-d", c->devices, "Where; several: a replica on each").Separator(',');
  create.Value("--param", c->parameters, "PATH=NAME: a parameter that exists as a tensor").Repeated();
  create.Value("--seed", c->seed, "Of the initialisation");
  create.Run([=, &context] { return Create(context, *c); });

  const Command ls = model.Add("ls", "List models");
  ls.Run([&context] { return List(context); });

  const Command show = model.Add("show", "Signature, devices and parameters");
  auto shown = std::make_shared<std::string>();
  show.Value("NAME", *shown, "Its name").Required();
  show.Run([=, &context]() -> absl::Status {
    TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
    TENSORD_ASSIGN_OR_RETURN(const ModelInfo info,
                             engine->GetModel(context.caller(), ModelRef{0, context.Qualified(*shown)}, false));
    PrintModel(context, info);
    return absl::OkStatus();
  });

  const Command forward = model.Add("forward", "Run a model on tensors that exist");
  auto callee = std::make_shared<std::string>();
  auto inputs = std::make_shared<std::vector<std::string>>();
  auto output = std::make_shared<std::string>();
  forward.Value("NAME", *callee, "The model").Required();
  forward.Value("INPUT", *inputs, "Names of tensors in order, or INPUT=NAME").Required();
  forward.Value("--out", *output, "Name of the result; without it, it is printed");
  forward.Run([=, &context] { return Forward(context, *callee, *inputs, *output); });

  const Command mv = model.Add("mv", "Move a model, or replicate it over devices");
  auto moved = std::make_shared<std::string>();
  auto devices = std::make_shared<std::vector<std::string>>();
  mv.Value("NAME", *moved, "The model").Required();
  mv.Value("DEVICE", *devices, "Where to; several: a replica on each").Required();
  mv.Run([=, &context]() -> absl::Status {
    TENSORD_ASSIGN_OR_RETURN(const ModelInfo info,
                             UpdateModel(context, {ModelRef{0, context.Qualified(*moved)}, *devices, {}}));
    PrintModel(context, info);
    return absl::OkStatus();
  });

  const Command rm = model.Add("rm", "Remove models");
  auto names = std::make_shared<std::vector<std::string>>();
  rm.Value("NAME", *names, "Names").Required();
  rm.Run([=, &context] { return Remove(context, *names); });
}

}  // namespace tensord::cli
