#include "client/cpp/expr/evaluator.h"

#include <algorithm>
#include <utility>

#include "client/cpp/expr/functions.h"
#include "client/cpp/expr/models.h"
#include "client/cpp/expr/names.h"
#include "client/cpp/expr/parser.h"
#include "client/cpp/expr/render.h"
#include "kernels/core/nearest.h"

namespace tensord::expr {
namespace {

bool IsSessionName(std::string_view name) { return name.starts_with('_'); }

// Whether nothing in the workspace has the name, as far as this status tells.
bool SaysNoSuchName(const absl::Status& status) { return ReasonOf(status) == Reason::kNameUnknown; }

}  // namespace

Evaluator::Evaluator(Engine& engine, EvaluatorOptions options) : engine_(engine), options_(std::move(options)) {
  env_.json = options_.json;
  env_.print = options_.print;
  env_.look_up = [this](const std::string& name) { return LookUp(name); };
}

Evaluator::~Evaluator() {
  // Variables hold handles of the session: they go first.
  variables_.clear();
  found_.clear();
  made_models_.clear();
}

absl::Status Evaluator::EnsureSession() {
  if (session_ != nullptr) return absl::OkStatus();
  OpenSessionRequest request;
  request.client = options_.client;
  request.workspace = options_.workspace;
  TENSORD_ASSIGN_OR_RETURN(session_, ClientSession::Open(engine_, request));
  graph_ = std::make_unique<Graph>(session_);
  env_.graph = graph_.get();
  env_.devices.reset();
  return absl::OkStatus();
}

absl::Status Evaluator::Run(std::string_view source) {
  TENSORD_ASSIGN_OR_RETURN(const std::vector<Statement> statements, Parse(source));
  env_.source = source;
  absl::Status status;
  for (const Statement& statement : statements) {
    status = EnsureSession();
    if (status.ok()) status = RunStatement(statement);
    found_.clear();
    if (session_ != nullptr) session_->Collect();
    if (ReasonOf(status) == Reason::kSessionUnknown) {
      // The next statement opens a new one; handles of the old one are gone.
      graph_.reset();
      session_.reset();
    }
    if (!status.ok()) break;
  }
  env_.source = {};
  return status;
}

absl::Status Evaluator::RunStatement(const Statement& statement) {
  env_.offset = statement.offset;
  switch (statement.kind) {
    case StatementKind::kImport:
      return absl::OkStatus();
    case StatementKind::kDelete:
      return Delete(statement);
    case StatementKind::kAssign:
      return Assign(statement);
    case StatementKind::kExpression:
      break;
  }
  TENSORD_ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.value));
  if (value.Is<None>()) return absl::OkStatus();
  TENSORD_ASSIGN_OR_RETURN(const std::string text, options_.json ? RenderJson(env_, value) : RenderText(env_, value));
  env_.out(text + "\n");
  return absl::OkStatus();
}

absl::Status Evaluator::Assign(const Statement& statement) {
  TENSORD_ASSIGN_OR_RETURN(Value value, Evaluate(*statement.value));
  for (const Statement::Target& target : statement.targets) {
    for (size_t i = 0; i < target.names.size(); ++i) {
      if (!IsBuiltInName(target.names[i])) continue;
      return ExpressionProblem(env_.source, target.offsets[i],
                               StrCat(target.names[i], " is built in; choose another name"));
    }
    if (!target.tuple) {
      TENSORD_RETURN_IF_ERROR(AssignName(target.names[0], target.offsets[0], value));
      continue;
    }
    const ListPtr* list = value.As<ListPtr>();
    if (list == nullptr || (*list)->items.size() != target.names.size()) {
      const std::string found = list == nullptr ? value.KindText() : StrCat((*list)->items.size(), " values");
      return env_.Problem(StrCat(target.names.size(), " names take as many values, not ", found));
    }
    // X, Y = Y, X: all values are held before the first name changes its meaning.
    TENSORD_ASSIGN_OR_RETURN(const Value held, PinAll(value));
    const ListPtr items = *held.As<ListPtr>();
    for (size_t i = 0; i < target.names.size(); ++i) {
      TENSORD_RETURN_IF_ERROR(AssignName(target.names[i], target.offsets[i], items->items[i]));
    }
  }
  return absl::OkStatus();
}

