#include "kernels/core/error.h"

#include <array>
#include <charconv>
#include <cstring>

namespace tensord {
namespace {

constexpr char kPayloadUrl[] = "tensord/error";

constexpr std::array kRows = {
    ErrorRow{Reason::kNone, "", absl::StatusCode::kUnknown, "", "", false},
#define TENSORD_ERROR(Enum, NAME, CODE, message, advice, retry) \
  ErrorRow{Reason::Enum, #NAME, absl::StatusCode::CODE, message, advice, retry != 0},
#include "kernels/core/errors.def"
#undef TENSORD_ERROR
};

using Pairs = std::vector<std::pair<std::string, std::string>>;

const std::string* Find(const Pairs& pairs, std::string_view key) {
  for (const auto& [k, v] : pairs) {
    if (k == key) return &v;
  }
  return nullptr;
}

// Fills one stretch of a template; tells whether every key in it was given.
bool Fill(std::string_view text, const Pairs& said, std::string& out) {
  bool all = true;
  while (!text.empty()) {
    const size_t open = text.find('{');
    out.append(text.substr(0, open));
    if (open == std::string_view::npos) break;
    const size_t close = text.find('}', open);
    if (const std::string* value = Find(said, text.substr(open + 1, close - open - 1))) {
      out.append(*value);
    } else {
      out.push_back('?');
      all = false;
    }
    text.remove_prefix(close + 1);
  }
  return all;
}

std::string FillTemplate(std::string_view text, const Pairs& said) {
  std::string out;
  while (!text.empty()) {
    const size_t open = text.find("[[");
    Fill(text.substr(0, open), said, out);
    if (open == std::string_view::npos) break;
    const size_t close = text.find("]]", open);
    std::string optional;
    if (Fill(text.substr(open + 2, close - open - 2), said, optional)) out += optional;
    text.remove_prefix(close + 2);
  }
  return out;
}

// The payload is a list of strings, each with its length before it: private to this file.
class Writer {
 public:
  void Text(std::string_view s) {
    Number(s.size());
    out_.append(s);
  }
  void Number(uint64_t n) {
    out_.append(std::to_string(n));
    out_.push_back(' ');
  }
  void Pairs(const ::tensord::Pairs& pairs) {
    Number(pairs.size());
    for (const auto& [k, v] : pairs) {
      Text(k);
      Text(v);
    }
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}
  uint64_t Number() {
    uint64_t n = 0;
    const auto result = std::from_chars(in_.data(), in_.data() + in_.size(), n);
    in_.remove_prefix(std::min<size_t>(in_.size(), static_cast<size_t>(result.ptr - in_.data()) + 1));
    return n;
  }
  std::string Text() {
    const auto n = std::min<size_t>(Number(), in_.size());
    std::string s(in_.substr(0, n));
    in_.remove_prefix(n);
    return s;
  }
  ::tensord::Pairs Pairs() {
    ::tensord::Pairs pairs;
    for (uint64_t n = Number(); n > 0 && !in_.empty(); --n) {
      std::string key = Text();
      pairs.emplace_back(std::move(key), Text());
    }
    return pairs;
  }

 private:
  std::string_view in_;
};

std::string Encode(const ErrorDetails& d) {
  Writer w;
  w.Number(static_cast<uint64_t>(d.reason));
  w.Text(d.reason_name);
  w.Pairs(d.metadata);
  w.Pairs(d.fields);
  w.Number(d.retry_ms ? static_cast<uint64_t>(*d.retry_ms) + 1 : 0);
  w.Number(d.origin ? 1 : 0);
  if (d.origin) {
    w.Number(d.origin->id);
    w.Text(d.origin->op);
    w.Number(d.origin->sequence);
    w.Number(d.origin->instruction);
    w.Text(d.origin->label);
    w.Number(d.origin->distance);
  }
  w.Number(d.shortage ? 1 : 0);
  if (d.shortage) {
    const ErrorShortage& s = *d.shortage;
    w.Text(s.device);
    for (const uint64_t n : {s.requested, s.free, s.cached, s.largest_free, s.limit}) w.Number(n);
    w.Number(s.holders.size());
    for (const auto& h : s.holders) {
      w.Text(h.session);
      w.Text(h.name);
      w.Text(h.principal);
      w.Number(h.bytes);
      w.Number(h.tensors);
    }
  }
  return w.Take();
}

ErrorDetails Decode(std::string_view payload) {
  Reader r(payload);
  ErrorDetails d;
  d.reason = static_cast<Reason>(r.Number());
  d.reason_name = r.Text();
  d.metadata = r.Pairs();
  d.fields = r.Pairs();
  if (const uint64_t retry = r.Number(); retry > 0) d.retry_ms = static_cast<int64_t>(retry - 1);
  if (r.Number() != 0) {
    ErrorOrigin& o = d.origin.emplace();
    o.id = r.Number();
    o.op = r.Text();
    o.sequence = r.Number();
    o.instruction = static_cast<uint32_t>(r.Number());
    o.label = r.Text();
    o.distance = static_cast<uint32_t>(r.Number());
  }
  if (r.Number() != 0) {
    ErrorShortage& s = d.shortage.emplace();
    s.device = r.Text();
    for (uint64_t* n : {&s.requested, &s.free, &s.cached, &s.largest_free, &s.limit}) *n = r.Number();
    for (uint64_t n = r.Number(); n > 0; --n) {
      ErrorShortage::Holder& h = s.holders.emplace_back();
      h.session = r.Text();
      h.name = r.Text();
      h.principal = r.Text();
      h.bytes = r.Number();
      h.tensors = r.Number();
    }
  }
  return d;
}

absl::Status Rebuild(const absl::Status& status, const ErrorDetails& details) {
  return StatusWithDetails(status.code(), std::string(status.message()), details);
}

}  // namespace

absl::Span<const ErrorRow> ErrorRows() { return absl::MakeConstSpan(kRows).subspan(1); }

const ErrorRow& RowOf(Reason reason) {
  const auto i = static_cast<size_t>(reason);
  return i < kRows.size() ? kRows[i] : kRows[0];
}

std::optional<Reason> ParseReason(std::string_view name) {
  for (const ErrorRow& row : ErrorRows()) {
    if (row.name == name) return row.reason;
  }
  return std::nullopt;
}

std::string_view ErrorDetails::Get(std::string_view key) const {
  const std::string* value = Find(metadata, key);
  return value ? std::string_view(*value) : std::string_view();
}

Error::Error(Reason reason) {
  details_.reason = reason;
  details_.reason_name = RowOf(reason).name;
  if (RowOf(reason).retry) details_.retry_ms = 1000;
}

void Error::Add(std::string_view key, std::string value, bool metadata) {
  if (metadata) details_.metadata.emplace_back(key, value);
  said_.emplace_back(key, std::move(value));
}

Error&& Error::At(std::string_view field_path) && {
  details_.fields.emplace_back(field_path, "");
  return std::move(*this);
}

Error&& Error::RetryAfterMs(int64_t ms) && {
  details_.retry_ms = ms;
  return std::move(*this);
}

Error&& Error::Shortage(ErrorShortage shortage) && {
  details_.shortage = std::move(shortage);
  return std::move(*this);
}

absl::Status Error::ToStatus() const {
  const ErrorRow& row = RowOf(details_.reason);
  Pairs said = said_;
  if (!details_.fields.empty()) said.emplace_back("field", details_.fields.front().first);
  const std::string message = FillTemplate(row.message, said);
  ErrorDetails details = details_;
  for (auto& field : details.fields) field.second = message;
  return StatusWithDetails(row.code, message, details);
}

ErrorDetails DetailsOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload) return {};
  return Decode(std::string(*payload));
}

