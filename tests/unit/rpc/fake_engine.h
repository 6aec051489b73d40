// An engine that records what it is asked and answers what the test says.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/core/error.h"
#include "server/engine/engine.h"

namespace tensord::testing {

// What a test looks at from its own thread while the server's threads write it.
template <class T>
class Recorded {
 public:
  void Push(T value) {
    absl::MutexLock lock(&mutex_);
    values_.push_back(std::move(value));
  }
  std::vector<T> All() const {
    absl::MutexLock lock(&mutex_);
    return values_;
  }
  // Waits until there are `count`; the test's own time limit is the bound.
  std::vector<T> Await(size_t count) const {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return values_.size() >= count; };
    mutex_.Await(absl::Condition(&enough));
    return values_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<T> values_ ABSL_GUARDED_BY(mutex_);
};

// A tensor of bytes that is ready.
[[gnu::noinline]] inline TensorInfo InfoOf(uint64_t id, uint64_t bytes) {
  TensorInfo info;
  info.id = id;
  info.spec = {{Dtype::kUint8, Dims{static_cast<int64_t>(bytes)}}, {}};
  info.state = TensorState::kReady;
  info.bytes = bytes;
  return info;
}

// Keeps the bytes in memory. `kept`, shared with the test, survives the sink, as an upload that broke does.
struct FakeUpload {
  std::shared_ptr<Cancellation> revocation = std::make_shared<Cancellation>();
  std::string bytes;
  uint64_t total = 0;
  Checksum checksum = Checksum::kNone;
};

class FakeSink final : public UploadSink {
 public:
  FakeSink(std::shared_ptr<FakeUpload> upload, Recorded<std::string>& events)
      : upload_(std::move(upload)), events_(events) {}
  ~FakeSink() override { events_.Push(StrCat("sink gone at ", upload_->bytes.size())); }
  uint64_t received() const override { return upload_->bytes.size(); }
  uint64_t total() const override { return upload_->total; }
  bool complete() const override { return received() == total(); }
  absl::Status Write(uint64_t offset, absl::Span<const std::string_view> pieces,
                     std::optional<uint64_t> checksum) override {
    if (offset != received()) {
      return Error(Reason::kChunkOffset).With("expected", received()).With("got", offset).With("total", total());
    }
    std::string chunk;
    for (const std::string_view piece : pieces) chunk.append(piece);
    events_.Push(StrCat("chunk ", offset, "+", chunk.size(), checksum.has_value() ? " checked" : ""));
    if (chunk.size() > total() - received()) {
      return Error(Reason::kDataInvalid).With("expected_bytes", total()).With("got_bytes", offset + chunk.size());
    }
    upload_->bytes += chunk;
    return absl::OkStatus();
  }
  absl::StatusOr<TensorInfo> Finish() override {
    events_.Push("finish");
    return InfoOf(20, total());
  }
  std::shared_ptr<Cancellation> revocation() const override { return upload_->revocation; }