absl::Status Evaluator::AssignName(const std::string& name, size_t offset, const Value& value) {
  env_.offset = offset;
  if (const TensorPtr* tensor = value.As<TensorPtr>()) return AssignTensor(name, *tensor);
  if (const LayersPtr* layers = value.As<LayersPtr>()) {
    TENSORD_ASSIGN_OR_RETURN(ModelPtr model, CreateModel(env_, *layers, IsSessionName(name) ? "" : name));
    return AssignModel(name, model);
  }
  if (const ModelPtr* model = value.As<ModelPtr>(); model != nullptr && (*model)->path.empty())
    return AssignModel(name, *model);
  TENSORD_ASSIGN_OR_RETURN(variables_[name], PinAll(value));
  return absl::OkStatus();
}

absl::Status Evaluator::AssignTensor(const std::string& name, const TensorPtr& tensor) {
  if (IsSessionName(name)) {
    if (!tensor->exists()) tensor->instruction.label = name;
    TENSORD_ASSIGN_OR_RETURN(TensorPtr pinned, graph_->Pin(tensor));
    variables_[name] = Value(std::move(pinned));
    return absl::OkStatus();
  }
  if (!tensor->exists()) {
    Wanted wanted{tensor, false, name, false, ""};
    TENSORD_RETURN_IF_ERROR(graph_->Run(absl::MakeSpan(&wanted, 1)));
  } else if (!(tensor->ref == TensorRef::Name(name))) {
    // A second name for the same tensor: nothing is copied.
    PublishRequest request;
    request.source = tensor->ref;
    request.name = name;
    request.replace = true;
    TENSORD_RETURN_IF_ERROR(engine_.Publish(session_->caller(), request).status());
  }
  variables_.erase(name);
  made_models_.erase(name);
  found_.erase(name);
  return absl::OkStatus();
}

absl::Status Evaluator::AssignModel(const std::string& name, const ModelPtr& model) {
  if (IsSessionName(name)) {
    variables_[name] = Value(model);
    return absl::OkStatus();
  }
  if (!(model->ref == ModelRef{0, name})) {
    PublishRequest request;
    request.source = model->ref;
    request.name = name;
    request.replace = true;
    TENSORD_RETURN_IF_ERROR(engine_.Publish(session_->caller(), request).status());
  }
  variables_.erase(name);
  found_.erase(name);
  made_models_[name] = model;
  return absl::OkStatus();
}

