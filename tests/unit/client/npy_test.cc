#include "client/cpp/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "kernels/core/error.h"

namespace tensord {
namespace {

using testing::HasSubstr;

// A file of a version, with the header's text as it is.
std::string File(std::string_view text, int major = 1) {
  std::string out("\x93NUMPY");
  out.push_back(static_cast<char>(major));
  out.push_back('\0');
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) out.push_back(static_cast<char>(text.size() >> (8 * i)));
  return out.append(text);
}

std::string Dict(std::string_view descr, std::string_view fortran, std::string_view shape) {
  return StrCat("{'descr': ", descr, ", 'fortran_order': ", fortran, ", 'shape': ", shape, ", }\n");
}

absl::StatusOr<NpyHeader> Parse(std::string_view bytes) { return ParseNpyHeader("x.npy", bytes); }

std::string Message(std::string_view bytes) {
  const absl::StatusOr<NpyHeader> header = Parse(bytes);
  return header.ok() ? "OK" : std::string(header.status().message());
}

TEST(NpyHeaderTest, ReadsEveryVersionOrderAndType) {
  for (const int major : {1, 2, 3}) {
    const std::string bytes = File(Dict("'<f4'", "False", "(2, 3)"), major);
    const absl::StatusOr<NpyHeader> header = Parse(bytes);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->type.ToString(), "float32[2,3]");
    EXPECT_FALSE(header->fortran_order);
    EXPECT_FALSE(header->big_endian);
    EXPECT_EQ(header->data_offset, bytes.size());
    EXPECT_EQ(*NpyDataOffset("x.npy", std::string_view(bytes).substr(0, kNpyPrefixBytes)), bytes.size());
  }
  const struct {
    const char* code;
    const char* name;
  } kTypes[] = {{"'|b1'", "bool"},        {"'|i1'", "int8"},    {"'<i2'", "int16"},   {"'<i4'", "int32"},
                {"'<i8'", "int64"},       {"'|u1'", "uint8"},   {"'<u2'", "uint16"},  {"'<u4'", "uint32"},
                {"'<u8'", "uint64"},      {"'<f2'", "float16"}, {"'<f8'", "float64"}, {"'<c8'", "complex64"},
                {"'<c16'", "complex128"}, {"'?'", "bool"},      {"'=f4'", "float32"}, {"'f4'", "float32"}};
  for (const auto& type : kTypes) {
    const absl::StatusOr<NpyHeader> header = Parse(File(Dict(type.code, "False", "()")));
    ASSERT_TRUE(header.ok()) << type.code << ": " << header.status();
    EXPECT_EQ(header->type.ToString(), StrCat(type.name, "[]"));
    EXPECT_FALSE(header->big_endian);
  }
  EXPECT_TRUE(Parse(File(Dict("'>f8'", "True", "(4,)")))->big_endian);
  EXPECT_TRUE(Parse(File(Dict("'>f8'", "True", "(4,)")))->fortran_order);
  EXPECT_FALSE(Parse(File(Dict("'>i1'", "True", "(4,)")))->big_endian);
}

TEST(NpyHeaderTest, TakesAnyPythonSpellingOfTheDictionary) {
  EXPECT_EQ(Parse(File("{\"shape\":(5L,),\n\t\"fortran_order\":False , \"descr\":\"<i4\"}"))->type.ToString(),
            "int32[5]");
  EXPECT_EQ(Parse(File("  {'descr':'<i4','fortran_order':False,'shape':(0,3)}   \n"))->type.ToString(), "int32[0,3]");
  EXPECT_EQ(Parse(File(Dict("'<i4'", "False", "(1, 2,)")))->type.ToString(), "int32[1,2]");
}

