// Why a call was refused: the reason, as a word to branch on, and what it was about.
//
//   absl::StatusOr<std::vector<float>> values = (x + y).get<float>();
//   if (td::reason_of(values.status()) == "DEVICE_MISMATCH") …   // the message says what is where, and how to move it
//
// A status of the daemon has a code (what to do next), a message with the numbers in it, and a reason. Statuses that
// come from elsewhere (files, the connection) have a code and a message.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace tensord::client {

// "DEVICE_MISMATCH"; empty for OK and for a status without a reason.
std::string reason_of(const absl::Status& status);
// What the message was made of: {"op", "add"}, {"devices", "cuda:0,cpu"} …
std::map<std::string, std::string> metadata_of(const absl::Status& status);
// What to do about it, in a line; empty where the reason is unknown.
std::string advice_of(const absl::Status& status);

// The instruction that failed first, where the status is about a tensor made from what it should have made.
struct Origin {
  std::string op;         // "add"
  std::string label;      // its name, if it has one
  uint32_t distance = 0;  // steps from there to what was read
};
std::optional<Origin> origin_of(const absl::Status& status);

}  // namespace tensord::client
