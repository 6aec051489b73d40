#include "server/engine/model.h"

#include "kernels/core/error.h"
#include "kernels/core/nearest.h"

namespace tensord {

absl::StatusOr<size_t> Model::ParameterIndex(std::string_view path, std::string_view model_text) const {
  const auto& parameters = compiled_->parameters;
  std::vector<std::string_view> known;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].path == path) return i;
    known.push_back(parameters[i].path);
  }
  Error error(Reason::kParameterUnknown);
  std::move(error).With("model", model_text).With("path", path);
  if (const std::string nearest = NearestNames(path, known); !nearest.empty())
    std::move(error).With("nearest", nearest);
  return error.ToStatus();
}

absl::StatusOr<Ref<Tensor>> Model::Parameter(std::string_view path, std::string_view model_text) const {
  TENSORD_ASSIGN_OR_RETURN(const size_t index, ParameterIndex(path, model_text));
  return replicas()->front().parameters[index];
}

void Model::Count(bool ok, uint64_t queue_ns, uint64_t run_ns) {
  (ok ? succeeded_ : failed_).fetch_add(1, std::memory_order_relaxed);
  queue_ns_.fetch_add(queue_ns, std::memory_order_relaxed);
  run_ns_.fetch_add(run_ns, std::memory_order_relaxed);
}

uint64_t Model::bytes() const {
  uint64_t bytes = 0;
  for (const Replica& replica : *replicas()) {
    for (const Ref<Tensor>& parameter : replica.parameters) bytes += parameter->bytes();
  }
  return bytes;
}

ModelInfo Model::Info(bool with_program) const {
  ModelInfo info;
  const Replicas all = replicas();
  for (const Replica& replica : *all) info.devices.push_back(replica.device->id());
  const Program& program = compiled_->program;
  const size_t inputs = program.inputs.size() - compiled_->parameters.size();
  info.inputs.assign(program.inputs.begin(), program.inputs.begin() + static_cast<std::ptrdiff_t>(inputs));
  info.outputs = program.outputs;
  for (size_t i = 0; i < compiled_->parameters.size(); ++i) {
    info.parameters.push_back({compiled_->parameters[i].path, all->front().parameters[i]->spec});
    if (all->front().parameters[i]->failed()) info.state = ModelState::kFailed;
  }
  if (with_program) info.program = program;
  info.parameter_bytes = bytes();
  info.statistics.succeeded = succeeded_.load(std::memory_order_relaxed);
  info.statistics.failed = failed_.load(std::memory_order_relaxed);
  info.statistics.runs = info.statistics.succeeded + info.statistics.failed;
  info.statistics.queue_ns = queue_ns_.load(std::memory_order_relaxed);
  info.statistics.run_ns = run_ns_.load(std::memory_order_relaxed);
  info.create_time = create_time_;
  return info;
}

std::string ModelText(const ModelRef& ref) { return ref.name.empty() ? StrCat(ref.id) : ref.name; }

}  // namespace tensord
