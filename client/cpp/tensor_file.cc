#include "client/cpp/tensor_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include "client/cpp/fortran.h"
#include "client/cpp/posix_file.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace tensord {
namespace {

constexpr size_t kPanelBytes = 64 << 20;

absl::Status Bad(const std::string& name, std::string_view what) {
  return absl::InvalidArgumentError(StrCat(name, ": ", what));
}

// "needs 24 bytes for float32[2,3]".
std::string Needs(const TensorType& type) { return StrCat(type.ToString(), " needs ", type.bytes(), " bytes"); }

template <class T>
void SwapAs(char* data, size_t bytes) {
  for (size_t i = 0; i < bytes; i += sizeof(T)) {
    T value;
    std::memcpy(&value, data + i, sizeof(T));
    if constexpr (sizeof(T) == 2) value = __builtin_bswap16(value);
    if constexpr (sizeof(T) == 4) value = __builtin_bswap32(value);
    if constexpr (sizeof(T) == 8) value = __builtin_bswap64(value);
    std::memcpy(data + i, &value, sizeof(T));
  }
}

void SwapBytes(Dtype dtype, char* data, size_t bytes) {
  // The parts of a complex number are swapped, not the pair.
  switch (IsComplex(dtype) ? ItemSize(dtype) / 2 : ItemSize(dtype)) {
    case 2:
      return SwapAs<uint16_t>(data, bytes);
    case 4:
      return SwapAs<uint32_t>(data, bytes);
    case 8:
      return SwapAs<uint64_t>(data, bytes);
    default:
      return;
  }
}

class Reader : public TensorFileReader {
 public:
  Reader(PosixFile file, NpyHeader header)
      : file_(std::move(file)),
        header_(std::move(header)),
        total_(static_cast<uint64_t>(header_.type.bytes())),
        item_(ItemSize(header_.type.dtype)) {}

  // The file is at its first element.
  absl::Status Prepare() {
    if (const std::optional<uint64_t> there = file_.Remaining()) {
      if (*there < total_) return Truncated(*there);
      if (*there > total_) return TooLong(*there - total_);
    }
    const Dims& shape = header_.type.shape;
    const auto real_axes = std::count_if(shape.begin(), shape.end(), [](int64_t size) { return size != 1; });
    // With one axis both orders are the same.
    if (!header_.fortran_order || real_axes < 2 || total_ == 0) return absl::OkStatus();
    data_.reset(new (std::nothrow) char[total_]);
    if (!data_) {
      return absl::ResourceExhaustedError(
          StrCat(file_.name(), ": Fortran order needs all ", total_, " bytes in memory, and there are not so many"));
    }
    TENSORD_ASSIGN_OR_RETURN(const size_t n, file_.Read(data_.get(), total_));
    if (n < total_) return Truncated(n);
    fortran_.emplace(data_.get(), shape, item_, kPanelBytes);
    return absl::OkStatus();
  }

  const TensorType& type() const override { return header_.type; }
  uint64_t total() const override { return total_; }

  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    const size_t want = std::min<uint64_t>(out.size() / item_ * item_, total_ - position_);
    if (want == 0) return AtEnd();
    if (fortran_) {
      TENSORD_RETURN_IF_ERROR(FromPanels(out.data(), want));
    } else {
      TENSORD_ASSIGN_OR_RETURN(const size_t n, file_.Read(out.data(), want));
      if (n < want) return Truncated(position_ + n);
    }
    if (header_.big_endian) SwapBytes(header_.type.dtype, out.data(), want);
    if (header_.type.dtype == Dtype::kBool) {
      for (size_t i = 0; i < want; ++i) {
        const unsigned value = static_cast<unsigned char>(out[i]);
        if (value > 1)
          return Bad(file_.name(), StrCat("element ", position_ + i, " is ", value, ", which is no bool (0 or 1)"));
      }
    }
    position_ += want;
    return want;
  }

 private:
  absl::Status Truncated(uint64_t there) const {
    return Bad(file_.name(), StrCat("truncated: ", Needs(header_.type), ", the file has ", there));
  }
  absl::Status TooLong(uint64_t extra) const {
    return Bad(file_.name(),
               StrCat(extra, " bytes too many: ", Needs(header_.type), ", the file has ", total_ + extra));
  }
  absl::StatusOr<size_t> AtEnd() {
    if (position_ < total_) return Bad(file_.name(), "a buffer smaller than one element");
    if (ended_) return 0;
    ended_ = true;
    // A pipe tells only now whether it goes on.
    char extra[4096];
    TENSORD_ASSIGN_OR_RETURN(const size_t n, file_.Read(extra, sizeof(extra)));
    if (n > 0)
      return Bad(file_.name(),
                 StrCat(n, n == sizeof(extra) ? " or more" : "", " bytes too many: ", Needs(header_.type)));
    return 0;
  }
  absl::Status FromPanels(char* out, size_t want) {
    for (size_t done = 0; done < want;) {
      if (panel_position_ == panel_.size()) {
        panel_.resize(fortran_->NextBytes());
        fortran_->Next(panel_.data());
        panel_position_ = 0;
      }
      const size_t n = std::min(want - done, panel_.size() - panel_position_);
      std::memcpy(out + done, panel_.data() + panel_position_, n);
      panel_position_ += n;
      done += n;
    }
    return absl::OkStatus();
  }

