// The engine: everything a client can ask of a daemon, in domain types. Pure interface.
//
// Two implementations: LocalEngine (server/engine) does the work; RemoteEngine (client/cpp) asks a daemon through gRPC.
// The conformance suite runs against both. The gRPC services decode, call the engine once, and encode.
//
// Threading: every method may be called by any thread at any time. Methods that may have to wait for a device or an
// upload take a callback `done`: called exactly once, on any thread, possibly before the method returns; it must not
// block. All others answer at once.
//
// Errors are rows of kernels/core/errors.def (DetailsOf(status)). Nothing a caller sends stops the engine.
//
//   auto session = engine.OpenSession(caller, {.client = "example"});
//   caller.token = session->token;
//   engine.Execute(caller, request, [](absl::StatusOr<ExecuteResponse> r) { … });
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/engine/types.h"

namespace tensord {

template <class T>
using Done = absl::AnyInvocable<void(absl::StatusOr<T>)>;

// Fills one tensor. Destroyed before Finish: what has arrived stays for a resumed upload while the session lives. One
// thread at a time.
class UploadSink {
 public:
  virtual ~UploadSink() = default;
  // Bytes in place: begin here.
  virtual uint64_t received() const = 0;
  virtual uint64_t total() const = 0;
  // True once every byte is there (at once for an empty tensor).
  virtual bool complete() const = 0;
  // Appends a chunk, given in pieces. `checksum`, if given, is verified by the algorithm of UploadStart before anything
  // is kept. Errors: CHUNK_OFFSET, CHECKSUM_MISMATCH, LIMIT_EXCEEDED, STREAM_REPLACED (another Upload of the id took
  // over), SESSION_UNKNOWN. After an error the sink is of no use.
  virtual absl::Status Write(uint64_t offset, absl::Span<const std::string_view> pieces,
                             std::optional<uint64_t> checksum) = 0;
  // Makes the tensor readable and publishes it if asked. Errors: UPLOAD_INCOMPLETE; CHECKSUM_MISMATCH (sha256);
  // NAME_IN_USE …
  virtual absl::StatusOr<TensorInfo> Finish() = 0;
  // Cancelled when nothing that is still sent could be used: another Upload of the id took over, the session ended, the
  // handle was freed and nobody waits for the bytes. Null where only Write tells.
  virtual std::shared_ptr<Cancellation> revocation() const { return nullptr; }
};

// Reads one tensor. Holds its memory while it lives. One thread at a time.
class DownloadSource {
 public:
  virtual ~DownloadSource() = default;
  virtual const TensorInfo& info() const = 0;
  // Bytes from the offset of the request to its end.
  virtual uint64_t total() const = 0;
  // Copies the next bytes to `out` (at most total() in all); returns how many, 0 at the end. Bytes lie in row-major
  // order whatever the tensor's strides.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> out) = 0;
};

// What a stream says. Called by any thread, one call at a time for one stream; must not block and must not call the
// stream.
class StreamListener {
 public:
  virtual ~StreamListener() = default;
  virtual void OnReply(ReadReply reply) = 0;
  virtual void OnReport(InstructionReport report) = 0;
  // All messages up to `sequence` have been submitted.
  virtual void OnAcknowledged(uint64_t sequence) = 0;
  virtual void OnNotice(absl::Status notice) = 0;
  // The stream has ended by a protocol error (SEQUENCE_GAP, STREAM_REPLACED, LIMIT_EXCEEDED, QUOTA_EXCEEDED,
  // SESSION_UNKNOWN …) or by shutdown; last call.
  virtual void OnEnd(absl::Status status) = 0;
};

// The session's instructions, in order. Destroyed: the stream is closed; the session and its handles stay for grace,
// and pending reads are dropped.
class InstructionStream {
 public:
  virtual ~InstructionStream() = default;
  // Submits one message whole. A refused instruction fails its outputs, not the message. Error (which also ends the
  // stream): as OnEnd.
  virtual absl::Status Submit(StreamMessage message) = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Sessions. A caller without a token may use names and inline values only (SESSION_REQUIRED otherwise).
  virtual absl::StatusOr<OpenSessionResponse> OpenSession(const Caller& caller, const OpenSessionRequest& request) = 0;
  virtual absl::StatusOr<KeepAliveResponse> KeepAlive(const Caller& caller) = 0;
  virtual absl::StatusOr<FreedSession> CloseSession(const Caller& caller) = 0;
  virtual absl::StatusOr<ListSessionsResponse> ListSessions(const Caller& caller, const PageRequest& page) = 0;
  virtual absl::StatusOr<FreedSession> KillSession(const Caller& caller, const std::string& session) = 0;

  // Devices: names, UUIDs or PCI bus ids; empty for all.
  virtual absl::StatusOr<ListDevicesResponse> ListDevices(const Caller& caller, const std::vector<std::string>& devices,
                                                          bool with_holders) = 0;
  virtual absl::StatusOr<uint64_t> TrimMemory(const Caller& caller, const std::vector<std::string>& devices) = 0;

  // Computing.
  virtual void Execute(const Caller& caller, ExecuteRequest request, Done<ExecuteResponse> done) = 0;
  virtual absl::StatusOr<std::unique_ptr<InstructionStream>> OpenStream(const Caller& caller,
                                                                        std::shared_ptr<StreamListener> listener) = 0;
  virtual absl::StatusOr<RegisterProgramResponse> RegisterProgram(const Caller& caller, uint64_t id,
                                                                  Program program) = 0;
  virtual absl::Status UnregisterProgram(const Caller& caller, uint64_t id) = 0;
  virtual absl::StatusOr<std::vector<OpDescription>> ListOps(const Caller& caller, const std::string& prefix) = 0;

  // Tensors.
  virtual absl::StatusOr<std::unique_ptr<UploadSink>> Upload(const Caller& caller, const UploadStart& start) = 0;
  virtual void Download(const Caller& caller, const DownloadRequest& request,
                        Done<std::unique_ptr<DownloadSource>> done) = 0;
  virtual absl::StatusOr<TensorInfo> GetTensor(const Caller& caller, const TensorRef& tensor) = 0;
  virtual absl::StatusOr<ListTensorsResponse> ListTensors(const Caller& caller, const ListTensorsRequest& request) = 0;
  virtual absl::StatusOr<PublishResponse> Publish(const Caller& caller, const PublishRequest& request) = 0;
  virtual absl::StatusOr<DeleteTensorsResponse> DeleteTensors(const Caller& caller,
                                                              const DeleteTensorsRequest& request) = 0;

  // Models.
  virtual void CreateModel(const Caller& caller, CreateModelRequest request, Done<ModelInfo> done) = 0;
  virtual absl::StatusOr<ModelInfo> GetModel(const Caller& caller, const ModelRef& model, bool with_program) = 0;
  virtual absl::StatusOr<ListModelsResponse> ListModels(const Caller& caller, const ListModelsRequest& request) = 0;
  virtual void UpdateModel(const Caller& caller, UpdateModelRequest request, Done<ModelInfo> done) = 0;
  virtual absl::StatusOr<uint64_t> DeleteModel(const Caller& caller, const ModelRef& model) = 0;
};

}  // namespace tensord
