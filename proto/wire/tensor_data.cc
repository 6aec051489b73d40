#include "proto/wire/tensor_data.h"

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/half.h"
#include "kernels/core/scalar.h"

namespace tensord::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "raw values are copied as they lie in memory");

// Which of TensorData's lists a dtype is written in.
enum class List { kReals, kIntegers, kUnsigneds };

List ListOf(Dtype dtype) {
  switch (KindOf(dtype)) {
    case DtypeKind::kReal:
    case DtypeKind::kComplex:
      return List::kReals;
    case DtypeKind::kUnsigned:
      return List::kUnsigneds;
    default:
      return List::kIntegers;
  }
}

std::string_view ListName(List list) {
  return list == List::kReals ? "reals" : list == List::kIntegers ? "integers" : "unsigneds";
}

absl::Status Mismatch(uint64_t expected_bytes, uint64_t got_bytes, std::string_view why, std::string_view path) {
  return Error(Reason::kDataInvalid)
      .With("expected_bytes", expected_bytes)
      .With("got_bytes", got_bytes)
      .Say("why", why)
      .At(path);
}

std::string ElementPath(List list, size_t index) { return StrCat(ListName(list), "[", index, "]"); }

// A value that the dtype cannot hold: what StoreScalar says of it, with the element.
absl::Status OutOfRange(const Scalar& scalar, Dtype dtype, List list, size_t index) {
  char scratch[16];
  const absl::Status status = StoreScalar(scalar, dtype, scratch);
  ErrorDetails details = DetailsOf(status);
  details.metadata.emplace_back("element", std::to_string(index));
  details.fields.emplace_back(ElementPath(list, index), std::string(status.message()));
  return StatusWithDetails(status.code(), std::string(status.message()), details);
}

template <class T>
absl::StatusOr<std::string> FromReals(const google::protobuf::RepeatedField<double>& values) {
  std::string out(static_cast<size_t>(values.size()) * sizeof(T), '\0');
  char* next = out.data();
  for (int i = 0; i < values.size(); ++i, next += sizeof(T)) {
    const double value = values[i];
    T stored{};
    if constexpr (std::is_same_v<T, double>) {
      stored = value;
    } else {
      stored = T(static_cast<float>(value));
      if (std::isfinite(value) && !std::isfinite(static_cast<float>(stored))) {
        return OutOfRange(Scalar{value}, DtypeOf<T>, List::kReals, static_cast<size_t>(i));
      }
    }
    std::memcpy(next, &stored, sizeof(T));
  }
  return out;
}

template <class T, class V>
absl::StatusOr<std::string> FromIntegers(const google::protobuf::RepeatedField<V>& values, List list) {
  std::string out(static_cast<size_t>(values.size()) * sizeof(T), '\0');
  char* next = out.data();
  for (int i = 0; i < values.size(); ++i, next += sizeof(T)) {
    const V value = values[i];
    if constexpr (std::is_same_v<T, bool>) {
      if (value != 0 && value != 1) {
        const absl::Status status = Error(Reason::kDataInvalid)
                                        .With("expected_bytes", values.size())
                                        .With("got_bytes", values.size())
                                        .With("element", i)
                                        .Say("why", "a bool is 0 or 1")
                                        .At(ElementPath(list, static_cast<size_t>(i)));
        return status;
      }
    } else if (!std::in_range<T>(value)) {
      return OutOfRange(Scalar{value}, DtypeOf<T>, list, static_cast<size_t>(i));
    }
    const T stored = static_cast<T>(value);
    std::memcpy(next, &stored, sizeof(T));
  }
  return out;
}

absl::StatusOr<std::string> FromTyped(const v1::TensorData& proto, Dtype dtype) {
  if (dtype == Dtype::kComplex64) return FromReals<float>(proto.reals());
  if (dtype == Dtype::kComplex128) return FromReals<double>(proto.reals());
  absl::StatusOr<std::string> out = std::string();
  VisitDtype(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, bool> || std::is_signed_v<T>) {
      if constexpr (std::is_floating_point_v<T>) {
        out = FromReals<T>(proto.reals());
      } else {
        out = FromIntegers<T>(proto.integers(), List::kIntegers);
      }
    } else if constexpr (std::is_unsigned_v<T>) {
      out = FromIntegers<T>(proto.unsigneds(), List::kUnsigneds);
    } else {
      out = FromReals<T>(proto.reals());  // float16, bfloat16
    }
  });
  return out;
}

