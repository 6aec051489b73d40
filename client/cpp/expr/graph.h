// Tensors of a statement before they exist: a graph of instructions that becomes one program when a value is needed.
//
// Apply checks operands and infers dtype, shape and device here, without a call; Run sends what is needed in one
// Execute. So `(X + Y).sum()`
// is one program of two instructions whose intermediate never gets a handle, and `X.T.shape` asks nobody.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cpp/expr/session.h"
#include "client/cpp/expr/value.h"
#include "kernels/ops/program.h"

namespace tensord::expr {

using Operand = std::variant<Scalar, TensorPtr>;

// A tensor that exists (ref is set) or that an instruction will make.
struct TensorNode {
  TensorSpec spec;
  // Exists: by name, handle or parameter. `handle` keeps a handle of ours; `names` are the published names known.
  TensorRef ref;
  std::shared_ptr<void> handle;
  std::vector<std::string> names;
  // To be made: inputs are filled in when the program is built.
  Instruction instruction;
  std::vector<Operand> operands;

  bool exists() const { return !std::holds_alternative<std::monostate>(ref.ref); }
};

// What is to become of a node in a run.
struct Wanted {
  TensorPtr node;
  bool keep = false;    // under a handle of this session
  std::string publish;  // under this name, replacing what has it
  bool value = false;   // bring the elements here
  std::string data;     // they are put here: raw, row-major
};

// Nodes that exist.
TensorPtr ExistingTensor(TensorInfo info, TensorRef ref, std::shared_ptr<void> handle = nullptr);

// The same tensor for `is`: one node, one handle or name, or published under a common name.
bool IsSameTensor(const TensorNode& a, const TensorNode& b);

class Graph {
 public:
  explicit Graph(std::shared_ptr<ClientSession> session) : session_(std::move(session)) {}

  // One result. Errors: those of Infer; where operands lie on different devices, the daemon's own (it is asked at
  // once).
  absl::StatusOr<TensorPtr> Apply(Op op, std::vector<Operand> operands, Attributes attributes = {});

  // Brings `wanted` about in one program and, for values too large to come inline, downloads. Nodes that were kept or
  // published exist afterwards.
  absl::Status Run(absl::Span<Wanted> wanted);
  // All elements of one tensor.
  absl::StatusOr<std::string> Fetch(const TensorPtr& node);
  // A node that exists, under its own handle: what published names mean at this moment.
  absl::StatusOr<TensorPtr> Pin(const TensorPtr& node);

  ClientSession& session() const { return *session_; }
  const std::shared_ptr<ClientSession>& shared_session() const { return session_; }

 private:
  absl::StatusOr<std::string> Download(const TensorNode& node) const;
  std::shared_ptr<ClientSession> session_;
};

}  // namespace tensord::expr
