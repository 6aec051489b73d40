// The nouns of the engine interface, in domain types: what clients ask for and what the daemon tells. One struct for
// each message of tensord.v1 that carries meaning; the converter between the two is proto/wire.
//
// Bytes are bytes, times absl::Time, ids 64-bit handles of a session (0 is never one).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/backend.h"
#include "kernels/core/error.h"
#include "kernels/core/scalar.h"
#include "kernels/core/shape.h"
#include "kernels/ops/program.h"
#include "server/engine/cancellation.h"

namespace tensord {

// The bounds of a daemon (wire.md (d)); flags may set them.
struct Limits {
  uint32_t max_rank = kMaxRank;
  uint64_t max_message_bytes = 16 << 20;
  uint64_t max_chunk_bytes = 4 << 20;
  uint64_t max_inline_bytes = 1 << 20;
  uint32_t max_message_instructions = 16384;
  uint32_t max_program_instructions = 100000;
  uint32_t max_program_depth = 16;
  uint32_t max_operands = 1024;
  uint32_t max_text_bytes = 4096;
  uint32_t max_name_bytes = 128;
  uint32_t stream_window_instructions = 65536;
  uint64_t stream_window_bytes = 8 << 20;
  uint32_t max_pending_reads = 1024;
  uint32_t max_transfers = 16;
  uint64_t max_segment_bytes = 256 << 20;
  uint32_t max_programs = 1024;
  uint32_t max_page_size = 1000;
  // Not fields of the wire's Limits: shares of a principal.
  uint64_t max_handles = 1 << 20;
  uint32_t max_sessions = 64;
  uint32_t max_requests = 256;
};

struct DeviceQuota {
  DeviceId device;
  uint64_t limit_bytes = 0;  // 0: none
  uint64_t used_bytes = 0;
};

struct Quota {
  std::vector<DeviceQuota> devices;
  uint64_t handle_limit = 0;
  uint64_t handle_used = 0;
  uint32_t session_limit = 0;
  uint32_t session_used = 0;
  uint32_t request_limit = 0;
  uint64_t upload_limit_bytes = 0;
};

// On whose behalf a call is made: the call's metadata.
struct Caller {
  std::string token;   // tensord-session; empty: no session
  uint64_t after = 0;  // tensord-after; 0: none
  std::string peer;    // address, for lists and logs
  std::string principal = "local";
  absl::Time deadline = absl::InfiniteFuture();
  // Cancelled when whoever called has gone away; null: nobody can tell. Execute then drops what has not begun.
  std::shared_ptr<Cancellation> cancellation;
};

// ---- sessions

struct OpenSessionRequest {
  uint32_t min_version = 1;
  uint32_t max_version = 1;
  std::vector<std::string> required_features;
  std::vector<std::string> wanted_features;
  std::string client;
  std::string workspace;  // empty: the principal's default, "default"
  std::optional<absl::Duration> lease;
  std::optional<absl::Duration> grace;
  std::string resume_token;
  uint64_t incarnation = 0;
};

struct OpenSessionResponse {
  std::string session;
  std::string token;
  uint32_t version = 1;
  std::vector<std::string> features;
  std::string daemon_version;
  uint64_t incarnation = 0;
  absl::Duration lease;
  absl::Duration grace;
  Limits limits;
  Quota quota;
  bool resumed = false;
  uint64_t next_sequence = 1;
  uint64_t highest_id = 0;
  std::string principal;
};

struct KeepAliveResponse {
  absl::Duration lease;
  Quota quota;
};

struct FreedSession {
  uint64_t handles = 0;
  uint64_t bytes = 0;
};

struct SessionInfo {
  std::string session;
  std::string principal;
  std::string client;
  std::string peer;
  std::string workspace;
  absl::Time open_time;
  std::optional<absl::Time> expire_time;
  uint64_t handles = 0;
  std::map<std::string, uint64_t> bytes;  // by device
  uint64_t queued_instructions = 0;
  uint64_t done_instructions = 0;
};

struct PageRequest {
  uint32_t page_size = 0;  // 0: as many as max_page_size
  std::string page_token;
};

struct ListSessionsResponse {
  std::vector<SessionInfo> sessions;
  std::string next_page_token;
};

// ---- devices

struct MemoryHolder {
  std::string session;  // public id, or empty
  std::string name;     // published name with workspace, or empty; both empty: everybody else
  std::string principal;
  uint64_t bytes = 0;
  uint64_t tensors = 0;
};

struct DeviceDescription {
  DeviceInfo info;
  absl::Status health;  // OK: serving
  MemoryStats memory;
  std::vector<MemoryHolder> holders;
  DeviceTelemetry telemetry;
  std::vector<Dtype> dtypes;
  uint64_t queued_instructions = 0;
};

struct HostDescription {
  std::string hostname;
  std::string daemon_version;
  uint64_t incarnation = 0;
  absl::Time start_time;
  std::optional<std::string> driver_version;
  std::optional<std::string> cuda_version;
};

struct ListDevicesResponse {
  std::vector<DeviceDescription> devices;
  HostDescription host;
};

// ---- tensors

enum class TensorState : uint8_t { kPending = 1, kReady = 2, kOffloaded = 3, kFailed = 4 };

struct TensorInfo {
  uint64_t id = 0;                 // handle in the calling session, or 0
  std::vector<std::string> names;  // with workspace
  TensorSpec spec;
  TensorState state = TensorState::kPending;
  absl::Status error;  // with kFailed
  uint64_t bytes = 0;
  bool shared_storage = false;
  absl::Time create_time;
  std::optional<absl::Time> expire_time;
  bool durable = false;
};

struct ListTensorsRequest {
  std::string workspace;
  bool handles = false;
  std::string prefix;
  PageRequest page;
};

struct ListTensorsResponse {
  std::vector<TensorInfo> tensors;
  std::string next_page_token;
};

struct PublishRequest {
  std::variant<std::monostate, TensorRef, ModelRef> source;  // monostate: the tensor being uploaded
  std::string name;
  bool replace = false;
  int64_t if_version = 0;
  std::optional<absl::Duration> ttl;
  bool durable = false;
};

struct PublishResponse {
  std::string name;
  int64_t version = 0;
};

struct DeleteTensorsRequest {
  std::vector<TensorRef> tensors;
  bool allow_missing = false;
};

struct DeleteTensorsResponse {
  uint64_t deleted = 0;
  uint64_t freed_bytes = 0;
};

enum class Checksum : uint8_t { kNone = 0, kCrc32 = 1, kXxh3 = 2 };

struct UploadStart {
  uint64_t id = 0;
  SpecRequest spec;
  Checksum checksum = Checksum::kNone;
  std::string sha256;  // 32 bytes, or empty
  std::optional<PublishRequest> publish;
};

struct DownloadRequest {
  TensorRef tensor;
  uint64_t offset = 0;
  uint64_t length = 0;  // 0: to the end
};

// ---- computing

enum class ValueFormat : uint8_t { kNone = 0, kRaw = 1, kTyped = 2 };

// A tensor's values: raw little-endian bytes in row-major order. Typed or raw on the wire is the converter's affair.
struct TensorLiteral {
  SpecRequest spec;
  std::string data;
};

struct Argument {
  std::string name;
  std::variant<std::monostate, TensorRef, TensorLiteral> value;
  bool donate = false;
};

struct ResultRequest {
  std::string name;
  uint64_t id = 0;      // 0: no handle
  std::string publish;  // empty: no name
  bool replace = false;
  ValueFormat value = ValueFormat::kNone;
};

struct ExecuteRequest {
  // A program to be run once, a registered program, or a model.
  std::variant<std::monostate, Program, uint64_t, ModelRef> callee;
  std::vector<Argument> inputs;
  std::vector<ResultRequest> outputs;  // empty: all of them are returned with their values
  bool timings = false;
  int32_t priority = 0;
};

struct ResultValue {
  std::string name;
  TensorInfo tensor;
  std::optional<std::string> data;  // raw bytes, if asked for
  ValueFormat format = ValueFormat::kNone;
};

struct InstructionReport {
  uint64_t sequence = 0;
  uint32_t instruction = 0;
  Op op = Op::kNone;
  std::string label;
  DeviceId device;
  absl::Status error;
  uint64_t queue_ns = 0;
  uint64_t run_ns = 0;
  uint64_t group = 0;
};

struct ExecuteResponse {
  std::vector<ResultValue> outputs;
  std::vector<InstructionReport> reports;
};

enum class ReportLevel : uint8_t { kNone = 0, kFailures = 1, kTimings = 2 };

struct Read {
  uint64_t tag = 0;
  uint64_t id = 0;  // 0: a reply once all instructions before it have ended
  ValueFormat value = ValueFormat::kNone;
};

struct StreamMessage {
  uint64_t sequence = 0;
  std::vector<Binding> bindings;
  std::vector<Instruction> instructions;
  std::vector<Read> reads;
  std::vector<uint64_t> cancels;
  std::optional<absl::Duration> timeout;
  ReportLevel report = ReportLevel::kNone;
  uint64_t wire_bytes = 0;  // size of the message as it came, for the window
};

struct ReadReply {
  uint64_t tag = 0;
  absl::Status error;
  std::optional<TensorSpec> spec;
  std::optional<std::string> data;  // raw bytes, if asked for and not too many
  ValueFormat format = ValueFormat::kNone;
};

struct RegisterProgramResponse {
  std::vector<ProgramValue> inputs;
  std::vector<ProgramValue> outputs;
};

struct OpSupport {
  DeviceKind kind = DeviceKind::kCpu;
  std::vector<Dtype> dtypes;
};

struct OpDescription {
  Op op = Op::kNone;
  std::vector<OpSupport> support;
};

// ---- models

struct LayerOption {
  std::variant<Scalar, std::string, std::vector<int64_t>> value;
};

struct Layer {
  std::string type;
  std::map<std::string, LayerOption> options;
  std::vector<Layer> layers;
  std::string name;
};

// Sources this daemon does not offer yet are refused by the wire converter (NOT_OFFERED, MODEL_UNSUPPORTED).
struct CreateModelRequest {
  uint64_t id = 0;
  std::string name;
  bool replace = false;
  Layer layers;
  std::vector<std::string> devices;  // empty: "cpu"
  std::map<std::string, TensorRef> parameters;
  std::optional<uint64_t> seed;
};

struct ParameterInfo {
  std::string path;
  TensorSpec spec;
};

enum class ModelState : uint8_t { kLoading = 1, kReady = 2, kFailed = 3, kUnloading = 4 };

struct ModelStatistics {
  uint64_t succeeded = 0;
  uint64_t failed = 0;
  uint64_t runs = 0;
  uint64_t queue_ns = 0;
  uint64_t run_ns = 0;
};

struct ModelInfo {
  uint64_t id = 0;
  std::vector<std::string> names;
  std::string source = "layers";
  ModelState state = ModelState::kReady;
  std::vector<DeviceId> devices;
  std::vector<ProgramValue> inputs;
  std::vector<ProgramValue> outputs;
  std::vector<ParameterInfo> parameters;
  std::optional<Program> program;
  uint64_t parameter_bytes = 0;
  ModelStatistics statistics;
  absl::Time create_time;
};

struct ListModelsRequest {
  std::string workspace;
  bool handles = false;
  PageRequest page;
};

struct ListModelsResponse {
  std::vector<ModelInfo> models;
  std::string next_page_token;
};

struct UpdateModelRequest {
  ModelRef model;
  std::vector<std::string> devices;  // empty: stays
  std::map<std::string, TensorRef> parameters;
};

}  // namespace tensord
