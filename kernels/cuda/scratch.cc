#include <algorithm>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/cuda/families.h"

namespace tensord::cuda {

absl::StatusOr<Scratch> Scratch::Allocate(size_t bytes, Context& context) {
  bytes = std::max<size_t>(bytes, 1);  // a resource hands out no empty blocks
  TENSORD_ASSIGN_OR_RETURN(void* data, context.scratch.Allocate(bytes, context.stream_id));
  return Scratch(data, bytes, context);
}

Scratch::Scratch(Scratch&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_),
      resource_(other.resource_),
      stream_(other.stream_) {}

Scratch& Scratch::operator=(Scratch&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(resource_, other.resource_);
  std::swap(stream_, other.stream_);
  return *this;
}

Scratch::~Scratch() {
  if (data_ != nullptr) resource_->Deallocate(data_, bytes_, stream_);
}

}  // namespace tensord::cuda
