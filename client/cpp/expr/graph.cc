#include "client/cpp/expr/graph.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "kernels/ops/infer.h"
#include "server/engine/blocking.h"

namespace tensord::expr {
namespace {

// Collects the nodes that a result needs, operands first.
class ProgramBuilder {
 public:
  // The program's id of the node.
  uint64_t Add(const TensorPtr& node) {
    if (const auto it = ids_.find(node.get()); it != ids_.end()) return it->second;
    if (node->exists()) {
      const uint64_t id = next_++;
      ids_.emplace(node.get(), id);
      ProgramValue& input = program_.inputs.emplace_back();
      input.id = id;
      arguments_.push_back(Argument{"", node->ref, false});
      return id;
    }
    Instruction instruction = node->instruction;
    for (const Operand& operand : node->operands) {
      if (const Scalar* scalar = std::get_if<Scalar>(&operand)) {
        instruction.inputs.push_back(0);
        instruction.scalars.push_back(*scalar);
      } else {
        instruction.inputs.push_back(Add(std::get<TensorPtr>(operand)));
      }
    }
    instruction.output = next_++;
    ids_.emplace(node.get(), instruction.output);
    program_.instructions.push_back(std::move(instruction));
    return program_.instructions.back().output;
  }

  void AddOutput(uint64_t id, ResultRequest result) {
    program_.outputs.emplace_back().id = id;
    results_.push_back(std::move(result));
  }

  bool empty() const { return program_.outputs.empty(); }
  ExecuteRequest Take() {
    ExecuteRequest request;
    request.callee = std::move(program_);
    request.inputs = std::move(arguments_);
    request.outputs = std::move(results_);
    return request;
  }

