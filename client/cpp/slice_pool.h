// Buffers for chunks on their way out: gRPC gives each back when the transport is done with it, and the next chunk
// takes it again, so that a long upload touches no new memory. Thread safe.
#pragma once

#include <grpcpp/support/slice.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tensord {

class SlicePool : public std::enable_shared_from_this<SlicePool> {
 public:
  // All buffers have this size.
  explicit SlicePool(size_t bytes) : bytes_(bytes) {}

  std::unique_ptr<char[]> Get() ABSL_LOCKS_EXCLUDED(mu_);
  // A slice over the first `length` bytes, which returns the buffer here when nobody needs it any longer.
  grpc::Slice Wrap(std::unique_ptr<char[]> buffer, size_t length);

 private:
  void Put(std::unique_ptr<char[]> buffer) ABSL_LOCKS_EXCLUDED(mu_);

  const size_t bytes_;
  absl::Mutex mu_;
  std::vector<std::unique_ptr<char[]>> free_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensord
