// The .npy format: its header, as text and as a type. Reading and writing whole files is tensor_file.h.
//
// Versions 1.0 to 3.0 are read, 1.0 is written. Known types: bool, int8 to int64, uint8 to uint64, float16 to float64,
// complex64, complex128, in either byte order. bfloat16 has no name in the format. Nothing here trusts the file: every
// length is bounded, every product checked.
//
//   TENSORD_ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader("x.npy", bytes));   // header.type is float32[2,3]
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/core/shape.h"

namespace tensord {

struct NpyHeader {
  TensorType type;
  bool fortran_order = false;  // the first axis varies fastest
  bool big_endian = false;
  size_t data_offset = 0;  // bytes from the start of the file to the first element
};

// Bytes that tell how long a header is: magic, version and length in the longest version.
inline constexpr size_t kNpyPrefixBytes = 12;
// A header text longer than this is refused; rank 64 needs less than 2 KiB.
inline constexpr size_t kMaxNpyHeaderBytes = 1 << 20;

// Where the data begins, from the first bytes of a file (kNpyPrefixBytes of them, or the whole file where it is
// shorter). `name` is the file's, for messages. Errors, as all here: INVALID_ARGUMENT that begins with `name` and says
// what is wrong at which byte.
absl::StatusOr<size_t> NpyDataOffset(std::string_view name, std::string_view prefix);

// Reads a header; `bytes` are at least the first NpyDataOffset bytes of the file. Errors: above; for the shape also
// LIMIT_EXCEEDED and SHAPE_INVALID.
absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view name, std::string_view bytes);

// The bytes before the data, a multiple of 64, for little-endian row-major data. Error: INVALID_ARGUMENT for bfloat16.
absl::StatusOr<std::string> FormatNpyHeader(const TensorType& type);

}  // namespace tensord
