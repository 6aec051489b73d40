// Instructions of tensord::client: operands in, a handle out, with what can be inferred at once. Used by the library's
// sources alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/cpp/handles.h"
#include "kernels/ops/program.h"
#include "tensord/tensor.h"

namespace tensord {

// A handle for nothing but a status.
client::Tensor Failed(absl::Status status);

// Queues op(operands) on the session of its operands, or on `session` where there are none. Trailing operands left out
// are dropped. An operand that is no tensor anywhere, and operands of different sessions, give a failed handle;
// everything else is the daemon's to judge.
client::Tensor Emit(Op op, const std::vector<client::Operand>& operands, Attributes attributes = {},
                    std::shared_ptr<ClientSession> session = nullptr);

// dtype, shape and device; waits for the daemon where they are not known here.
absl::StatusOr<TensorSpec> SpecOf(const client::Tensor& tensor);

inline Dtype ToCore(client::Dtype dtype) { return static_cast<Dtype>(dtype); }
inline client::Dtype FromCore(Dtype dtype) { return static_cast<client::Dtype>(dtype); }
inline Dims ToDims(const client::Shape& shape) { return Dims(shape.begin(), shape.end()); }

}  // namespace tensord
