// tensord.v1.Devices.
#include <optional>

#include "absl/time/clock.h"
#include "grpcpp/alarm.h"
#include "kernels/core/error.h"
#include "proto/wire/convert_device.h"
#include "proto/wire/status_grpc.h"
#include "server/rpc/services.h"
#include "tensord/v1/device.grpc.pb.h"

namespace tensord::rpc {
namespace {

// Samples at an interval, until the client or the daemon ends it. A slow reader gets fewer samples: the next one is due
// an interval after the last was taken by the transport. Callbacks reach the reactor through `link_`, because an alarm
// may fire after the call's end.
class WatchReactor final : public grpc::ServerWriteReactor<v1::WatchDevicesResponse>, public LongCall {
 public:
  WatchReactor(Services& services, grpc::CallbackServerContext* context, const v1::WatchDevicesRequest& request)
      : services_(services),
        scope_(services, *context, "Devices/WatchDevices", /*finite=*/false),
        link_(std::make_shared<Link<WatchReactor>>(this)) {
    absl::StatusOr<wire::DeviceWatch> watch = wire::FromProto(request);
    if (!scope_.admission().ok() || !watch.ok()) {
      EndCall(scope_.admission().ok() ? watch.status() : scope_.admission());
      return;
    }
    watch_ = *std::move(watch);
    services_.calls.Add(this);
    Sample();
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) end_ = Error(Reason::kCancelled);
    Settle();
    if (finished_) return;
    // A new alarm each time: the old one may still be inside its callback.
    alarm_ = std::make_unique<grpc::Alarm>();
    alarm_->Set(absl::ToChronoTime(absl::Now() + watch_.interval), [link = link_](bool fired) {
      if (fired) link->With([](WatchReactor& watch) { watch.Sample(); });
    });
  }

  void OnCancel() override { EndCall(Error(Reason::kCancelled)); }
  void OnDrain(const absl::Status& notice) override { EndCall(notice); }

  void EndCall(const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    if (!end_.has_value()) end_ = status;
    Settle();
  }

  void OnDone() override {
    link_->Cut();
    services_.calls.Remove(this);
    scope_.End(final_);
    delete this;
  }

 private:
  void Sample() {
    absl::StatusOr<ListDevicesResponse> list =
        services_.engine.ListDevices(scope_.caller(), watch_.query.devices, watch_.query.with_holders);
    absl::MutexLock lock(&mutex_);
    if (finished_ || writing_) return;
    if (!list.ok() && !end_.has_value()) end_ = list.status();
    if (!end_.has_value()) {
      response_ = wire::ToProto(wire::DeviceSample{.time = absl::Now(), .devices = std::move(list->devices)});
      writing_ = true;
      StartWrite(&response_);
    }
    Settle();
  }

  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_ || writing_ || !end_.has_value()) return;
    finished_ = true;
    final_ = *end_;
    Finish(wire::ToGrpc(*end_));
  }

  Services& services_;
  CallScope scope_;
  const std::shared_ptr<Link<WatchReactor>> link_;
  wire::DeviceWatch watch_;  // constant once sampling has begun
  absl::Status final_;       // written before Finish, read after it

  absl::Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  v1::WatchDevicesResponse response_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
};

class DevicesService final : public v1::Devices::CallbackService {
 public:
  explicit DevicesService(Services& services) : services_(services) {}

  grpc::ServerUnaryReactor* ListDevices(grpc::CallbackServerContext* context, const v1::ListDevicesRequest* request,
                                        v1::ListDevicesResponse* response) override {
    return AnswerNow(
        services_, context, "Devices/ListDevices", [this, request, response](const Caller& caller) -> absl::Status {
          TENSORD_ASSIGN_OR_RETURN(const wire::DeviceQuery query, wire::FromProto(*request));
          TENSORD_ASSIGN_OR_RETURN(const ListDevicesResponse list,
                                   services_.engine.ListDevices(caller, query.devices, query.with_holders));
          *response = wire::ToProto(list);
          return absl::OkStatus();
        });
  }

  grpc::ServerWriteReactor<v1::WatchDevicesResponse>* WatchDevices(grpc::CallbackServerContext* context,
                                                                   const v1::WatchDevicesRequest* request) override {
    return new WatchReactor(services_, context, *request);
  }

  grpc::ServerUnaryReactor* TrimMemory(grpc::CallbackServerContext* context, const v1::TrimMemoryRequest* request,
                                       v1::TrimMemoryResponse* response) override {
    return AnswerNow(services_, context, "Devices/TrimMemory",
                     [this, request, response](const Caller& caller) -> absl::Status {
                       TENSORD_ASSIGN_OR_RETURN(const std::vector<std::string> devices, wire::FromProto(*request));
                       TENSORD_ASSIGN_OR_RETURN(const uint64_t released, services_.engine.TrimMemory(caller, devices));
                       *response = wire::TrimMemoryResponseToProto(released);
                       return absl::OkStatus();
                     });
  }

 private:
  Services& services_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeDevicesService(Services& services) {
  return std::make_unique<DevicesService>(services);
}

}  // namespace tensord::rpc
