// A client of the engine in process: a session with its stream, and short ways to say instructions.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/core/error.h"
#include "server/engine/blocking.h"
#include "server/engine/local_engine.h"
#include "server/memory/memory.h"
#include "tests/unit/engine/fake_backend.h"

namespace tensord::testing {

// How long a test waits for what must come.
inline constexpr absl::Duration kPatience = absl::Seconds(60);

inline SpecRequest Spec(Dims shape, std::string device = "cpu", Dtype dtype = Dtype::kFloat32) {
  return {{dtype, std::move(shape)}, std::move(device)};
}
inline Instruction Apply(Op op, std::initializer_list<uint64_t> inputs, uint64_t output,
                         std::initializer_list<uint64_t> frees = {}) {
  Instruction i;
  i.op = op;
  i.inputs.assign(inputs.begin(), inputs.end());
  i.output = output;
  i.frees.assign(frees.begin(), frees.end());
  return i;
}
inline Instruction Make(Op op, uint64_t output, Dims shape, std::string device = "cpu", Dtype dtype = Dtype::kFloat32) {
  Instruction i;
  i.op = op;
  i.output = output;
  CreateAttributes create;
  create.spec = Spec(std::move(shape), std::move(device), dtype);
  i.attributes = std::move(create);
  return i;
}
inline Instruction Labeled(Instruction i, std::string label) {
  i.label = std::move(label);
  return i;
}
inline Instruction Free(std::initializer_list<uint64_t> ids) {
  Instruction i;
  i.frees.assign(ids.begin(), ids.end());
  return i;
}
inline Instruction To(uint64_t input, uint64_t output, std::string device, bool copy = false) {
  Instruction i = Apply(Op::kTo, {input}, output);
  ConvertAttributes convert;
  convert.device = std::move(device);
  convert.copy = copy;
  i.attributes = std::move(convert);
  return i;
}
inline Instruction Reshape(uint64_t input, uint64_t output, Dims shape) {
  Instruction i = Apply(Op::kReshape, {input}, output);
  ViewAttributes view;
  view.shape = std::move(shape);
  i.attributes = std::move(view);
  return i;
}
inline Instruction Permute(uint64_t input, uint64_t output, Axes axes) {
  Instruction i = Apply(Op::kPermute, {input}, output);
  ViewAttributes view;
  view.axes = std::move(axes);
  i.attributes = std::move(view);
  return i;
}
inline std::string Bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}
inline std::vector<float> Floats(std::string_view bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}
inline Instruction Constant(uint64_t output, Dims shape, const std::vector<float>& values, std::string device = "cpu") {
  Instruction i;
  i.op = Op::kConstant;
  i.output = output;
  i.attributes = ConstantAttributes{Spec(std::move(shape), std::move(device)), Bytes(values)};
  return i;
}

inline ProgramValue Formal(std::string name, uint64_t id) {
  ProgramValue value;
  value.name = std::move(name);
  value.id = id;
  return value;
}
inline Argument Given(TensorRef tensor, std::string name = "", bool donate = false) {
  Argument argument;
  argument.name = std::move(name);
  argument.value = std::move(tensor);
  argument.donate = donate;
  return argument;
}
inline Argument Literal(Dims shape, const std::vector<float>& values, std::string device = "cpu") {
  Argument argument;
  argument.value = TensorLiteral{Spec(std::move(shape), std::move(device)), Bytes(values)};
  return argument;
}
inline ResultRequest Keep(uint64_t id) {
  ResultRequest result;
  result.id = id;
  return result;
}
inline ResultRequest Name(std::string name) {
  ResultRequest result;
  result.publish = std::move(name);
  return result;
}
inline ResultRequest Show(std::string output = "") {
  ResultRequest result;
  result.name = std::move(output);
  result.value = ValueFormat::kRaw;
  return result;
}
inline UploadStart UploadOf(uint64_t id, SpecRequest spec) {
  UploadStart start;
  start.id = id;
  start.spec = std::move(spec);
  return start;
}
inline DeleteTensorsRequest Delete(std::vector<TensorRef> tensors) {
  DeleteTensorsRequest request;
  request.tensors = std::move(tensors);
  return request;
}

