#include "client/cpp/npy.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace tensord {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

// Files are the client's own affair: what is wrong with them has no row in the catalogue.
absl::Status Bad(std::string_view name, std::string_view what) {
  return absl::InvalidArgumentError(StrCat(name, ": ", what));
}

struct NpyType {
  std::string_view code;  // without byte order
  Dtype dtype;
};
constexpr std::array kNpyTypes = {
    NpyType{"b1", Dtype::kBool},      NpyType{"i1", Dtype::kInt8},        NpyType{"i2", Dtype::kInt16},
    NpyType{"i4", Dtype::kInt32},     NpyType{"i8", Dtype::kInt64},       NpyType{"u1", Dtype::kUint8},
    NpyType{"u2", Dtype::kUint16},    NpyType{"u4", Dtype::kUint32},      NpyType{"u8", Dtype::kUint64},
    NpyType{"f2", Dtype::kFloat16},   NpyType{"f4", Dtype::kFloat32},     NpyType{"f8", Dtype::kFloat64},
    NpyType{"c8", Dtype::kComplex64}, NpyType{"c16", Dtype::kComplex128},
};

// What a message may show of text from a file: printable and short.
std::string Shown(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, 40)) out.push_back(c >= 0x20 && c < 0x7f ? c : '?');
  if (text.size() > 40) out.append("…");
  return out;
}

// The header's text is a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderParser {
 public:
  HeaderParser(std::string_view name, std::string_view text, size_t start) : name_(name), text_(text), start_(start) {}

  absl::StatusOr<NpyHeader> Parse() {
    TENSORD_RETURN_IF_ERROR(Expect('{'));
    while (!Take('}')) {
      TENSORD_ASSIGN_OR_RETURN(std::string_view key, Text());
      TENSORD_RETURN_IF_ERROR(Expect(':'));
      TENSORD_RETURN_IF_ERROR(Entry(key));
      if (Take('}')) break;
      TENSORD_RETURN_IF_ERROR(Expect(','));
    }
    Skip();
    if (pos_ != text_.size()) return Wrong("text after the dictionary");
    if (!descr_) return Missing("descr");
    if (!order_) return Missing("fortran_order");
    if (!shape_) return Missing("shape");
    TENSORD_RETURN_IF_ERROR(Type(*descr_));
    header_.type.shape = *shape_;
    header_.fortran_order = *order_;
    if (absl::StatusOr<int64_t> bytes = CheckedBytes(header_.type.dtype, header_.type.shape); !bytes.ok()) {
      return StatusWithDetails(bytes.status().code(), StrCat(name_, ": ", std::string(bytes.status().message())),
                               DetailsOf(bytes.status()));
    }
    return header_;
  }

 private:
  absl::Status Wrong(std::string_view what) { return Bad(name_, StrCat("header, byte ", start_ + pos_, ": ", what)); }
  absl::Status Missing(std::string_view key) { return Bad(name_, StrCat("header: no ", key)); }

  void Skip() {
    while (pos_ < text_.size() && std::string_view(" \t\r\n").find(text_[pos_]) != std::string_view::npos) ++pos_;
  }
  bool Take(char c) {
    Skip();
    if (pos_ == text_.size() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }
  absl::Status Expect(char c) {
    if (Take(c)) return absl::OkStatus();
    return Wrong(StrCat("expected ", std::string_view(&c, 1), pos_ == text_.size() ? ", the header ends" : ""));
  }
  absl::StatusOr<std::string_view> Text() {
    Skip();
    const char quote = pos_ < text_.size() ? text_[pos_] : ' ';
    if (quote != '\'' && quote != '"') return Wrong("expected a string");
    const size_t end = text_.find(quote, pos_ + 1);
    if (end == std::string_view::npos) return Wrong("a string that does not end");
    std::string_view out = text_.substr(pos_ + 1, end - pos_ - 1);
    pos_ = end + 1;
    return out;
  }
  bool Word(std::string_view word) {
    Skip();
    if (text_.substr(pos_, word.size()) != word) return false;
    pos_ += word.size();
    return true;
  }
  absl::StatusOr<int64_t> Number() {
    Skip();
    const size_t begin = pos_;
    int64_t value = 0;
    for (; pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '9'; ++pos_) {
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[pos_] - '0', &value)) {
        return Wrong("a size of 2^63 or more");
      }
    }
    if (pos_ == begin) return Wrong("expected a size, a whole number of 0 or more");
    if (pos_ < text_.size() && text_[pos_] == 'L') ++pos_;  // written by Python 2
    return value;
  }
  absl::Status Entry(std::string_view key) {
    Skip();
    if (key == "descr") {
      if (descr_) return Wrong("descr twice");
      if (pos_ < text_.size() && text_[pos_] == '[')
        return Wrong("structured types are not supported; save one field at a time");
      TENSORD_ASSIGN_OR_RETURN(descr_, Text());
    } else if (key == "fortran_order") {
      if (order_) return Wrong("fortran_order twice");
      if (Word("True")) {
        order_ = true;
      } else if (Word("False")) {
        order_ = false;
      } else {
        return Wrong("fortran_order is neither True nor False");
      }
    } else if (key == "shape") {
      if (shape_) return Wrong("shape twice");
      return Shape();
    } else {
      return Wrong(StrCat("unknown key ", Shown(key)));
    }
    return absl::OkStatus();
  }
  absl::Status Shape() {
    TENSORD_RETURN_IF_ERROR(Expect('('));
    shape_.emplace();
    bool comma = false;
    while (!Take(')')) {
      if (!shape_->empty() && !comma) return Wrong("expected , or )");
      TENSORD_ASSIGN_OR_RETURN(int64_t size, Number());
      shape_->push_back(size);
      comma = Take(',');
    }
    // (3) is a number in Python, not a tuple.
    if (shape_->size() == 1 && !comma) return Wrong("the shape is no tuple");
    return absl::OkStatus();
  }
  absl::Status Type(std::string_view descr) {
    std::string_view code = descr;
    char order = '<';
    if (!code.empty() && std::string_view("<>|=").find(code[0]) != std::string_view::npos) {
      order = code[0];
      code.remove_prefix(1);
    }
    for (const NpyType& type : kNpyTypes) {
      if (type.code != code && !(type.dtype == Dtype::kBool && code == "?")) continue;
      header_.type.dtype = type.dtype;
      header_.big_endian = order == '>' && ItemSize(type.dtype) > 1;
      return absl::OkStatus();
    }
    std::string_view why = "unknown";
    if (!code.empty()) {
      switch (code[0]) {
        case 'O':
          why = "Python objects";
          break;
        case 'S':
        case 'a':
          why = "byte strings";
          break;
        case 'U':
          why = "text";
          break;
        case 'V':
          why = "raw bytes (bfloat16 has no name in .npy; such data is read as a raw file with --dtype and --shape)";
          break;
        case 'M':
        case 'm':
          why = "times";
          break;
        default:
          break;
      }
    }
    return Bad(name_, StrCat("header: type '", Shown(descr), "' (", why,
                             ") is no tensor's; known: bool, int8 to int64, uint8 to uint64, ",
                             "float16 to float64, complex64, complex128"));
  }

  const std::string_view name_;
  const std::string_view text_;
  const size_t start_;
  size_t pos_ = 0;
  std::optional<std::string_view> descr_;
  std::optional<bool> order_;
  std::optional<Dims> shape_;
  NpyHeader header_;
};

