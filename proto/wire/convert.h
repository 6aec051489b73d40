// Protos into domain types and back: everything but the stream (stream.h), statuses (status.h) and chunks (chunk.h).
//
//   absl::StatusOr<Domain> FromProto(const v1::Message&);
//   v1::Message ToProto(const Domain&);
//
// The daemon and the C++ client share this code. FromProto of a request is strict: unknown fields and enum values,
// texts and lists beyond the limits of config.h, attributes that the op does not take, and what this daemon does not
// offer are refused, with the field's path. FromProto of a response is lenient: unknown fields are skipped, an unknown
// enum value becomes "not said", an entry of a list that cannot be expressed is left out. Where one domain type stands
// for several messages, the function is named after the message: KillSessionResponseToProto. No state, thread safe.
#pragma once

#include "proto/wire/convert_compute.h"
#include "proto/wire/convert_device.h"
#include "proto/wire/convert_model.h"
#include "proto/wire/convert_session.h"
#include "proto/wire/convert_tensor.h"
