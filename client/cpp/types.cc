#include "tensord/types.h"

#include "kernels/core/dtype.h"

namespace tensord::client {

// The public enum repeats the wire's numbers.
static_assert(static_cast<int>(Dtype::kBool) == static_cast<int>(tensord::Dtype::kBool));
static_assert(static_cast<int>(Dtype::kUint8) == static_cast<int>(tensord::Dtype::kUint8));
static_assert(static_cast<int>(Dtype::kFloat16) == static_cast<int>(tensord::Dtype::kFloat16));
static_assert(static_cast<int>(Dtype::kFloat64) == static_cast<int>(tensord::Dtype::kFloat64));

std::string_view dtype_name(Dtype dtype) { return DtypeName(static_cast<tensord::Dtype>(dtype)); }
size_t item_size(Dtype dtype) { return ItemSize(static_cast<tensord::Dtype>(dtype)); }

}  // namespace tensord::client
