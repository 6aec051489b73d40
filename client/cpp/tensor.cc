#include "tensord/tensor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "client/cpp/emit.h"
#include "kernels/core/error.h"
#include "kernels/ops/infer.h"
#include "server/engine/blocking.h"
#include "tensord/functions.h"

namespace tensord::client {
namespace {

// Bytes that are copied between two reports of progress.
constexpr size_t kStep = 4 << 20;

// All empty tensors share one handle.
const std::shared_ptr<TensorHandle>& EmptyHandle() {
  static const auto& handle = *new std::shared_ptr<TensorHandle>(
      std::make_shared<TensorHandle>(absl::FailedPreconditionError("no tensor: it was never made, or moved from")));
  return handle;
}

// The values of `tensor`, which has `bytes` of them, to `out`: in one reply where they are few, by Download otherwise.
absl::Status Fetch(const Tensor& tensor, char* out, uint64_t bytes, const Progress& progress) {
  TensorHandle& handle = *tensor.handle();
  ClientSession& session = *handle.session();
  const auto mismatch = [bytes](uint64_t got) {
    return Error(Reason::kDataInvalid).With("expected_bytes", bytes).With("got_bytes", got).ToStatus();
  };
  if (bytes <= session.info().limits.max_inline_bytes) {
    TENSORD_ASSIGN_OR_RETURN(ReadReply reply, session.Read(handle.id(), ValueFormat::kRaw));
    const std::string_view data = reply.data ? std::string_view(*reply.data) : std::string_view();
    if (reply.data || bytes == 0) {
      if (data.size() != bytes) return mismatch(data.size());
      if (!data.empty()) std::memcpy(out, data.data(), data.size());
      if (progress) progress(bytes, bytes);
      return absl::OkStatus();
    }
  }
  // Tensors never change, so a download that broke goes on where it stopped.
  uint64_t done = 0;
  for (int failures = 0;;) {
    const Caller caller = session.OrderedCaller();
    DownloadRequest request{.tensor = TensorRef::Id(handle.id()), .offset = done};
    absl::StatusOr<std::unique_ptr<DownloadSource>> source = Await<std::unique_ptr<DownloadSource>>(
        [&](auto ready) { session.engine().Download(caller, request, std::move(ready)); });
    absl::Status status = source.status();
    if (source.ok() && (*source)->total() != bytes - done) return mismatch((*source)->total() + done);
    while (status.ok() && done < bytes) {
      absl::StatusOr<size_t> n = (*source)->Read({out + done, std::min<uint64_t>(kStep, bytes - done)});
      status = n.status();
      if (!n.ok()) break;
      if (*n == 0) return mismatch(done);
      done += *n;
      failures = 0;
      if (progress) progress(done, bytes);
    }
    if (status.ok()) return status;
    const bool broken = status.code() == absl::StatusCode::kUnavailable && DetailsOf(status).reason_name.empty();
    if (!broken || ++failures > 5) return status;
    TENSORD_RETURN_IF_ERROR(session.AwaitConnection());
    absl::SleepFor(absl::Milliseconds(100) * failures);
  }
}

absl::Status CheckType(const TensorSpec& spec, Dtype dtype) {
  if (spec.type.dtype == ToCore(dtype)) return absl::OkStatus();
  return Error(Reason::kDtypeMismatch)
      .With("op", "get")
      .With("dtypes", StrCat(DtypeName(spec.type.dtype), ", ", dtype_name(dtype)))
      .Say("why", StrCat("the tensor is ", spec.type.ToString(), "; read it as such, or cast it first"));
}

absl::StatusOr<TensorSpec> Readable(const Tensor& tensor) {
  // What this side expects to fail the daemon refuses with more to say: where it began.
  const std::shared_ptr<TensorHandle>& handle = tensor.handle();
  if (!handle->session()) return handle->known()->status();
  if (const auto known = handle->known(); known && known->ok()) return **known;
  TENSORD_ASSIGN_OR_RETURN(ReadReply reply, handle->session()->Read(handle->id(), ValueFormat::kNone));
  if (!reply.spec) return absl::InternalError("a reply without the tensor's spec");
  handle->Learn(*reply.spec);
  return *reply.spec;
}

ReduceAttributes ToAttributes(const ReduceOptions& options) {
  ReduceAttributes out;
  if (options.axes) {
    out.axes.assign(options.axes->begin(), options.axes->end());
  } else {
    out.all_axes = true;
  }
  out.keepdims = options.keepdims;
  out.dtype = ToCore(options.dtype);
  out.correction = options.correction;
  out.last_index = options.last_index;
  return out;
}

Tensor View(Op op, const Tensor& x, ViewAttributes attributes) { return Emit(op, {x}, std::move(attributes)); }
ViewAttributes ToShape(const Shape& shape) {
  ViewAttributes out;
  out.shape = ToDims(shape);
  return out;
}
ViewAttributes Along(const Axes& axes) {
  ViewAttributes out;
  out.axes.assign(axes.begin(), axes.end());
  return out;
}
ViewAttributes OnDiagonal(int64_t offset) {
  ViewAttributes out;
  out.diagonal = offset;
  return out;
}
ConvertAttributes Convert(tensord::Dtype dtype, std::string device) {
  ConvertAttributes out;
  out.dtype = dtype;
  out.device = std::move(device);
  return out;
}

}  // namespace

Tensor::Tensor() : handle_(EmptyHandle()) {}
Tensor::Tensor(std::shared_ptr<TensorHandle> handle) : handle_(std::move(handle)) {}
Tensor::~Tensor() = default;
Tensor::Tensor(const Tensor&) = default;
Tensor& Tensor::operator=(const Tensor&) = default;
Tensor::Tensor(Tensor&& other) noexcept : handle_(std::exchange(other.handle_, EmptyHandle())) {}
Tensor& Tensor::operator=(Tensor&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

absl::StatusOr<Shape> Tensor::shape() const {
  TENSORD_ASSIGN_OR_RETURN(const TensorSpec spec, SpecOf(*this));
  return Shape(spec.type.shape.begin(), spec.type.shape.end());
}

absl::StatusOr<Dtype> Tensor::dtype() const {
  TENSORD_ASSIGN_OR_RETURN(const TensorSpec spec, SpecOf(*this));
  return FromCore(spec.type.dtype);
}

absl::StatusOr<std::string> Tensor::device() const {
  TENSORD_ASSIGN_OR_RETURN(const TensorSpec spec, SpecOf(*this));
  return spec.device.ToString();
}

std::string Tensor::description() const {
  const absl::StatusOr<TensorSpec> spec = SpecOf(*this);
  return spec.ok() ? spec->ToString() : std::string(spec.status().message());
}

absl::Status Tensor::wait() const {
  if (!handle_->session()) return handle_->known()->status();
  return handle_->session()->Read(handle_->id(), ValueFormat::kNone).status();
}

template <class T>
absl::StatusOr<std::vector<T>> Tensor::get(const Progress& progress) const {
  TENSORD_ASSIGN_OR_RETURN(const TensorSpec spec, Readable(*this));
  TENSORD_RETURN_IF_ERROR(CheckType(spec, dtype_of<T>));
  const auto elements = static_cast<size_t>(spec.type.elements());
  if constexpr (std::is_same_v<T, bool>) {  // std::vector<bool> is packed
    std::vector<char> raw(elements);
    TENSORD_RETURN_IF_ERROR(Fetch(*this, raw.data(), raw.size(), progress));
    return std::vector<bool>(raw.begin(), raw.end());
  } else {
    std::vector<T> out(elements);
    TENSORD_RETURN_IF_ERROR(Fetch(*this, reinterpret_cast<char*>(out.data()), elements * sizeof(T), progress));
    return out;
  }
}

template <class T>
absl::Status Tensor::get_into(std::span<T> out, const Progress& progress) const {
  TENSORD_ASSIGN_OR_RETURN(const TensorSpec spec, Readable(*this));
  TENSORD_RETURN_IF_ERROR(CheckType(spec, dtype_of<T>));
  if (out.size() != static_cast<size_t>(spec.type.elements())) {
    return Error(Reason::kDataInvalid).With("expected_bytes", spec.type.bytes()).With("got_bytes", out.size_bytes());
  }
  return Fetch(*this, reinterpret_cast<char*>(out.data()), out.size_bytes(), progress);
}

template <class T>
absl::StatusOr<T> Tensor::item() const {
  TENSORD_ASSIGN_OR_RETURN(const TensorSpec spec, Readable(*this));
  if (spec.type.elements() != 1) {
    return Error(Reason::kDataInvalid)
        .With("expected_bytes", ItemSize(spec.type.dtype))
        .With("got_bytes", spec.type.bytes())
        .Say("why", StrCat("item needs a tensor of one element, this is ", spec.type.ToString()));
  }
  T out{};
  TENSORD_RETURN_IF_ERROR(get_into(std::span<T>(&out, 1)));
  return out;
}

#define TENSORD_CLIENT_TYPE(T)                                                    \
  template absl::StatusOr<std::vector<T>> Tensor::get<T>(const Progress&) const;  \
  template absl::Status Tensor::get_into<T>(std::span<T>, const Progress&) const; \
  template absl::StatusOr<T> Tensor::item<T>() const;
TENSORD_CLIENT_TYPE(bool)
TENSORD_CLIENT_TYPE(int8_t)
TENSORD_CLIENT_TYPE(int16_t)
TENSORD_CLIENT_TYPE(int32_t)
TENSORD_CLIENT_TYPE(int64_t)
TENSORD_CLIENT_TYPE(uint8_t)
TENSORD_CLIENT_TYPE(uint16_t)
TENSORD_CLIENT_TYPE(uint32_t)
TENSORD_CLIENT_TYPE(uint64_t)
TENSORD_CLIENT_TYPE(Float16)
TENSORD_CLIENT_TYPE(Bfloat16)
TENSORD_CLIENT_TYPE(float)
TENSORD_CLIENT_TYPE(double)
#undef TENSORD_CLIENT_TYPE

absl::StatusOr<std::string> Tensor::bytes(const Progress& progress) const {
  TENSORD_ASSIGN_OR_RETURN(const TensorSpec spec, Readable(*this));
  std::string out(static_cast<size_t>(spec.type.bytes()), '\0');
  TENSORD_RETURN_IF_ERROR(Fetch(*this, out.data(), out.size(), progress));
  return out;
}

Tensor Tensor::to(const std::string& device) const {
  const auto known = handle_->known();
  if (known && known->ok() && DeviceId::Parse(device) == (*known)->device) return *this;
  return Emit(Op::kTo, {*this}, Convert(tensord::Dtype::kNone, device.empty() ? "cpu" : device));
}
Tensor Tensor::cpu() const { return to("cpu"); }
Tensor Tensor::cuda(int index) const { return to(StrCat("cuda:", index)); }
Tensor Tensor::cast(Dtype dtype) const { return Emit(Op::kCast, {*this}, Convert(ToCore(dtype), "")); }

Tensor Tensor::reshape(const Shape& shape) const { return View(Op::kReshape, *this, ToShape(shape)); }
Tensor Tensor::permute(const Axes& axes) const { return View(Op::kPermute, *this, Along(axes)); }
Tensor Tensor::expand(const Shape& shape) const { return View(Op::kExpand, *this, ToShape(shape)); }
Tensor Tensor::squeeze(const Axes& axes) const { return View(Op::kSqueeze, *this, Along(axes)); }
Tensor Tensor::unsqueeze(const Axes& axes) const { return View(Op::kUnsqueeze, *this, Along(axes)); }
Tensor Tensor::diagonal(int64_t offset) const { return View(Op::kDiagonal, *this, OnDiagonal(offset)); }

Tensor Tensor::transpose() const {
  const absl::StatusOr<TensorSpec> spec = SpecOf(*this);
  if (!spec.ok()) return *this;
  ViewAttributes attributes;
  const auto rank = static_cast<int32_t>(spec->type.shape.size());
  for (int32_t i = 0; i < rank; ++i) attributes.axes.push_back(i);
  if (rank < 2) return Failed(Error(Reason::kAxisInvalid).With("op", "transpose").With("axis", -2).With("rank", rank));
  std::swap(attributes.axes[rank - 1], attributes.axes[rank - 2]);
  return View(Op::kPermute, *this, std::move(attributes));
}

Tensor Tensor::slice(int axis, std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step) const {
  const absl::StatusOr<TensorSpec> spec = SpecOf(*this);
  if (!spec.ok()) return *this;
  // Bounds left out depend on the size and on the direction, as in Python.
  const int rank = static_cast<int>(spec->type.shape.size());
  const int at = axis < 0 ? axis + rank : axis;
  const int64_t size = at >= 0 && at < rank ? spec->type.shape[at] : 0;
  ViewAttributes attributes;
  attributes.axes = {axis};
  attributes.starts = {start.value_or(step < 0 ? size - 1 : 0)};
  attributes.stops = {stop.value_or(step < 0 ? -size - 1 : size)};
  attributes.steps = {step};
  return View(Op::kSlice, *this, std::move(attributes));
}

Tensor Tensor::operator[](int64_t index) const {
  const absl::StatusOr<TensorSpec> spec = SpecOf(*this);
  if (!spec.ok()) return *this;
  if (spec->type.shape.empty())
    return Failed(Error(Reason::kAxisInvalid).With("op", "index").With("axis", 0).With("rank", 0));
  const int64_t size = spec->type.shape[0];
  if (index < -size || index >= size) {
    return Failed(
        Error(Reason::kIndexOutOfRange).With("op", "index").With("index", index).With("axis", 0).With("size", size));
  }
  const int64_t at = index < 0 ? index + size : index;
  return slice(0, at, at + 1).squeeze({0});
}

Tensor Tensor::matmul(const Tensor& other) const { return client::matmul(*this, other); }
Tensor Tensor::softmax(int axis) const { return client::softmax(*this, axis); }
Tensor Tensor::log_softmax(int axis) const { return client::log_softmax(*this, axis); }
Tensor Tensor::take(const Tensor& indices, int axis) const { return client::take(*this, indices, axis); }
Tensor Tensor::clip(const Operand& min, const Operand& max) const { return client::clip(*this, min, max); }

#define TENSORD_OP(Enum, name, Family, Types, operands, results, fields, summary)
#define TENSORD_UNARY(Enum, name, Types, summary) \
  Tensor Tensor::name() const { return Emit(Op::k##Enum, {*this}); }
#define TENSORD_BINARY(Enum, name, Types, summary) \
  Tensor Tensor::name(const Operand& other) const { return Emit(Op::k##Enum, {*this, other}); }
#define TENSORD_COMPARE(Enum, name, Types, summary) \
  Tensor Tensor::name(const Operand& other) const { return Emit(Op::k##Enum, {*this, other}); }
#define TENSORD_REDUCE(Enum, name, Types, fields, summary)          \
  Tensor Tensor::name(const ReduceOptions& options) const {         \
    return Emit(Op::k##Enum, {*this}, ToAttributes(options));       \
  }                                                                 \
  Tensor Tensor::name(const Axes& axes, bool keepdims) const {      \
    return name(ReduceOptions{.axes = axes, .keepdims = keepdims}); \
  }
#include "tensord/ops.def"
#undef TENSORD_OP

}  // namespace tensord::client
