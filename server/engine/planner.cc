#include "server/engine/planner.h"

#include <algorithm>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/ops/placement.h"
#include "kernels/ops/view.h"

namespace tensord {
namespace {

absl::Status WrongCount(const Instruction& instruction, size_t results) {
  return Error(Reason::kArityInvalid)
      .With("op", RowOf(instruction.op).name)
      .With("expected", StrCat(results, results == 1 ? " result" : " results"))
      .With("got", instruction.outputs())
      .At("output_count");
}

bool IsRandom(Op op) { return op == Op::kRand || op == Op::kRandn; }

}  // namespace

Planner::Planner(Core& core, PlanScope scope, Ref<Batch> batch)
    : core_(core), scope_(std::move(scope)), batch_(std::move(batch)), work_(core.devices.all().size()) {}

absl::Status Planner::Explain(const absl::Status& status, const Instruction& instruction, const PlanSite& site) const {
  const ErrorDetails details = DetailsOf(status);
  if (status.ok() || details.origin || details.reason_name.empty()) return status;
  const std::string_view op = RowOf(instruction.op).name;
  absl::Status explained = AtPath(status, StrCat(site.prefix, "instructions[", site.index, "]."));
  explained = WithMetadata(explained, "op", op);
  if (!instruction.label.empty()) explained = WithMetadata(explained, "label", instruction.label);
  explained = WithMetadata(explained, "instruction", StrCat(site.index));
  return WithOrigin(explained,
                    {instruction.output, std::string(op), batch_->sequence, site.index, instruction.label, 0});
}

WorkPtr Planner::NewWork(Work::Kind kind, Op op) {
  auto work = std::make_unique<Work>();
  work->kind = kind;
  work->op = op;
  work->batch = batch_;
  return work;
}

void Planner::Add(Device& device, WorkPtr work) {
  work_[device.index()].push_back(std::move(work));
  ++work_count_;
}

void Planner::Submit() {
  if (work_count_ == 0) return;
  batch_->AddWork(static_cast<uint32_t>(work_count_));
  scope_.tenant->queued.fetch_add(work_count_);
  work_count_ = 0;
  for (size_t i = 0; i < work_.size(); ++i) {
    if (work_[i].empty()) continue;
    Ref<Lane>& lane = scope_.tenant->lanes[i];
    if (!lane) lane = MakeRef<Lane>(scope_.tenant->principal);
    core_.devices.all()[i]->executor().Enqueue(lane, work_[i]);
  }
}

void Planner::Finish() {
  for (size_t i = 0; i < work_.size(); ++i) {
    Device& device = *core_.devices.all()[i];
    if (!work_[i].empty() && device.asynchronous()) Add(device, NewWork(Work::Kind::kSync, Op::kNone));
  }
}

void Planner::Barrier(std::shared_ptr<absl::AnyInvocable<void()>> marker) {
  auto left = std::make_shared<std::atomic<int>>(1);
  const auto count_down = [left, marker = std::move(marker)] {
    if (left->fetch_sub(1) == 1) (*marker)();
  };
  for (size_t i = 0; i < work_.size(); ++i) {
    const Ref<Lane>& lane = scope_.tenant->lanes[i];
    // Work that has left the lane of an asynchronous device may not have ended.
    const bool over = !lane || (!lane->busy() && !core_.devices.all()[i]->asynchronous());
    if (work_[i].empty() && over) continue;
    left->fetch_add(1);
    WorkPtr work = NewWork(Work::Kind::kMarker, Op::kNone);
    work->marker = count_down;
    Add(*core_.devices.all()[i], std::move(work));
  }
  count_down();
}

Ref<Tensor> Planner::Reserve(TensorType type, Device& device) {
  const auto bytes = static_cast<size_t>(type.bytes());
  auto storage = MakeRef<Storage>(&device, bytes, scope_.tenant->account);
  return Tensor::Make({std::move(type), device.id()}, std::move(storage), now());
}

Ref<Tensor> Planner::Copy(const Ref<Tensor>& tensor) {
  Device& device = core_.devices.at(tensor->spec.device);
  Ref<Tensor> copy = Reserve(tensor->spec.type, device);
  WorkPtr work = NewWork(Work::Kind::kRun, Op::kCast);
  work->compute = tensor->spec.type.dtype;
  ConvertAttributes convert;
  convert.dtype = tensor->spec.type.dtype;
  work->owned = std::make_unique<Attributes>(std::move(convert));
  work->attributes = work->owned.get();
  work->inputs.push_back(tensor);
  work->outputs.push_back(copy);
  Add(device, std::move(work));
  return copy;
}

Ref<Tensor> Planner::Contiguous(const Ref<Tensor>& tensor) { return tensor->contiguous() ? tensor : Copy(tensor); }

Ref<Tensor> Planner::MoveTo(const Ref<Tensor>& tensor, Device& device) {
  if (tensor->spec.device == device.id()) return tensor;
  Device& from = core_.devices.at(tensor->spec.device);
  Ref<Tensor> moved = Reserve(tensor->spec.type, device);
  WorkPtr work = NewWork(Work::Kind::kTransfer, Op::kTo);
  work->inputs.push_back(Contiguous(tensor));
  if (!from.host_addressable()) {
    // A device that computes in the background has the bytes once its stream has come so far.
    Ref<Tensor> token = Reserve({Dtype::kUint8, {0}}, from);
    WorkPtr sync = NewWork(Work::Kind::kSync, Op::kTo);
    sync->inputs.push_back(work->inputs[0]);
    sync->outputs.push_back(token);
    Add(from, std::move(sync));
    work->inputs.push_back(std::move(token));
  }
  work->outputs.push_back(moved);
  Add(device, std::move(work));
  return moved;
}

Ref<Tensor> Planner::Constant(TensorSpec spec, std::string data) {
  Device& device = core_.devices.at(spec.device);
  Ref<Tensor> tensor = Reserve(spec.type, device);
  WorkPtr work = NewWork(Work::Kind::kConstant, Op::kConstant);
  work->owned = std::make_unique<Attributes>(ConstantAttributes{{spec.type, device.name()}, std::move(data)});
  work->attributes = work->owned.get();
  work->outputs.push_back(tensor);
  Add(device, std::move(work));
  return tensor;
}

absl::StatusOr<Device*> Planner::PlaceOn(const Instruction& instruction, absl::Span<const Ref<Tensor>> inputs) {
  const Family family = RowOf(instruction.op).family;
  if (family != Family::kCreate && family != Family::kConstant && instruction.op != Op::kTo) {
    const Tensor* first = nullptr;
    bool same = true;
    for (const Ref<Tensor>& in : inputs) {
      if (!in) continue;
      if (first == nullptr) first = in.get();
      same &= in->spec.device == first->spec.device;
    }
    if (first != nullptr && same) return first->storage->device();
  }
  absl::InlinedVector<PlacedOperand, 4> operands(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]) operands[i] = {&inputs[i]->spec, inputs[i]->label};
  }
  TENSORD_ASSIGN_OR_RETURN(const DeviceId id, Place(instruction, operands, core_.devices.resolver()));
  return &core_.devices.at(id);
}