// Start of the header's text and its length.
absl::StatusOr<std::pair<size_t, size_t>> Extent(std::string_view name, std::string_view prefix) {
  if (prefix.substr(0, kMagic.size()) != kMagic.substr(0, std::min(kMagic.size(), prefix.size())) || prefix.empty()) {
    return Bad(name, prefix.empty() ? "the file is empty" : "not a .npy file: it does not begin with \\x93NUMPY");
  }
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(prefix[i])); };
  const size_t text = prefix.size() > kMagic.size() && byte(6) >= 2 ? 12 : 10;
  if (prefix.size() < text)
    return Bad(name, StrCat("truncated: ", prefix.size(), " bytes, and the header alone has more"));
  const size_t major = byte(6);
  if (major < 1 || major > 3 || byte(7) != 0) {
    return Bad(name, StrCat("version ", major, ".", byte(7), " of .npy is unknown; known: 1.0 to 3.0"));
  }
  size_t length = byte(8) | byte(9) << 8;
  if (major >= 2) length |= byte(10) << 16 | byte(11) << 24;
  if (length > kMaxNpyHeaderBytes) {
    return Bad(name, StrCat("a header of ", length, " bytes; at most ", kMaxNpyHeaderBytes, " are read"));
  }
  return std::pair(text, length);
}

}  // namespace

absl::StatusOr<size_t> NpyDataOffset(std::string_view name, std::string_view prefix) {
  TENSORD_ASSIGN_OR_RETURN(auto extent, Extent(name, prefix));
  return extent.first + extent.second;
}

absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view name, std::string_view bytes) {
  TENSORD_ASSIGN_OR_RETURN(auto extent, Extent(name, bytes));
  const auto [start, length] = extent;
  if (bytes.size() < start + length) {
    return Bad(name,
               StrCat("truncated: the header ends at byte ", start + length, ", the file at byte ", bytes.size()));
  }
  TENSORD_ASSIGN_OR_RETURN(NpyHeader header, HeaderParser(name, bytes.substr(start, length), start).Parse());
  header.data_offset = start + length;
  return header;
}

absl::StatusOr<std::string> FormatNpyHeader(const TensorType& type) {
  std::string_view code;
  for (const NpyType& t : kNpyTypes) {
    if (t.dtype == type.dtype) code = t.code;
  }
  if (code.empty()) {
    return absl::InvalidArgumentError(
        StrCat(DtypeName(type.dtype), " has no name in .npy; write raw bytes, or cast to float32 first"));
  }
  std::string text =
      StrCat("{'descr': '", ItemSize(type.dtype) == 1 ? "|" : "<", code, "', 'fortran_order': False, 'shape': (",
             StrJoin(type.shape, ", "), type.shape.size() == 1 ? ",), }" : "), }");
  constexpr size_t kPrefix = 10;
  const size_t padded = (kPrefix + text.size() + 1 + 63) / 64 * 64;
  text.append(padded - kPrefix - text.size() - 1, ' ');
  text.push_back('\n');
  std::string out(kMagic);
  out.append({1, 0, static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)});
  return out + text;
}

}  // namespace tensord
