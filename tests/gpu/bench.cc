// Speed of the CUDA backend against the device's own limits, measured by the wall clock between synchronisations.
//
//   gpu_bench                 a table on stdout
//   gpu_bench --json FILE     and the figures, with the card's name, as JSON
//   gpu_bench --probe         says which device it would measure, and no more
//   gpu_bench --small         sizes for the emulated libraries: shows that it runs, its figures mean nothing
//
// Each figure is the median of several rounds of a few hundred milliseconds at most. Exit code 77 where there is no GPU.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/cublaslt_api.h"
#include "kernels/cuda/cuda_backend.h"

namespace tensord {
namespace {

constexpr int kNoGpu = 77;

struct Figure {
  std::string name;
  std::string unit;
  double value;
};

void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "gpu_bench: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}
template <class T>
T Must(absl::StatusOr<T> value) {
  Must(value.status());
  return *std::move(value);
}
void Must(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "gpu_bench: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

class Bench {
 public:
  Bench(std::unique_ptr<Backend> backend, bool small)
      : backend_(std::move(backend)),
        small_(small),
        bytes_(small ? size_t{1} << 20 : size_t{256} << 20),
        a_(Must(backend_->memory().Allocate(bytes_, 0))),
        b_(Must(backend_->memory().Allocate(bytes_, 0))),
        c_(Must(backend_->memory().Allocate(bytes_, 0))) {
    Fill(a_, Dtype::kFloat32, static_cast<int64_t>(bytes_ / 4));
    Fill(b_, Dtype::kFloat32, static_cast<int64_t>(bytes_ / 4));
  }
  ~Bench() {
    for (void* block : {a_, b_, c_}) backend_->memory().Deallocate(block, bytes_, 0);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  std::vector<Figure> Run() {
    Bandwidth();
    Matmul();
    Latency();
    Transfers();
    return std::move(figures_);
  }

 private:
  // Seconds of one call of `work`, synchronised at both ends of a round of `calls`.
  double Seconds(int calls, const std::function<void()>& work) {
    const int rounds = small_ ? 1 : 7;
    std::vector<double> times;
    for (int round = -1; round < rounds; ++round) {  // the first warms up
      Must(cudaDeviceSynchronize());
      const auto start = std::chrono::steady_clock::now();
      for (int call = 0; call < calls; ++call) work();
      Must(cudaDeviceSynchronize());
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      if (round >= 0) times.push_back(spent.count() / calls);
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    return times[times.size() / 2];
  }

  void Report(std::string name, std::string unit, double value) {
    std::printf("%-44s %12.2f %s\n", name.c_str(), value, unit.c_str());
    std::fflush(stdout);
    figures_.push_back({std::move(name), std::move(unit), value});
  }

  void Call(Op op, const Attributes& attributes, Dtype compute, const std::vector<TensorView>& in,
            const TensorView& out) {
    std::vector<KernelOperand> operands;
    for (const TensorView& view : in) operands.push_back({&view, nullptr});
    const KernelCall call{op, &attributes, compute, operands, absl::MakeConstSpan(&out, 1)};
    Must(backend_->Run(call, 0, backend_->memory()));
  }
  void Fill(void* data, Dtype dtype, int64_t count) {
    Must(cudaMemset(data, 0, static_cast<size_t>(count) * ItemSize(dtype)));
  }

  void Bandwidth() {
    const auto count = static_cast<int64_t>(bytes_ / 4);
    const double size = static_cast<double>(bytes_);
    const int calls = small_ ? 1 : 20;
    const double copy =
        Seconds(calls, [&] { Must(cudaMemcpyAsync(c_, a_, bytes_, cudaMemcpyDeviceToDevice, nullptr)); });
    Report("device copy (read + write)", "GB/s", 2 * size / copy / 1e9);
    const TensorView a{Dtype::kFloat32, {count}, {1}, a_};
    const TensorView b{Dtype::kFloat32, {count}, {1}, b_};
    const TensorView c{Dtype::kFloat32, {count}, {1}, c_};
    const Attributes none;
    const double add = Seconds(calls, [&] { Call(Op::kAdd, none, Dtype::kFloat32, {a, b}, c); });
    Report("add float32 (2 reads + 1 write)", "GB/s", 3 * size / add / 1e9);
    const double exp = Seconds(calls, [&] { Call(Op::kExp, none, Dtype::kFloat32, {a}, c); });
    Report("exp float32 (read + write)", "GB/s", 2 * size / exp / 1e9);
    const int64_t side = small_ ? 512 : 8192;
    const TensorView matrix{Dtype::kFloat32, {side, side}, {side, 1}, a_};
    const TensorView turned{Dtype::kFloat32, {side, side}, {1, side}, a_};
    const TensorView out{Dtype::kFloat32, {side, side}, {side, 1}, c_};
    const double square = static_cast<double>(side) * static_cast<double>(side) * 4;
    const double transpose = Seconds(calls, [&] { Call(Op::kCast, none, Dtype::kFloat32, {turned}, out); });
    Report("transposing copy float32 (read + write)", "GB/s", 2 * square / transpose / 1e9);
    ReduceAttributes all;
    all.all_axes = true;
    const Attributes whole = all;
    const TensorView one{Dtype::kFloat32, {}, {}, c_};
    const double sum = Seconds(calls, [&] { Call(Op::kSum, whole, Dtype::kFloat32, {a}, one); });
    Report("sum of all float32 (read)", "GB/s", size / sum / 1e9);
    for (const int32_t axis : {1, 0}) {
      ReduceAttributes one_axis;
      one_axis.axes.push_back(axis);
      const Attributes along = one_axis;
      const TensorView line{Dtype::kFloat32, {side}, {1}, c_};
      const double seconds = Seconds(calls, [&] { Call(Op::kSum, along, Dtype::kFloat32, {matrix}, line); });
      Report(axis == 1 ? "sum of rows float32 (read)" : "sum of columns float32 (read)", "GB/s",
             square / seconds / 1e9);
    }
  }

  void Matmul() {
    for (const auto& [dtype, name] : {std::pair(Dtype::kFloat32, "float32"), std::pair(Dtype::kBfloat16, "bfloat16")}) {
      const int64_t n = small_ ? 64 : 4096;
      const TensorView a{dtype, {n, n}, {n, 1}, a_};
      const TensorView b{dtype, {n, n}, {n, 1}, b_};
      const TensorView c{dtype, {n, n}, {n, 1}, c_};
      const double operations = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
      const Attributes none;
      const double ours = Seconds(small_ ? 1 : 10, [&] { Call(Op::kMatmul, none, dtype, {a, b}, c); });
      Report(StrCat("matmul ", name, " ", n, "^3, the backend"), "TFLOP/s", operations / ours / 1e12);
      const double direct = Direct(dtype, n, operations);
      if (direct > 0) Report(StrCat("matmul ", name, " ", n, "^3, cuBLASLt directly"), "TFLOP/s", direct);
    }
  }

  // The same product by the library alone, its first choice with 32 MiB of workspace. 0: it cannot be had.
  double Direct(Dtype dtype, int64_t n, double operations) {
    namespace lt = cuda::cublaslt;
    std::string why;
    const lt::Api* api = lt::Load(&why);
    if (api == nullptr) return 0;
    lt::Handle handle = nullptr;
    lt::MatmulDesc desc = nullptr;
    lt::MatrixLayout layout = nullptr;
    lt::Preference preference = nullptr;
    lt::HeuristicResult found{};
    int count = 0;
    const lt::DataType type = dtype == Dtype::kFloat32 ? lt::kReal32 : lt::kBfloat16;
    uint64_t workspace = uint64_t{32} << 20;
    api->Create(&handle);
    api->DescCreate(&desc, lt::kCompute32, lt::kReal32);
    api->LayoutCreate(&layout, type, static_cast<uint64_t>(n), static_cast<uint64_t>(n), n);
    api->PreferenceCreate(&preference);
    api->PreferenceSet(preference, lt::kPreferenceWorkspaceBytes, &workspace, sizeof(workspace));
    api->Heuristic(handle, desc, layout, layout, layout, layout, preference, 1, &found, &count);
    double result = 0;
    if (count > 0) {
      void* room = found.workspace_bytes > 0 ? Must(backend_->memory().Allocate(found.workspace_bytes, 0)) : nullptr;
      const float one = 1;
      const float zero = 0;
      const double seconds = Seconds(small_ ? 1 : 10, [&] {
        api->Matmul(handle, desc, &one, b_, layout, a_, layout, &zero, c_, layout, c_, layout, &found.algorithm, room,
                    found.workspace_bytes, nullptr);
      });
      if (room != nullptr) backend_->memory().Deallocate(room, found.workspace_bytes, 0);
      result = operations / seconds / 1e12;
    }
    api->PreferenceDestroy(preference);
    api->LayoutDestroy(layout);
    api->DescDestroy(desc);
    api->Destroy(handle);
    return result;
  }

  void Latency() {
    const TensorView x{Dtype::kFloat32, {16}, {1}, a_};
    const TensorView y{Dtype::kFloat32, {16}, {1}, c_};
    const Attributes none;
    const double enqueue = Seconds(small_ ? 2 : 2000, [&] { Call(Op::kNegative, none, Dtype::kFloat32, {x}, y); });
    Report("one small op among many", "us", enqueue * 1e6);
    const double alone = Seconds(small_ ? 2 : 500, [&] {
      Call(Op::kNegative, none, Dtype::kFloat32, {x}, y);
      Must(backend_->Synchronize(0));
    });
    Report("one small op and waiting for it", "us", alone * 1e6);
    char host[64];
    const double read = Seconds(small_ ? 2 : 500, [&] { Must(backend_->Download(host, c_, sizeof(host), 0)); });
    Report("download of 64 bytes", "us", read * 1e6);
  }

  void Transfers() {
    std::vector<char> host(bytes_, 1);
    const double size = static_cast<double>(bytes_);
    const int calls = small_ ? 1 : 4;
    const double up = Seconds(calls, [&] { Must(backend_->Upload(a_, host.data(), bytes_, 0)); });
    Report("upload, pinned staging (ours)", "GB/s", size / up / 1e9);
    const double pageable_up =
        Seconds(calls, [&] { Must(cudaMemcpy(a_, host.data(), bytes_, cudaMemcpyHostToDevice)); });
    Report("upload, pageable cudaMemcpy", "GB/s", size / pageable_up / 1e9);
    const double down = Seconds(calls, [&] { Must(backend_->Download(host.data(), a_, bytes_, 0)); });
    Report("download, pinned staging (ours)", "GB/s", size / down / 1e9);
    const double pageable_down =
        Seconds(calls, [&] { Must(cudaMemcpy(host.data(), a_, bytes_, cudaMemcpyDeviceToHost)); });
    Report("download, pageable cudaMemcpy", "GB/s", size / pageable_down / 1e9);
    void* pinned = nullptr;
    Must(cudaHostAlloc(&pinned, bytes_, cudaHostAllocDefault));
    std::memset(pinned, 1, bytes_);
    const double best = Seconds(calls, [&] { Must(cudaMemcpy(a_, pinned, bytes_, cudaMemcpyHostToDevice)); });
    Report("upload, all of it pinned before", "GB/s", size / best / 1e9);
    Must(cudaFreeHost(pinned));
  }

  std::unique_ptr<Backend> backend_;
  const bool small_;
  const size_t bytes_;
  void *a_, *b_, *c_;
  std::vector<Figure> figures_;
};

int Main(int argc, char** argv) {
  bool small = false;
  bool probe = false;
  std::string json;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--small") == 0) {
      small = true;
    } else if (std::strcmp(argv[i], "--probe") == 0) {
      probe = true;
    } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else {
      std::fprintf(stderr, "usage: gpu_bench [--probe] [--small] [--json FILE]\n");
      return 2;
    }
  }
  const cuda::CudaDevices found = cuda::ListCudaDevices();
  if (found.devices.empty()) {
    std::printf("no GPU: %s\n", found.why.c_str());
    return kNoGpu;
  }
  cuda::CudaOptions options;
  options.device = found.devices[0];
  options.all = found.devices;
  std::unique_ptr<Backend> backend = Must(cuda::MakeCudaBackend(options));
  const DeviceInfo info = backend->Info();
  std::printf("%s, compute capability %s, driver %s\n", info.model.c_str(),
              info.compute_capability.value_or("?").c_str(), info.driver_version.value_or("?").c_str());
  if (probe) return 0;
  const std::vector<Figure> figures = Bench(std::move(backend), small).Run();
  if (json.empty()) return 0;
  std::FILE* file = std::fopen(json.c_str(), "w");
  if (file == nullptr) {
    std::perror(json.c_str());
    return 1;
  }
  std::fprintf(file, "{\n  \"device\": \"%s\",\n  \"driver\": \"%s\",\n  \"small\": %s,\n  \"figures\": [",
               info.model.c_str(), info.driver_version.value_or("").c_str(), small ? "true" : "false");
  const char* comma = "";
  for (const Figure& figure : figures) {
    std::fprintf(file, "%s\n    {\"name\": \"%s\", \"unit\": \"%s\", \"value\": %.6g}", comma, figure.name.c_str(),
                 figure.unit.c_str(), figure.value);
    comma = ",";
  }
  std::fprintf(file, "\n  ]\n}\n");
  return std::fclose(file) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) { return tensord::Main(argc, argv); }
