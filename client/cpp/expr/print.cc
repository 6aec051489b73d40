#include "client/cpp/expr/print.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "client/cpp/expr/elements.h"
#include "kernels/core/text.h"

namespace tensord::expr {
namespace {

std::string Printf(const char* format, int precision, double value) {
  if (std::isnan(value)) return "nan";  // C prints a sign that Python does not
  char buffer[400];
  const int n = std::snprintf(buffer, sizeof(buffer), format, precision, value);
  return {buffer, static_cast<size_t>(n)};
}

// Chooses one notation for all elements, as PyTorch does: whole numbers, fixed point or exponents, padded to one width.
class Formatter {
 public:
  Formatter(const std::vector<Element>& elements, int precision) : precision_(precision) {
    std::vector<double> values;  // finite and not zero
    for (const Element& element : elements) {
      const double* real = std::get_if<double>(&element);
      if (real == nullptr) {
        width_ = std::max(width_, PythonText(element).size());
      } else if (std::isfinite(*real) && *real != 0) {
        values.push_back(*real);
      }
    }
    if (values.empty()) return;
    double smallest = HUGE_VAL;
    double largest = 0;
    for (const double value : values) {
      smallest = std::min(smallest, std::fabs(value));
      largest = std::max(largest, std::fabs(value));
      if (value != std::ceil(value)) whole_ = false;
    }
    scientific_ = largest / smallest > 1000.0 || largest > 1e8 || (!whole_ && smallest < 1e-4);
    for (const double value : values) width_ = std::max(width_, Plain(value).size());
  }

  size_t width() const { return width_; }

  std::string operator()(const Element& element) const {
    const double* real = std::get_if<double>(&element);
    const std::string text = real == nullptr ? PythonText(element) : Plain(*real);
    return std::string(width_ > text.size() ? width_ - text.size() : 0, ' ') + text;
  }

 private:
  std::string Plain(double value) const {
    if (scientific_) return Printf("%.*e", precision_, value);
    if (!whole_) return Printf("%.*f", precision_, value);
    std::string text = Printf("%.*f", 0, value);
    if (std::isfinite(value)) text += '.';
    return text;
  }

  int precision_;
  bool whole_ = true;
  bool scientific_ = false;
  size_t width_ = 1;
};

class TensorPrinter {
 public:
  TensorPrinter(absl::Span<const int64_t> shape, const std::vector<Element>& shown, const PrintOptions& options)
      : shape_(shape.begin(), shape.end()),
        shown_(shown),
        options_(options),
        format_(shown, options.precision),
        summarize_(IsSummarized(shape, options)) {}

  std::string Text(int indent) {
    if (shape_.empty()) return format_(shown_[0]);
    return Axis(0, indent);
  }

 private:
  // Whether the axis is cut, and how many of its entries are shown at its start.
  bool Cut(size_t axis) const { return summarize_ && shape_[axis] > 2 * options_.edgeitems; }
  int64_t Shown(size_t axis) const { return Cut(axis) ? 2 * options_.edgeitems : shape_[axis]; }

  std::string Axis(size_t axis, int indent) {
    if (axis + 1 == shape_.size()) return Row(axis, indent);
    std::vector<std::string> parts;
    for (int64_t i = 0; i < Shown(axis); ++i) {
      if (Cut(axis) && i == options_.edgeitems) parts.emplace_back("...");
      parts.push_back(Axis(axis + 1, indent + 1));
    }
    const size_t below = shape_.size() - axis - 1;
    const std::string separator =
        StrCat(",", std::string(below, '\n'), std::string(static_cast<size_t>(indent) + 1, ' '));
    return StrCat("[", StrJoin(parts, separator), "]");
  }

  std::string Row(size_t axis, int indent) {
    std::vector<std::string> parts;
    for (int64_t i = 0; i < Shown(axis); ++i) {
      if (Cut(axis) && i == options_.edgeitems) parts.emplace_back(" ...");
      parts.push_back(format_(shown_[next_++]));
    }
    const int room = options_.linewidth - indent;
    const auto per_line = static_cast<size_t>(std::max(1, room / static_cast<int>(format_.width() + 2)));
    std::vector<std::string> lines;
    for (size_t from = 0; from < parts.size(); from += per_line) {
      const size_t to = std::min(parts.size(), from + per_line);
      lines.push_back(StrJoin(std::vector<std::string>(parts.begin() + static_cast<ptrdiff_t>(from),
                                                       parts.begin() + static_cast<ptrdiff_t>(to)),
                              ", "));
    }
    return StrCat("[", StrJoin(lines, StrCat(",\n", std::string(static_cast<size_t>(indent) + 1, ' '))), "]");
  }

