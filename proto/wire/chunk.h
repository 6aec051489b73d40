// Messages of Upload and Download: a start, then chunks.
//
//   auto part = FromProto(request);                       // daemon: a start or a chunk
//   v1::UploadRequest request = UploadChunkToProto(chunk); // client
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"
#include "proto/wire/convert_tensor.h"
#include "server/engine/types.h"
#include "tensord/v1/tensor.pb.h"

namespace tensord::wire {

// `data` belongs to the message it was decoded from.
struct Chunk {
  uint64_t offset = 0;
  std::optional<uint64_t> checksum;
  std::string_view data;
};

using UploadPart = std::variant<UploadStart, Chunk>;
using DownloadPart = std::variant<DownloadBegin, Chunk>;

// Strict. Errors: those of the start; FIELD_INVALID for a message that is both or neither, a chunk without offset or
// without data; LIMIT_EXCEEDED for one above max_chunk_bytes.
absl::StatusOr<UploadPart> FromProto(const v1::UploadRequest& proto);
v1::UploadRequest UploadStartToProto(const UploadStart& start);
v1::UploadRequest UploadChunkToProto(const Chunk& chunk);

// Lenient.
absl::StatusOr<DownloadPart> FromProto(const v1::DownloadResponse& proto);
v1::DownloadResponse DownloadBeginToProto(const DownloadBegin& begin);
v1::DownloadResponse DownloadChunkToProto(const Chunk& chunk);

}  // namespace tensord::wire
