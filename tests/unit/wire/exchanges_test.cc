// Six conversations between a client and a daemon, message by message: what each side reads of what the other wrote.
#include <string>

#include "gtest/gtest.h"
#include "proto/wire/chunk.h"
#include "proto/wire/convert.h"
#include "proto/wire/stream.h"
#include "tests/unit/wire/text.h"

namespace tensord::wire {
namespace {

template <class P>
auto Read(const std::string& text) {
  auto domain = FromProto(Parse<P>(text));
  EXPECT_TRUE(domain.ok()) << domain.status() << text;
  return *std::move(domain);
}

StreamMessage ReadStream(const std::string& text, OpTable& table) {
  auto message = FromProto(Parse<v1::StreamRequest>(text), table);
  EXPECT_TRUE(message.ok()) << message.status() << text;
  for (const Instruction& instruction : message->instructions) {
    EXPECT_TRUE(instruction.invalid.ok()) << instruction.invalid;
  }
  return *std::move(message);
}

// 1. Operands on different devices: the refusal comes with the read, and the stream goes on.
TEST(Exchanges, Mismatch) {
  const auto open = Read<v1::OpenSessionRequest>(
      R"pb(min_version: 1 max_version: 1 client: "tensorctl/1.0.0" wanted_features: "shared-memory")pb");
  EXPECT_EQ(open.max_version, 1u);
  EXPECT_EQ(open.wanted_features, std::vector<std::string>{"shared-memory"});
  EXPECT_FALSE(open.lease.has_value());

  const auto opened = Read<v1::OpenSessionResponse>(R"pb(
    session: "aa55aa55aa55aa55"
    token: "00112233445566778899aabbccddeeff"
    version: 1
    daemon_version: "1.0.0"
    incarnation: 4611686018427387905
    lease { seconds: 60 }
    grace { seconds: 30 }
    next_sequence: 1
  )pb");
  EXPECT_EQ(opened.incarnation, 4611686018427387905u);
  EXPECT_EQ(opened.lease, absl::Seconds(60));
  EXPECT_EQ(opened.next_sequence, 1u);

  OpTable table;
  const auto first = ReadStream(R"pb(
                                  sequence: 1
                                  ops: [ "ones", "rand", "add" ]
                                  instructions {
                                    op_index: 0
                                    output: 1
                                    label: "X"
                                    create {
                                      spec {
                                        dtype: DTYPE_FLOAT32
                                        shape: [ 2, 3 ]
                                        device: "cuda:0"
                                      }
                                    }
                                  }
                                  instructions {
                                    op_index: 1
                                    output: 2
                                    label: "Y"
                                    create {
                                      spec {
                                        dtype: DTYPE_FLOAT32
                                        shape: [ 2, 3 ]
                                        device: "cpu"
                                      }
                                    }
                                  }
                                  instructions {
                                    op_index: 2
                                    inputs: [ 1, 2 ]
                                    output: 3
                                  }
                                  reads { tag: 1 id: 3 value: VALUE_FORMAT_RAW }
                                )pb",
                                table);
  ASSERT_EQ(first.instructions.size(), 3u);
  EXPECT_EQ(first.instructions[0].op, Op::kOnes);
  EXPECT_EQ(AttributesAs<CreateAttributes>(first.instructions[0].attributes).spec,
            (SpecRequest{{Dtype::kFloat32, {2, 3}}, "cuda:0"}));
  EXPECT_EQ(first.instructions[1].label, "Y");
  EXPECT_EQ(first.instructions[2].op, Op::kAdd);
  EXPECT_EQ(first.instructions[2].inputs[1], 2u);
  EXPECT_EQ(first.reads[0].value, ValueFormat::kRaw);

  const auto refused = Read<v1::StreamResponse>(R"pb(
    acknowledged: 1
    replies {
      tag: 1
      error {
        code: 9
        message: "add: operand 1 is on cpu, operand 0 is on cuda:0"
        details {
          [type.googleapis.com/google.rpc.ErrorInfo] {
            reason: "DEVICE_MISMATCH"
            domain: "tensord"
            metadata { key: "op" value: "add" }
            metadata { key: "operand" value: "1" }
            metadata { key: "devices" value: "cuda:0,cpu" }
            metadata { key: "fix" value: "to(1, cuda:0)" }
          }
        }
        details {
          [type.googleapis.com/tensord.v1.Origin] { id: 3 op: "add" sequence: 1 instruction: 2 }
        }
      }
    }
  )pb");
  const absl::Status& error = refused.replies.at(0).error;
  EXPECT_EQ(error.code(), absl::StatusCode::kFailedPrecondition);
  const ErrorDetails details = DetailsOf(error);
  EXPECT_EQ(details.reason, Reason::kDeviceMismatch);
  EXPECT_EQ(details.Get("fix"), "to(1, cuda:0)");
  ASSERT_TRUE(details.origin.has_value());
  EXPECT_EQ(details.origin->id, 3u);
  EXPECT_EQ(details.origin->instruction, 2u);

