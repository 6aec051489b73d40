// Waits for an engine call that answers by callback: for tests, the CLI and the client library. Never on a thread the
// engine needs.
//
//   auto response = Await<ExecuteResponse>([&](auto done) { engine.Execute(caller, request, std::move(done)); });
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "absl/synchronization/notification.h"
#include "server/engine/engine.h"

namespace tensord {

template <class T, class F>
absl::StatusOr<T> Await(F&& start) {
  struct State {
    absl::Notification ready;
    std::optional<absl::StatusOr<T>> value;
  };
  auto state = std::make_shared<State>();
  std::forward<F>(start)(Done<T>([state](absl::StatusOr<T> value) {
    state->value = std::move(value);
    state->ready.Notify();
  }));
  state->ready.WaitForNotification();
  return *std::move(state->value);
}

}  // namespace tensord
