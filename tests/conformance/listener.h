// Collects what a stream says, and waits for it.
#pragma once

#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/engine.h"

namespace tensord::conformance {

class Collector final : public StreamListener {
 public:
  void OnReply(ReadReply reply) override {
    const absl::MutexLock lock(&mutex_);
    const uint64_t tag = reply.tag;
    order_.push_back(tag);
    replies_[tag] = std::move(reply);
  }
  void OnReport(InstructionReport report) override {
    const absl::MutexLock lock(&mutex_);
    reports_.push_back(std::move(report));
  }
  void OnAcknowledged(uint64_t sequence) override {
    const absl::MutexLock lock(&mutex_);
    acknowledged_ = sequence;
  }
  void OnNotice(absl::Status) override {}
  void OnEnd(absl::Status status) override {
    const absl::MutexLock lock(&mutex_);
    ended_ = true;
    end_ = std::move(status);
  }

  // Waits for the reply to a tag; an error reply if the stream ended first.
  ReadReply Await(uint64_t tag) {
    const absl::MutexLock lock(&mutex_);
    const auto there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return replies_.contains(tag) || ended_; };
    mutex_.Await(absl::Condition(&there));
    if (const auto it = replies_.find(tag); it != replies_.end()) return it->second;
    ReadReply reply;
    reply.tag = tag;
    reply.error = end_.ok() ? absl::UnknownError("the stream ended without this reply") : end_;
    return reply;
  }
  absl::Status AwaitEnd() {
    const absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&ended_));
    return end_;
  }
  void AwaitAcknowledged(uint64_t sequence) {
    const absl::MutexLock lock(&mutex_);
    const auto there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return acknowledged_ >= sequence || ended_; };
    mutex_.Await(absl::Condition(&there));
  }
  std::vector<InstructionReport> reports() {
    const absl::MutexLock lock(&mutex_);
    return reports_;
  }

 private:
  absl::Mutex mutex_;
  std::map<uint64_t, ReadReply> replies_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> order_ ABSL_GUARDED_BY(mutex_);
  std::vector<InstructionReport> reports_ ABSL_GUARDED_BY(mutex_);
  uint64_t acknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::conformance
