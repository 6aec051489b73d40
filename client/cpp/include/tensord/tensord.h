// The C++ client of tensord: tensors and models that live on a daemon, used through handles.
//
//   #include <tensord/tensord.h>
//   namespace td = tensord::client;
//
//   absl::StatusOr<td::Client> client = td::Client::connect({.server = "localhost:7070"});
//   if (!client.ok()) return client.status();
//   td::Tensor x = client->ones({2, 3}, {.device = client->try_gpu()});
//   td::Tensor y = (x * 2.0 + 1.0).relu();                       // nothing has waited so far
//   absl::StatusOr<std::vector<float>> values = y.get<float>();   // this waits: {3, 3, 3, 3, 3, 3}
//
// Calls that only start work return a Tensor and never wait; the library collects them and sends them together. Calls
// that need an answer return a Status or StatusOr. What went wrong with a tensor is told by whoever reads it, or
// anything made from it: see error.h.
//
// Names of functions are those of the Python array API standard. Everything here is thread safe unless said otherwise.
#pragma once

#include "tensord/client.h"     // IWYU pragma: export
#include "tensord/error.h"      // IWYU pragma: export
#include "tensord/functions.h"  // IWYU pragma: export
#include "tensord/model.h"      // IWYU pragma: export
#include "tensord/tensor.h"     // IWYU pragma: export
#include "tensord/types.h"      // IWYU pragma: export