absl::Status Planner::CheckSupport(Op op, Dtype compute, const Device& device) const {
  if (device.backend().Supports(op, compute)) return absl::OkStatus();
  std::vector<std::string_view> supported;
  for (int d = 1; d < kDtypeCount; ++d) {
    const auto dtype = static_cast<Dtype>(d);
    if (device.backend().Supports(op, dtype)) supported.push_back(DtypeName(dtype));
  }
  return Error(Reason::kOpUnsupported)
      .With("op", RowOf(op).name)
      .With("dtype", DtypeName(compute))
      .With("device", device.name())
      .With("supported", supported.empty() ? "nothing" : StrJoin(supported, ", "));
}

absl::StatusOr<Ref<Tensor>> Planner::PlanView(const Instruction& instruction, const Ref<Tensor>& input,
                                              TensorType type) {
  TensorSpec spec{std::move(type), input->spec.device};
  std::optional<Layout> layout = ViewLayout(instruction, input->layout(), spec.type.shape);
  if (layout) return Tensor::View(std::move(spec), *layout, *input, now());
  // Strides cannot say it: a contiguous copy can be looked at in any shape.
  const Ref<Tensor> copy = Copy(input);
  layout = ViewLayout(instruction, copy->layout(), spec.type.shape);
  if (!layout) return Error(Reason::kInternal).With("id", "view").With("cause", "a contiguous tensor has no such view");
  return Tensor::View(std::move(spec), *layout, *copy, now());
}

