#include "tests/conformance/harness.h"

#include <algorithm>
#include <cmath>

#include "absl/time/clock.h"

namespace tensord::conformance {
namespace {

constexpr uint64_t kChunk = 1 << 20;

ExecuteRequest OneInstruction(Op op, const std::vector<TestSession::Operand>& operands, Attributes attributes) {
  Program program;
  Instruction instruction;
  instruction.op = op;
  instruction.attributes = std::move(attributes);
  ExecuteRequest request;
  for (const auto& operand : operands) {
    if (operand.id == 0) {
      instruction.inputs.push_back(0);
      instruction.scalars.push_back(operand.scalar);
      continue;
    }
    const uint64_t value = program.inputs.size() + 1;
    program.inputs.push_back({.id = value});
    request.inputs.push_back({"", TensorRef::Id(operand.id), false});
    instruction.inputs.push_back(value);
  }
  instruction.output = program.inputs.size() + 1;
  program.outputs.push_back({.id = instruction.output});
  program.instructions.push_back(std::move(instruction));
  request.callee = std::move(program);
  return request;
}

}  // namespace

TestSession::TestSession(Engine& engine, OpenSessionRequest request) : engine_(engine) {
  if (request.client.empty()) request.client = "conformance";
  auto opened = engine_.OpenSession(caller_, request);
  EXPECT_TRUE(opened.ok()) << opened.status();
  if (!opened.ok()) {
    open_ = false;
    return;
  }
  opened_ = *std::move(opened);
  caller_.token = opened_.token;
  last_id_ = opened_.highest_id;
}

TestSession::~TestSession() { Close(); }

void TestSession::Close() {
  if (!open_) return;
  open_ = false;
  (void)engine_.CloseSession(caller_);
}

uint64_t TestSession::Put(const oracle::Array& array, const std::string& device) {
  const uint64_t id = NewId();
  auto sink = engine_.Upload(caller_, {.id = id, .spec = {array.type, device}, .checksum = Checksum::kXxh3});
  EXPECT_TRUE(sink.ok()) << sink.status();
  if (!sink.ok()) return id;
  for (uint64_t at = 0; at < array.bytes.size(); at += kChunk) {
    const std::string_view piece = std::string_view(array.bytes).substr(at, kChunk);
    const absl::Status written = (*sink)->Write(at, {&piece, 1}, std::nullopt);
    EXPECT_TRUE(written.ok()) << written;
  }
  const auto info = (*sink)->Finish();
  EXPECT_TRUE(info.ok()) << info.status();
  return id;
}

absl::StatusOr<oracle::Array> TestSession::Get(const TensorRef& tensor) {
  auto source = Await<std::unique_ptr<DownloadSource>>(
      [&](auto done) { engine_.Download(caller_, {.tensor = tensor}, std::move(done)); });
  if (!source.ok()) return source.status();
  oracle::Array array{(*source)->info().spec.type, {}};
  array.bytes.resize((*source)->total());
  size_t at = 0;
  while (at < array.bytes.size()) {
    TENSORD_ASSIGN_OR_RETURN(const size_t n, (*source)->Read(absl::MakeSpan(array.bytes).subspan(at)));
    if (n == 0) break;
    at += n;
  }
  EXPECT_EQ(at, array.bytes.size());
  return array;
}

oracle::Array TestSession::MustGet(uint64_t id) {
  auto array = Get(TensorRef::Id(id));
  EXPECT_TRUE(array.ok()) << array.status();
  return array.ok() ? *std::move(array) : oracle::Array{};
}

absl::StatusOr<ExecuteResponse> TestSession::Execute(ExecuteRequest request) {
  return Await<ExecuteResponse>([&](auto done) { engine_.Execute(caller_, std::move(request), std::move(done)); });
}

absl::StatusOr<uint64_t> TestSession::Run(Op op, const std::vector<Operand>& operands, Attributes attributes) {
  ExecuteRequest request = OneInstruction(op, operands, std::move(attributes));
  const uint64_t id = NewId();
  request.outputs.push_back({.id = id});
  TENSORD_ASSIGN_OR_RETURN(const auto response, Execute(std::move(request)));
  return id;
}

uint64_t TestSession::MustRun(Op op, const std::vector<Operand>& operands, Attributes attributes) {
  auto id = Run(op, operands, std::move(attributes));
  EXPECT_TRUE(id.ok()) << RowOf(op).name << ": " << id.status();
  return id.ok() ? *id : 0;
}

void TestSession::Free(const std::vector<uint64_t>& ids) {
  const size_t page = opened_.limits.max_page_size;
  for (size_t at = 0; at < ids.size(); at += page) {
    DeleteTensorsRequest request;
    for (size_t i = at; i < std::min(ids.size(), at + page); ++i) request.tensors.push_back(TensorRef::Id(ids[i]));
    const auto deleted = engine_.DeleteTensors(caller_, request);
    EXPECT_TRUE(deleted.ok()) << deleted.status();
  }
}

void ConformanceTest::SetUp() { Restart(Options()); }

void ConformanceTest::Restart(const EngineOptions& options) {
  session_.reset();
  subject_.reset();
  subject_ = GetParam().make(options);
  session_ = std::make_unique<TestSession>(engine());
}

void ConformanceTest::TearDown() {
  session_.reset();
  for (const std::string& device : DeviceNames()) {
    TestSession probe(engine());
    const uint64_t a = probe.Put(ArrayOf(Dtype::kFloat32, {2}, {1, 2}), device);
    const uint64_t b = probe.Put(ArrayOf(Dtype::kFloat32, {2}, {3, 4}), device);
    const oracle::Array sum = probe.MustGet(probe.MustRun(Op::kAdd, {a, b}));
    EXPECT_EQ(oracle::Compare(sum, ArrayOf(Dtype::kFloat32, {2}, {4, 6})), "") << "the probe on " << device;
  }
  // A call's end reaches the client before the daemon has let go of everything: what must come is waited for.
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  LocalEngine::Counts counts = local().CountAlive();
  const auto clean = [&] {
    return counts.sessions == 0 && counts.handles == 0 && (counts.names > 0 || counts.buffer_bytes == 0);
  };
  while (!clean() && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
    counts = local().CountAlive();
  }
  EXPECT_TRUE(clean()) << "left over: " << counts.sessions << " sessions, " << counts.handles << " handles, "
                       << counts.buffer_bytes << " bytes";
  subject_.reset();
}

void ExpectReason(const absl::Status& status, Reason reason, const std::vector<std::string>& keys) {
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.reason_name, RowOf(reason).name) << status;
  if (details.reason != reason) return;
  EXPECT_EQ(status.code(), RowOf(reason).code);
  EXPECT_EQ(std::string(status.message()).find('?'), std::string::npos) << status;
  EXPECT_EQ(details.retry_ms.has_value(), RowOf(reason).retry) << status;
  for (const std::string& key : keys) {
    const bool there = std::any_of(details.metadata.begin(), details.metadata.end(),
                                   [&](const auto& pair) { return pair.first == key; });
    EXPECT_TRUE(there) << "no metadata " << key << " in " << status;
  }
}

oracle::Array ArrayOf(Dtype dtype, const Dims& shape, const std::vector<double>& values) {
  std::vector<oracle::Number> elements;
  for (const double v : values) {
    const bool whole = !IsReal(dtype) && std::isfinite(v);
    elements.push_back(whole ? oracle::Number::Integer(static_cast<int64_t>(v))
                             : oracle::Number::Real(static_cast<long double>(v)));
  }
  return oracle::Array::Of(dtype, shape, elements);
}

}  // namespace tensord::conformance
