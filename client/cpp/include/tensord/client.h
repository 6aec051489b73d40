// A session with a daemon: where tensors are made, found by name, and brought in.
//
//   absl::StatusOr<td::Client> client = td::Client::connect();
//   if (!client.ok()) return client.status();
//   std::vector<float> host = {1, 2, 3, 4};
//   absl::StatusOr<td::Tensor> x = client->upload(std::span(host), {2, 2}, {.device = client->try_gpu()});
//   if (!x.ok()) return x.status();
//   absl::Status status = client->publish(*x, "weights");   // other sessions, and the CLI, see it under this name
//
// Copies share the session. It ends, and the daemon frees its handles, when the last copy of the client, of its tensors
// and of its models is gone; published names stay. A connection that breaks is taken up again by itself as long as the
// daemon keeps the session (its grace period, 30 s by default); calls wait meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tensord/model.h"
#include "tensord/tensor.h"
#include "tensord/types.h"

namespace tensord {
class ClientSession;  // of the implementation
}

namespace tensord::client {

struct ConnectOptions {
  // "HOST:PORT" or "unix:/path"; empty: the environment's TENSORD_SERVER, or "localhost:7070".
  std::string server = {};
  // How this client is listed: "name/version".
  std::string name = "tensord-cpp";
  // Where unqualified names live; empty: the daemon's default.
  std::string workspace = {};
  absl::Duration connect_timeout = absl::Seconds(5);
  // How long the session survives without a connection; absent: the daemon's default.
  std::optional<absl::Duration> grace = {};
};

struct DeviceInfo {
  std::string id;    // "cuda:0"
  std::string name;  // model
  std::string uuid;
  bool emulated = false;
  int64_t memory_total = 0;  // bytes
  int64_t memory_used = 0;   // bytes held by the daemon
  int64_t memory_free = -1;  // -1: cannot be told
};

// A published name.
struct Entry {
  std::string name;  // with workspace
  Dtype dtype = Dtype::kNone;
  Shape shape;
  std::string device;
  uint64_t bytes = 0;
};

struct PublishOptions {
  bool replace = false;                    // take the name from what has it
  std::optional<absl::Duration> ttl = {};  // absent: until removed
};

// An array in this process's memory whose elements need not lie side by side.
template <class T>
struct StridedSpan {
  const T* data = nullptr;  // element [0, …, 0]
  Shape shape = {};
  Shape strides = {};  // in elements = {}; may be 0 or negative
};

class Client {
 public:
  // Errors: UNAVAILABLE where nobody answers; VERSION_MISMATCH.
  static absl::StatusOr<Client> connect(const ConnectOptions& options = {});

  Client(const Client&);
  Client& operator=(const Client&);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  // What the daemon has.
  absl::StatusOr<std::vector<DeviceInfo>> devices() const;
  // "cuda:i" if the daemon has it, else "cpu".
  std::string try_gpu(int index = 0) const;
  // Every "cuda:i"; {"cpu"} if there is none.
  std::vector<std::string> try_all_gpus() const;

  // New tensors.
  Tensor zeros(const Shape& shape, const TensorOptions& options = {}) const;
  Tensor ones(const Shape& shape, const TensorOptions& options = {}) const;
  Tensor full(const Shape& shape, const Operand& value, const TensorOptions& options = {}) const;
  // start, start + step, … below stop. Integers give int64, reals float32, unless options say otherwise.
  Tensor arange(const Operand& start, const Operand& stop, const Operand& step = 1,
                const TensorOptions& options = {}) const;
  // `count` numbers from start to stop, the stop included.
  Tensor linspace(double start, double stop, int64_t count, const TensorOptions& options = {}) const;
  Tensor eye(int64_t rows, int64_t columns, const TensorOptions& options = {}, int64_t diagonal = 0) const;
  // Uniform in [0, 1); normal. Without a seed the session's generator goes on.
  Tensor rand(const Shape& shape, const TensorOptions& options = {}, std::optional<uint64_t> seed = std::nullopt) const;
  Tensor randn(const Shape& shape, const TensorOptions& options = {},
               std::optional<uint64_t> seed = std::nullopt) const;

  // Host memory becomes a tensor of T's dtype (options.dtype, if given, must agree). Elements in row-major order, as
  // many as the shape has (DATA_INVALID otherwise). Small ones travel with the next instructions; large ones are sent
  // now, in chunks with checksums, and go on after a broken connection.
  template <class T>
  absl::StatusOr<Tensor> upload(std::span<const T> data, const Shape& shape, const TensorOptions& options = {},
                                const Progress& progress = nullptr) const {
    return UploadBytes(data.data(), data.size_bytes(), dtype_of<T>, shape, nullptr, options, progress);
  }
  template <class T>
  absl::StatusOr<Tensor> upload(std::span<T> data, const Shape& shape, const TensorOptions& options = {},
                                const Progress& progress = nullptr) const {
    return upload(std::span<const T>(data), shape, options, progress);
  }
  template <class T>
  absl::StatusOr<Tensor> upload(const StridedSpan<T>& array, const TensorOptions& options = {},
                                const Progress& progress = nullptr) const {
    return UploadBytes(array.data, 0, dtype_of<T>, array.shape, &array.strides, options, progress);
  }

  // Names, "x" or "workspace/x".
  absl::Status publish(const Tensor& tensor, const std::string& name, const PublishOptions& options = {}) const;
  absl::Status publish(const Model& model, const std::string& name, const PublishOptions& options = {}) const;
  absl::StatusOr<Tensor> open(const std::string& name) const;
  absl::StatusOr<Model> open_model(const std::string& name) const;
  // Tensors of the workspace whose names begin with `prefix`.
  absl::StatusOr<std::vector<Entry>> list(const std::string& prefix = "", const std::string& workspace = "") const;
  // Removes a name, of a tensor or of a model. Error: NAME_UNKNOWN.
  absl::Status remove(const std::string& name) const;

  // A model of layers (model.h). Errors: LAYER_INVALID, DEVICE_UNKNOWN.
  absl::StatusOr<Model> create_model(const nn::Layer& layers, const ModelOptions& options = {}) const;

  // Sends what is collected; does not wait.
  void flush() const;
  // Waits until every instruction so far has ended. Failures of instructions are not its business: their tensors tell
  // them.
  absl::Status synchronize() const;
  // The session's public id, as lists show it.
  std::string session_id() const;

  // For the library's own sources and tests.
  explicit Client(std::shared_ptr<ClientSession> session);
  const std::shared_ptr<ClientSession>& session() const { return session_; }

 private:
  absl::StatusOr<Tensor> UploadBytes(const void* data, size_t bytes, Dtype dtype, const Shape& shape,
                                     const Shape* strides, const TensorOptions& options,
                                     const Progress& progress) const;

  std::shared_ptr<ClientSession> session_;
};

}  // namespace tensord::client