absl::Status Evaluator::Delete(const Statement& statement) {
  for (const Statement::Target& target : statement.targets) {
    const std::string& name = target.names[0];
    env_.offset = target.offsets[0];
    if (variables_.erase(name) > 0) continue;
    TENSORD_ASSIGN_OR_RETURN(const std::optional<Value> found, LookUp(name));
    if (!found) return UnknownVariable(name, absl::OkStatus());
    if (found->Is<ModelPtr>()) {
      TENSORD_RETURN_IF_ERROR(engine_.DeleteModel(session_->caller(), ModelRef{0, name}).status());
    } else {
      DeleteTensorsRequest request;
      request.tensors.push_back(TensorRef::Name(name));
      TENSORD_RETURN_IF_ERROR(engine_.DeleteTensors(session_->caller(), request).status());
    }
    found_.erase(name);
    made_models_.erase(name);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Value>> Evaluator::LookUp(const std::string& name) {
  if (const auto it = found_.find(name); it != found_.end()) return std::optional(it->second);
  absl::StatusOr<TensorInfo> tensor = engine_.GetTensor(session_->caller(), TensorRef::Name(name));
  if (tensor.ok()) {
    if (tensor->state == TensorState::kFailed && !tensor->error.ok()) return tensor->error;
    Value value(ExistingTensor(*std::move(tensor), TensorRef::Name(name)));
    found_.emplace(name, value);
    return std::optional(std::move(value));
  }
  if (!SaysNoSuchName(tensor.status()) && ReasonOf(tensor.status()) != Reason::kKindMismatch) return tensor.status();
  absl::StatusOr<ModelInfo> info = engine_.GetModel(session_->caller(), ModelRef{0, name}, false);
  if (!info.ok()) {
    if (SaysNoSuchName(info.status())) return std::optional<Value>();
    return info.status();
  }
  auto model = std::make_shared<ModelValue>();
  model->ref = ModelRef{0, name};
  // Layers are remembered only while the name still means the model that was made from them.
  if (const auto made = made_models_.find(name);
      made != made_models_.end() && made->second->info.create_time == info->create_time) {
    model->layers = made->second->layers;
  }
  model->info = *std::move(info);
  Value value(ModelPtr(std::move(model)));
  found_.emplace(name, value);
  return std::optional(std::move(value));
}

absl::Status Evaluator::UnknownVariable(const std::string& name, const absl::Status& told) {
  if (!told.ok() && !SaysNoSuchName(told)) return told;
  std::vector<std::string> names;
  for (const auto& [variable, value] : variables_) names.push_back(variable);
  ListTensorsRequest request;
  if (const auto list = engine_.ListTensors(session_->caller(), request); list.ok()) {
    for (const TensorInfo& info : list->tensors) {
      for (const std::string& full : info.names) names.push_back(full.substr(full.find('/') + 1));
    }
  }
  std::vector<std::string_view> known(names.begin(), names.end());
  for (const std::string_view function : FunctionNames()) known.push_back(function);
  Error error(Reason::kNameUnknown);
  error = std::move(error).With("name", name).With("kind", "tensor, model or variable");
  if (const std::string nearest = NearestNames(name, known); !nearest.empty())
    error = std::move(error).With("nearest", nearest);
  return error;
}

absl::StatusOr<Value> Evaluator::PinAll(const Value& value) {
  if (const TensorPtr* tensor = value.As<TensorPtr>()) {
    TENSORD_ASSIGN_OR_RETURN(TensorPtr pinned, graph_->Pin(*tensor));
    return Value(std::move(pinned));
  }
  const ListPtr* list = value.As<ListPtr>();
  if (list == nullptr) return value;
  auto copy = std::make_shared<ListValue>();
  copy->tuple = (*list)->tuple;
  copy->one_per_line = (*list)->one_per_line;
  for (const Value& item : (*list)->items) {
    TENSORD_ASSIGN_OR_RETURN(Value pinned, PinAll(item));
    copy->items.push_back(std::move(pinned));
  }
  return Value(ListPtr(std::move(copy)));
}

std::vector<std::string> Evaluator::Complete(std::string_view text) {
  const size_t begin = text.find_last_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") + 1;
  const std::string_view word = text.substr(begin);
  const bool after_point = begin > 0 && text[begin - 1] == '.';
  std::vector<std::string> all;
  if (after_point) {
    const std::string_view before = text.substr(0, begin - 1);
    if (before.ends_with("nn")) {
      for (const std::string_view type : LayerTypes()) all.emplace_back(type);
    } else {
      for (const std::string_view name : MethodNames()) all.emplace_back(name);
    }
  } else {
    for (const std::string_view name : FunctionNames()) all.emplace_back(name);
    for (const auto& [name, value] : variables_) all.push_back(name);
    if (EnsureSession().ok()) {
      ListTensorsRequest request;
      if (const auto list = engine_.ListTensors(session_->caller(), request); list.ok()) {
        for (const TensorInfo& info : list->tensors) {
          for (const std::string& full : info.names) all.push_back(full.substr(full.find('/') + 1));
        }
      }
    }
  }
  std::erase_if(all, [&](const std::string& name) { return !name.starts_with(word); });
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace tensord::expr
