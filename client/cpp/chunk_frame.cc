#include "client/cpp/chunk_frame.h"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tensord {
namespace {

// Tags of tensord.v1.UploadRequest and DownloadResponse: number << 3 | wire type.
constexpr char kOffsetTag = 2 << 3 | 1;
constexpr char kChecksumTag = 3 << 3 | 1;
constexpr char kDataTag = 15 << 3 | 2;

void PutFixed64(char* out, uint64_t value) {
  for (int i = 0; i < 8; ++i) out[i] = static_cast<char>(value >> (8 * i));
}

uint64_t GetFixed64(const char* in) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= static_cast<uint64_t>(static_cast<unsigned char>(in[i])) << (8 * i);
  return value;
}

}  // namespace

size_t WriteChunkHead(uint64_t offset, std::optional<uint64_t> checksum, size_t data_bytes,
                      std::array<char, kMaxChunkHead>& head) {
  size_t n = 0;
  head[n++] = kOffsetTag;
  PutFixed64(&head[n], offset);
  n += 8;
  if (checksum) {
    head[n++] = kChecksumTag;
    PutFixed64(&head[n], *checksum);
    n += 8;
  }
  head[n++] = kDataTag;
  for (; data_bytes >= 0x80; data_bytes >>= 7) head[n++] = static_cast<char>(data_bytes | 0x80);
  head[n++] = static_cast<char>(data_bytes);
  return n;
}

std::optional<ChunkHead> ReadChunkHead(std::string_view begin, size_t message_bytes) {
  ChunkHead head;
  size_t n = 0;
  if (begin.size() < 9 || begin[n] != kOffsetTag) return std::nullopt;
  head.offset = GetFixed64(&begin[n + 1]);
  n += 9;
  if (begin.size() >= n + 9 && begin[n] == kChecksumTag) {
    head.checksum = GetFixed64(&begin[n + 1]);
    n += 9;
  }
  if (begin.size() <= n || begin[n] != kDataTag) return std::nullopt;
  ++n;
  for (int shift = 0;; shift += 7) {
    if (n >= begin.size() || shift > 28) return std::nullopt;
    const auto byte = static_cast<unsigned char>(begin[n++]);
    head.data_bytes |= static_cast<size_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  head.head_bytes = n;
  // The payload must be the rest, no less and no more.
  if (message_bytes - n != head.data_bytes) return std::nullopt;
  return head;
}

uint64_t Xxh3(absl::Span<const std::string_view> pieces) {
  if (pieces.size() == 1) return XXH3_64bits(pieces[0].data(), pieces[0].size());
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const std::string_view piece : pieces) XXH3_64bits_update(&state, piece.data(), piece.size());
  return XXH3_64bits_digest(&state);
}

}  // namespace tensord
