// Runs expressions against an engine: what `tensorctl run` and `tensorctl shell` do with a line.
//
//   Evaluator evaluator(engine, {.client = "tensorctl/0.1.0"});
//   evaluator.SetOutput([](std::string_view text) { std::cout << text; });
//   absl::Status status = evaluator.Run("X = ones(2, 3); X.sum(axis=0)");   // prints tensor([2., 2., 2.])
//
// Names. An assignment publishes its tensor or model in the workspace, where every later call and every other client
// finds it. Names that begin with _ and
// values that are no tensors (numbers, lists, devices) belong to this evaluator and end with it. A name is looked up
// here, then in the workspace.
//
// Not thread safe. The session is opened with the first statement that needs it, and again after it was lost.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "client/cpp/expr/ast.h"
#include "client/cpp/expr/env.h"

namespace tensord::expr {

struct EvaluatorOptions {
  std::string client = "tensorctl";  // shown in listings of sessions
  std::string workspace;             // empty: the caller's own
  bool json = false;                 // values print as JSON, one a line
  PrintOptions print;
};

class Evaluator {
 public:
  // `engine` must outlive the evaluator.
  Evaluator(Engine& engine, EvaluatorOptions options);
  ~Evaluator();

  void SetOutput(std::function<void(std::string_view)> out) { env_.out = std::move(out); }

  // Runs all statements of `source` until one fails. Errors: those of the language (problem.h) and of the daemon.
  absl::Status Run(std::string_view source);

  // What could follow `text`: names, functions, methods and attributes that begin with its last word. Asks the daemon
  // for names.
  std::vector<std::string> Complete(std::string_view text);

 private:
  absl::Status EnsureSession();
  absl::Status RunStatement(const Statement& statement);
  absl::Status Assign(const Statement& statement);
  absl::Status AssignName(const std::string& name, size_t offset, const Value& value);
  absl::Status AssignTensor(const std::string& name, const TensorPtr& tensor);
  absl::Status AssignModel(const std::string& name, const ModelPtr& model);
  absl::Status Delete(const Statement& statement);

  absl::StatusOr<Value> Evaluate(const Node& node);
  absl::StatusOr<std::vector<Value>> EvaluateAll(const std::vector<NodePtr>& nodes, size_t from);
  absl::StatusOr<Value> EvaluateName(const Node& node);
  absl::StatusOr<Value> EvaluateChain(const Node& node);
  absl::StatusOr<Value> EvaluateCompare(const Node& node);
  absl::StatusOr<Value> EvaluateCall(const Node& node);
  absl::StatusOr<Value> EvaluateAttribute(const Node& node);
  absl::StatusOr<Value> EvaluateSubscript(const Node& node);
  absl::StatusOr<Value> EvaluateSlice(const Node& node);

  absl::StatusOr<Value> CallFunctionValue(const Function& function, const Arguments& arguments);
  absl::StatusOr<Value> CallMethodOn(const Value& self, const std::string& name, const Arguments& arguments);
  absl::StatusOr<Value> Attribute(const Value& value, const std::string& name);

  // A tensor or model of the workspace; empty where nothing has that name.
  absl::StatusOr<std::optional<Value>> LookUp(const std::string& name);
  absl::Status UnknownVariable(const std::string& name, const absl::Status& told);
  // Lists that outlive a statement hold tensors by handle, since names may come to mean something else.
  absl::StatusOr<Value> PinAll(const Value& value);

  Engine& engine_;
  EvaluatorOptions options_;
  std::shared_ptr<ClientSession> session_;
  std::unique_ptr<Graph> graph_;
  Env env_;
  absl::flat_hash_map<std::string, Value> variables_;
  // Names of the workspace met in this statement.
  absl::flat_hash_map<std::string, Value> found_;
  // How models that this session made were written down.
  absl::flat_hash_map<std::string, ModelPtr> made_models_;
};

}  // namespace tensord::expr
