// Instructions: ops, operands and attributes, in programs and on a stream.
#include <string>

#include "gtest/gtest.h"
#include "proto/wire/config.h"
#include "proto/wire/convert.h"
#include "proto/wire/stream.h"
#include "tests/unit/wire/text.h"

namespace tensord::wire {
namespace {

absl::Status Refusal(const std::string& instruction) {
  return FromProto(Parse<v1::Program>("instructions { " + instruction + " }")).status();
}

TEST(Instructions, UnknownOp) {
  const absl::Status status = Refusal("op: 'ad' inputs: [1, 2] output: 3");
  ExpectRefused(status, Reason::kOpUnknown, "instructions[0].op");
  EXPECT_EQ(DetailsOf(status).Get("name"), "ad");
  EXPECT_NE(std::string(DetailsOf(status).Get("nearest")).find("add"), std::string::npos);
  EXPECT_EQ(DetailsOf(status).Get("daemon_version"), DaemonVersion());
  EXPECT_EQ(DetailsOf(status).Get("instruction"), "0");
}

TEST(Instructions, OpIndex) {
  auto program = Parse<v1::Program>("ops: 'add' ops: 'warp' instructions { op_index: 2 output: 1 }");
  const auto beyond = FromProto(program);
  ExpectRefused(beyond, Reason::kOpUnknown, "instructions[0].op_index");
  EXPECT_EQ(DetailsOf(beyond.status()).Get("name"), "number 2 of a table of 2");
  program.mutable_instructions(0)->set_op_index(1);
  const auto unknown = FromProto(program);
  ExpectRefused(unknown, Reason::kOpUnknown, "instructions[0].op_index");
  EXPECT_EQ(DetailsOf(unknown.status()).Get("name"), "warp");
  // An unknown name that nothing uses does no harm.
  program.mutable_instructions(0)->set_op_index(0);
  const auto used = FromProto(program);
  ASSERT_TRUE(used.ok()) << used.status();
  EXPECT_EQ(used->instructions[0].op, Op::kAdd);
}

TEST(Instructions, WithoutOpOnlyFrees) {
  const auto frees = FromProto(Parse<v1::Program>("instructions { frees: 7 }"));
  ASSERT_TRUE(frees.ok());
  EXPECT_EQ(frees->instructions[0].op, Op::kNone);
  EXPECT_EQ(frees->instructions[0].frees[0], 7u);
  ExpectRefused(Refusal("inputs: 1"), Reason::kFieldInvalid, "instructions[0].op");
  ExpectRefused(Refusal("output: 1"), Reason::kFieldInvalid, "instructions[0].op");
  ExpectRefused(Refusal("convert { }"), Reason::kFieldInvalid, "instructions[0].op");
}

TEST(Instructions, ScalarsAndZeros) {
  ExpectRefused(Refusal("op: 'add' inputs: [1, 0] output: 2"), Reason::kArityInvalid, "instructions[0].scalars");
  ExpectRefused(Refusal("op: 'add' inputs: [1, 2] output: 3 scalars { real: 1 }"), Reason::kArityInvalid,
                "instructions[0].scalars");
  const auto clip = FromProto(Parse<v1::Program>(
      "instructions { op: 'clip' inputs: [1, 0, 0] output: 2 scalars { } scalars { unsigned: 6 } }"));
  ASSERT_TRUE(clip.ok()) << clip.status();
  ASSERT_EQ(clip->instructions[0].scalars.size(), 2u);
  EXPECT_TRUE(clip->instructions[0].scalars[0].absent());
  // One form for each number: unsigned only above 2^63 - 1.
  EXPECT_EQ(clip->instructions[0].scalars[1], (Scalar{int64_t{6}}));
}

TEST(Instructions, AttributesOfAnotherFamily) {
  const absl::Status binary = Refusal("op: 'add' inputs: [1, 2] output: 3 reduce { keepdims: true }");
  ExpectRefused(binary, Reason::kAttributeInvalid, "instructions[0].reduce");
  EXPECT_EQ(DetailsOf(binary).Get("attribute"), "reduce");
  EXPECT_EQ(DetailsOf(binary).Get("op"), "add");
  ExpectRefused(Refusal("op: 'sum' inputs: 1 output: 3 matmul { }"), Reason::kAttributeInvalid,
                "instructions[0].matmul");
  // Families that no op of this version has.
  for (const char* text :
       {"sort { count: 1 }", "linalg { }", "recurrent { }", "attention { }", "quantize { }", "control { bodies: 0 }"}) {
    const absl::Status status = Refusal(std::string("op: 'sum' inputs: 1 output: 3 ") + text);
    EXPECT_EQ(ReasonOf(status), Reason::kAttributeInvalid) << text << status;
  }
}

TEST(Instructions, AttributesThatTheOpDoesNotTake) {
  const absl::Status status = Refusal("op: 'max' inputs: 1 output: 3 reduce { all_axes: true dtype: DTYPE_INT8 }");
  ExpectRefused(status, Reason::kAttributeInvalid, "instructions[0].reduce.dtype");
  EXPECT_EQ(DetailsOf(status).Get("attribute"), "dtype");
  EXPECT_EQ(DetailsOf(status).Get("allowed"), "axes,all_axes,keepdims");
  EXPECT_TRUE(Refusal("op: 'sum' inputs: 1 output: 3 reduce { all_axes: true dtype: DTYPE_INT8 }").ok());

  const std::string spec = "spec { dtype: DTYPE_FLOAT32 shape: 3 }";
  EXPECT_TRUE(Refusal("op: 'rand' output: 1 create { seed: 3 " + spec + " }").ok());
  ExpectRefused(Refusal("op: 'ones' output: 1 create { seed: 3 " + spec + " }"), Reason::kAttributeInvalid,
                "instructions[0].create.seed");
  ExpectRefused(Refusal("op: 'concat' inputs: [1, 2] output: 3 join { sizes: 1 }"), Reason::kAttributeInvalid,
                "instructions[0].join.sizes");
  ExpectRefused(Refusal("op: 'take' inputs: [1, 2] output: 3 index { subscripts { position: 1 } }"),
                Reason::kAttributeInvalid, "instructions[0].index.subscripts");
  ExpectRefused(Refusal("op: 'conv' inputs: [1, 2] output: 3 window { auto_pad: AUTO_PAD_VALID }"),
                Reason::kAttributeInvalid, "instructions[0].window.auto_pad");
  ExpectRefused(Refusal("op: 'cast' inputs: 1 output: 2 convert { dtype: DTYPE_INT8 device: 'cpu' }"),
                Reason::kAttributeInvalid, "instructions[0].convert.device");
}

TEST(Instructions, RequiredAttributes) {
  ExpectRefused(Refusal("op: 'ones' output: 1"), Reason::kDtypeUnknown, "instructions[0].create.spec.dtype");
  ExpectRefused(Refusal("op: 'ones' output: 1 create { spec { shape: 2 } }"), Reason::kDtypeUnknown,
                "instructions[0].create.spec.dtype");
  ExpectRefused(Refusal("op: 'constant' output: 1"), Reason::kAttributeInvalid, "instructions[0].constant");
  ExpectRefused(Refusal("op: 'call' output: 1"), Reason::kAttributeInvalid, "instructions[0].call");
  ExpectRefused(Refusal("op: 'call' output: 1 call { }"), Reason::kAttributeInvalid, "instructions[0].call");
  ExpectRefused(Refusal("op: 'call' output: 1 call { model { } }"), Reason::kFieldInvalid,
                "instructions[0].call.model");
}

TEST(Instructions, ConstantsAreChecked) {
  const absl::Status status =
      Refusal("op: 'constant' output: 1 constant { spec { dtype: DTYPE_INT8 shape: 2 } data { integers: [1, 300] } }");
  ExpectRefused(status, Reason::kScalarRange, "instructions[0].constant.data.integers[1]");
  EXPECT_EQ(DetailsOf(status).Get("op"), "constant");
}

TEST(Stream, ABadInstructionFailsAlone) {
  OpTable table;
  auto request = Parse<v1::StreamRequest>(R"pb(
    sequence: 5
    ops: "add"
    ops: "warp"
    instructions { op_index: 0 inputs: 1 inputs: 2 output: 3 label: "good" }
    instructions { op_index: 1 inputs: 1 output: 4 frees: 1 label: "bad" }
    instructions { op_index: 9 output: 5 output_count: 2 }
    instructions {
      op: "sum"
      inputs: 3
      output: 7
      reduce { dtype: DTYPE_INT8 correction: 2 }
    }
    instructions { op_index: 0 inputs: 3 inputs: 3 output: 8 }
    reads { tag: 1 id: 8 value: VALUE_FORMAT_RAW }
  )pb");
  request.mutable_instructions(4)->MergeFromString("\xc0\x3e\x01");
  const auto message = FromProto(request, table);
  ASSERT_TRUE(message.ok()) << message.status();
  ASSERT_EQ(message->instructions.size(), 5u);
  const auto& in = message->instructions;
  EXPECT_TRUE(in[0].invalid.ok());
  EXPECT_EQ(in[0].label, "good");
  ExpectRefused(in[1].invalid, Reason::kOpUnknown, "instructions[1].op_index");
  // Its outputs and frees are known all the same.
  EXPECT_EQ(in[1].op, Op::kNone);
  EXPECT_EQ(in[1].output, 4u);
  EXPECT_EQ(in[1].frees[0], 1u);
  EXPECT_EQ(in[1].label, "bad");
  ExpectRefused(in[2].invalid, Reason::kOpUnknown, "instructions[2].op_index");
  EXPECT_EQ(in[2].outputs(), 2u);
  ExpectRefused(in[3].invalid, Reason::kAttributeInvalid, "instructions[3].reduce.correction");
  ExpectRefused(in[4].invalid, Reason::kFieldUnknown, "instructions[4].1000");
  EXPECT_EQ(DetailsOf(in[4].invalid).Get("op"), "add");
  EXPECT_EQ(message->reads.size(), 1u);
  EXPECT_EQ(message->wire_bytes, request.ByteSizeLong());
}

// An instruction that claims four thousand million results must not make anybody loop over them.
TEST(Stream, RefusedResultCountIsNotKept) {
  OpTable table;
  const auto message =
      FromProto(Parse<v1::StreamRequest>("instructions { op: 'add' output: 3 output_count: 4000000000 }"), table);
  ASSERT_TRUE(message.ok());
  ExpectRefused(message->instructions[0].invalid, Reason::kArityInvalid, "instructions[0].output_count");
  EXPECT_EQ(message->instructions[0].outputs(), 1u);
}

TEST(Stream, WhatBreaksTheProtocolIsAnError) {
  OpTable table;
  v1::StreamRequest request;
  request.MergeFromString("\xc0\x3e\x01");
  ExpectRefused(FromProto(request, table), Reason::kFieldUnknown, "1000");

  request.Clear();
  for (int i = 0; i < 16385; ++i) request.add_instructions()->add_frees(1);
  const auto many = FromProto(request, table);
  ExpectRefused(many, Reason::kLimitExceeded, "instructions");
  EXPECT_EQ(DetailsOf(many.status()).Get("limit"), "max_message_instructions");

  request.Clear();
  request.set_report(static_cast<v1::ReportLevel>(3));
  ExpectRefused(FromProto(request, table), Reason::kFieldInvalid, "report");

  request.Clear();
  request.add_ops(std::string(4097, 'a'));
  ExpectRefused(FromProto(request, table), Reason::kLimitExceeded, "ops[0]");
  EXPECT_EQ(table.size(), 0u);

  ExpectRefused(FromProto(Parse<v1::StreamRequest>("timeout { seconds: -1 }"), table), Reason::kFieldInvalid,
                "timeout");
  ExpectRefused(FromProto(Parse<v1::StreamRequest>("bindings { id: 1 }"), table), Reason::kFieldInvalid,
                "bindings[0].tensor");
  request = Parse<v1::StreamRequest>("reads { tag: 1 } reads { tag: 2 }");
  request.mutable_reads(1)->set_value(static_cast<v1::ValueFormat>(8));
  ExpectRefused(FromProto(request, table), Reason::kFieldInvalid, "reads[1].value");
}

TEST(Stream, OpTableGrowsAndIsBounded) {
  OpTable reader;
  ASSERT_TRUE(FromProto(Parse<v1::StreamRequest>("ops: 'add'"), reader).ok());
  const auto message =
      FromProto(Parse<v1::StreamRequest>("ops: 'exp' instructions { op_index: 1 inputs: 1 output: 2 }"), reader);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->instructions[0].op, Op::kExp);
  v1::StreamRequest request;
  for (size_t i = reader.size(); i < OpTable::kMaxNames; ++i) request.add_ops("add");
  ASSERT_TRUE(FromProto(request, reader).ok());
  EXPECT_EQ(reader.size(), OpTable::kMaxNames);
  ExpectRefused(FromProto(Parse<v1::StreamRequest>("ops: 'add'"), reader), Reason::kLimitExceeded, "ops");
}

TEST(Stream, WriterSendsEachNameOnce) {
  OpTable writer;
  OpTable reader;
  StreamMessage message;
  message.instructions.resize(3);
  message.instructions[0].op = Op::kAdd;
  message.instructions[1].op = Op::kExp;
  message.instructions[2].op = Op::kAdd;
  const v1::StreamRequest first = ToProto(message, writer);
  EXPECT_EQ(first.ops_size(), 2);
  EXPECT_EQ(first.instructions(2).op_index(), 0u);
  ASSERT_TRUE(FromProto(first, reader).ok());
  const v1::StreamRequest second = ToProto(message, writer);
  EXPECT_EQ(second.ops_size(), 0);
  const auto decoded = FromProto(second, reader);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->instructions[1].op, Op::kExp);
}

