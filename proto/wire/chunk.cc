#include "proto/wire/chunk.h"

#include <utility>

#include "kernels/core/error.h"
#include "proto/wire/parts.h"
#include "proto/wire/upload_start.h"

namespace tensord::wire {
namespace {

template <class P>
Chunk DecodeChunk(const P& proto) {
  Chunk chunk;
  chunk.offset = proto.offset();
  if (proto.has_checksum()) chunk.checksum = proto.checksum();
  chunk.data = proto.data();
  return chunk;
}

template <class P>
P EncodeChunk(const Chunk& chunk) {
  P proto;
  proto.set_offset(chunk.offset);
  if (chunk.checksum) proto.set_checksum(*chunk.checksum);
  proto.set_data(chunk.data.data(), chunk.data.size());
  return proto;
}

}  // namespace

absl::StatusOr<UploadPart> FromProto(const v1::UploadRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  if (proto.has_start()) {
    if (proto.has_offset() || proto.has_checksum() || !proto.data().empty()) {
      return FieldInvalid("start", "set beside a chunk", "a start or a chunk");
    }
    auto start = DecodeUploadStart(proto.start());
    if (!start.ok()) return Inside("start", start.status());
    return UploadPart(*std::move(start));
  }
  if (!proto.has_offset()) return FieldInvalid("offset", "not set", "the chunk's first byte");
  if (proto.data().empty()) return FieldInvalid("data", "empty", "1 byte or more");
  const uint64_t maximum = RequestLimits().max_chunk_bytes;
  if (proto.data().size() > maximum) return LimitExceeded("max_chunk_bytes", proto.data().size(), maximum, "data");
  return UploadPart(DecodeChunk(proto));
}

v1::UploadRequest UploadStartToProto(const UploadStart& start) {
  v1::UploadRequest proto;
  *proto.mutable_start() = ToProto(start);
  return proto;
}

v1::UploadRequest UploadChunkToProto(const Chunk& chunk) { return EncodeChunk<v1::UploadRequest>(chunk); }

absl::StatusOr<DownloadPart> FromProto(const v1::DownloadResponse& proto) {
  if (proto.has_start()) {
    TENSORD_ASSIGN_OR_RETURN(DownloadBegin begin, FromProto(proto.start()));
    return DownloadPart(std::move(begin));
  }
  return DownloadPart(DecodeChunk(proto));
}

v1::DownloadResponse DownloadBeginToProto(const DownloadBegin& begin) {
  v1::DownloadResponse proto;
  *proto.mutable_start() = ToProto(begin);
  return proto;
}

v1::DownloadResponse DownloadChunkToProto(const Chunk& chunk) { return EncodeChunk<v1::DownloadResponse>(chunk); }

}  // namespace tensord::wire
