#include "client/cpp/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/core/error.h"

namespace tensord {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

class TensorFileTest : public testing::Test {
 protected:
  TensorFileTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tensord-files-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
  }
  ~TensorFileTest() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  std::string Put(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }
  std::string Slurp(const std::string& path) const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t Files() const {
    return std::distance(std::filesystem::directory_iterator(directory_), std::filesystem::directory_iterator());
  }

  std::string directory_;
};

std::string Header(const char* descr, bool fortran, const char* shape) {
  const std::string text =
      StrCat("{'descr': '", descr, "', 'fortran_order': ", fortran ? "True" : "False", ", 'shape': ", shape, "}\n");
  std::string out("\x93NUMPY\x01\0", 8);
  out.push_back(static_cast<char>(text.size()));
  out.push_back('\0');
  return out + text;
}

template <class T>
std::string Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

absl::StatusOr<std::string> ReadAll(TensorFileReader& reader, size_t piece) {
  std::string out;
  std::vector<char> buffer(piece);
  for (;;) {
    TENSORD_ASSIGN_OR_RETURN(const size_t n, reader.Read(absl::MakeSpan(buffer)));
    if (n == 0) return out;
    out.append(buffer.data(), n);
  }
}

TEST_F(TensorFileTest, ReadsRowMajorFilesInPiecesOfAnySize) {
  const std::vector<int32_t> values = {1, -2, 3, -4, 5, -6};
  const std::string path = Put("x.npy", Header("<i4", false, "(2, 3)") + Bytes(values));
  for (const size_t piece : {16u, 17u, 20u, 1000u}) {
    auto reader = TensorFileReader::OpenNpy(path);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ((*reader)->type().ToString(), "int32[2,3]");
    EXPECT_EQ((*reader)->total(), 24u);
    EXPECT_EQ(*ReadAll(**reader, piece), Bytes(values));
  }
}

TEST_F(TensorFileTest, SwapsBigEndianElements) {
  const std::string path = Put("x.npy", Header(">f4", false, "(2,)") + std::string("\x3f\x80\0\0\xc0\0\0\0", 8));
  EXPECT_EQ(*ReadAll(**TensorFileReader::OpenNpy(path), 16), Bytes<float>({1.0f, -2.0f}));
  const std::string wide = Put("y.npy", Header(">i8", false, "(1,)") + std::string("\0\0\0\0\0\0\1\2", 8));
  EXPECT_EQ(*ReadAll(**TensorFileReader::OpenNpy(wide), 16), Bytes<int64_t>({258}));
  const std::string half = Put("z.npy", Header(">u2", false, "(2,)") + std::string("\1\2\3\4", 4));
  EXPECT_EQ(*ReadAll(**TensorFileReader::OpenNpy(half), 16), Bytes<uint16_t>({0x0102, 0x0304}));
  // The two parts of a complex number stay in their order.
  const std::string complex = Put("c.npy", Header(">c8", false, "()") + std::string("\x3f\x80\0\0\xc0\0\0\0", 8));
  EXPECT_EQ(*ReadAll(**TensorFileReader::OpenNpy(complex), 16), Bytes<float>({1.0f, -2.0f}));
}