  const auto second = ReadStream(R"pb(
                                   sequence: 2
                                   ops: "to"
                                   instructions {
                                     op_index: 3
                                     inputs: 2
                                     output: 4
                                     convert { device: "cuda:0" }
                                     frees: 3
                                   }
                                   instructions {
                                     op_index: 2
                                     inputs: [ 1, 4 ]
                                     output: 5
                                   }
                                   reads { tag: 2 id: 5 value: VALUE_FORMAT_RAW }
                                 )pb",
                                 table);
  EXPECT_EQ(second.instructions[0].op, Op::kTo);
  EXPECT_EQ(AttributesAs<ConvertAttributes>(second.instructions[0].attributes).device, "cuda:0");
  EXPECT_EQ(second.instructions[0].frees[0], 3u);

  const auto sum = Read<v1::StreamResponse>(R"pb(
    acknowledged: 2
    replies {
      tag: 2
      spec {
        dtype: DTYPE_FLOAT32
        shape: [ 2, 1 ]
        device: "cuda:0"
      }
      data { raw: "\x00\x00\x80?\x00\x00\x00@" }
    }
  )pb");
  EXPECT_EQ(sum.replies.at(0).spec, (TensorSpec{{Dtype::kFloat32, {2, 1}}, {DeviceKind::kCuda, 0}}));
  EXPECT_EQ(sum.replies.at(0).data->size(), 8u);
}

// The same without a session, by names.
TEST(Exchanges, ExecuteByNames) {
  const auto request = Read<v1::ExecuteRequest>(R"pb(
    program {
      inputs { id: 1 }
      inputs { id: 2 }
      outputs { id: 3 }
      instructions {
        op: "add"
        inputs: [ 1, 2 ]
        output: 3
      }
    }
    inputs { tensor { name: "X" } }
    inputs { tensor { name: "Y" } }
  )pb");
  const Program& program = std::get<Program>(request.callee);
  EXPECT_EQ(program.instructions[0].op, Op::kAdd);
  EXPECT_EQ(program.outputs[0].id, 3u);
  EXPECT_FALSE(program.inputs[0].shape.has_value());
  EXPECT_EQ(std::get<TensorRef>(request.inputs[1].value), TensorRef::Name("Y"));
}

// 2. A thousand adds, each freeing its predecessor, in one message of 41 bytes an instruction.
TEST(Exchanges, AThousandAdds) {
  v1::StreamRequest request;
  request.set_sequence(3);
  request.add_ops("add");
  for (uint64_t i = 0; i < 1000; ++i) {
    auto* add = request.add_instructions();
    add->set_op_index(0);
    add->add_inputs(10 + i);
    add->add_inputs(9);
    add->set_output(11 + i);
    add->add_frees(10 + i);
  }
  *request.add_reads() = Parse<v1::Read>("tag: 3 id: 1010 value: VALUE_FORMAT_RAW");
  EXPECT_EQ(request.ByteSizeLong(), 41022u);
  OpTable table;
  const auto message = FromProto(request, table);
  ASSERT_TRUE(message.ok());
  ASSERT_EQ(message->instructions.size(), 1000u);
  EXPECT_EQ(message->instructions[999].output, 1010u);
  EXPECT_EQ(message->instructions[999].frees[0], 1009u);
  EXPECT_EQ(message->wire_bytes, 41022u);
}