// program.proto: add(a, b) is 31 bytes inside a StreamRequest, with every id at a fixed place.
TEST(Stream, HotInstructionIs31Bytes) {
  OpTable writer;
  StreamMessage message;
  message.instructions.resize(1);
  message.instructions[0].op = Op::kAdd;
  message.instructions[0].inputs = {1, 2};
  message.instructions[0].output = 3;
  ToProto(message, writer);
  const std::string bytes = ToProto(message, writer).SerializeAsString();
  const std::string expected("\x22\x1d\x10\x00\x1a\x10\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x21\x03\0\0\0\0\0\0\0", 31);
  EXPECT_EQ(bytes, expected);
}

TEST(Stream, InlineValuesAreBoundedByMessage) {
  v1::StreamRequest request;
  for (int i = 0; i < 2; ++i) {
    auto* instruction = request.add_instructions();
    instruction->set_op("constant");
    instruction->set_output(static_cast<uint64_t>(i) + 1);
    auto* constant = instruction->mutable_constant();
    constant->mutable_spec()->set_dtype(v1::DTYPE_UINT8);
    constant->mutable_spec()->add_shape(600000);
    constant->mutable_data()->set_raw(std::string(600000, 'x'));
  }
  OpTable table;
  const auto message = FromProto(request, table);
  ASSERT_TRUE(message.ok());
  EXPECT_TRUE(message->instructions[0].invalid.ok());
  ExpectRefused(message->instructions[1].invalid, Reason::kLimitExceeded, "instructions[1].constant.data");
}