TEST(NpyHeaderTest, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(Message(""), "x.npy: the file is empty");
  EXPECT_EQ(Message("PK\x03\x04"), "x.npy: not a .npy file: it does not begin with \\x93NUMPY");
  EXPECT_EQ(Message("\x93NUM"), "x.npy: truncated: 4 bytes, and the header alone has more");
  EXPECT_EQ(Message(std::string_view("\x93NUMPY\x02\0\x10\0", 10)),
            "x.npy: truncated: 10 bytes, and the header alone has more");
  EXPECT_EQ(Message(File(Dict("'<f4'", "False", "()"), 9)), "x.npy: version 9.0 of .npy is unknown; known: 1.0 to 3.0");
  EXPECT_EQ(Message(std::string_view("\x93NUMPY\x02\0\xff\xff\xff\xff", 12)),
            "x.npy: a header of 4294967295 bytes; at most 1048576 are read");
  const std::string whole = File(Dict("'<f4'", "False", "()"));
  EXPECT_EQ(Message(std::string_view(whole).substr(0, 30)),
            StrCat("x.npy: truncated: the header ends at byte ", whole.size(), ", the file at byte 30"));
  EXPECT_EQ(Message(File("")), "x.npy: header, byte 10: expected {, the header ends");
  EXPECT_EQ(Message(File("{'descr': '<f4'")), "x.npy: header, byte 25: expected ,, the header ends");
  EXPECT_EQ(Message(File("{'descr': '<f4")), "x.npy: header, byte 20: a string that does not end");
  EXPECT_EQ(Message(File("{'descr': '<f4', 'shape': ()}")), "x.npy: header: no fortran_order");
  EXPECT_EQ(Message(File("{'descr': '<f4', 'descr': '<f4'}")), "x.npy: header, byte 36: descr twice");
  EXPECT_EQ(Message(File("{'color': 1}")), "x.npy: header, byte 20: unknown key color");
  EXPECT_EQ(Message(File(Dict("'<f4'", "maybe", "()"))),
            "x.npy: header, byte 44: fortran_order is neither True nor False");
  EXPECT_THAT(Message(File(Dict("'<f4'", "False", "(3)"))), HasSubstr("the shape is no tuple"));
  EXPECT_THAT(Message(File(Dict("'<f4'", "False", "(3 4)"))), HasSubstr("expected , or )"));
  EXPECT_THAT(Message(File(Dict("'<f4'", "False", "(-3,)"))),
              HasSubstr("expected a size, a whole number of 0 or more"));
  EXPECT_THAT(Message(File(Dict("'<f4'", "False", "(9223372036854775808,)"))), HasSubstr("a size of 2^63 or more"));
  EXPECT_THAT(Message(File(Dict("'<f4'", "False", "()") + "x")), HasSubstr("text after the dictionary"));
  EXPECT_THAT(Message(File(Dict("[('a', '<f4')]", "False", "()"))), HasSubstr("structured types are not supported"));
  EXPECT_THAT(Message(File(Dict("'|O'", "False", "()"))), HasSubstr("type '|O' (Python objects) is no tensor's"));
  EXPECT_THAT(Message(File(Dict("'<U3'", "False", "()"))), HasSubstr("(text)"));
  EXPECT_THAT(Message(File(Dict("'|V2'", "False", "()"))), HasSubstr("bfloat16 has no name in .npy"));
  EXPECT_THAT(Message(File(Dict("'<f16'", "False", "()"))), HasSubstr("(unknown)"));
  EXPECT_THAT(Message(File(Dict("'\x01\x02'", "False", "()"))), HasSubstr("type '?\?'"));
}

TEST(NpyHeaderTest, BoundsTheShape) {
  const absl::Status overflow = Parse(File(Dict("'<f8'", "False", "(4294967296, 4294967296)"))).status();
  EXPECT_EQ(ReasonOf(overflow), Reason::kShapeInvalid);
  EXPECT_THAT(std::string(overflow.message()), testing::StartsWith("x.npy: shape [4294967296,4294967296]"));
  // Refused although it is empty: the other sizes alone overflow.
  EXPECT_EQ(ReasonOf(Parse(File(Dict("'<f8'", "False", "(0, 4294967296, 4294967296)"))).status()),
            Reason::kShapeInvalid);
  std::string rank65 = "(";
  for (int i = 0; i < 65; ++i) rank65 += "1,";
  EXPECT_EQ(ReasonOf(Parse(File(Dict("'<f8'", "False", rank65 + ")"))).status()), Reason::kLimitExceeded);
}

TEST(NpyHeaderTest, WritesWhatItReads) {
  for (const Dims& shape : {Dims{}, Dims{7}, Dims{2, 0, 3}, Dims(64, 1)}) {
    const TensorType type{Dtype::kInt16, shape};
    const absl::StatusOr<std::string> bytes = FormatNpyHeader(type);
    ASSERT_TRUE(bytes.ok());
    EXPECT_EQ(bytes->size() % 64, 0u);
    EXPECT_EQ(bytes->back(), '\n');
    const absl::StatusOr<NpyHeader> header = Parse(*bytes);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->type, type);
    EXPECT_EQ(header->data_offset, bytes->size());
  }
  EXPECT_EQ(FormatNpyHeader({Dtype::kBfloat16, {2}}).status().message(),
            "bfloat16 has no name in .npy; write raw bytes, or cast to float32 first");
}

// Any prefix and any changed byte of a good header is parsed or refused, never read past its end.
TEST(NpyHeaderTest, SurvivesDamage) {
  const std::string good = File(Dict("'<f4'", "False", "(2, 3)"));
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(Parse(good.substr(0, n)).ok()) << n;
  int refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (const char c : {'\0', '\'', '(', ')', '}', '9', '\xff'}) {
      std::string bad = good;
      bad[i] = c;
      refused += Parse(bad).ok() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace tensord
