// A model that exists: a compiled program and its parameters, on one device or several.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/device.h"
#include "server/engine/ref.h"
#include "server/engine/storage.h"
#include "server/model/layers.h"

namespace tensord {

// Parameters on one device, in the order of CompiledModel::parameters.
struct Replica {
  Device* device = nullptr;
  std::vector<Ref<Tensor>> parameters;
};

// Thread safe. Replicas are swapped as a whole: calls that have begun end with what they began with.
class Model : public RefCounted<Model> {
 public:
  using Replicas = std::shared_ptr<const std::vector<Replica>>;

  Model(std::shared_ptr<const CompiledModel> compiled, Replicas replicas, absl::Time now)
      : compiled_(std::move(compiled)), create_time_(now), replicas_(std::move(replicas)) {}

  const CompiledModel& compiled() const { return *compiled_; }
  const std::shared_ptr<const CompiledModel>& shared() const { return compiled_; }
  absl::Time create_time() const { return create_time_; }
  Replicas replicas() const {
    absl::MutexLock lock(&mu_);
    return replicas_;
  }
  void SetReplicas(Replicas replicas) {
    absl::MutexLock lock(&mu_);
    replicas_.swap(replicas);
  }
  // A parameter of the first replica. Error: PARAMETER_UNKNOWN with the nearest.
  absl::StatusOr<Ref<Tensor>> Parameter(std::string_view path, std::string_view model_text) const;
  // Position in CompiledModel::parameters. Error: as Parameter.
  absl::StatusOr<size_t> ParameterIndex(std::string_view path, std::string_view model_text) const;

  // Statistics: one call has ended.
  void Count(bool ok, uint64_t queue_ns, uint64_t run_ns);
  // Without handle and names; the program if asked for.
  ModelInfo Info(bool with_program) const;
  // Of all replicas.
  uint64_t bytes() const;

 private:
  const std::shared_ptr<const CompiledModel> compiled_;
  const absl::Time create_time_;
  mutable absl::Mutex mu_;
  Replicas replicas_ ABSL_GUARDED_BY(mu_);
  std::atomic<uint64_t> succeeded_{0}, failed_{0}, queue_ns_{0}, run_ns_{0};
};

// "model 5", or the name: what refusals call it.
std::string ModelText(const ModelRef& ref);

}  // namespace tensord