// Collects what a stream says. Thread safe.
class Listener final : public StreamListener {
 public:
  void OnReply(ReadReply reply) override {
    absl::MutexLock lock(&mu_);
    order_.push_back(reply.tag);
    replies_.emplace(reply.tag, std::move(reply));
  }
  void OnReport(InstructionReport report) override {
    absl::MutexLock lock(&mu_);
    reports_.push_back(std::move(report));
  }
  void OnAcknowledged(uint64_t sequence) override {
    absl::MutexLock lock(&mu_);
    acknowledged_ = sequence;
  }
  void OnNotice(absl::Status notice) override {
    absl::MutexLock lock(&mu_);
    notices_.push_back(std::move(notice));
  }
  void OnEnd(absl::Status status) override {
    absl::MutexLock lock(&mu_);
    ++ends_;
    end_ = std::move(status);
  }

  // Waits for the first reply with this tag.
  ReadReply Await(uint64_t tag) {
    absl::MutexLock lock(&mu_);
    const auto there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return replies_.contains(tag) || ends_ > 0; };
    if (!mu_.AwaitWithTimeout(absl::Condition(&there), kPatience) || !replies_.contains(tag)) {
      ADD_FAILURE() << "no reply " << tag << "; end: " << end_;
      return {};
    }
    return replies_.find(tag)->second;
  }
  std::vector<InstructionReport> AwaitReports(size_t count) {
    absl::MutexLock lock(&mu_);
    const auto there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return reports_.size() >= count; };
    EXPECT_TRUE(mu_.AwaitWithTimeout(absl::Condition(&there), kPatience));
    return reports_;
  }
  void AwaitAcknowledged(uint64_t sequence) {
    absl::MutexLock lock(&mu_);
    const auto there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return acknowledged_ >= sequence; };
    EXPECT_TRUE(mu_.AwaitWithTimeout(absl::Condition(&there), kPatience));
  }
  absl::Status AwaitEnd() {
    absl::MutexLock lock(&mu_);
    const auto there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return ends_ > 0; };
    EXPECT_TRUE(mu_.AwaitWithTimeout(absl::Condition(&there), kPatience));
    return end_;
  }
  bool replied(uint64_t tag) const {
    absl::MutexLock lock(&mu_);
    return replies_.contains(tag);
  }
  size_t replies(uint64_t tag) const {
    absl::MutexLock lock(&mu_);
    return replies_.count(tag);
  }
  uint64_t acknowledged() const {
    absl::MutexLock lock(&mu_);
    return acknowledged_;
  }
  std::vector<uint64_t> order() const {
    absl::MutexLock lock(&mu_);
    return order_;
  }
  std::vector<absl::Status> notices() const {
    absl::MutexLock lock(&mu_);
    return notices_;
  }
  int ends() const {
    absl::MutexLock lock(&mu_);
    return ends_;
  }

 private:
  mutable absl::Mutex mu_;
  std::multimap<uint64_t, ReadReply> replies_ ABSL_GUARDED_BY(mu_);
  std::vector<uint64_t> order_ ABSL_GUARDED_BY(mu_);
  std::vector<InstructionReport> reports_ ABSL_GUARDED_BY(mu_);
  std::vector<absl::Status> notices_ ABSL_GUARDED_BY(mu_);
  uint64_t acknowledged_ ABSL_GUARDED_BY(mu_) = 0;
  int ends_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status end_ ABSL_GUARDED_BY(mu_);
};

