#include "server/rpc/bulk.h"

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace tensord::rpc {
namespace {

static_assert(std::endian::native == std::endian::little, "fixed64 is copied as it lies in memory");

constexpr uint8_t kOffsetTag = 0x11;    // field 2, 64 bits
constexpr uint8_t kChecksumTag = 0x19;  // field 3, 64 bits
constexpr uint8_t kDataTag = 0x7a;      // field 15, bytes
constexpr size_t kMaxHead = 9 + 9 + 1 + 5;

uint64_t Fixed64(const uint8_t* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Bytes of the head, or 0 where it is another one. `payload` gets the length that it names.
size_t ParseHead(const uint8_t* head, size_t size, ChunkView& chunk, uint64_t& payload) {
  size_t at = 0;
  if (size < 9 || head[0] != kOffsetTag) return 0;
  chunk.offset = Fixed64(head + 1);
  at = 9;
  chunk.checksum.reset();
  if (size >= at + 9 && head[at] == kChecksumTag) {
    chunk.checksum = Fixed64(head + at + 1);
    at += 9;
  }
  if (at >= size || head[at++] != kDataTag) return 0;
  payload = 0;
  for (int shift = 0; shift < 35; shift += 7) {
    if (at >= size) return 0;
    const uint8_t byte = head[at++];
    payload |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return at;
  }
  return 0;
}

}  // namespace

bool ReadChunk(const grpc::ByteBuffer& buffer, uint64_t max_bytes, ChunkView& chunk) {
  chunk.slices.clear();
  chunk.pieces.clear();
  grpc::Slice single;
  if (buffer.TrySingleSlice(&single).ok()) {
    chunk.slices.push_back(std::move(single));
  } else if (!buffer.Dump(&chunk.slices).ok()) {
    return false;
  }
  std::array<uint8_t, kMaxHead> head;
  size_t have = 0;
  size_t total = 0;
  for (const grpc::Slice& slice : chunk.slices) {
    const size_t take = std::min(slice.size(), kMaxHead - have);
    std::copy_n(slice.begin(), take, head.begin() + static_cast<ptrdiff_t>(have));
    have += take;
    total += slice.size();
  }
  uint64_t payload = 0;
  size_t skip = ParseHead(head.data(), have, chunk, payload);
  if (skip == 0 || payload == 0 || payload > max_bytes || total - skip != payload) return false;
  for (const grpc::Slice& slice : chunk.slices) {
    const size_t cut = std::min(skip, slice.size());
    skip -= cut;
    if (slice.size() > cut)
      chunk.pieces.emplace_back(reinterpret_cast<const char*>(slice.begin()) + cut, slice.size() - cut);
  }
  return true;
}

grpc::ByteBuffer WriteChunk(uint64_t offset, std::optional<uint64_t> checksum, grpc::Slice payload) {
  std::array<uint8_t, kMaxHead> head;
  size_t at = 0;
  const auto fixed64 = [&](uint8_t tag, uint64_t value) {
    head[at] = tag;
    std::memcpy(head.data() + at + 1, &value, sizeof value);
    at += 9;
  };
  fixed64(kOffsetTag, offset);
  if (checksum.has_value()) fixed64(kChecksumTag, *checksum);
  head[at++] = kDataTag;
  uint64_t length = payload.size();
  for (; length >= 0x80; length >>= 7) head[at++] = static_cast<uint8_t>(length | 0x80);
  head[at++] = static_cast<uint8_t>(length);
  const std::array<grpc::Slice, 2> slices = {grpc::Slice(head.data(), at), std::move(payload)};
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::optional<uint64_t> ChecksumOf(Checksum algorithm, std::string_view bytes) {
  switch (algorithm) {
    case Checksum::kCrc32:
      return crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    case Checksum::kXxh3:
      return XXH3_64bits(bytes.data(), bytes.size());
    case Checksum::kNone:
      break;
  }
  return std::nullopt;
}

}  // namespace tensord::rpc
