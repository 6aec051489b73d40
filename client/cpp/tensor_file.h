// Tensors in files: .npy, or raw bytes whose dtype and shape somebody says. Read and written in pieces, so that a
// tensor of many GiB needs only a buffer.
//
// What comes out of a reader, and goes into a writer, is what the daemon takes: little-endian elements in row-major
// order. A big-endian file is swapped on the way; a Fortran-ordered one is held in memory once (plus a panel of at most
// 64 MiB) and reordered.
//
//   TENSORD_ASSIGN_OR_RETURN(auto reader, TensorFileReader::OpenNpy("x.npy"));
//   std::vector<char> buffer(1 << 20);
//   for (;;) {
//     TENSORD_ASSIGN_OR_RETURN(size_t n, reader->Read(absl::MakeSpan(buffer)));
//     if (n == 0) break;
//     …
//   }
//
// One thread at a time. Errors begin with the file's name: NOT_FOUND and PERMISSION_DENIED as the system says,
// INVALID_ARGUMENT for what is wrong in the file, RESOURCE_EXHAUSTED where memory or disk space runs out, UNKNOWN for
// other failures of the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cpp/npy.h"
#include "kernels/core/shape.h"

namespace tensord {

class TensorFileReader {
 public:
  virtual ~TensorFileReader() = default;

  // `path` "-" is standard input. A regular file whose size is not exactly what its header says is refused here, a pipe
  // where it ends or does not.
  static absl::StatusOr<std::unique_ptr<TensorFileReader>> OpenNpy(const std::string& path);
  // The bytes as they are.
  static absl::StatusOr<std::unique_ptr<TensorFileReader>> OpenRaw(const std::string& path, const TensorType& type);

  virtual const TensorType& type() const = 0;
  // Bytes of all elements.
  virtual uint64_t total() const = 0;
  // The next bytes, whole elements, as many as `out` (at least 16 bytes) holds; 0 at the end. A bool that is neither 0
  // nor 1 is an error.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> out) = 0;
};

class TensorFileWriter {
 public:
  // Unless Finish succeeded a regular file is left as it was.
  virtual ~TensorFileWriter() = default;

  // `path` "-" is standard output. A regular file is written beside its place and moved there by Finish.
  static absl::StatusOr<std::unique_ptr<TensorFileWriter>> OpenNpy(const std::string& path, const TensorType& type);
  static absl::StatusOr<std::unique_ptr<TensorFileWriter>> OpenRaw(const std::string& path, const TensorType& type);

  virtual absl::Status Write(std::string_view bytes) = 0;
  // Error: INVALID_ARGUMENT where not all bytes were written.
  virtual absl::Status Finish() = 0;
};

}  // namespace tensord
