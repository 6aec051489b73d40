#include "client/cpp/slice_pool.h"

#include <utility>

namespace tensord {

std::unique_ptr<char[]> SlicePool::Get() {
  {
    absl::MutexLock lock(&mu_);
    if (!free_.empty()) {
      std::unique_ptr<char[]> buffer = std::move(free_.back());
      free_.pop_back();
      return buffer;
    }
  }
  return std::unique_ptr<char[]>(new char[bytes_]);
}

void SlicePool::Put(std::unique_ptr<char[]> buffer) {
  absl::MutexLock lock(&mu_);
  free_.push_back(std::move(buffer));
}

grpc::Slice SlicePool::Wrap(std::unique_ptr<char[]> buffer, size_t length) {
  struct Loan {
    std::shared_ptr<SlicePool> pool;
    std::unique_ptr<char[]> buffer;
  };
  auto* loan = new Loan{shared_from_this(), std::move(buffer)};
  return grpc::Slice(
      loan->buffer.get(), length,
      [](void* data) {
        std::unique_ptr<Loan> ended(static_cast<Loan*>(data));
        ended->pool->Put(std::move(ended->buffer));
      },
      loan);
}

}  // namespace tensord
