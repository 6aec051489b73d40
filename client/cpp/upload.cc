// Host memory to the daemon: inline where it is small, by Upload otherwise.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "client/cpp/emit.h"
#include "kernels/core/error.h"
#include "tensord/client.h"

namespace tensord::client {
namespace {

// Smaller ones ride with the instructions: no call of their own.
constexpr uint64_t kMaxInline = 64 << 10;
constexpr size_t kChunk = 1 << 20;
// Attempts without progress after which a broken upload is given up.
constexpr int kMaxFailures = 5;

// An array in memory, read out in row-major order.
class Source {
 public:
  // `strides` empty: the elements lie side by side.
  Source(const void* data, const Dims& shape, const Dims& strides, size_t item)
      : data_(static_cast<const char*>(data)), shape_(shape), strides_(strides), item_(item) {}

  bool contiguous() const { return strides_.empty(); }
  const char* data() const { return data_; }

  // Copies `bytes` from byte `offset` on, both whole elements.
  void Copy(uint64_t offset, char* out, size_t bytes) const {
    if (contiguous()) {
      std::memcpy(out, data_ + offset, bytes);
      return;
    }
    Dims index(shape_.size(), 0);
    auto element = static_cast<int64_t>(offset / item_);
    int64_t at = 0;
    for (size_t i = shape_.size(); i-- > 0;) {
      index[i] = element % shape_[i];
      element /= shape_[i];
      at += index[i] * strides_[i];
    }
    for (size_t done = 0; done < bytes; done += item_) {
      std::memcpy(out + done, data_ + at * static_cast<int64_t>(item_), item_);
      for (size_t i = shape_.size(); i-- > 0;) {
        at += strides_[i];
        if (++index[i] < shape_[i]) break;
        at -= index[i] * strides_[i];
        index[i] = 0;
      }
    }
  }

 private:
  const char* const data_;
  const Dims shape_;
  const Dims strides_;
  const size_t item_;
};

// One attempt: goes on from what the daemon has. `reached` is how far it came.
absl::Status Send(Engine& engine, const Caller& caller, const UploadStart& start, const Source& source,
                  const Progress& progress, uint64_t& reached) {
  TENSORD_ASSIGN_OR_RETURN(std::unique_ptr<UploadSink> sink, engine.Upload(caller, start));
  std::vector<char> buffer;
  uint64_t offset = sink->received();
  const uint64_t total = sink->total();
  while (offset < total) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(kChunk, total - offset));
    std::string_view piece(source.data() + offset, n);
    if (!source.contiguous()) {
      buffer.resize(n);
      source.Copy(offset, buffer.data(), n);
      piece = {buffer.data(), n};
    }
    TENSORD_RETURN_IF_ERROR(sink->Write(offset, {&piece, 1}, std::nullopt));
    offset += n;
    reached = std::max(reached, offset);
    if (progress) progress(offset, total);
  }
  return sink->Finish().status();
}

}  // namespace

absl::StatusOr<Tensor> Client::UploadBytes(const void* data, size_t bytes, Dtype dtype, const Shape& shape,
                                           const Shape* strides, const TensorOptions& options,
                                           const Progress& progress) const {
  if (dtype == Dtype::kNone || (options.dtype != Dtype::kNone && options.dtype != dtype)) {
    return Error(Reason::kDtypeMismatch)
        .With("op", "upload")
        .With("dtypes", StrCat(dtype_name(dtype), ", ", dtype_name(options.dtype)))
        .Say("why", "values are sent as they are; cast the tensor on the daemon");
  }
  SpecRequest spec{.type = {ToCore(dtype), ToDims(shape)}, .device = options.device};
  TENSORD_ASSIGN_OR_RETURN(const int64_t checked, CheckedBytes(spec.type.dtype, spec.type.shape));
  const auto total = static_cast<uint64_t>(checked);
  if (strides != nullptr ? strides->size() != shape.size() : bytes != total) {
    return Error(Reason::kDataInvalid)
        .With("expected_bytes", total)
        .With("got_bytes", bytes)
        .Say("why", strides != nullptr ? "as many strides as sizes are needed"
                                       : StrCat("the shape is ", spec.type.ToString()));
  }
  const Source source(data, spec.type.shape, strides == nullptr || total == 0 ? Dims() : ToDims(*strides),
                      item_size(dtype));
  std::string values;
  if (total <= std::min(kMaxInline, session_->info().limits.max_inline_bytes)) {
    values.resize(total);
    if (total > 0) source.Copy(0, values.data(), total);
    if (progress) progress(total, total);
    return Emit(Op::kConstant, {}, ConstantAttributes{std::move(spec), std::move(values)}, session_);
  }
  const std::optional<DeviceId> device = DeviceId::Parse(spec.device);
  if (!device) return Error(Reason::kDeviceUnknown).With("device", spec.device).With("known", "cpu, cuda:N");
  UploadStart start{
      .id = session_->NewIds(), .spec = spec, .checksum = Checksum::kXxh3, .sha256 = {}, .publish = std::nullopt};
  // Made first, so that a failure frees what has arrived.
  auto handle =
      std::make_shared<TensorHandle>(session_, start.id, absl::StatusOr<TensorSpec>(TensorSpec{spec.type, *device}));
  uint64_t reached = 0;
  for (int failures = 0;;) {
    const uint64_t before = reached;
    const absl::Status status = Send(session_->engine(), session_->OrderedCaller(), start, source, progress, reached);
    if (status.ok()) return Tensor(std::move(handle));
    const bool broken = status.code() == absl::StatusCode::kUnavailable && DetailsOf(status).reason_name.empty();
    if (reached > before) failures = 0;
    if (!broken || ++failures > kMaxFailures) return status;
    TENSORD_RETURN_IF_ERROR(session_->AwaitConnection());
    absl::SleepFor(absl::Milliseconds(100) * failures);
  }
}

}  // namespace tensord::client