  Dims shape_;
  const std::vector<Element>& shown_;
  PrintOptions options_;
  Formatter format_;
  bool summarize_;
  size_t next_ = 0;
};

std::vector<Element> ReadElements(Dtype dtype, std::string_view data) {
  const size_t size = ItemSize(dtype);
  std::vector<Element> elements;
  elements.reserve(data.size() / size);
  for (size_t at = 0; at + size <= data.size(); at += size) elements.push_back(ReadElement(dtype, data.data() + at));
  return elements;
}

// "(2, 3)", "(0,)", "()".
std::string TupleText(absl::Span<const int64_t> shape) {
  return shape.size() == 1 ? StrCat("(", shape[0], ",)") : StrCat("(", StrJoin(shape, ", "), ")");
}

std::string AddSuffixes(const std::string& text, const std::vector<std::string>& suffixes, size_t indent,
                        int linewidth) {
  std::string out = text;
  // As in PyTorch: a text without a line break counts as two longer than it is.
  const size_t newline = text.rfind('\n');
  size_t last_line = newline == std::string::npos ? text.size() + 2 : text.size() - newline + 1;
  for (const std::string& suffix : suffixes) {
    if (last_line + suffix.size() + 2 > static_cast<size_t>(linewidth)) {
      out += StrCat(",\n", std::string(indent, ' '), suffix);
      last_line = indent + suffix.size();
    } else {
      out += StrCat(", ", suffix);
      last_line += suffix.size() + 2;
    }
  }
  return out + ")";
}

constexpr int64_t kMaxEmptyLists = 1 << 20;

// Nested lists with what the caller makes of an element.
template <class F>
void Nest(absl::Span<const int64_t> shape, std::string_view separator, size_t& next, const F& text, std::string& out) {
  if (shape.empty()) {
    out += text(next++);
    return;
  }
  out += '[';
  for (int64_t i = 0; i < shape[0]; ++i) {
    if (i > 0) out += separator;
    Nest(shape.subspan(1), separator, next, text, out);
  }
  out += ']';
}

template <class F>
std::string Nested(const TensorType& type, std::string_view data, std::string_view separator, const F& text) {
  const size_t size = ItemSize(type.dtype);
  // An empty tensor may have 2^62 rows of nothing: those are not written out.
  int64_t lists = 1;
  for (const int64_t n : type.shape) {
    if (n == 0) break;
    if (lists > kMaxEmptyLists / n && NumElements(type.shape) == 0) return "[]";
    lists *= n;
  }
  std::string out;
  size_t next = 0;
  Nest(
      type.shape, separator, next, [&](size_t i) { return text(ReadElement(type.dtype, data.data() + i * size)); },
      out);
  return out;
}

}  // namespace

bool IsSummarized(absl::Span<const int64_t> shape, const PrintOptions& options) {
  return NumElements(shape) > options.threshold;
}

Dims EdgeShape(absl::Span<const int64_t> shape, const PrintOptions& options) {
  Dims edges(shape.begin(), shape.end());
  if (!IsSummarized(shape, options)) return edges;
  for (int64_t& size : edges) size = std::min(size, 2 * options.edgeitems);
  return edges;
}

std::string TensorText(const TensorSpec& spec, std::string_view data, const PrintOptions& options) {
  constexpr std::string_view kPrefix = "tensor(";
  const Dtype dtype = spec.type.dtype;
  std::vector<std::string> suffixes;
  if (spec.device.kind != DeviceKind::kCpu) suffixes.push_back(StrCat("device='", spec.device.ToString(), "'"));
  const std::string dtype_suffix = StrCat("dtype=torch.", DtypeName(dtype));
  std::string text(kPrefix);
  if (NumElements(spec.type.shape) == 0) {
    if (spec.type.shape.size() != 1) suffixes.push_back(StrCat("size=", TupleText(spec.type.shape)));
    if (dtype != Dtype::kFloat32) suffixes.push_back(dtype_suffix);
    text += "[]";
  } else {
    if (dtype != Dtype::kFloat32 && dtype != Dtype::kInt64 && dtype != Dtype::kBool) suffixes.push_back(dtype_suffix);
    const std::vector<Element> shown = ReadElements(dtype, data);
    text += TensorPrinter(spec.type.shape, shown, options).Text(static_cast<int>(kPrefix.size()));
  }
  return AddSuffixes(text, suffixes, kPrefix.size(), options.linewidth);
}

std::string TensorDataJson(const TensorType& type, std::string_view data) {
  return Nested(type, data, ",", [&](const Element& element) { return JsonText(type.dtype, element); });
}

std::string TensorJson(const TensorSpec& spec, std::string_view data) {
  return StrCat("{\"dtype\":\"", DtypeName(spec.type.dtype), "\",\"shape\":", ShapeText(spec.type.shape),
                ",\"device\":\"", spec.device.ToString(), "\",\"data\":", TensorDataJson(spec.type, data), "}");
}

std::string TensorListText(const TensorType& type, std::string_view data) {
  return Nested(type, data, ", ", [](const Element& element) { return PythonText(element); });
}

}  // namespace tensord::expr
