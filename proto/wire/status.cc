#include "proto/wire/status.h"

#include <algorithm>
#include <string>
#include <utility>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/rpc/error_details.pb.h"
#include "kernels/core/error.h"
#include "proto/wire/parts.h"
#include "tensord/v1/error.pb.h"

namespace tensord::wire {
namespace {

constexpr char kDomain[] = "tensord";
constexpr char kTypePrefix[] = "type.googleapis.com/";

// The first `max` bytes, cut before a character that does not fit. Bytes that are no UTF-8, which a proto's string must
// be, become '?'.
std::string Text(std::string_view text, size_t max = SIZE_MAX) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    size_t n = lead < 0x80                   ? 1
               : lead >= 0xc2 && lead < 0xe0 ? 2
               : lead >= 0xe0 && lead < 0xf0 ? 3
               : lead >= 0xf0 && lead < 0xf5 ? 4
                                             : 0;
    bool good = n != 0 && i + n <= text.size();
    for (size_t k = 1; good && k < n; ++k) good = (static_cast<unsigned char>(text[i + k]) & 0xc0) == 0x80;
    if (good && n == 3) {
      const auto second = static_cast<unsigned char>(text[i + 1]);
      good = !(lead == 0xe0 && second < 0xa0) && !(lead == 0xed && second >= 0xa0);
    } else if (good && n == 4) {
      const auto second = static_cast<unsigned char>(text[i + 1]);
      good = !(lead == 0xf0 && second < 0x90) && !(lead == 0xf4 && second >= 0x90);
    }
    if (!good) n = 1;
    if (out.size() + n > max) break;
    out.append(good ? text.substr(i, n) : "?");
    i += n;
  }
  return out;
}

// The same status gives the same bytes: map entries in order of their keys.
void Pack(const google::protobuf::Message& message, google::rpc::Status* status) {
  google::protobuf::Any* any = status->add_details();
  any->set_type_url(kTypePrefix + message.GetDescriptor()->full_name());
  google::protobuf::io::StringOutputStream stream(any->mutable_value());
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
}

google::rpc::Status Encode(const absl::Status& status, const ErrorDetails& details, size_t max_text) {
  google::rpc::Status proto;
  proto.set_code(status.raw_code());
  proto.set_message(Text(std::string(status.message()), max_text));
  if (details.reason_name.empty()) return proto;

  google::rpc::ErrorInfo info;
  info.set_reason(Text(details.reason_name, max_text));
  info.set_domain(kDomain);
  for (const auto& [key, value] : details.metadata) {
    info.mutable_metadata()->insert({Text(key, max_text), Text(value, max_text)});
  }
  Pack(info, &proto);
  if (details.retry_ms) {
    google::rpc::RetryInfo retry;
    *retry.mutable_retry_delay() = EncodeDuration(absl::Milliseconds(*details.retry_ms));
    Pack(retry, &proto);
  }
  if (!details.fields.empty()) {
    google::rpc::BadRequest bad;
    for (const auto& [path, description] : details.fields) {
      auto* violation = bad.add_field_violations();
      violation->set_field(Text(path, max_text));
      violation->set_description(Text(description, max_text));
    }
    Pack(bad, &proto);
  }
  if (details.origin) {
    v1::Origin origin;
    origin.set_id(details.origin->id);
    origin.set_op(Text(details.origin->op, max_text));
    origin.set_sequence(details.origin->sequence);
    origin.set_instruction(details.origin->instruction);
    origin.set_label(Text(details.origin->label, max_text));
    origin.set_distance(details.origin->distance);
    Pack(origin, &proto);
  }
  if (details.shortage) {
    v1::MemoryShortage shortage;
    shortage.set_device(Text(details.shortage->device, max_text));
    shortage.set_requested_bytes(details.shortage->requested);
    shortage.set_free_bytes(details.shortage->free);
    shortage.set_cached_bytes(details.shortage->cached);
    shortage.set_largest_free_bytes(details.shortage->largest_free);
    shortage.set_limit_bytes(details.shortage->limit);
    for (ErrorShortage::Holder holder : details.shortage->holders) {
      for (std::string* text : {&holder.session, &holder.name, &holder.principal}) *text = Text(*text, max_text);
      EncodeHolder(holder, shortage.add_holders());
    }
    Pack(shortage, &proto);
  }
  return proto;
}

