// Private to this folder. What every service method shares: who calls, may he, the answer, the log line.
//
//   grpc::ServerUnaryReactor* GetTensor(grpc::CallbackServerContext* context, const v1::GetTensorRequest* request,
//                                       v1::GetTensorResponse* response) override {
//     return AnswerNow(services_, context, "Tensors/GetTensor", [&](const Caller& caller) -> absl::Status {
//       TENSORD_ASSIGN_OR_RETURN(const TensorRef tensor, wire::FromProto(*request));
//       TENSORD_ASSIGN_OR_RETURN(const TensorInfo info, services_.engine.GetTensor(caller, tensor));
//       *response = wire::GetTensorResponseToProto(info);
//       return absl::OkStatus();
//     });
//   }
//
// Lifetime: request, response and context of a call live until its reactor's OnDone, which comes after Finish; so an
// answer that is made later, on a thread of the engine, may write the response until it calls Finish, and touches
// nothing of the call afterwards.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/impl/codegen/server_callback.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/engine/engine.h"
#include "server/rpc/calls.h"
#include "server/rpc/waiters.h"

namespace tensord::rpc {

// What the services share. Lives longer than the gRPC server.
struct Services {
  Services(Engine& engine_in, const Limits& limits_in)
      : engine(engine_in), limits(limits_in), calls(limits_in.max_requests) {}

  Engine& engine;
  const Limits limits;
  CallRegistry calls;
  KnownSessions sessions;
  Waiters waiters;
};

// The caller of a call, from its metadata. Error: FIELD_INVALID for a tensord-session given twice or a tensord-after
// that is no number.
absl::StatusOr<Caller> CallerOf(const grpc::ServerContextBase& context);

// From the arrival of a call to its log line: counts it in the registry while it lives.
class CallScope {
 public:
  CallScope(Services& services, const grpc::ServerContextBase& context, std::string_view method, bool finite);
  CallScope(CallScope&& other) noexcept;
  CallScope& operator=(CallScope&&) = delete;
  ~CallScope() { End(absl::CancelledError()); }

  // Why the call is refused before it begins; OK if it is not.
  const absl::Status& admission() const { return admission_; }
  const Caller& caller() const { return caller_; }
  // How the engine learns that the client has gone.
  void CancelledBy(std::shared_ptr<Cancellation> cancellation) { caller_.cancellation = std::move(cancellation); }
  // Logs and counts the call out. The first End counts.
  void End(const absl::Status& status);

 private:
  Services* services_;  // null: ended, or moved from
  std::string_view method_;
  bool finite_;
  absl::Time start_;
  Caller caller_;
  absl::Status admission_;
};

// The reactor of a unary call whose work ends when its client goes away.
class CancellableReactor final : public grpc::ServerUnaryReactor {
 public:
  const std::shared_ptr<Cancellation>& cancellation() const { return cancellation_; }
  void OnCancel() override;
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
};

// A unary call that is answered once, now or later, by any thread.
class UnaryAnswer {
 public:
  UnaryAnswer(Services& services, grpc::CallbackServerContext* context, std::string_view method)
      : scope_(services, *context, method, /*finite=*/true), reactor_(context->DefaultReactor()) {}
  UnaryAnswer(Services& services, grpc::CallbackServerContext* context, std::string_view method,
              CancellableReactor* reactor)
      : scope_(services, *context, method, /*finite=*/true), reactor_(reactor) {
    scope_.CancelledBy(reactor->cancellation());
  }
  UnaryAnswer(UnaryAnswer&& other) noexcept
      : scope_(std::move(other.scope_)), reactor_(std::exchange(other.reactor_, nullptr)) {}
  UnaryAnswer& operator=(UnaryAnswer&&) = delete;
  // An answer that nobody gave is an internal error, not a call that hangs.
  ~UnaryAnswer();

  // What the service method returns to gRPC.
  grpc::ServerUnaryReactor* reactor() const { return reactor_; }
  const absl::Status& admission() const { return scope_.admission(); }
  const Caller& caller() const { return scope_.caller(); }
  // The response is complete, or `status` says why there is none. The call is gone afterwards.
  void Finish(const absl::Status& status);

 private:
  CallScope scope_;
  grpc::ServerUnaryReactor* reactor_;
};

// Runs `body(caller)`, an absl::Status, and answers with it. A call with tensord-after may wait for the stream: it does
// so on a thread of `waiters`, never on one of gRPC's few threads, which bring what it waits for.
template <class Body>
grpc::ServerUnaryReactor* AnswerNow(Services& services, grpc::CallbackServerContext* context, std::string_view method,
                                    Body body) {
  UnaryAnswer answer(services, context, method);
  grpc::ServerUnaryReactor* const reactor = answer.reactor();
  if (!answer.admission().ok()) {
    answer.Finish(answer.admission());
  } else if (answer.caller().after == 0) {
    answer.Finish(body(answer.caller()));
  } else {
    services.waiters.Run(
        [answer = std::move(answer), body = std::move(body)]() mutable { answer.Finish(body(answer.caller())); });
  }
  return reactor;
}

// As AnswerNow for `body(answer)`, which calls answer.Finish when the engine has called back. Such calls of the engine
// wait without a thread, and learn through the caller that the client has gone.
template <class Body>
grpc::ServerUnaryReactor* AnswerLater(Services& services, grpc::CallbackServerContext* context, std::string_view method,
                                      Body body) {
  UnaryAnswer answer(services, context, method, new CancellableReactor);
  grpc::ServerUnaryReactor* const reactor = answer.reactor();
  if (!answer.admission().ok()) {
    answer.Finish(answer.admission());
  } else {
    body(std::move(answer));
  }
  return reactor;
}

// A way to an object from callbacks that may come after its end. Thread safe; `Cut` waits for a running `With`.
template <class T>
class Link {
 public:
  explicit Link(T* target) : target_(target) {}
  template <class F>
  void With(F&& f) {
    absl::MutexLock lock(&mutex_);
    if (target_ != nullptr) std::forward<F>(f)(*target_);
  }
  void Cut() {
    absl::MutexLock lock(&mutex_);
    target_ = nullptr;
  }

 private:
  absl::Mutex mutex_;
  T* target_ ABSL_GUARDED_BY(mutex_);
};

// Messages of raw methods. Parse: FIELD_INVALID for bytes that are no such message.
absl::Status ParseMessage(grpc::ByteBuffer& bytes, google::protobuf::MessageLite& message);
grpc::ByteBuffer SerializeMessage(const google::protobuf::MessageLite& message);

// FIELD_INVALID of a message that came at the wrong moment: `field` is `value`, `allowed`.
absl::Status OutOfOrder(std::string_view field, std::string_view value, std::string_view allowed);

}  // namespace tensord::rpc
