// The catalogue: its texts, and the details that ride in a status.
#include "kernels/core/error.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace tensord {
namespace {

// What each row is filled with: the metadata that the wire documents, and after "|" what the message takes besides.
const std::map<std::string_view, std::string_view>& Documented() {
  static const auto* const kKeys = new std::map<std::string_view, std::string_view>{
      {"FIELD_UNKNOWN", "message,number,daemon_version"},
      {"FIELD_INVALID", "value,allowed|field"},
      {"LIMIT_EXCEEDED", "limit,value,maximum"},
      {"NOT_OFFERED", "what,daemon_version"},
      {"DTYPE_UNKNOWN", "value,known"},
      {"DTYPE_MISMATCH", "op,dtypes|why"},
      {"SHAPE_INVALID", "shape,item_bytes"},
      {"SHAPE_MISMATCH", "op,shapes,axis|why"},
      {"AXIS_INVALID", "op,axis,rank|why"},
      {"INDEX_OUT_OF_RANGE", "op,index,size,axis"},
      {"ATTRIBUTE_INVALID", "op,attribute,value,allowed"},
      {"ARITY_INVALID", "op,expected,got"},
      {"SCALAR_RANGE", "value,dtype,minimum,maximum"},
      {"DATA_INVALID", "expected_bytes,got_bytes,element|why"},
      {"OP_UNKNOWN", "name,nearest,daemon_version"},
      {"OP_UNSUPPORTED", "op,dtype,device,supported"},
      {"MATRIX_SINGULAR", "op,matrix,pivot"},
      {"PROGRAM_INVALID", "id,problem"},
      {"ARGUMENT_MISMATCH", "name,problem,expected,got"},
      {"DEVICE_MISMATCH", "op,operand,devices,specs,fix|spec,device,other,other_spec,other_device,advice"},
      {"DEVICE_UNKNOWN", "device,known"},
      {"HANDLE_UNKNOWN", "id,kind,state"},
      {"HANDLE_IN_USE", "id,spec"},
      {"NAME_UNKNOWN", "name,kind,nearest"},
      {"NAME_INVALID", "name,position"},
      {"NAME_IN_USE", "name,kind"},
      {"NAME_CHANGED", "name,expected,version"},
      {"KIND_MISMATCH", "name,kind,expected"},
      {"PARAMETER_UNKNOWN", "model,path,nearest"},
      {"SESSION_REQUIRED", "field"},
      {"SESSION_UNKNOWN", "cause,incarnation"},
      {"VERSION_MISMATCH", "client_min,client_max,daemon_min,daemon_max,upgrade"},
      {"FEATURE_UNAVAILABLE", "feature,available,flag"},
      {"SEQUENCE_GAP", "expected,got"},
      {"STREAM_REPLACED", "session"},
      {"CANCELLED", "tag"},
      {"DEADLINE_EXCEEDED", "after,stage"},
      {"CHUNK_OFFSET", "expected,got,total"},
      {"UPLOAD_INCOMPLETE", "received,total"},
      {"CHECKSUM_MISMATCH", "scope,offset,expected,got"},
      {"SEGMENT_INVALID", "segment,offset,length,segment_bytes"},
      {"SEGMENT_REFUSED", "requested,available,path,flag"},
      {"MEMORY_EXHAUSTED", "device,requested,free,cached|limit"},
      {"QUOTA_EXCEEDED", "quota,used,limit,requested"},
      {"QUEUE_FULL", "model,queue"},
      {"MODEL_INVALID", "file,offset,node,problem"},
      {"MODEL_UNSUPPORTED", "node,op,domain,opset,supported"},
      {"LAYER_INVALID", "type,option,nearest|problem"},
      {"UNAUTHENTICATED", "scheme"},
      {"PERMISSION_DENIED", "role,required"},
      {"DRAINING", "grace"},
      {"LEASE_ENDING", "left"},
      {"DEVICE_RECOVERING", "device"},
      {"DEVICE_LOST", "device,cause"},
      {"STATE_FAILED", "path_kind,cause"},
      {"INTERNAL", "id|cause"},
  };
  return *kKeys;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

TEST(Catalogue, EveryRowFillsWithItsDocumentedKeys) {
  for (const ErrorRow& row : ErrorRows()) {
    SCOPED_TRACE(std::string(row.name));
    const auto it = Documented().find(row.name);
    ASSERT_NE(it, Documented().end()) << "add the row's keys to this test";
    const std::vector<std::string> halves = Split(it->second, '|');
    Error error(row.reason);
    std::vector<std::string> values;
    for (size_t half = 0; half < halves.size(); ++half) {
      for (const std::string& key : Split(halves[half], ',')) {
        values.push_back("<" + key + ">");
        error = half == 0 ? std::move(error).With(key, values.back()) : std::move(error).Say(key, values.back());
      }
    }
    const absl::Status status = error;
    EXPECT_EQ(status.code(), row.code);
    EXPECT_EQ(std::string(status.message()).find('?'), std::string::npos) << status.message();
    EXPECT_EQ(std::string(status.message()).find_first_of("{}"), std::string::npos) << status.message();
    EXPECT_EQ(std::string(status.message()).find("[["), std::string::npos) << status.message();
    EXPECT_EQ(DetailsOf(status).retry_ms.has_value(), row.retry);
    EXPECT_FALSE(row.advice.empty());
    EXPECT_EQ(ParseReason(row.name), row.reason);
    EXPECT_EQ(&RowOf(row.reason), &row);
  }
  EXPECT_EQ(ErrorRows().size(), Documented().size());
}

// Every placeholder of a template is among the documented keys, so nothing is said that cannot be filled.
TEST(Catalogue, TemplatesNameOnlyDocumentedKeys) {
  for (const ErrorRow& row : ErrorRows()) {
    std::set<std::string> keys;
    for (const std::string& half : Split(Documented().at(row.name), '|')) {
      for (const std::string& key : Split(half, ',')) keys.insert(key);
    }
    std::string_view text = row.message;
    for (size_t open = text.find('{'); open != std::string_view::npos; open = text.find('{', open + 1)) {
      const std::string key(text.substr(open + 1, text.find('}', open) - open - 1));
      EXPECT_TRUE(keys.contains(key)) << row.name << " names " << key;
    }
  }
}

TEST(Catalogue, CodesAndNamesAreUnlikeOk) {
  std::set<std::string_view> names;
  for (const ErrorRow& row : ErrorRows()) {
    EXPECT_NE(row.code, absl::StatusCode::kOk) << row.name;
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
  }
  EXPECT_FALSE(ParseReason("").has_value());
  EXPECT_FALSE(ParseReason("device_mismatch").has_value());
}

TEST(Error, OptionalPartsAreCutWhereNotGiven) {
  const absl::Status bare = Error(Reason::kScalarRange).With("value", 300).With("dtype", "int8");
  EXPECT_EQ(bare.message(), "300 does not fit int8");
  const absl::Status full =
      Error(Reason::kScalarRange).With("value", 300).With("dtype", "int8").With("minimum", -128).With("maximum", 127);
  EXPECT_EQ(full.message(), "300 does not fit int8, which holds -128 to 127");
  const absl::Status half = Error(Reason::kScalarRange).With("value", 300).With("dtype", "int8").With("minimum", -128);
  EXPECT_EQ(half.message(), "300 does not fit int8") << "a part is whole or absent";
}

TEST(Error, MissingKeysOutsideAreVisible) {
  const absl::Status status = Error(Reason::kDeviceUnknown).With("device", "cuda:7");
  EXPECT_EQ(status.message(), "no device cuda:7; there are ?");
}

TEST(Error, ValuesAreNeverTemplates) {
  const absl::Status status =
      Error(Reason::kDeviceUnknown).With("device", "{known} [[x]] {").With("known", "cpu, {device}");
  EXPECT_EQ(status.message(), "no device {known} [[x]] {; there are cpu, {device}");
}

TEST(Error, MetadataKeepsItsOrderAndSayAddsNone) {
  const absl::Status status = Error(Reason::kShapeMismatch)
                                  .With("op", "add")
                                  .With("shapes", "[2] and [3]")
                                  .With("axis", 0)
                                  .Say("why", "sizes are 2 and 3");
  EXPECT_EQ(status.message(), "add: shapes [2] and [3] do not fit at axis 0: sizes are 2 and 3");
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.metadata, (std::vector<std::pair<std::string, std::string>>{
                                  {"op", "add"}, {"shapes", "[2] and [3]"}, {"axis", "0"}}));
  EXPECT_EQ(details.Get("axis"), "0");
  EXPECT_EQ(details.Get("why"), "");
}

TEST(Error, FieldsAreDescribedByTheMessage) {
  const absl::Status status = Error(Reason::kFieldInvalid).With("value", "0").With("allowed", ">= 1").At("page.size");
  EXPECT_EQ(status.message(), "page.size is 0; allowed: >= 1");
  const ErrorDetails details = DetailsOf(status);
  ASSERT_EQ(details.fields.size(), 1u);
  EXPECT_EQ(details.fields[0].first, "page.size");
  EXPECT_EQ(details.fields[0].second, status.message());
}

TEST(Error, DetailsMakeTheRoundTrip) {
  ErrorDetails details;
  details.reason = Reason::kMemoryExhausted;
  details.reason_name = "MEMORY_EXHAUSTED";
  details.metadata = {{"device", "cuda:0"}, {"", ""}, {"odd", std::string("3 a\0b [[{\n", 11)}};
  details.fields = {{"spec.shape", "too large"}};
  details.retry_ms = 0;
  details.origin = ErrorOrigin{~uint64_t{0}, "add", 7, 3, "label with spaces", 2};
  details.shortage = ErrorShortage{"cuda:0", 1, 2, 3, 4, ~uint64_t{0}, {{"s", "n", "p", 5, 6}, {"", "", "", 0, 0}}};
  const absl::Status status = StatusWithDetails(absl::StatusCode::kResourceExhausted, "text", details);
  EXPECT_EQ(status.message(), "text");
  const ErrorDetails back = DetailsOf(status);
  EXPECT_EQ(back.reason, details.reason);
  EXPECT_EQ(back.reason_name, details.reason_name);
  EXPECT_EQ(back.metadata, details.metadata);
  EXPECT_EQ(back.fields, details.fields);
  EXPECT_EQ(back.retry_ms, details.retry_ms);
  ASSERT_TRUE(back.origin.has_value());
  EXPECT_EQ(back.origin->id, ~uint64_t{0});
  EXPECT_EQ(back.origin->op, "add");
  EXPECT_EQ(back.origin->sequence, 7u);
  EXPECT_EQ(back.origin->instruction, 3u);
  EXPECT_EQ(back.origin->label, "label with spaces");
  EXPECT_EQ(back.origin->distance, 2u);
  ASSERT_TRUE(back.shortage.has_value());
  EXPECT_EQ(back.shortage->device, "cuda:0");
  EXPECT_EQ(back.shortage->limit, ~uint64_t{0});
  ASSERT_EQ(back.shortage->holders.size(), 2u);
  EXPECT_EQ(back.shortage->holders[0].principal, "p");
  EXPECT_EQ(back.shortage->holders[0].tensors, 6u);
}

TEST(Error, AnUnknownReasonOfANewerDaemonIsKept) {
  ErrorDetails details;
  details.reason_name = "NEWER_REASON";
  details.metadata = {{"key", "value"}};
  const ErrorDetails back = DetailsOf(StatusWithDetails(absl::StatusCode::kAborted, "m", details));
  EXPECT_EQ(back.reason, Reason::kNone);
  EXPECT_EQ(back.reason_name, "NEWER_REASON");
  EXPECT_EQ(back.Get("key"), "value");
}

TEST(Error, PathsAndMetadataAreAdded) {
  absl::Status status = Error(Reason::kAxisInvalid).With("op", "sum").With("axis", 3).With("rank", 2).At("axes[0]");
  status = AtPath(status, "instructions[3].");
  status = WithMetadata(status, "label", "mine");
  status = WithMetadata(status, "op", "other");
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.fields.at(0).first, "instructions[3].axes[0]");
  EXPECT_EQ(details.Get("label"), "mine");
  EXPECT_EQ(details.Get("op"), "sum") << "what is there stays";
  EXPECT_TRUE(AtPath(absl::OkStatus(), "x").ok());
  EXPECT_TRUE(WithMetadata(absl::OkStatus(), "k", "v").ok());
}

