// Models that live on the daemon, from layers named and parameterised as in PyTorch.
//
//   namespace nn = td::nn;
//   absl::StatusOr<td::Model> net = client->create_model(
//       nn::Sequential({nn::Linear(3, 8), nn::ReLU(), nn::Linear(8, 1)}), {.device = "cuda:0", .seed = 7});
//   if (!net.ok()) return net.status();
//   td::Tensor y = (*net)(x);                          // x must be on the model's device: DEVICE_MISMATCH otherwise
//   td::Tensor w = net->parameter("0.weight");
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensord/tensor.h"
#include "tensord/types.h"

namespace tensord {
class ModelHandle;  // of the implementation
}

namespace tensord::client {

namespace nn {

// A layer, or a container of layers, before it exists anywhere. Plain data: what the daemon knows and the functions
// below do not can be built by hand.
struct Layer {
  using Option = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;
  std::string type = {};
  std::map<std::string, Option> options = {};
  std::vector<Layer> layers = {};
  std::string name = {};  // its part of parameter paths; empty: its index
};

// Sizes of a window over two axes: one number for both, or {height, width}.
struct Size2 {
  Size2(int64_t both) : height(both), width(both) {}  // NOLINT(google-explicit-constructor)
  Size2(int64_t height_in, int64_t width_in) : height(height_in), width(width_in) {}
  int64_t height;
  int64_t width;
};

struct Conv2dOptions {
  Size2 stride = 1;
  Size2 padding = 0;
  Size2 dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};
struct PoolOptions {
  std::optional<Size2> stride = {};  // absent: the window's size
  Size2 padding = 0;
  bool ceil_mode = false;
};

Layer Sequential(std::vector<Layer> layers);
Layer Linear(int64_t in_features, int64_t out_features, bool bias = true);
Layer Conv2d(int64_t in_channels, int64_t out_channels, Size2 kernel_size, const Conv2dOptions& options = {});
Layer BatchNorm1d(int64_t num_features, double eps = 1e-5);
Layer BatchNorm2d(int64_t num_features, double eps = 1e-5);
Layer LayerNorm(std::vector<int64_t> normalized_shape, double eps = 1e-5);
Layer Dropout(double p = 0.5);
Layer ReLU();
Layer GELU();
Layer SiLU();
Layer Sigmoid();
Layer Tanh();
Layer Softmax(int64_t dim = -1);
Layer MaxPool2d(Size2 kernel_size, const PoolOptions& options = {});
Layer AvgPool2d(Size2 kernel_size, const PoolOptions& options = {});
Layer Flatten(int64_t start_dim = 1, int64_t end_dim = -1);

}  // namespace nn

struct ModelOptions {
  std::string device = {};                        // empty: "cpu"
  std::optional<uint64_t> seed = {};              // of the initial parameters; absent: the session's generator
  std::map<std::string, Tensor> parameters = {};  // by path; the others are initialised
};

struct ParameterInfo {
  std::string path;  // "0.weight"
  Dtype dtype = Dtype::kNone;
  Shape shape;
  std::string device;
};

// A handle of a model. Copies share it; when the last one goes the daemon frees the model, unless it is published.
class Model {
 public:
  Model();
  ~Model();
  Model(const Model&);
  Model& operator=(const Model&);
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  // The forward pass. Does not wait; what goes wrong is told by whoever reads the result.
  Tensor forward(const std::vector<Tensor>& inputs) const;
  Tensor operator()(const Tensor& input) const { return forward({input}); }

  // Moves every parameter; calls that have begun end where they began. Waits.
  absl::Status to(const std::string& device);
  absl::StatusOr<std::string> device() const;
  absl::StatusOr<std::vector<ParameterInfo>> parameters() const;
  // A parameter as a tensor, as of now.
  Tensor parameter(const std::string& path) const;

  // For the library's own sources.
  explicit Model(std::shared_ptr<ModelHandle> handle);
  const std::shared_ptr<ModelHandle>& handle() const { return handle_; }

 private:
  std::shared_ptr<ModelHandle> handle_;
};

}  // namespace tensord::client
