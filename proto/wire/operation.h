// The op that an instruction names, by itself or by its place in a table. Private to proto/wire.
#pragma once

#include "absl/status/statusor.h"
#include "proto/wire/check.h"
#include "proto/wire/stream.h"
#include "tensord/v1/program.pb.h"

namespace tensord::wire {

// kNone where neither is set. Error: OP_UNKNOWN at "op" or "op_index".
inline absl::StatusOr<Op> OperationOf(const v1::Instruction& instruction, const OpTable& table) {
  switch (instruction.operation_case()) {
    case v1::Instruction::kOpIndex:
      return table.At(instruction.op_index());
    case v1::Instruction::kOp:
      return OpOfName(instruction.op());
    case v1::Instruction::OPERATION_NOT_SET:
      break;
  }
  return Op::kNone;
}

}  // namespace tensord::wire
