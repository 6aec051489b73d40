// The ground that conformance tests stand on: a subject, a session on it, and short ways to say what tests say often.
//
// Every test ends with the probe: [1,2] + [3,4] = [4,6] from a new session on every device, and as many handles and buffers alive as before.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/engine/blocking.h"
#include "tests/conformance/subject.h"
#include "tests/oracle/array.h"

namespace tensord::conformance {

// A session with the ids it has used. Closed at its end unless Close was called.
class TestSession {
 public:
  explicit TestSession(Engine& engine, OpenSessionRequest request = {});
  ~TestSession();
  void Close();

  Engine& engine() { return engine_; }
  const Caller& caller() const { return caller_; }
  const OpenSessionResponse& opened() const { return opened_; }
  uint64_t NewId() { return ++last_id_; }

  // Uploads an array, through a literal where it is small and Upload where it is not.
  uint64_t Put(const oracle::Array& array, const std::string& device);
  // The values of a handle or name, through Download.
  absl::StatusOr<oracle::Array> Get(const TensorRef& tensor);
  oracle::Array MustGet(uint64_t id);

  // One instruction by Execute on handles; its results get new handles.
  struct Operand {
    uint64_t id = 0;
    Scalar scalar;
    Operand(uint64_t handle) : id(handle) {}                                   // NOLINT(google-explicit-constructor)
    Operand(Scalar value) : scalar(std::move(value)) {}                        // NOLINT(google-explicit-constructor)
    Operand(double value) : scalar{value, Dtype::kNone} {}                     // NOLINT(google-explicit-constructor)
    Operand(int value) : scalar{static_cast<int64_t>(value), Dtype::kNone} {}  // NOLINT(google-explicit-constructor)
  };
  absl::StatusOr<uint64_t> Run(Op op, const std::vector<Operand>& operands, Attributes attributes = {});
  uint64_t MustRun(Op op, const std::vector<Operand>& operands, Attributes attributes = {});
  absl::StatusOr<ExecuteResponse> Execute(ExecuteRequest request);
  void Free(const std::vector<uint64_t>& ids);

 private:
  Engine& engine_;
  Caller caller_;
  OpenSessionResponse opened_;
  uint64_t last_id_ = 0;
  bool open_ = true;
};

class ConformanceTest : public testing::TestWithParam<SubjectKind> {
 protected:
  void SetUp() override;
  void TearDown() override;
  // What the engine is made with; a test that wants other limits overrides it or calls Restart.
  virtual EngineOptions Options() const { return {}; }
  void Restart(const EngineOptions& options);

  Engine& engine() { return subject_->engine(); }
  LocalEngine& local() { return subject_->local(); }
  // A session opened at the start of the test.
  TestSession& session() { return *session_; }
  void EndSession() { session_.reset(); }

 private:
  std::unique_ptr<Subject> subject_;
  std::unique_ptr<TestSession> session_;
};

// "{InProcess, Grpc}" as test names. Use: INSTANTIATE_CONFORMANCE(OpsTest);
#define INSTANTIATE_CONFORMANCE(Suite)                                                         \
  INSTANTIATE_TEST_SUITE_P(, Suite, testing::ValuesIn(::tensord::conformance::SubjectKinds()), \
                           [](const auto& param_info) { return param_info.param.name; })

// Fails unless the status has this reason, the row's code, a message without gaps, and the metadata keys named.
void ExpectReason(const absl::Status& status, Reason reason, const std::vector<std::string>& keys = {});

// An array of small integers: ArrayOf(Dtype::kFloat32, {2}, {1, 2}).
oracle::Array ArrayOf(Dtype dtype, const Dims& shape, const std::vector<double>& values);

}  // namespace tensord::conformance