absl::Status CheckRaw(const std::string& raw, Dtype dtype, uint64_t expected) {
  if (raw.size() != expected) return Mismatch(expected, raw.size(), "raw has another size", "raw");
  if (dtype != Dtype::kBool) return absl::OkStatus();
  for (size_t i = 0; i < raw.size(); ++i) {
    if (static_cast<unsigned char>(raw[i]) > 1) {
      return Error(Reason::kDataInvalid)
          .With("expected_bytes", expected)
          .With("got_bytes", raw.size())
          .With("element", i)
          .Say("why", "a bool is 0 or 1")
          .At("raw");
    }
  }
  return absl::OkStatus();
}

template <class T>
T Element(std::string_view raw, size_t index) {
  T value;
  std::memcpy(&value, raw.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <class T, class Out>
void AppendAll(std::string_view raw, Out* out) {
  const size_t n = raw.size() / sizeof(T);
  out->Reserve(static_cast<int>(n));
  for (size_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, bool>) {
      out->Add(raw[i] != 0);
    } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      out->Add(static_cast<double>(static_cast<float>(Element<T>(raw, i))));
    } else {
      out->Add(Element<T>(raw, i));
    }
  }
}

void ToTyped(std::string_view raw, Dtype dtype, v1::TensorData* proto) {
  if (dtype == Dtype::kComplex64) return AppendAll<float>(raw, proto->mutable_reals());
  if (dtype == Dtype::kComplex128) return AppendAll<double>(raw, proto->mutable_reals());
  VisitDtype(dtype, [&]<class T>() {
    switch (ListOf(dtype)) {
      case List::kReals:
        return AppendAll<T>(raw, proto->mutable_reals());
      case List::kIntegers:
        return AppendAll<T>(raw, proto->mutable_integers());
      case List::kUnsigneds:
        return AppendAll<T>(raw, proto->mutable_unsigneds());
    }
  });
}

}  // namespace

absl::StatusOr<std::string> FromProto(const v1::TensorData& proto, const TensorType& type) {
  const auto expected = static_cast<uint64_t>(type.bytes());
  const int sizes[] = {proto.reals_size(), proto.integers_size(), proto.unsigneds_size(), proto.strings_size()};
  int lists = proto.raw().empty() ? 0 : 1;
  for (const int size : sizes) lists += size > 0 ? 1 : 0;
  if (lists > 1) return Mismatch(expected, proto.raw().size(), "more than one list of values is given", "");
  if (lists == 0 || !proto.raw().empty()) {
    TENSORD_RETURN_IF_ERROR(CheckRaw(proto.raw(), type.dtype, expected));
    return proto.raw();
  }
  const List list = ListOf(type.dtype);
  const auto count = static_cast<uint64_t>(sizes[static_cast<int>(list)]);
  if (count == 0) return Mismatch(expected, 0, StrCat(DtypeName(type.dtype), " takes ", ListName(list), " or raw"), "");
  const uint64_t each = IsComplex(type.dtype) ? 2 : 1;
  // Halves of complex numbers, so that an odd count is seen.
  if (count != static_cast<uint64_t>(type.elements()) * each) {
    return Mismatch(expected, count * (ItemSize(type.dtype) / each), StrCat("another number of ", ListName(list)),
                    ListName(list));
  }
  return FromTyped(proto, type.dtype);
}

v1::TensorData ToProto(std::string_view raw, const TensorType& type, ValueFormat format) {
  v1::TensorData proto;
  if (format == ValueFormat::kRaw) proto.set_raw(raw.data(), raw.size());
  if (format == ValueFormat::kTyped) ToTyped(raw, type.dtype, &proto);
  return proto;
}

ValueFormat FormatOf(const v1::TensorData& proto) {
  const int typed = proto.reals_size() + proto.integers_size() + proto.unsigneds_size() + proto.strings_size();
  return typed > 0 ? ValueFormat::kTyped : ValueFormat::kRaw;
}

}  // namespace tensord::wire
