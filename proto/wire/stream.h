// The stream: instructions in numbered messages, with a table of op names that the sender declares.
//
//   OpTable table;                                             // one per stream and direction; a new stream starts
//   with an empty one v1::StreamRequest request = ToProto(message, table);       // client: new op names go into
//   request.ops auto message = FromProto(request, table);                  // daemon
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/repeated_field.h"
#include "server/engine/types.h"
#include "tensord/v1/compute.pb.h"

namespace tensord::wire {

// Names in the order in which they were sent. Not thread safe.
class OpTable {
 public:
  // Names that one table may hold.
  static constexpr size_t kMaxNames = 65536;

  // Reader: adds names; unknown ones are kept, because they fail only where they are used. Error: LIMIT_EXCEEDED (path
  // "ops"); nothing is added then.
  absl::Status Append(const google::protobuf::RepeatedPtrField<std::string>& names);
  // Reader: the op at an index. Error: OP_UNKNOWN for an unknown name, with the nearest, and for an index beyond the
  // table.
  absl::StatusOr<Op> At(uint32_t index) const {
    if (index < ops_.size() && ops_[index] != Op::kNone) return ops_[index];
    return Refuse(index);
  }
  // Writer: the index of an op, which is added to `names` where it was not sent yet. `op` is not kNone.
  uint32_t Intern(Op op, google::protobuf::RepeatedPtrField<std::string>* names);

  size_t size() const { return ops_.size(); }

 private:
  absl::Status Refuse(uint32_t index) const;

  std::vector<Op> ops_;                                    // kNone: unknown
  std::vector<std::pair<uint32_t, std::string>> unknown_;  // index and name, by index
  std::vector<uint32_t> index_;                            // by op: index + 1, 0 for not sent
};

// The op of a name. Error: OP_UNKNOWN with the nearest names and the daemon's version.
absl::StatusOr<Op> OpOfName(std::string_view name);

// A message as the daemon receives it. What is wrong with one instruction goes into its `invalid` and fails only that
// one. Error, which ends the stream: FIELD_UNKNOWN or FIELD_INVALID outside instructions, LIMIT_EXCEEDED. `wire_bytes`:
// the message's size if the caller knows it, else 0.
absl::StatusOr<StreamMessage> FromProto(const v1::StreamRequest& proto, OpTable& table, uint64_t wire_bytes = 0);
v1::StreamRequest ToProto(const StreamMessage& message, OpTable& table);

// What one response says.
struct StreamEvents {
  uint64_t acknowledged = 0;
  std::vector<ReadReply> replies;
  std::vector<InstructionReport> reports;
  std::vector<absl::Status> notices;
};

// A reply whose values cannot be read has the reason as its error.
absl::StatusOr<StreamEvents> FromProto(const v1::StreamResponse& proto);
v1::StreamResponse ToProto(const StreamEvents& events);
absl::StatusOr<ReadReply> FromProto(const v1::ReadReply& proto);
v1::ReadReply ToProto(const ReadReply& reply);

}  // namespace tensord::wire
