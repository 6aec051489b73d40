#include "server/rpc/unknown.h"

#include "kernels/core/text.h"
#include "proto/wire/config.h"
#include "proto/wire/status_grpc.h"

namespace tensord::rpc {
namespace {

// A name may be as long as the metadata's bound; what is repeated is not.
constexpr size_t kLongestName = 200;

class Refused final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refused(const absl::Status& status) { Finish(wire::ToGrpc(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerGenericBidiReactor* UnknownMethods::CreateReactor(grpc::GenericCallbackServerContext* context) {
  return new Refused(wire::NotOffered(StrCat("the method ", context->method().substr(0, kLongestName))));
}

}  // namespace tensord::rpc