Reason ReasonOf(const absl::Status& status) { return status.ok() ? Reason::kNone : DetailsOf(status).reason; }

absl::Status StatusWithDetails(absl::StatusCode code, std::string_view message, const ErrorDetails& details) {
  absl::Status status(code, ToAbsl(message));
  status.SetPayload(kPayloadUrl, absl::Cord(Encode(details)));
  return status;
}

absl::Status AtPath(const absl::Status& status, std::string_view prefix) {
  if (status.ok()) return status;
  ErrorDetails details = DetailsOf(status);
  if (details.fields.empty()) return status;
  for (auto& [path, description] : details.fields) path = StrCat(prefix, path);
  return Rebuild(status, details);
}

absl::Status WithMetadata(const absl::Status& status, std::string_view key, std::string_view value) {
  if (status.ok()) return status;
  ErrorDetails details = DetailsOf(status);
  if (details.reason_name.empty() || Find(details.metadata, key) != nullptr) return status;
  details.metadata.emplace_back(key, value);
  return Rebuild(status, details);
}

absl::Status WithOrigin(const absl::Status& status, const ErrorOrigin& origin) {
  if (status.ok()) return status;
  ErrorDetails details = DetailsOf(status);
  if (details.reason_name.empty()) return status;
  if (details.origin) {
    ++details.origin->distance;
  } else {
    details.origin = origin;
  }
  return Rebuild(status, details);
}

}  // namespace tensord
