// Private to this folder. Chunks of Upload and Download as they lie in a gRPC buffer, without a detour through the
// generated parser.
//
// A chunk is offset, checksum, data in this order (tensor.proto): a head of at most 24 bytes, then the payload as the
// rest of the message. A buffer with that head is read as slices that still belong to the buffer; whatever else it is
// goes to the general parser, with the same result or the same refusal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "server/engine/types.h"

namespace tensord::rpc {

// Payload bytes of a chunk unless the client asks for another size.
inline constexpr uint64_t kChunkBytes = 1 << 20;

// A chunk in a buffer. `pieces` point into `slices`.
struct ChunkView {
  uint64_t offset = 0;
  std::optional<uint64_t> checksum;
  std::vector<std::string_view> pieces;
  std::vector<grpc::Slice> slices;
};

// The chunk of a buffer that begins with the usual head and holds 1 to `max_bytes` of payload. False: anything else,
// and `chunk` is then unspecified.
bool ReadChunk(const grpc::ByteBuffer& buffer, uint64_t max_bytes, ChunkView& chunk);

// A message of one chunk. The payload is taken over, not copied.
grpc::ByteBuffer WriteChunk(uint64_t offset, std::optional<uint64_t> checksum, grpc::Slice payload);

// The checksum of some bytes; empty for kNone.
std::optional<uint64_t> ChecksumOf(Checksum algorithm, std::string_view bytes);

}  // namespace tensord::rpc
