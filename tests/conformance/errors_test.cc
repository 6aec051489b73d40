// Every row of errors.def is provoked here, or stands in a list with the reason why it cannot be provoked yet. After each refusal the next call works.
#include <functional>
#include <map>

#include "tests/conformance/harness.h"

namespace tensord::conformance {
namespace {

// Rows for what this daemon does not do yet; they get a test with what provokes them.
const std::map<Reason, std::string_view> kNotYet = {
    {Reason::kFieldUnknown, "only the wire has fields by number: tests/unit/wire"},
    {Reason::kDtypeUnknown, "an engine takes a Dtype; unknown numbers are the wire's: tests/unit/wire"},
    {Reason::kOpUnknown, "an engine takes an Op; unknown names are the wire's: tests/unit/wire"},
    {Reason::kNotOffered, "what is not offered is refused by the wire: tests/unit/wire and tests/unit/rpc"},
    {Reason::kMatrixSingular, "no op inverts a matrix yet"},
    {Reason::kSegmentInvalid, "no shared memory yet"},
    {Reason::kSegmentRefused, "no shared memory yet"},
    {Reason::kQueueFull, "no batching yet"},
    {Reason::kModelInvalid, "no model files yet"},
    {Reason::kModelUnsupported, "no model files yet: tests/unit/wire refuses them"},
    {Reason::kUnauthenticated, "no authentication yet"},
    {Reason::kPermissionDenied, "no roles yet"},
    {Reason::kLeaseEnding, "a notice of the stream, never a refusal"},
    {Reason::kDeviceRecovering, "needs a device that fails: tests/unit/engine"},
    {Reason::kDeviceLost, "loss_test.cc"},
    {Reason::kStateFailed, "no state on disk yet"},
    {Reason::kInternal, "our own faults: tests/unit/engine injects them"},
    {Reason::kCancelled, "stream_test.cc"},
    {Reason::kSequenceGap, "stream_test.cc"},
    {Reason::kStreamReplaced, "stream_test.cc"},
    {Reason::kDeadlineExceeded, "tests/unit/engine holds the device still"},
    {Reason::kDraining, "tests/unit/rpc and tests/unit/engine end a daemon"},
};

class ErrorsTest : public ConformanceTest {
 protected:
  EngineOptions Options() const override {
    EngineOptions options;
    options.limits.max_programs = 2;
    return options;
  }

  uint64_t Ones(const std::string& device, const Dims& shape = {2, 3}, Dtype dtype = Dtype::kFloat32) {
    return session().MustRun(Op::kOnes, {}, Create(dtype, shape, device));
  }
  static CreateAttributes Create(Dtype dtype, const Dims& shape, const std::string& device) {
    CreateAttributes create;
    create.spec = {{dtype, shape}, device};
    return create;
  }
  static Program AddProgram() {
    Program program;
    program.inputs = {{.name = "a", .id = 1}, {.name = "b", .id = 2}};
    Instruction add;
    add.op = Op::kAdd;
    add.inputs = {1, 2};
    add.output = 3;
    program.instructions.push_back(add);
    program.outputs = {{.name = "sum", .id = 3}};
    return program;
  }
  absl::Status ExecuteProgram(Program program, std::vector<Argument> inputs) {
    ExecuteRequest request;
    request.callee = std::move(program);
    request.inputs = std::move(inputs);
    return session().Execute(std::move(request)).status();
  }
  absl::StatusOr<std::unique_ptr<UploadSink>> StartUpload(uint64_t id, Dtype dtype, const Dims& shape,
                                                          Checksum checksum = Checksum::kNone) {
    return engine().Upload(session().caller(), {.id = id, .spec = {{dtype, shape}, "cpu"}, .checksum = checksum});
  }
  absl::Status Publish(TensorRef tensor, const std::string& name, int64_t if_version = 0) {
    PublishRequest request;
    request.source = std::move(tensor);
    request.name = name;
    request.if_version = if_version;
    return engine().Publish(session().caller(), request).status();
  }
  absl::StatusOr<ModelInfo> MakeModel(const std::string& name, const std::string& type,
                                      std::map<std::string, LayerOption> options) {
    CreateModelRequest request;
    request.name = name;
    request.layers = {.type = "Sequential", .layers = {{.type = type, .options = std::move(options)}}};
    return Await<ModelInfo>([&](auto done) { engine().CreateModel(session().caller(), request, std::move(done)); });
  }
  static LayerOption Whole(int64_t value) { return {Scalar{value, Dtype::kNone}}; }

