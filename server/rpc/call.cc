#include "server/rpc/call.h"

#include <charconv>
#include <chrono>

#include "absl/time/clock.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "kernels/core/error.h"
#include "proto/wire/status_grpc.h"
#include "server/observe/log.h"

namespace tensord::rpc {
namespace {

absl::Status InvalidMetadata(std::string_view key, std::string_view value, std::string_view allowed) {
  return Error(Reason::kFieldInvalid).Say("field", key).With("value", value).With("allowed", allowed).At(key);
}

// gRPC writes the brackets of an address as %5B and %5D.
std::string Unescape(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr == text.data() + i + 3) {
      plain += static_cast<char>(value);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

absl::Time DeadlineOf(const grpc::ServerContextBase& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::InfiniteFuture();
  return absl::FromChrono(deadline);
}

}  // namespace

absl::StatusOr<Caller> CallerOf(const grpc::ServerContextBase& context) {
  Caller caller;
  caller.peer = Unescape(context.peer());
  caller.deadline = DeadlineOf(context);
  const auto& metadata = context.client_metadata();
  const auto [first, last] = metadata.equal_range("tensord-session");
  if (first != last) {
    // The value is a secret: it is never repeated in a message.
    if (std::next(first) != last) return InvalidMetadata("tensord-session", "given twice", "one token");
    caller.token.assign(first->second.data(), first->second.size());
  }
  const auto after = metadata.find("tensord-after");
  if (after != metadata.end()) {
    const std::string_view text(after->second.data(), after->second.size());
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), caller.after);
    if (error != std::errc() || end != text.data() + text.size()) {
      return InvalidMetadata("tensord-after", text.substr(0, 64),
                             "the sequence of a stream message, a decimal number below 2^64");
    }
  }
  return caller;
}

CallScope::CallScope(Services& services, const grpc::ServerContextBase& context, std::string_view method, bool finite)
    : services_(&services), method_(method), finite_(finite), start_(absl::Now()) {
  admission_ = services.calls.Enter(finite);
  const bool entered = admission_.ok();
  absl::StatusOr<Caller> caller = CallerOf(context);
  if (caller.ok()) {
    caller_ = *std::move(caller);
  } else if (entered) {
    services.calls.Leave(finite);
    admission_ = caller.status();
  }
}

CallScope::CallScope(CallScope&& other) noexcept
    : services_(std::exchange(other.services_, nullptr)),
      method_(other.method_),
      finite_(other.finite_),
      start_(other.start_),
      caller_(std::move(other.caller_)),
      admission_(std::move(other.admission_)) {}

void CallScope::End(const absl::Status& status) {
  if (services_ == nullptr) return;
  if (LogsCalls() || status.code() == absl::StatusCode::kInternal || status.code() == absl::StatusCode::kUnknown) {
    LogCall({.method = method_,
             .session = services_->sessions.Find(caller_.token),
             .peer = caller_.peer,
             .status = status,
             .duration = absl::Now() - start_});
  }
  if (admission_.ok()) services_->calls.Leave(finite_);
  services_ = nullptr;
}

void CancellableReactor::OnCancel() { cancellation_->Cancel(Error(Reason::kCancelled)); }

UnaryAnswer::~UnaryAnswer() {
  if (reactor_ != nullptr) Finish(Error(Reason::kInternal).With("id", "answer-dropped"));
}

void UnaryAnswer::Finish(const absl::Status& status) {
  grpc::ServerUnaryReactor* const reactor = std::exchange(reactor_, nullptr);
  const grpc::Status answer = wire::ToGrpc(status);
  scope_.End(status);
  reactor->Finish(answer);
}

absl::Status ParseMessage(grpc::ByteBuffer& bytes, google::protobuf::MessageLite& message) {
  grpc::ProtoBufferReader reader(&bytes);
  if (reader.status().ok() && message.ParseFromZeroCopyStream(&reader)) return absl::OkStatus();
  return Error(Reason::kFieldInvalid)
      .Say("field", "message")
      .With("value", "bytes that cannot be parsed")
      .With("allowed", message.GetTypeName());
}

grpc::ByteBuffer SerializeMessage(const google::protobuf::MessageLite& message) {
  const size_t size = message.ByteSizeLong();
  grpc::Slice slice(size);
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));  // fresh: nobody else sees it yet
  return grpc::ByteBuffer(&slice, 1);
}

absl::Status OutOfOrder(std::string_view field, std::string_view value, std::string_view allowed) {
  return Error(Reason::kFieldInvalid).Say("field", field).With("value", value).With("allowed", allowed).At(field);
}

}  // namespace tensord::rpc