// 3. An upload that breaks and goes on.
TEST(Exchanges, UploadResumes) {
  const std::string start =
      "start { id: 20 spec { dtype: DTYPE_FLOAT32 shape: [1024, 1024] device: 'cuda:0' } "
      "checksum: CHECKSUM_ALGORITHM_XXH3_64 }";
  const auto begin = std::get<UploadStart>(Read<v1::UploadRequest>(start));
  EXPECT_EQ(begin.id, 20u);
  EXPECT_EQ(begin.spec.type.bytes(), 4194304);
  EXPECT_EQ(begin.checksum, Checksum::kXxh3);
  EXPECT_EQ(Read<v1::UploadResponse>("received_bytes: 0").received_bytes, 0u);
  auto request = Parse<v1::UploadRequest>("offset: 0 checksum: 31");
  request.set_data(std::string(1 << 20, 'd'));
  const auto chunk = FromProto(request);
  ASSERT_TRUE(chunk.ok());
  EXPECT_EQ(std::get<Chunk>(*chunk).offset, 0u);
  EXPECT_EQ(std::get<Chunk>(*chunk).data.size(), size_t{1} << 20);
  // After the cut the same start, and the answer tells where to go on.
  EXPECT_EQ(std::get<UploadStart>(Read<v1::UploadRequest>(start)).id, 20u);
  EXPECT_EQ(Read<v1::UploadResponse>("received_bytes: 1048576").received_bytes, 1048576u);
  const auto done = Read<v1::UploadResponse>(R"pb(
    received_bytes: 4194304
    complete: true
    tensor {
      id: 20
      spec {
        dtype: DTYPE_FLOAT32
        shape: [ 1024, 1024 ]
        device: "cuda:0"
      }
      state: TENSOR_STATE_READY
      bytes: 4194304
    }
  )pb");
  EXPECT_TRUE(done.complete);
  EXPECT_EQ(done.tensor->state, TensorState::kReady);
  EXPECT_EQ(done.tensor->bytes, 4194304u);
}

// 4. One step of momentum, registered and replayed with its state donated.
TEST(Exchanges, RegisteredProgram) {
  const auto request = Read<v1::RegisterProgramRequest>(R"pb(
    id: 1
    program {
      name: "step"
      ops: [ "multiply", "add", "subtract" ]
      inputs { name: "w" id: 1 }
      inputs { name: "v" id: 2 }
      inputs { name: "g" id: 3 }
      instructions {
        op_index: 0
        inputs: [ 2, 0 ]
        output: 4
        scalars { real: 0.9 }
      }
      instructions {
        op_index: 1
        inputs: [ 4, 3 ]
        output: 5
      }
      instructions {
        op_index: 0
        inputs: [ 5, 0 ]
        output: 6
        scalars { real: 0.1 }
      }
      instructions {
        op_index: 2
        inputs: [ 1, 6 ]
        output: 7
      }
      outputs { name: "w" id: 7 }
      outputs { name: "v" id: 5 }
    }
  )pb");
  EXPECT_EQ(request.id, 1u);
  EXPECT_EQ(request.program.name, "step");
  EXPECT_EQ(request.program.instructions[0].op, Op::kMultiply);
  EXPECT_EQ(request.program.instructions[0].scalars[0], (Scalar{0.9}));
  EXPECT_EQ(request.program.outputs[1].name, "v");

  const auto response = Read<v1::RegisterProgramResponse>(
      "inputs { name: 'w' id: 1 } inputs { name: 'v' id: 2 } inputs { name: 'g' id: 3 } outputs { name: 'w' id: 7 } "
      "outputs { name: 'v' id: 5 }");
  EXPECT_EQ(response.inputs.size(), 3u);

  OpTable table;
  const auto calls = ReadStream(R"pb(
                                  sequence: 4
                                  ops: "call"
                                  instructions {
                                    op_index: 0
                                    inputs: [ 30, 31, 32 ]
                                    output: 33
                                    output_count: 2
                                    frees: [ 30, 31, 32 ]
                                    call { program: 1 }
                                  }
                                  instructions {
                                    op_index: 0
                                    inputs: [ 33, 34, 35 ]
                                    output: 36
                                    output_count: 2
                                    frees: [ 33, 34, 35 ]
                                    call { program: 1 }
                                  }
                                )pb",
                                table);
  EXPECT_EQ(AttributesAs<CallAttributes>(calls.instructions[1].attributes).program, 1u);
  EXPECT_EQ(calls.instructions[1].outputs(), 2u);
}