TEST(Stream, AReplyThatCannotBeReadFailsAlone) {
  const auto events = FromProto(Parse<v1::StreamResponse>(R"pb(
    acknowledged: 4
    replies {
      tag: 1
      spec { dtype: DTYPE_INT32 shape: 2 device: "cpu" }
      data { raw: "abc" }
    }
    replies {
      tag: 2
      spec { dtype: DTYPE_INT8 shape: 3 device: "cpu" }
      data { raw: "abc" }
    }
    replies {
      tag: 3
      spec { dtype: DTYPE_FLOAT16 shape: 1 device: "cuda:1" }
      data { reals: 0.5 }
    }
    replies { tag: 4 }
  )pb"));
  ASSERT_TRUE(events.ok());
  ASSERT_EQ(events->replies.size(), 4u);
  EXPECT_EQ(events->replies[0].tag, 1u);
  EXPECT_EQ(ReasonOf(events->replies[0].error), Reason::kDataInvalid);
  EXPECT_EQ(events->replies[1].data, "abc");
  EXPECT_EQ(events->replies[2].data, std::string("\x00\x38", 2));
  EXPECT_EQ(events->replies[2].format, ValueFormat::kTyped);
  EXPECT_FALSE(events->replies[3].spec.has_value());
}

}  // namespace
}  // namespace tensord::wire