TEST(Error, OriginIsTheFirstCause) {
  const absl::Status status = Error(Reason::kDeviceLost).With("device", "cuda:0").With("cause", "x");
  const absl::Status once = WithOrigin(status, {.id = 3, .op = "add", .label = ""});
  EXPECT_EQ(DetailsOf(once).origin->distance, 0u);
  const absl::Status twice = WithOrigin(once, {.id = 9, .op = "sum", .label = ""});
  EXPECT_EQ(DetailsOf(twice).origin->id, 3u);
  EXPECT_EQ(DetailsOf(twice).origin->distance, 1u);
  EXPECT_EQ(twice.code(), status.code());
  EXPECT_EQ(twice.message(), status.message());
}

TEST(Error, AStatusFromElsewhereHasNoDetails) {
  const absl::Status status(absl::StatusCode::kUnknown, "from elsewhere");
  EXPECT_EQ(ReasonOf(status), Reason::kNone);
  EXPECT_TRUE(DetailsOf(status).reason_name.empty());
  EXPECT_EQ(AtPath(status, "x"), status);
  EXPECT_EQ(ReasonOf(absl::OkStatus()), Reason::kNone);
}

absl::StatusOr<int> Doubled(absl::StatusOr<int> value) {
  TENSORD_ASSIGN_OR_RETURN(const int v, std::move(value));
  TENSORD_RETURN_IF_ERROR(v < 0 ? absl::Status(Error(Reason::kInternal).With("id", v)) : absl::OkStatus());
  return 2 * v;
}

TEST(Error, Macros) {
  EXPECT_EQ(*Doubled(3), 6);
  EXPECT_EQ(ReasonOf(Doubled(-3).status()), Reason::kInternal);
  EXPECT_EQ(ReasonOf(Doubled(Error(Reason::kCancelled)).status()), Reason::kCancelled);
}

}  // namespace
}  // namespace tensord