 private:
  Program program_;
  std::vector<Argument> arguments_;
  std::vector<ResultRequest> results_;
  absl::flat_hash_map<const TensorNode*, uint64_t> ids_;
  uint64_t next_ = 1;
};

// Where a result will be, as far as the client can tell.
DeviceId DeviceOf(const Instruction& instruction, absl::Span<const Operand> operands) {
  if (const auto* create = std::get_if<CreateAttributes>(&instruction.attributes)) {
    return DeviceId::Parse(create->spec.device).value_or(DeviceId{});
  }
  if (const auto* constant = std::get_if<ConstantAttributes>(&instruction.attributes)) {
    return DeviceId::Parse(constant->spec.device).value_or(DeviceId{});
  }
  if (instruction.op == Op::kTo) {
    return DeviceId::Parse(AttributesAs<ConvertAttributes>(instruction.attributes).device).value_or(DeviceId{});
  }
  for (const Operand& operand : operands) {
    if (const TensorPtr* tensor = std::get_if<TensorPtr>(&operand)) return (*tensor)->spec.device;
  }
  return DeviceId{};
}

bool OnOneDevice(absl::Span<const Operand> operands) {
  const TensorNode* first = nullptr;
  for (const Operand& operand : operands) {
    const TensorPtr* tensor = std::get_if<TensorPtr>(&operand);
    if (tensor == nullptr) continue;
    if (first != nullptr && (*tensor)->spec.device != first->spec.device) return false;
    first = tensor->get();
  }
  return true;
}

}  // namespace

TensorPtr ExistingTensor(TensorInfo info, TensorRef ref, std::shared_ptr<void> handle) {
  auto node = std::make_shared<TensorNode>();
  node->spec = std::move(info.spec);
  node->names = std::move(info.names);
  node->ref = std::move(ref);
  node->handle = std::move(handle);
  return node;
}

bool IsSameTensor(const TensorNode& a, const TensorNode& b) {
  if (&a == &b) return true;
  if (a.exists() && a.ref == b.ref) return true;
  return std::any_of(a.names.begin(), a.names.end(), [&](const std::string& name) {
    return std::find(b.names.begin(), b.names.end(), name) != b.names.end();
  });
}

absl::StatusOr<TensorPtr> Graph::Apply(Op op, std::vector<Operand> operands, Attributes attributes) {
  auto node = std::make_shared<TensorNode>();
  node->instruction.op = op;
  node->instruction.attributes = std::move(attributes);
  std::vector<OperandType> types;
  Instruction shown = node->instruction;  // with inputs, as inference wants to see it
  for (const Operand& operand : operands) {
    OperandType& type = types.emplace_back();
    if (const Scalar* scalar = std::get_if<Scalar>(&operand)) {
      type.scalar = scalar;
      shown.inputs.push_back(0);
      shown.scalars.push_back(*scalar);
    } else {
      type.tensor = &std::get<TensorPtr>(operand)->spec.type;
      shown.inputs.push_back(types.size());
    }
  }
  shown.output = types.size() + 1;
  TENSORD_ASSIGN_OR_RETURN(Inference inference, Infer(shown, types));
  if (inference.outputs.size() != 1)
    return Error(Reason::kInternal).With("id", "-").With("cause", "one result expected");
  node->spec.type = std::move(inference.outputs[0]);
  node->spec.device = DeviceOf(node->instruction, operands);
  const bool mixed = !OnOneDevice(operands);
  node->operands = std::move(operands);
  if (mixed) {
    // The daemon knows the names of both and how to mend it.
    Wanted wanted{node, true, "", false, ""};
    TENSORD_RETURN_IF_ERROR(Run(absl::MakeSpan(&wanted, 1)));
  }
  return node;
}

absl::Status Graph::Run(absl::Span<Wanted> wanted) {
  ProgramBuilder builder;
  struct Sent {
    Wanted* wanted;
    uint64_t id;
    bool inline_value;
  };
  std::vector<Sent> sent;
  uint64_t inline_bytes = 0;
  for (Wanted& want : wanted) {
    if (want.node->exists()) continue;
    ResultRequest result;
    const auto bytes = static_cast<uint64_t>(want.node->spec.type.bytes());
    const bool fits = want.value && inline_bytes + bytes <= session_->info().limits.max_inline_bytes;
    if (fits) inline_bytes += bytes;
    if (want.keep || !want.publish.empty() || (want.value && !fits)) result.id = session_->NewId();
    if (fits) result.value = ValueFormat::kRaw;
    result.publish = want.publish;
    result.replace = !want.publish.empty();
    const uint64_t id = result.id;
    builder.AddOutput(builder.Add(want.node), std::move(result));
    sent.push_back({&want, id, fits});
  }
  if (!builder.empty()) {
    absl::StatusOr<ExecuteResponse> response = Await<ExecuteResponse>(
        [&](auto done) { session_->engine().Execute(session_->caller(), builder.Take(), std::move(done)); });
    if (!response.ok()) return response.status();
    if (response->outputs.size() != sent.size())
      return Error(Reason::kInternal).With("id", "-").With("cause", "outputs are missing");
    for (size_t i = 0; i < sent.size(); ++i) {
      ResultValue& output = response->outputs[i];
      TensorNode& node = *sent[i].wanted->node;
      if (sent[i].inline_value && output.data) sent[i].wanted->data = *std::move(output.data);
      if (sent[i].id != 0) {
        node.ref = TensorRef::Id(sent[i].id);
        node.handle = session_->OwnTensor(sent[i].id);
      } else if (!sent[i].wanted->publish.empty()) {
        node.ref = TensorRef::Name(sent[i].wanted->publish);
      } else {
        continue;
      }
      node.names = output.tensor.names;
      node.spec = output.tensor.spec;
      node.operands.clear();
    }
  }
  for (Wanted& want : wanted) {
    const bool came =
        std::any_of(sent.begin(), sent.end(), [&](const Sent& s) { return s.wanted == &want && s.inline_value; });
    if (!want.value || came) continue;
    TENSORD_ASSIGN_OR_RETURN(want.data, Download(*want.node));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Graph::Fetch(const TensorPtr& node) {
  Wanted wanted{node, false, "", true, ""};
  TENSORD_RETURN_IF_ERROR(Run(absl::MakeSpan(&wanted, 1)));
  return std::move(wanted.data);
}

absl::StatusOr<TensorPtr> Graph::Pin(const TensorPtr& node) {
  TensorPtr pinned = node;
  if (node->exists()) {
    if (node->handle) return node;
    // `to` where it is gives the same tensor: a handle and no copy.
    ConvertAttributes here;
    here.device = node->spec.device.ToString();
    TENSORD_ASSIGN_OR_RETURN(pinned, Apply(Op::kTo, {node}, here));
  }
  Wanted wanted{pinned, true, "", false, ""};
  TENSORD_RETURN_IF_ERROR(Run(absl::MakeSpan(&wanted, 1)));
  for (const std::string& name : node->names) {
    if (std::find(pinned->names.begin(), pinned->names.end(), name) == pinned->names.end())
      pinned->names.push_back(name);
  }
  return pinned;
}

absl::StatusOr<std::string> Graph::Download(const TensorNode& node) const {
  DownloadRequest request;
  request.tensor = node.ref;
  TENSORD_ASSIGN_OR_RETURN(std::unique_ptr<DownloadSource> source,
                           Await<std::unique_ptr<DownloadSource>>([&](auto done) {
                             session_->engine().Download(session_->caller(), request, std::move(done));
                           }));
  std::string data(source->total(), '\0');
  size_t at = 0;
  while (at < data.size()) {
    TENSORD_ASSIGN_OR_RETURN(const size_t n, source->Read(absl::MakeSpan(data.data() + at, data.size() - at)));
    if (n == 0) return Error(Reason::kDataInvalid).With("expected_bytes", data.size()).With("got_bytes", at);
    at += n;
  }
  return data;
}

}  // namespace tensord::expr