absl::StatusOr<Outputs> Planner::PlanChecked(Instruction& instruction, absl::Span<const Ref<Tensor>> inputs,
                                             const PlanSite& site) {
  const OpRow& row = RowOf(instruction.op);
  if (!instruction.invalid.ok()) return instruction.invalid;
  for (const Ref<Tensor>& in : inputs) {
    if (in && in->failed()) return AddDistance(in->error(), 1);
  }
  const Limits& limits = core_.limits();
  if (inputs.size() > limits.max_operands) {
    return Error(Reason::kArityInvalid)
        .With("op", row.name)
        .With("expected", StrCat("at most ", limits.max_operands, " operands"))
        .With("got", inputs.size())
        .At("inputs");
  }
  if (instruction.label.size() > limits.max_text_bytes) {
    return Error(Reason::kLimitExceeded)
        .With("limit", "max_text_bytes")
        .With("value", instruction.label.size())
        .With("maximum", limits.max_text_bytes)
        .At("label");
  }
  if (!instruction.scalars.empty() ||
      std::find(instruction.inputs.begin(), instruction.inputs.end(), uint64_t{0}) != instruction.inputs.end()) {
    TENSORD_RETURN_IF_ERROR(CheckScalarCount(instruction));
  }
  if (instruction.op == Op::kCall) return PlanCall(instruction, inputs, site);
  if (instruction.op == Op::kUpload) {
    return Error(Reason::kProgramInvalid)
        .With("id", instruction.output)
        .With("problem", "is an upload, which only a stream may reserve")
        .At("op");
  }

  absl::InlinedVector<OperandType, 4> operands(inputs.size());
  size_t next_scalar = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]) operands[i].tensor = &inputs[i]->spec.type;
    // Of the operands without a tensor those with an id are inputs of a program that were left out.
    if (instruction.inputs[i] == 0) operands[i].scalar = &instruction.scalars[next_scalar++];
  }
  // What runs where is told before what fits together: two devices are the commoner mistake, and the one to mend first.
  TENSORD_ASSIGN_OR_RETURN(Device * device, PlaceOn(instruction, inputs));
  if (device->lost()) return device->loss();
  TENSORD_ASSIGN_OR_RETURN(Inference inference, Infer(instruction, operands));
  if (instruction.outputs() != inference.outputs.size()) return WrongCount(instruction, inference.outputs.size());

  Outputs outputs;
  if (instruction.op == Op::kTo) {
    const auto& convert = AttributesAs<ConvertAttributes>(instruction.attributes);
    const bool there = inputs[0]->spec.device == device->id();
    outputs.push_back(!there ? MoveTo(inputs[0], *device) : convert.copy ? Copy(inputs[0]) : inputs[0]);
    return outputs;
  }
  if (row.family == Family::kView) {
    TENSORD_ASSIGN_OR_RETURN(Ref<Tensor> view, PlanView(instruction, inputs[0], std::move(inference.outputs[0])));
    outputs.push_back(std::move(view));
    return outputs;
  }
  if (instruction.op == Op::kConstant) {
    const auto& constant = AttributesAs<ConstantAttributes>(instruction.attributes);
    if (constant.data.size() > limits.max_inline_bytes) {
      return Error(Reason::kLimitExceeded)
          .With("limit", "max_inline_bytes")
          .With("value", constant.data.size())
          .With("maximum", limits.max_inline_bytes)
          .At("constant.data");
    }
    TENSORD_RETURN_IF_ERROR(core_.CheckData(inference.outputs[0], constant.data, "constant.data"));
  } else {
    const Dtype compute = inference.compute == Dtype::kNone ? inference.outputs[0].dtype : inference.compute;
    TENSORD_RETURN_IF_ERROR(CheckSupport(instruction.op, compute, *device));
  }

  WorkPtr work = NewWork(instruction.op == Op::kConstant ? Work::Kind::kConstant : Work::Kind::kRun, instruction.op);
  work->compute = inference.compute;
  work->index = site.index;
  work->origin = instruction.output;
  work->label = instruction.label;
  for (size_t i = 0; i < inputs.size(); ++i) {
    work->inputs.push_back(inputs[i]);
    // An operand left out is an empty scalar to the kernel.
    if (!inputs[i] && instruction.inputs[i] != 0) {
      work->scalars.emplace_back();
    } else if (!inputs[i]) {
      work->scalars.push_back(*operands[i].scalar);
    }
  }
  if (IsRandom(instruction.op) && !AttributesAs<CreateAttributes>(instruction.attributes).seed) {
    auto create = AttributesAs<CreateAttributes>(instruction.attributes);
    const Generator::Draw draw = scope_.generator->Take(static_cast<uint64_t>(inference.outputs[0].elements()));
    create.seed = draw.seed;
    create.seed_offset = draw.offset;
    work->owned = std::make_unique<Attributes>(std::move(create));
    work->attributes = work->owned.get();
  } else if (!std::holds_alternative<std::monostate>(instruction.attributes)) {
    if (site.in_program) {
      work->attributes = &instruction.attributes;
    } else {
      work->owned = std::make_unique<Attributes>(std::move(instruction.attributes));
      work->attributes = work->owned.get();
    }
  }
  for (TensorType& type : inference.outputs) {
    outputs.push_back(Reserve(std::move(type), *device));
    work->outputs.push_back(outputs.back());
  }
  Add(*device, std::move(work));
  return outputs;
}

absl::StatusOr<Outputs> Planner::Plan(Instruction& instruction, absl::Span<const Ref<Tensor>> inputs,
                                      const PlanSite& site) {
  absl::StatusOr<Outputs> outputs = PlanChecked(instruction, inputs, site);
  if (!outputs.ok()) return Explain(outputs.status(), instruction, site);
  // A tensor that was there before keeps its name.
  const bool made_here = instruction.op != Op::kCall && !(instruction.op == Op::kTo && (*outputs)[0] == inputs[0]);
  if (made_here && !instruction.label.empty()) (*outputs)[0]->label = instruction.label;
  return outputs;
}

}  // namespace tensord