// A session with its stream.
class Client {
 public:
  Client(Engine& engine, OpenSessionRequest request = {}, std::string principal = "local") : engine_(engine) {
    caller.principal = std::move(principal);
    absl::StatusOr<OpenSessionResponse> opened = engine.OpenSession(caller, request);
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (!opened.ok()) return;
    session = opened->session;
    caller.token = opened->token;
    OpenStream();
  }
  void OpenStream() {
    listener = std::make_shared<Listener>();
    absl::StatusOr<std::unique_ptr<InstructionStream>> opened = engine_.OpenStream(caller, listener);
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (opened.ok()) stream = *std::move(opened);
  }
  // A message with the next sequence number.
  StreamMessage Message(std::vector<Instruction> instructions, std::vector<Read> reads = {}) {
    StreamMessage message;
    message.sequence = sequence++;
    message.instructions = std::move(instructions);
    message.reads = std::move(reads);
    return message;
  }
  absl::Status Send(std::vector<Instruction> instructions, std::vector<Read> reads = {}) {
    return stream->Submit(Message(std::move(instructions), std::move(reads)));
  }
  // Asks for a tensor's values and waits.
  ReadReply Get(uint64_t id) {
    const uint64_t tag = next_tag++;
    EXPECT_TRUE(Send({}, {{tag, id, ValueFormat::kRaw}}).ok());
    return listener->Await(tag);
  }
  std::vector<float> Values(uint64_t id) {
    const ReadReply reply = Get(id);
    EXPECT_TRUE(reply.error.ok()) << reply.error;
    return reply.data ? Floats(*reply.data) : std::vector<float>();
  }
  // Waits until everything sent before has ended.
  void Settle() {
    const uint64_t tag = next_tag++;
    EXPECT_TRUE(Send({}, {{tag, 0, ValueFormat::kNone}}).ok());
    listener->Await(tag);
  }

  Caller caller;
  std::string session;
  std::shared_ptr<Listener> listener;
  std::unique_ptr<InstructionStream> stream;
  uint64_t sequence = 1;
  uint64_t next_tag = 1000000;

 private:
  Engine& engine_;
};

// An engine on fake devices: "cpu", and "cuda:0" whose memory the host may not touch.
class EngineTest : public ::testing::Test {
 protected:
  void Start(EngineOptions options = {}, size_t cpu_bytes = size_t{1} << 28, size_t cuda_bytes = size_t{1} << 28) {
    StartWith({.id = {DeviceKind::kCuda, 0}, .memory_bytes = cuda_bytes, .host_addressable = false}, std::move(options),
              cpu_bytes);
  }
  // With a pool on the GPU where `pooled`: freed blocks are then given out again in the order of the stream.
  void StartWith(FakeBackend::Options gpu_options, EngineOptions options = {}, size_t cpu_bytes = size_t{1} << 28,
                 bool pooled = false) {
    engine.reset();
    std::vector<EngineDevice> devices(2);
    auto gpu = std::make_unique<FakeBackend>(std::move(gpu_options));
    if (pooled) devices[0].stack.push_back(MakeCachingPool(gpu->memory()));
    auto host = std::make_unique<FakeBackend>(FakeBackend::Options{{DeviceKind::kCpu, 0}, cpu_bytes, true});
    cuda = gpu.get();
    cpu = host.get();
    devices[0].backend = std::move(gpu);
    devices[1].backend = std::move(host);
    engine = LocalEngine::Create(std::move(devices), std::move(options));
  }
  absl::StatusOr<ExecuteResponse> Run(const Caller& caller, ExecuteRequest request) {
    return Await<ExecuteResponse>([&](auto done) { engine->Execute(caller, std::move(request), std::move(done)); });
  }
  // Waits until what is alive is as `wanted` says: counts fall on executor threads.
  template <class F>
  void AwaitCounts(F wanted) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (!wanted(engine->CountAlive()) && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
    const LocalEngine::Counts c = engine->CountAlive();
    EXPECT_TRUE(wanted(c)) << "sessions " << c.sessions << ", handles " << c.handles << ", names " << c.names
                           << ", buffers " << c.buffers << ", bytes " << c.buffer_bytes;
  }

  FakeBackend* cpu = nullptr;
  FakeBackend* cuda = nullptr;
  std::unique_ptr<LocalEngine> engine;
};

// The metadata of a refusal.
inline std::string Meta(const absl::Status& status, std::string_view key) {
  return std::string(DetailsOf(status).Get(key));
}

}  // namespace tensord::testing
