#include "client/cpp/chunk_frame.h"

#include <gtest/gtest.h>

#include <string>

#include "client/cpp/fortran.h"
#include "tensord/v1/tensor.pb.h"

namespace tensord {
namespace {

TEST(ChunkFrameTest, IsWhatTheGeneratedCodeWrites) {
  for (const size_t bytes : {1u, 127u, 128u, 70'000u, 3u << 20}) {
    for (const bool with_checksum : {false, true}) {
      v1::UploadRequest message;
      message.set_offset(0x0102030405060708);
      if (with_checksum) message.set_checksum(0xfedcba9876543210);
      message.set_data(std::string(bytes, 'x'));
      const std::string expected = message.SerializeAsString();
      std::array<char, kMaxChunkHead> head;
      const size_t n = WriteChunkHead(
          message.offset(), with_checksum ? std::optional<uint64_t>(message.checksum()) : std::nullopt, bytes, head);
      EXPECT_EQ(std::string(head.data(), n) + message.data(), expected);
      const std::optional<ChunkHead> read =
          ReadChunkHead(std::string_view(expected).substr(0, kMaxChunkHead), expected.size());
      ASSERT_TRUE(read);
      EXPECT_EQ(read->offset, message.offset());
      EXPECT_EQ(read->checksum.has_value(), with_checksum);
      EXPECT_EQ(read->checksum.value_or(0), message.checksum());
      EXPECT_EQ(read->head_bytes, n);
      EXPECT_EQ(read->data_bytes, bytes);
    }
  }
}

TEST(ChunkFrameTest, LeavesOtherLayoutsToTheParser) {
  v1::DownloadResponse start;
  start.mutable_start()->set_total_bytes(3);
  const std::string other = start.SerializeAsString();
  EXPECT_FALSE(ReadChunkHead(other, other.size()));
  v1::DownloadResponse chunk;
  chunk.set_offset(7);
  chunk.set_data("abc");
  const std::string bytes = chunk.SerializeAsString();
  EXPECT_TRUE(ReadChunkHead(bytes, bytes.size()));
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(ReadChunkHead(std::string_view(bytes).substr(0, n), n)) << n;
  EXPECT_FALSE(ReadChunkHead(bytes, bytes.size() + 2));  // something follows the payload
  EXPECT_FALSE(ReadChunkHead(std::string(24, '\xff'), 24));
}

TEST(ChunkFrameTest, ChecksumOfPiecesIsThatOfTheWhole) {
  const std::string text(5000, 'q');
  const std::string_view whole(text);
  const std::string_view pieces[] = {whole.substr(0, 1), whole.substr(1, 2999), whole.substr(3000)};
  EXPECT_EQ(Xxh3({&whole, 1}), Xxh3(pieces));
  const std::string_view empty;
  EXPECT_EQ(Xxh3({&empty, 1}), 0x2d06800538d394c2u);  // XXH3-64 of nothing, seed 0
}

// Every panel size gives the same row-major bytes.
TEST(FortranReaderTest, ReordersAnyShapeInAnyPanels) {
  for (const Dims& shape :
       {Dims{1}, Dims{5}, Dims{2, 3}, Dims{3, 1, 4}, Dims{2, 3, 4, 5}, Dims{130, 70}, Dims{1, 9, 65}}) {
    const int64_t n = NumElements(shape);
    std::vector<int32_t> column_major(n), expected(n);
    for (int64_t i = 0; i < n; ++i) {
      int64_t rest = i, at = 0, stride = 1;
      Dims index(shape.size());
      for (size_t k = shape.size(); k-- > 0;) {
        index[k] = rest % shape[k];
        rest /= shape[k];
      }
      for (size_t k = 0; k < shape.size(); ++k) {
        at += index[k] * stride;
        stride *= shape[k];
      }
      column_major[at] = static_cast<int32_t>(i);
      expected[i] = static_cast<int32_t>(i);
    }
    for (const size_t panel : {4u, 12u, 64u, 1000u, 1u << 20}) {
      FortranReader reader(reinterpret_cast<const char*>(column_major.data()), shape, 4, panel);
      std::string out;
      while (const size_t bytes = reader.NextBytes()) {
        EXPECT_LE(bytes, panel);
        std::string part(bytes, '\0');
        reader.Next(part.data());
        out += part;
      }
      EXPECT_EQ(out, std::string(reinterpret_cast<const char*>(expected.data()), n * 4))
          << ShapeText(shape) << " in panels of " << panel;
    }
  }
}

}  // namespace
}  // namespace tensord