// 5. A model from a file. ONNX is not offered yet: the request is read and refused by reason, the rest is.
TEST(Exchanges, Model) {
  const auto start = std::get<UploadStart>(Read<v1::UploadRequest>(
      "start { id: 40 spec { dtype: DTYPE_UINT8 shape: 98304 device: 'cpu' } checksum: CHECKSUM_ALGORITHM_XXH3_64 }"));
  EXPECT_EQ(start.spec.type.bytes(), 98304);
  const auto create =
      FromProto(Parse<v1::CreateModelRequest>("name: 'mlp' onnx { file { id: 40 } } devices: 'cuda:0' batching { "
                                              "max_batch: 32 max_delay { nanos: 2000000 } }"));
  ExpectRefused(create, Reason::kNotOffered, "");

  const auto model = Read<v1::CreateModelResponse>(R"pb(
    model {
      names: "alice/mlp"
      source: "onnx"
      state: MODEL_STATE_READY
      devices: "cuda:0"
      opsets { key: "" value: 17 }
      inputs {
        name: "x"
        dtype: DTYPE_FLOAT32
        shape {
          dimensions { symbol: "batch" }
          dimensions { size: 3 }
        }
      }
      outputs {
        name: "y"
        dtype: DTYPE_FLOAT32
        shape {
          dimensions { symbol: "batch" }
          dimensions { size: 1 }
        }
      }
      parameters {
        path: "fc.weight"
        spec {
          dtype: DTYPE_FLOAT32
          shape: [ 1, 3 ]
          device: "cuda:0"
        }
      }
    }
  )pb");
  EXPECT_EQ(model.inputs[0].symbols, std::vector<std::string>{"batch"});
  EXPECT_EQ(*model.inputs[0].shape, (std::vector<int64_t>{-1, 3}));
  EXPECT_EQ(model.parameters[0].path, "fc.weight");
  EXPECT_EQ(model.devices[0], (DeviceId{DeviceKind::kCuda, 0}));

  const auto execute = Read<v1::ExecuteRequest>(R"pb(
    model { name: "mlp" }
    inputs {
      name: "x"
      literal {
        spec {
          dtype: DTYPE_FLOAT32
          shape: [ 1, 3 ]
          device: "cuda:0"
        }
        data { reals: [ 1, 2, 3 ] }
      }
    }
    outputs { name: "y" value: VALUE_FORMAT_TYPED }
  )pb");
  EXPECT_EQ(std::get<ModelRef>(execute.callee).name, "mlp");
  EXPECT_EQ(std::get<TensorLiteral>(execute.inputs[0].value).data, std::string("\0\0\x80?\0\0\0@\0\0@@", 12));
  EXPECT_EQ(execute.outputs[0].value, ValueFormat::kTyped);

  const auto result = Read<v1::ExecuteResponse>(
      "outputs { name: 'y' tensor { spec { dtype: DTYPE_FLOAT32 shape: [1, 1] device: 'cuda:0' } } data { reals: 0.25 "
      "} }");
  EXPECT_EQ(*result.outputs[0].data, std::string("\0\0\x80>", 4));
  EXPECT_EQ(result.outputs[0].format, ValueFormat::kTyped);

  OpTable table;
  const auto call = ReadStream(
      "sequence: 5 ops: 'call' instructions { op_index: 0 inputs: 5 output: 41 call { model { name: 'mlp' } } frees: "
      "40 }",
      table);
  EXPECT_EQ(AttributesAs<CallAttributes>(call.instructions[0].attributes).model->name, "mlp");
}

// 6. A session that is resumed: a new stream has an empty table, so its first message carries all names again.
TEST(Exchanges, ResumedSession) {
  const auto open = Read<v1::OpenSessionRequest>(
      "min_version: 1 max_version: 1 resume_token: '00112233445566778899aabbccddeeff' incarnation: "
      "4611686018427387905");
  EXPECT_EQ(open.resume_token, "00112233445566778899aabbccddeeff");
  EXPECT_EQ(open.incarnation, 4611686018427387905u);
  const auto opened = Read<v1::OpenSessionResponse>(
      "session: 'aa55aa55aa55aa55' version: 1 resumed: true next_sequence: 42 highest_id: 733");
  EXPECT_TRUE(opened.resumed);
  EXPECT_EQ(opened.next_sequence, 42u);
  EXPECT_EQ(opened.highest_id, 733u);
  OpTable table;
  const auto message = ReadStream(
      "sequence: 42 ops: ['ones', 'rand', 'add', 'to'] instructions { op_index: 2 inputs: [733, 1] output: 734 "
      "frees: 733 } reads { tag: 9 id: 700 value: VALUE_FORMAT_RAW }",
      table);
  EXPECT_EQ(message.sequence, 42u);
  EXPECT_EQ(message.instructions[0].op, Op::kAdd);
  EXPECT_EQ(message.reads[0].tag, 9u);
}

}  // namespace
}  // namespace tensord::wire