// Takes one thing out of the details: a holder, a field path, a pair of metadata. False where nothing is left.
bool DropOne(ErrorDetails& details) {
  if (details.shortage && !details.shortage->holders.empty()) {
    details.shortage->holders.pop_back();
  } else if (details.fields.size() > 1) {
    details.fields.pop_back();
  } else if (!details.metadata.empty()) {
    details.metadata.pop_back();
  } else if (!details.fields.empty()) {
    details.fields.pop_back();
  } else if (details.shortage) {
    details.shortage.reset();
  } else if (details.origin) {
    details.origin.reset();
  } else {
    return false;
  }
  return true;
}

void Decode(const google::protobuf::Any& any, ErrorDetails& details) {
  if (google::rpc::ErrorInfo info; any.UnpackTo(&info)) {
    if (info.domain() != kDomain) return;
    details.reason = ParseReason(info.reason()).value_or(Reason::kNone);
    details.reason_name = info.reason();
    details.metadata.assign(info.metadata().begin(), info.metadata().end());
    std::sort(details.metadata.begin(), details.metadata.end());
  } else if (google::rpc::RetryInfo retry; any.UnpackTo(&retry)) {
    details.retry_ms = std::max<int64_t>(0, absl::ToInt64Milliseconds(DecodeDuration(retry.retry_delay())));
  } else if (google::rpc::BadRequest bad; any.UnpackTo(&bad)) {
    for (const auto& violation : bad.field_violations()) {
      details.fields.emplace_back(violation.field(), violation.description());
    }
  } else if (v1::Origin origin; any.UnpackTo(&origin)) {
    details.origin = ErrorOrigin{origin.id(),          origin.op(),    origin.sequence(),
                                 origin.instruction(), origin.label(), origin.distance()};
  } else if (v1::MemoryShortage shortage; any.UnpackTo(&shortage)) {
    ErrorShortage& out = details.shortage.emplace();
    out.device = shortage.device();
    out.requested = shortage.requested_bytes();
    out.free = shortage.free_bytes();
    out.cached = shortage.cached_bytes();
    out.largest_free = shortage.largest_free_bytes();
    out.limit = shortage.limit_bytes();
    for (const auto& holder : shortage.holders()) out.holders.push_back(DecodeHolder<ErrorShortage::Holder>(holder));
  }
}

}  // namespace

google::rpc::Status ToRpcStatus(const absl::Status& status) {
  if (status.ok()) return {};
  return Encode(status, DetailsOf(status), SIZE_MAX);
}

google::rpc::Status ToRpcStatus(const absl::Status& status, size_t max_bytes) {
  google::rpc::Status proto = ToRpcStatus(status);
  if (proto.ByteSizeLong() <= max_bytes) return proto;
  ErrorDetails details = DetailsOf(status);
  size_t max_text = 1024;
  while (true) {
    proto = Encode(status, details, max_text);
    if (proto.ByteSizeLong() <= max_bytes) return proto;
    if (max_text > 128) {
      max_text /= 2;
    } else if (!DropOne(details)) {
      if (max_text <= 16) return proto;
      max_text /= 2;
    }
  }
}

absl::Status FromRpcStatus(const google::rpc::Status& status) {
  if (status.code() == 0) return absl::OkStatus();
  const auto code = status.code() > 0 && status.code() <= 16 ? static_cast<absl::StatusCode>(status.code())
                                                             : absl::StatusCode::kUnknown;
  ErrorDetails details;
  for (const auto& any : status.details()) Decode(any, details);
  if (details.reason_name.empty()) return absl::Status(code, ToAbsl(status.message()));
  return StatusWithDetails(code, status.message(), details);
}

}  // namespace tensord::wire
