// tensord.v1.Sessions.
#include "kernels/core/error.h"
#include "proto/wire/convert_session.h"
#include "server/rpc/services.h"
#include "tensord/v1/session.grpc.pb.h"

namespace tensord::rpc {
namespace {

class SessionsService final : public v1::Sessions::CallbackService {
 public:
  explicit SessionsService(Services& services) : services_(services) {}

  grpc::ServerUnaryReactor* OpenSession(grpc::CallbackServerContext* context, const v1::OpenSessionRequest* request,
                                        v1::OpenSessionResponse* response) override {
    return AnswerNow(
        services_, context, "Sessions/OpenSession", [this, request, response](const Caller& caller) -> absl::Status {
          TENSORD_ASSIGN_OR_RETURN(const OpenSessionRequest open, wire::FromProto(*request));
          TENSORD_ASSIGN_OR_RETURN(const OpenSessionResponse opened, services_.engine.OpenSession(caller, open));
          services_.sessions.Remember(opened.token, opened.session, opened.next_sequence - 1);
          *response = wire::ToProto(opened);
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* KeepAlive(grpc::CallbackServerContext* context, const v1::KeepAliveRequest* request,
                                      v1::KeepAliveResponse* response) override {
    return AnswerNow(services_, context, "Sessions/KeepAlive",
                     [this, request, response](const Caller& caller) -> absl::Status {
                       TENSORD_RETURN_IF_ERROR(wire::FromProto(*request));
                       TENSORD_ASSIGN_OR_RETURN(const KeepAliveResponse alive, services_.engine.KeepAlive(caller));
                       *response = wire::ToProto(alive);
                       return absl::OkStatus();
                     });
  }

  grpc::ServerUnaryReactor* CloseSession(grpc::CallbackServerContext* context, const v1::CloseSessionRequest* request,
                                         v1::CloseSessionResponse* response) override {
    return AnswerNow(services_, context, "Sessions/CloseSession",
                     [this, request, response](const Caller& caller) -> absl::Status {
                       TENSORD_RETURN_IF_ERROR(wire::FromProto(*request));
                       TENSORD_ASSIGN_OR_RETURN(const FreedSession freed, services_.engine.CloseSession(caller));
                       *response = wire::CloseSessionResponseToProto(freed);
                       return absl::OkStatus();
                     });
  }

  grpc::ServerUnaryReactor* ListSessions(grpc::CallbackServerContext* context, const v1::ListSessionsRequest* request,
                                         v1::ListSessionsResponse* response) override {
    return AnswerNow(
        services_, context, "Sessions/ListSessions", [this, request, response](const Caller& caller) -> absl::Status {
          TENSORD_ASSIGN_OR_RETURN(const PageRequest page, wire::FromProto(*request));
          TENSORD_ASSIGN_OR_RETURN(const ListSessionsResponse list, services_.engine.ListSessions(caller, page));
          *response = wire::ToProto(list);
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* KillSession(grpc::CallbackServerContext* context, const v1::KillSessionRequest* request,
                                        v1::KillSessionResponse* response) override {
    return AnswerNow(
        services_, context, "Sessions/KillSession", [this, request, response](const Caller& caller) -> absl::Status {
          TENSORD_ASSIGN_OR_RETURN(const std::string session, wire::FromProto(*request));
          TENSORD_ASSIGN_OR_RETURN(const FreedSession freed, services_.engine.KillSession(caller, session));
          *response = wire::KillSessionResponseToProto(freed);
          return absl::OkStatus();
        });
  }

 private:
  Services& services_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeSessionsService(Services& services) {
  return std::make_unique<SessionsService>(services);
}

}  // namespace tensord::rpc