  PosixFile file_;
  const NpyHeader header_;
  const uint64_t total_;
  const size_t item_;
  uint64_t position_ = 0;
  bool ended_ = false;
  std::unique_ptr<char[]> data_;  // Fortran order: the whole file
  std::optional<FortranReader> fortran_;
  std::vector<char> panel_;
  size_t panel_position_ = 0;
};

absl::StatusOr<std::unique_ptr<TensorFileReader>> Prepared(PosixFile file, NpyHeader header) {
  auto reader = std::make_unique<Reader>(std::move(file), std::move(header));
  TENSORD_RETURN_IF_ERROR(reader->Prepare());
  return reader;
}

class Writer : public TensorFileWriter {
 public:
  Writer(std::string path, PosixFile file, std::string temporary, const TensorType& type)
      : path_(std::move(path)),
        temporary_(std::move(temporary)),
        file_(std::move(file)),
        type_(type),
        left_(static_cast<uint64_t>(type.bytes())) {}
  ~Writer() override {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  absl::Status Start(std::string_view header) { return file_.Write(header.data(), header.size()); }

  absl::Status Write(std::string_view bytes) override {
    if (bytes.size() > left_) return Bad(file_.name(), StrCat(bytes.size() - left_, " bytes too many: ", Needs(type_)));
    TENSORD_RETURN_IF_ERROR(file_.Write(bytes.data(), bytes.size()));
    left_ -= bytes.size();
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (left_ > 0) return Bad(file_.name(), StrCat(left_, " bytes are missing: ", Needs(type_)));
    TENSORD_RETURN_IF_ERROR(file_.Close());
    if (!temporary_.empty()) {
      if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return SystemError(path_, errno);
      temporary_.clear();
    }
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  std::string temporary_;  // empty once it has moved, and where the target is no regular file
  PosixFile file_;
  const TensorType type_;
  uint64_t left_;
};

absl::StatusOr<std::unique_ptr<TensorFileWriter>> Create(const std::string& path, const TensorType& type,
                                                         std::string_view header) {
  TENSORD_RETURN_IF_ERROR(CheckedBytes(type.dtype, type.shape).status());
  struct stat st = {};
  const bool special = path == "-" || (::stat(path.c_str(), &st) == 0 && !S_ISREG(st.st_mode));
  std::string temporary;
  absl::StatusOr<PosixFile> file = special ? PosixFile::OpenToWrite(path) : PosixFile::CreateBeside(path, temporary);
  if (!file.ok()) return file.status();
  auto writer = std::make_unique<Writer>(path, *std::move(file), std::move(temporary), type);
  TENSORD_RETURN_IF_ERROR(writer->Start(header));
  return writer;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorFileReader>> TensorFileReader::OpenNpy(const std::string& path) {
  TENSORD_ASSIGN_OR_RETURN(PosixFile file, PosixFile::OpenToRead(path));
  std::string head(kNpyPrefixBytes, '\0');
  TENSORD_ASSIGN_OR_RETURN(size_t have, file.Read(head.data(), head.size()));
  head.resize(have);
  TENSORD_ASSIGN_OR_RETURN(const size_t offset, NpyDataOffset(file.name(), head));
  // An array's header is never shorter than the longest prefix: its dictionary alone has more characters.
  if (offset > head.size()) {
    head.resize(offset);
    TENSORD_ASSIGN_OR_RETURN(const size_t more, file.Read(head.data() + have, offset - have));
    head.resize(have + more);
  }
  TENSORD_ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(file.name(), head));
  return Prepared(std::move(file), std::move(header));
}

absl::StatusOr<std::unique_ptr<TensorFileReader>> TensorFileReader::OpenRaw(const std::string& path,
                                                                            const TensorType& type) {
  TENSORD_RETURN_IF_ERROR(CheckedBytes(type.dtype, type.shape).status());
  TENSORD_ASSIGN_OR_RETURN(PosixFile file, PosixFile::OpenToRead(path));
  return Prepared(std::move(file), NpyHeader{.type = type});
}

absl::StatusOr<std::unique_ptr<TensorFileWriter>> TensorFileWriter::OpenNpy(const std::string& path,
                                                                            const TensorType& type) {
  TENSORD_ASSIGN_OR_RETURN(std::string header, FormatNpyHeader(type));
  return Create(path, type, header);
}

absl::StatusOr<std::unique_ptr<TensorFileWriter>> TensorFileWriter::OpenRaw(const std::string& path,
                                                                            const TensorType& type) {
  return Create(path, type, "");
}

}  // namespace tensord
