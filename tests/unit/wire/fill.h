// Random messages that the contract allows and the domain types can carry, made through reflection.
#pragma once

#include <cstdint>
#include <random>

#include "google/protobuf/message.h"

namespace tensord::wire {

class Filler {
 public:
  explicit Filler(uint64_t seed) : rng_(seed) {}

  // Fills every field that has a counterpart in the domain: lists with 0 to 3 entries, optional ones half of the time.
  void Fill(google::protobuf::Message* message);

  // 0 to n - 1.
  uint64_t Below(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(rng_); }
  bool Coin() { return Below(2) == 0; }
  std::mt19937_64& rng() { return rng_; }

 private:
  void FillField(google::protobuf::Message* message, const google::protobuf::FieldDescriptor* field);
  void FillFields(google::protobuf::Message* message);
  bool FillSpecial(google::protobuf::Message* message);
  void Finish(google::protobuf::Message* message);
  std::string Text();
  std::string Device();

  std::mt19937_64 rng_;
  int depth_ = 0;
};

}  // namespace tensord::wire