  struct Case {
    std::function<absl::Status()> provoke;
    std::vector<std::string> keys;  // of wire.md (e)
  };
  std::map<Reason, Case> Cases();
};

std::map<Reason, ErrorsTest::Case> ErrorsTest::Cases() {
  std::map<Reason, Case> cases;
  cases[Reason::kFieldInvalid] = {
      [&] {
        const uint64_t x = Ones("cpu");
        return Await<std::unique_ptr<DownloadSource>>([&](auto done) {
                 engine().Download(session().caller(), {.tensor = TensorRef::Id(x), .offset = 1000}, std::move(done));
               })
            .status();
      },
      {"value", "allowed"}};
  cases[Reason::kLimitExceeded] = {
      [&] { return session().Run(Op::kOnes, {}, Create(Dtype::kFloat32, Dims(65, 1), "cpu")).status(); },
      {"limit", "value", "maximum"}};
  cases[Reason::kDtypeMismatch] = {
      [&] {
        return session().Run(Op::kAdd, {Ones("cpu", {2}, Dtype::kInt64), Ones("cpu", {2}, Dtype::kUint64)}).status();
      },
      {"dtypes", "op"}};
  cases[Reason::kShapeInvalid] = {
      [&] {
        return session().Run(Op::kOnes, {}, Create(Dtype::kFloat32, {int64_t{1} << 62, 4}, "cpu")).status();
      },
      {"shape", "item_bytes"}};
  cases[Reason::kShapeMismatch] = {[&] {
                                     return session().Run(Op::kAdd, {Ones("cpu"), Ones("cpu", {4})}).status();
                                   },
                                   {"shapes", "axis", "op"}};
  cases[Reason::kAxisInvalid] = {[&] {
                                   ReduceAttributes reduce;
                                   reduce.axes = {2};
                                   return session().Run(Op::kSum, {Ones("cpu")}, reduce).status();
                                 },
                                 {"axis", "rank", "op"}};
  cases[Reason::kIndexOutOfRange] = {[&] {
                                       const uint64_t bad = session().Put(ArrayOf(Dtype::kInt64, {1}, {-3}), "cpu");
                                       return session().Run(Op::kTake, {Ones("cpu"), bad}).status();
                                     },
                                     {"index", "size", "axis"}};
  cases[Reason::kAttributeInvalid] = {[&] {
                                        ViewAttributes slice;
                                        slice.axes = {0};
                                        slice.starts = {0};
                                        slice.stops = {2};
                                        slice.steps = {0};
                                        return session().Run(Op::kSlice, {Ones("cpu")}, slice).status();
                                      },
                                      {"attribute", "value", "allowed", "op"}};
  cases[Reason::kArityInvalid] = {[&] { return session().Run(Op::kAdd, {Ones("cpu")}).status(); },
                                  {"expected", "got", "op"}};
  cases[Reason::kScalarRange] = {[&] {
                                   return session().Run(Op::kAdd, {Ones("cpu", {2}, Dtype::kInt8), 300}).status();
                                 },
                                 {"value", "dtype", "minimum", "maximum"}};
  cases[Reason::kDataInvalid] = {[&] {
                                   ConstantAttributes constant;
                                   constant.spec = {{Dtype::kFloat32, {3}}, "cpu"};
                                   constant.data = std::string(8, '\0');
                                   return session().Run(Op::kConstant, {}, constant).status();
                                 },
                                 {"expected_bytes", "got_bytes"}};
  cases[Reason::kOpUnsupported] = {
      [&] { return session().Run(Op::kOnes, {}, Create(Dtype::kComplex64, {2}, "cpu")).status(); },
      {"dtype", "supported", "op"}};
  cases[Reason::kProgramInvalid] = {
      [&] {
        Program program = AddProgram();
        program.instructions[0].inputs[1] = 9;
        return ExecuteProgram(program, {{.value = TensorRef::Id(Ones("cpu"))}, {.value = TensorRef::Id(Ones("cpu"))}});
      },
      {"id", "problem"}};
  cases[Reason::kArgumentMismatch] = {
      [&] { return ExecuteProgram(AddProgram(), {{.name = "a", .value = TensorRef::Id(Ones("cpu"))}}); },
      {"name", "problem"}};
  cases[Reason::kDeviceMismatch] = {[&] {
                                      return session().Run(Op::kAdd, {Ones("cuda:0"), Ones("cpu")}).status();
                                    },
                                    {"operand", "devices", "specs", "fix", "op"}};
  cases[Reason::kDeviceUnknown] = {
      [&] { return session().Run(Op::kOnes, {}, Create(Dtype::kFloat32, {2}, "cuda:7")).status(); },
      {"device", "known"}};
  cases[Reason::kHandleUnknown] = {[&] { return session().Run(Op::kAbs, {uint64_t{987654}}).status(); },
                                   {"id", "kind", "state"}};
  cases[Reason::kHandleInUse] = {[&] {
                                   const uint64_t x = Ones("cpu");
                                   return StartUpload(x, Dtype::kFloat32, {2}).status();
                                 },
                                 {"id", "spec"}};
  cases[Reason::kNameUnknown] = {[&] { return session().Get(TensorRef::Name("nobody")).status(); }, {"name", "kind"}};
  cases[Reason::kNameInvalid] = {[&] { return Publish(TensorRef::Id(Ones("cpu")), "../x"); }, {"name", "position"}};
  cases[Reason::kNameInUse] = {[&] {
                                 EXPECT_TRUE(Publish(TensorRef::Id(Ones("cpu")), "taken").ok());
                                 return Publish(TensorRef::Id(Ones("cpu")), "taken");
                               },
                               {"name", "kind"}};
  cases[Reason::kNameChanged] = {[&] {
                                   EXPECT_TRUE(Publish(TensorRef::Id(Ones("cpu")), "versioned").ok());
                                   PublishRequest request;
                                   request.source = TensorRef::Id(Ones("cpu"));
                                   request.name = "versioned";
                                   request.replace = true;
                                   request.if_version = 1'000'000'000;
                                   return engine().Publish(session().caller(), request).status();
                                 },
                                 {"name", "expected", "version"}};
  cases[Reason::kKindMismatch] = {[&] {
                                    EXPECT_TRUE(Publish(TensorRef::Id(Ones("cpu")), "a_tensor").ok());
                                    ModelRef model;
                                    model.name = "a_tensor";
                                    return engine().GetModel(session().caller(), model, false).status();
                                  },
                                  {"name", "kind", "expected"}};
  cases[Reason::kParameterUnknown] = {
      [&] {
        EXPECT_TRUE(MakeModel("net", "Linear", {{"in_features", Whole(3)}, {"out_features", Whole(1)}}).ok());
        TensorRef ref;
        ref.ref = TensorRef::Parameter{{0, "net"}, "0.wait"};
        return engine().GetTensor(session().caller(), ref).status();
      },
      {"model", "path", "nearest"}};
  cases[Reason::kSessionRequired] = {[&] { return engine().GetTensor(Caller{}, TensorRef::Id(1)).status(); },
                                     {"field"}};
  cases[Reason::kSessionUnknown] = {[&] {
                                      Caller caller;
                                      caller.token = "0123456789abcdef0123456789abcdef";
                                      return engine().KeepAlive(caller).status();
                                    },
                                    {"cause", "incarnation"}};
  cases[Reason::kVersionMismatch] = {[&] {
                                       OpenSessionRequest request;
                                       request.min_version = 7;
                                       request.max_version = 9;
                                       return engine().OpenSession(Caller{}, request).status();
                                     },
                                     {"client_min", "client_max", "daemon_min", "daemon_max", "upgrade"}};
  cases[Reason::kFeatureUnavailable] = {[&] {
                                          OpenSessionRequest request;
                                          request.required_features = {"shared-memory"};
                                          return engine().OpenSession(Caller{}, request).status();
                                        },
                                        {"feature", "available"}};
  cases[Reason::kChunkOffset] = {[&] {
                                   auto sink = StartUpload(session().NewId(), Dtype::kFloat32, {4});
                                   if (!sink.ok()) return sink.status();
                                   const std::string_view piece = "abcd";
                                   absl::Status status = (*sink)->Write(8, {&piece, 1}, std::nullopt);
                                   return status.ok() ? (*sink)->Finish().status() : status;
                                 },
                                 {"expected", "got", "total"}};
  cases[Reason::kUploadIncomplete] = {[&] {
                                        auto sink = StartUpload(session().NewId(), Dtype::kFloat32, {4});
                                        if (!sink.ok()) return sink.status();
                                        const std::string_view piece = "abcd";
                                        EXPECT_TRUE((*sink)->Write(0, {&piece, 1}, std::nullopt).ok());
                                        return (*sink)->Finish().status();
                                      },
                                      {"received", "total"}};
  cases[Reason::kChecksumMismatch] = {[&] {
                                        auto sink =
                                            StartUpload(session().NewId(), Dtype::kFloat32, {1}, Checksum::kCrc32);
                                        if (!sink.ok()) return sink.status();
                                        const std::string_view piece = "abcd";
                                        absl::Status status = (*sink)->Write(0, {&piece, 1}, 1);
                                        return status.ok() ? (*sink)->Finish().status() : status;
                                      },
                                      {"scope", "offset", "expected", "got"}};
  cases[Reason::kMemoryExhausted] = {
      [&] { return session().Run(Op::kOnes, {}, Create(Dtype::kFloat32, {1 << 26}, "cuda:0")).status(); },
      {"device", "requested", "free", "cached"}};
  cases[Reason::kQuotaExceeded] = {[&] {
                                     absl::Status status;
                                     for (uint64_t id = 1; id <= 3 && status.ok(); ++id) {
                                       status = engine().RegisterProgram(session().caller(), id, AddProgram()).status();
                                     }
                                     return status;
                                   },
                                   {"quota", "used", "limit", "requested"}};
  cases[Reason::kLayerInvalid] = {[&] { return MakeModel("bad", "Liner", {}).status(); }, {"type", "nearest"}};
  return cases;
}

TEST_P(ErrorsTest, EveryRowIsProvokedOrHasAReason) {
  const auto cases = Cases();
  for (const ErrorRow& row : ErrorRows()) {
    const bool provoked = cases.contains(row.reason);
    const bool excused = kNotYet.contains(row.reason);
    EXPECT_TRUE(provoked != excused) << row.name << (provoked ? " is in both lists" : " is in neither list");
    EXPECT_FALSE(row.advice.empty()) << row.name;
  }
}

TEST_P(ErrorsTest, EachIsExactAndTheNextCallWorks) {
  for (const auto& [reason, test] : Cases()) {
    SCOPED_TRACE(std::string(RowOf(reason).name));
    ExpectReason(test.provoke(), reason, test.keys);
    const uint64_t x = session().Put(ArrayOf(Dtype::kFloat32, {2}, {1, 2}), "cpu");
    EXPECT_EQ(
        oracle::Compare(session().MustGet(session().MustRun(Op::kAdd, {x, x})), ArrayOf(Dtype::kFloat32, {2}, {2, 4})),
        "");
  }
  DeleteTensorsRequest names;
  for (const char* name : {"taken", "versioned", "a_tensor"}) names.tensors.push_back(TensorRef::Name(name));
  EXPECT_TRUE(engine().DeleteTensors(session().caller(), names).ok());
  ModelRef net;
  net.name = "net";
  EXPECT_TRUE(engine().DeleteModel(session().caller(), net).ok());
}

TEST_P(ErrorsTest, TheMismatchOfTheTutorialReadsAsDesigned) {
  for (const auto& [name, device] : {std::pair{"X", "cuda:0"}, {"Y", "cpu"}}) {
    EXPECT_TRUE(Publish(TensorRef::Id(Ones(device)), name).ok());
  }
  const absl::Status status =
      ExecuteProgram(AddProgram(), {{.value = TensorRef::Name("X")}, {.value = TensorRef::Name("Y")}});
  EXPECT_EQ(std::string(status.message()),
            "add: operand 1 (Y, float32[2,3]) is on cpu, operand 0 (X, float32[2,3]) is on cuda:0; tensors must be on "
            "one device. "
            "Move one first: Y.to(\"cuda:0\")");
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.Get("devices"), "cuda:0,cpu");
  EXPECT_EQ(details.Get("fix"), "to(1, cuda:0)");
  DeleteTensorsRequest names;
  names.tensors = {TensorRef::Name("X"), TensorRef::Name("Y")};
  EXPECT_TRUE(engine().DeleteTensors(session().caller(), names).ok());
}

TEST_P(ErrorsTest, ZeroDimensionsMakeNoException) {
  for (const Dims& left : {Dims{}, Dims{1}}) {
    for (const Dims& right : {Dims{}, Dims{1}}) {
      ExpectReason(session().Run(Op::kAdd, {Ones("cpu", left), Ones("cuda:0", right)}).status(),
                   Reason::kDeviceMismatch, {"fix"});
      ExpectReason(session().Run(Op::kAdd, {Ones("cuda:0", left), Ones("cpu", right)}).status(),
                   Reason::kDeviceMismatch, {"fix"});
    }
  }
}

TEST_P(ErrorsTest, OutOfMemoryLeavesTheDeviceUsable) {
  const auto used = [&] { return local().CountAlive().buffer_bytes; };
  const uint64_t before = used();
  // What is idle makes room, so that only work whose operands and result do not fit together is refused.
  const CreateAttributes large = Create(Dtype::kFloat32, {6 << 20}, "cuda:0");
  const uint64_t a = session().MustRun(Op::kOnes, {}, large);
  const uint64_t b = session().MustRun(Op::kOnes, {}, large);
  const absl::Status status = session().Run(Op::kAdd, {a, b}).status();
  ExpectReason(status, Reason::kMemoryExhausted, {"device", "requested", "free", "cached", "working_set"});
  EXPECT_EQ(DetailsOf(status).Get("working_set"), std::to_string(uint64_t{72} << 20));
  const auto shortage = DetailsOf(status).shortage;
  ASSERT_TRUE(shortage.has_value());
  EXPECT_EQ(shortage->device, "cuda:0");
  EXPECT_EQ(shortage->requested, uint64_t{24} << 20);
  ASSERT_FALSE(shortage->holders.empty());
  EXPECT_EQ(shortage->holders[0].session, session().opened().session);
  EXPECT_EQ(shortage->holders[0].bytes, uint64_t{48} << 20);
  session().Free({a, b});
  EXPECT_EQ(used(), before);
  session().MustRun(Op::kOnes, {}, Create(Dtype::kFloat32, {12 << 20}, "cuda:0"));
}

INSTANTIATE_CONFORMANCE(ErrorsTest);

}  // namespace
}  // namespace tensord::conformance