 private:
  const std::shared_ptr<FakeUpload> upload_;
  Recorded<std::string>& events_;
};

class FakeSource final : public DownloadSource {
 public:
  FakeSource(std::string bytes, Recorded<std::string>& events)
      : bytes_(std::move(bytes)), events_(events), info_(InfoOf(20, bytes_.size())) {}
  ~FakeSource() override { events_.Push("source gone"); }
  const TensorInfo& info() const override { return info_; }
  uint64_t total() const override { return bytes_.size(); }
  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    // Less than asked for, as a source may.
    const size_t size = std::min({out.size(), bytes_.size() - at_, size_t{100'000}});
    bytes_.copy(out.data(), size, at_);
    at_ += size;
    events_.Push(StrCat("read ", size));
    return size;
  }

 private:
  const std::string bytes_;
  Recorded<std::string>& events_;
  const TensorInfo info_;
  size_t at_ = 0;
};

class FakeEngine : public Engine {
 public:
  // Seen.
  Recorded<Caller> callers;
  Recorded<std::string> events;
  Recorded<StreamMessage> messages;
  Recorded<std::shared_ptr<StreamListener>> listeners;

  // Said. A function that is not set refuses with NOT_OFFERED, so that a call that nobody expected fails its test.
  std::function<absl::StatusOr<TensorInfo>(const TensorRef&)> get_tensor;
  std::function<void(ExecuteRequest, Done<ExecuteResponse>)> execute;
  std::function<absl::StatusOr<std::unique_ptr<UploadSink>>(const UploadStart&)> upload;
  std::function<void(const DownloadRequest&, Done<std::unique_ptr<DownloadSource>>)> download;
  std::function<absl::Status(StreamMessage&, StreamListener&)> submit;
  std::function<absl::StatusOr<OpenSessionResponse>(const OpenSessionRequest&)> open_session;

  absl::StatusOr<OpenSessionResponse> OpenSession(const Caller& caller, const OpenSessionRequest& request) override {
    return Ask(caller, open_session, request);
  }
  absl::StatusOr<KeepAliveResponse> KeepAlive(const Caller& caller) override { return Refuse(caller, "KeepAlive"); }
  absl::StatusOr<FreedSession> CloseSession(const Caller& caller) override {
    callers.Push(caller);
    return FreedSession{.handles = 3, .bytes = 96};
  }
  absl::StatusOr<ListSessionsResponse> ListSessions(const Caller& caller, const PageRequest& /*page*/) override {
    return Refuse(caller, "ListSessions");
  }
  absl::StatusOr<FreedSession> KillSession(const Caller& caller, const std::string& /*session*/) override {
    return Refuse(caller, "KillSession");
  }
  absl::StatusOr<ListDevicesResponse> ListDevices(const Caller& caller, const std::vector<std::string>& devices,
                                                  bool /*with_holders*/) override {
    callers.Push(caller);
    ListDevicesResponse response;
    response.host.daemon_version = "0.1.0";
    response.host.incarnation = 7;
    for (const std::string& name : devices) {
      const std::optional<DeviceId> id = DeviceId::Parse(name);
      if (!id.has_value())
        return Error(Reason::kDeviceUnknown).With("device", name).With("known", "cpu").At("devices[0]");
    }
    DeviceDescription cpu;
    cpu.info.model = "a processor";
    response.devices.push_back(cpu);
    return response;
  }
  absl::StatusOr<uint64_t> TrimMemory(const Caller& caller, const std::vector<std::string>& /*devices*/) override {
    callers.Push(caller);
    return uint64_t{4096};
  }
  void Execute(const Caller& caller, ExecuteRequest request, Done<ExecuteResponse> done) override {
    callers.Push(caller);
    if (!execute) return done(Refusal("Execute"));
    execute(std::move(request), std::move(done));
  }
  absl::StatusOr<std::unique_ptr<InstructionStream>> OpenStream(const Caller& caller,
                                                                std::shared_ptr<StreamListener> listener) override {
    callers.Push(caller);
    if (caller.token.empty()) return Error(Reason::kSessionRequired).With("field", "Stream");
    listeners.Push(listener);
    return std::make_unique<Stream>(*this, std::move(listener));
  }
  absl::StatusOr<RegisterProgramResponse> RegisterProgram(const Caller& caller, uint64_t /*id*/,
                                                          Program /*program*/) override {
    return Refuse(caller, "RegisterProgram");
  }
  absl::Status UnregisterProgram(const Caller& caller, uint64_t id) override {
    callers.Push(caller);
    return Error(Reason::kHandleUnknown).With("id", id).With("kind", "program").With("state", "never").At("id");
  }
  absl::StatusOr<std::vector<OpDescription>> ListOps(const Caller& caller, const std::string& prefix) override {
    callers.Push(caller);
    events.Push(StrCat("prefix ", prefix));
    OpDescription add;
    add.op = Op::kAdd;
    add.support = {{DeviceKind::kCpu, {Dtype::kFloat32, Dtype::kInt64}}};
    return std::vector<OpDescription>{add};
  }
  absl::StatusOr<std::unique_ptr<UploadSink>> Upload(const Caller& caller, const UploadStart& start) override {
    return Ask(caller, upload, start);
  }
  void Download(const Caller& caller, const DownloadRequest& request,
                Done<std::unique_ptr<DownloadSource>> done) override {
    callers.Push(caller);
    if (!download) return done(Refusal("Download"));
    download(request, std::move(done));
  }
  absl::StatusOr<TensorInfo> GetTensor(const Caller& caller, const TensorRef& tensor) override {
    return Ask(caller, get_tensor, tensor);
  }
  absl::StatusOr<ListTensorsResponse> ListTensors(const Caller& caller,
                                                  const ListTensorsRequest& /*request*/) override {
    return Refuse(caller, "ListTensors");
  }
  absl::StatusOr<PublishResponse> Publish(const Caller& caller, const PublishRequest& /*request*/) override {
    return Refuse(caller, "Publish");
  }
  absl::StatusOr<DeleteTensorsResponse> DeleteTensors(const Caller& caller,
                                                      const DeleteTensorsRequest& /*request*/) override {
    return Refuse(caller, "DeleteTensors");
  }
  void CreateModel(const Caller& caller, CreateModelRequest /*request*/, Done<ModelInfo> done) override {
    done(Refuse(caller, "CreateModel"));
  }
  absl::StatusOr<ModelInfo> GetModel(const Caller& caller, const ModelRef& /*model*/, bool /*with_program*/) override {
    return Refuse(caller, "GetModel");
  }
  absl::StatusOr<ListModelsResponse> ListModels(const Caller& caller, const ListModelsRequest& /*request*/) override {
    return Refuse(caller, "ListModels");
  }
  void UpdateModel(const Caller& caller, UpdateModelRequest /*request*/, Done<ModelInfo> done) override {
    done(Refuse(caller, "UpdateModel"));
  }
  absl::StatusOr<uint64_t> DeleteModel(const Caller& caller, const ModelRef& /*model*/) override {
    return Refuse(caller, "DeleteModel");
  }

 private:
  class Stream final : public InstructionStream {
   public:
    Stream(FakeEngine& engine, std::shared_ptr<StreamListener> listener)
        : engine_(engine), listener_(std::move(listener)) {}
    ~Stream() override { engine_.events.Push("stream gone"); }
    absl::Status Submit(StreamMessage message) override {
      const absl::Status status = engine_.submit ? engine_.submit(message, *listener_) : Refusal("Submit");
      engine_.messages.Push(std::move(message));
      return status;
    }

   private:
    FakeEngine& engine_;
    const std::shared_ptr<StreamListener> listener_;
  };

  static absl::Status Refusal(std::string_view what) {
    return Error(Reason::kNotOffered).With("what", what).With("daemon_version", "0.1.0");
  }
  absl::Status Refuse(const Caller& caller, std::string_view what) {
    callers.Push(caller);
    return Refusal(what);
  }
  template <class R, class A>
  R Ask(const Caller& caller, const std::function<R(const A&)>& say, const A& request) {
    callers.Push(caller);
    if (!say) return Refusal("what the test did not expect");
    return say(request);
  }
};

}  // namespace tensord::testing
