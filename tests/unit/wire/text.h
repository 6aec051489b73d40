// Messages from text, and what a refusal says.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "kernels/core/error.h"

namespace tensord::wire {

template <class P>
P Parse(const std::string& text) {
  P proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return proto;
}

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <class T>
const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

// The path of the first field at fault, or "".
inline std::string PathOf(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  return details.fields.empty() ? std::string() : details.fields.front().first;
}

// Expects a refusal by reason, and the path of the field at fault ("" for none).
template <class T>
void ExpectRefused(const T& value, Reason reason, const std::string& path) {
  const absl::Status& status = StatusOf(value);
  ASSERT_FALSE(status.ok()) << "expected " << RowOf(reason).name << " at " << path;
  EXPECT_EQ(ReasonOf(status), reason) << status;
  EXPECT_EQ(status.code(), RowOf(reason).code) << status;
  EXPECT_EQ(PathOf(status), path) << status;
}

}  // namespace tensord::wire