TEST_F(TensorFileTest, ReordersFortranFiles) {
  // [[0 1 2], [3 4 5]] by columns.
  const std::string path = Put("x.npy", Header("<i2", true, "(2, 3)") + Bytes<int16_t>({0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(*ReadAll(**TensorFileReader::OpenNpy(path), 16), Bytes<int16_t>({0, 1, 2, 3, 4, 5}));
  const std::string both = Put("y.npy", Header(">i2", true, "(2, 3)") + std::string("\0\0\0\3\0\1\0\4\0\2\0\5", 12));
  EXPECT_EQ(*ReadAll(**TensorFileReader::OpenNpy(both), 16), Bytes<int16_t>({0, 1, 2, 3, 4, 5}));
  const std::string line = Put("z.npy", Header("<i2", true, "(1, 3)") + Bytes<int16_t>({7, 8, 9}));
  EXPECT_EQ(*ReadAll(**TensorFileReader::OpenNpy(line), 16), Bytes<int16_t>({7, 8, 9}));
}

TEST_F(TensorFileTest, ReadsScalarsAndEmptyArrays) {
  EXPECT_EQ(*ReadAll(**TensorFileReader::OpenNpy(Put("s.npy", Header("<f8", false, "()") + Bytes<double>({2.5}))), 16),
            Bytes<double>({2.5}));
  EXPECT_EQ(*ReadAll(**TensorFileReader::OpenNpy(Put("e.npy", Header("<f8", true, "(0, 3)"))), 16), "");
}

TEST_F(TensorFileTest, RefusesWrongSizesWithTheNumbers) {
  const std::string short_file = Put("x.npy", Header("<f4", false, "(2, 3)") + std::string(20, '\0'));
  EXPECT_THAT(std::string(TensorFileReader::OpenNpy(short_file).status().message()),
              EndsWith("x.npy: truncated: float32[2,3] needs 24 bytes, the file has 20"));
  const std::string long_file = Put("y.npy", Header("<f4", false, "(2, 3)") + std::string(27, '\0'));
  EXPECT_THAT(std::string(TensorFileReader::OpenNpy(long_file).status().message()),
              EndsWith("y.npy: 3 bytes too many: float32[2,3] needs 24 bytes, the file has 27"));
  const std::string raw = Put("z.raw", std::string(10, '\0'));
  EXPECT_THAT(std::string(TensorFileReader::OpenRaw(raw, {Dtype::kFloat32, {3}}).status().message()),
              EndsWith("z.raw: truncated: float32[3] needs 12 bytes, the file has 10"));
  const std::string huge = Put("h.npy", Header("<f4", true, "(4194304, 4194304)") + std::string(100, '\0'));
  EXPECT_THAT(std::string(TensorFileReader::OpenNpy(huge).status().message()),
              HasSubstr("needs 70368744177664 bytes, the file has 100"));
}

TEST_F(TensorFileTest, RefusesBytesThatAreNoBool) {
  const std::string path = Put("b.npy", Header("|b1", false, "(4,)") + std::string("\0\1\2\1", 4));
  EXPECT_THAT(std::string(ReadAll(**TensorFileReader::OpenNpy(path), 16).status().message()),
              EndsWith("b.npy: element 2 is 2, which is no bool (0 or 1)"));
}

TEST_F(TensorFileTest, TellsWhatTheSystemSays) {
  const absl::Status missing = TensorFileReader::OpenNpy(Path("none.npy")).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), EndsWith("none.npy: No such file or directory"));
  EXPECT_EQ(TensorFileReader::OpenNpy(directory_).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TensorFileWriter::OpenNpy(Path("no/such/x.npy"), {Dtype::kInt8, {1}}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(TensorFileTest, WritesAndReadsBack) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  auto writer = TensorFileWriter::OpenNpy(Path("x.npy"), {Dtype::kFloat32, {2, 3}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Write(std::string_view(Bytes(values)).substr(0, 7)).ok());
  EXPECT_FALSE(std::filesystem::exists(Path("x.npy"))) << "half a file must not be seen under its name";
  EXPECT_THAT(std::string((*writer)->Finish().message()),
              EndsWith("x.npy: 17 bytes are missing: float32[2,3] needs 24 bytes"));
  ASSERT_TRUE((*writer)->Write(std::string_view(Bytes(values)).substr(7)).ok());
  EXPECT_THAT(std::string((*writer)->Write("!").message()),
              EndsWith("x.npy: 1 bytes too many: float32[2,3] needs 24 bytes"));
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(*ReadAll(**TensorFileReader::OpenNpy(Path("x.npy")), 64), Bytes(values));
  EXPECT_EQ(Files(), 1u);
}

TEST_F(TensorFileTest, LeavesTheOldFileWhereWritingStops) {
  Put("x.raw", "old");
  {
    auto writer = TensorFileWriter::OpenRaw(Path("x.raw"), {Dtype::kInt8, {4}});
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Write("ne").ok());
  }
  EXPECT_EQ(Slurp(Path("x.raw")), "old");
  EXPECT_EQ(Files(), 1u);
}

// A pipe has no size to check before it is read.
TEST_F(TensorFileTest, ReadsPipesAndFindsTheirEnd) {
  for (const size_t extra : {0u, 2u}) {
    const std::string fifo = Path(StrCat("fifo", extra));
    ASSERT_EQ(::system(StrCat("mkfifo ", fifo).c_str()), 0);
    const std::string bytes = Header("|i1", false, "(3,)") + "abc" + std::string(extra, '!');
    const std::string source = Put("source", bytes);
    ASSERT_EQ(::system(StrCat("cat ", source, " > ", fifo, " &").c_str()), 0);
    auto reader = TensorFileReader::OpenNpy(fifo);
    ASSERT_TRUE(reader.ok()) << reader.status();
    const absl::StatusOr<std::string> read = ReadAll(**reader, 16);
    if (extra == 0) {
      EXPECT_EQ(*read, "abc");
    } else {
      EXPECT_THAT(std::string(read.status().message()), EndsWith("2 bytes too many: int8[3] needs 3 bytes"));
    }
  }
}

// What NumPy writes is read, and what is written here NumPy reads.
TEST_F(TensorFileTest, AgreesWithNumPy) {
  if (::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) GTEST_SKIP() << "no NumPy for /usr/bin/python3";
  const std::string script = Put("make.py", R"(
import sys, numpy as np
d = sys.argv[1]
n = 0
for code in ['b1', 'i1', 'i2', 'i4', 'i8', 'u1', 'u2', 'u4', 'u8', 'f2', 'f4', 'f8', 'c8', 'c16']:
    for order in '<>':
        for fortran in (False, True):
            for shape in ((), (0, 4), (7,), (3, 4), (2, 3, 5)):
                count = int(np.prod(shape))
                values = (np.arange(count) % (2 if code == 'b1' else 100)).reshape(shape)
                array = values.astype(np.dtype(code).newbyteorder(order))
                if fortran: array = np.asfortranarray(array)
                np.save(f'{d}/{n}.npy', array)
                np.ascontiguousarray(values.astype(np.dtype(code).newbyteorder('<'))).tofile(f'{d}/{n}.raw')
                n += 1
np.lib.format.write_array(open(f'{d}/{n}.npy', 'wb'), np.arange(5, dtype='<i4'), version=(3, 0))
np.arange(5, dtype='<i4').tofile(f'{d}/{n}.raw')
print(n + 1)
)");
  ASSERT_EQ(::system(StrCat("/usr/bin/python3 ", script, " ", directory_, " > ", Path("count")).c_str()), 0);
  const int count = std::stoi(Slurp(Path("count")));
  ASSERT_GT(count, 200);
  for (int i = 0; i < count; ++i) {
    const std::string stem = Path(StrCat(i));
    auto reader = TensorFileReader::OpenNpy(stem + ".npy");
    ASSERT_TRUE(reader.ok()) << reader.status();
    const absl::StatusOr<std::string> read = ReadAll(**reader, 48);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, Slurp(stem + ".raw")) << i << ": " << (*reader)->type().ToString();
    auto writer = TensorFileWriter::OpenNpy(stem + "_back.npy", (*reader)->type());
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Write(*read).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  const std::string check = Put("check.py", R"(
import sys, numpy as np
d, n = sys.argv[1], int(sys.argv[2])
for i in range(n):
    a, b = np.load(f'{d}/{i}.npy'), np.load(f'{d}/{i}_back.npy')
    assert a.shape == b.shape and a.dtype.newbyteorder('=') == b.dtype and (a == b).all(), i
)");
  EXPECT_EQ(::system(StrCat("/usr/bin/python3 ", check, " ", directory_, " ", count).c_str()), 0);
}

}  // namespace
}  // namespace tensord
