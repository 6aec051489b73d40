// A chunk of Upload or Download as bytes: a short head, then the payload, which passes no parser (tensor.proto,
// "Layout"). And its checksum.
//
// Messages laid out in another way are for the generated parser; ReadChunkHead says so by giving nothing. No state,
// thread safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/types/span.h"

namespace tensord {

struct ChunkHead {
  uint64_t offset = 0;
  std::optional<uint64_t> checksum;
  size_t head_bytes = 0;
  size_t data_bytes = 0;
};

// Longest head: offset, checksum, tag and length of the payload.
inline constexpr size_t kMaxChunkHead = 24;

// Writes the head of a chunk of `data_bytes` (below 2^31); returns its length.
size_t WriteChunkHead(uint64_t offset, std::optional<uint64_t> checksum, size_t data_bytes,
                      std::array<char, kMaxChunkHead>& head);

// Reads a head from the beginning of a message of `message_bytes`: at least kMaxChunkHead of them, or all. Nothing
// where it is not exactly such a head.
std::optional<ChunkHead> ReadChunkHead(std::string_view begin, size_t message_bytes);

// XXH3, 64 bits, seed 0, of the pieces one after the other.
uint64_t Xxh3(absl::Span<const std::string_view> pieces);

}  // namespace tensord
