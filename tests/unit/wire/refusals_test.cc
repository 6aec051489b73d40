// What a daemon refuses, by reason and with the field's path.
#include <string>

#include "gtest/gtest.h"
#include "proto/wire/chunk.h"
#include "proto/wire/config.h"
#include "proto/wire/convert.h"
#include "tests/unit/wire/text.h"

namespace tensord::wire {
namespace {

// A field that no schema of ours has: number 1000, a varint.
const std::string& Unknown() {
  static const auto& bytes = *new std::string("\xc0\x3e\x01", 3);
  return bytes;
}

TEST(Refusals, UnknownFieldAtTheTop) {
  SetDaemonVersion("9.8.7");
  v1::KeepAliveRequest request;
  ASSERT_TRUE(request.MergeFromString(Unknown()));
  const absl::Status status = FromProto(request);
  ExpectRefused(status, Reason::kFieldUnknown, "1000");
  EXPECT_EQ(DetailsOf(status).Get("message"), "KeepAliveRequest");
  EXPECT_EQ(DetailsOf(status).Get("number"), "1000");
  EXPECT_EQ(DetailsOf(status).Get("daemon_version"), "9.8.7");
  SetDaemonVersion("0.1.0");
}

TEST(Refusals, UnknownFieldInNestedMessages) {
  auto execute = Parse<v1::ExecuteRequest>(
      "program { instructions { op: 'ones' output: 1 create { spec { dtype: DTYPE_INT8 } } } outputs { id: 1 } }");
  EXPECT_TRUE(FromProto(execute).ok()) << FromProto(execute).status();
  execute.mutable_program()->mutable_instructions(0)->mutable_create()->mutable_spec()->MergeFromString(Unknown());
  ExpectRefused(FromProto(execute), Reason::kFieldUnknown, "program.instructions[0].create.spec.1000");

  auto model = Parse<v1::CreateModelRequest>(
      "name: 'm' layers { type: 'Linear' options { key: 'bias' value { scalar { boolean: true } } } }");
  EXPECT_TRUE(FromProto(model).ok());
  (*model.mutable_layers()->mutable_options())["bias"].mutable_scalar()->MergeFromString(Unknown());
  ExpectRefused(FromProto(model), Reason::kFieldUnknown, "layers.options[bias].value.scalar.1000");

  v1::UploadRequest upload = UploadChunkToProto({0, std::nullopt, "x"});
  upload.MergeFromString(Unknown());
  ExpectRefused(FromProto(upload), Reason::kFieldUnknown, "1000");
}

TEST(Refusals, ResponsesSkipWhatTheyDoNotKnow) {
  v1::OpenSessionResponse response;
  response.set_session("s");
  response.MergeFromString(Unknown());
  response.mutable_limits()->MergeFromString(Unknown());
  const auto decoded = FromProto(response);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->session, "s");
  // Bounds that an older daemon does not tell stay at their defaults.
  EXPECT_EQ(decoded->limits.max_rank, Limits{}.max_rank);

  const auto devices = FromProto(Parse<v1::ListDevicesResponse>("devices { name: 'tpu:0' } devices { name: 'cpu' }"));
  ASSERT_TRUE(devices.ok());
  ASSERT_EQ(devices->devices.size(), 1u);
  EXPECT_EQ(devices->devices[0].info.id, DeviceId{});

  v1::Tensor tensor;
  tensor.mutable_spec()->set_dtype(static_cast<v1::Dtype>(29));
  tensor.set_state(static_cast<v1::TensorState>(9));
  const auto info = FromProto(tensor);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->spec.type.dtype, Dtype::kNone);

  v1::ListOpsResponse ops;
  ops.add_ops()->set_name("warp");
  ops.add_ops()->set_name("add");
  const auto known = FromProto(ops);
  ASSERT_TRUE(known.ok());
  ASSERT_EQ(known->size(), 1u);
  EXPECT_EQ((*known)[0].op, Op::kAdd);
}

TEST(Refusals, Dtypes) {
  v1::UploadRequest request;
  request.mutable_start()->set_id(1);
  ExpectRefused(FromProto(request), Reason::kDtypeUnknown, "start.spec.dtype");
  request.mutable_start()->mutable_spec()->set_dtype(static_cast<v1::Dtype>(77));
  const auto unknown = FromProto(request);
  ExpectRefused(unknown, Reason::kDtypeUnknown, "start.spec.dtype");
  EXPECT_EQ(DetailsOf(unknown.status()).Get("value"), "77");
  request.mutable_start()->mutable_spec()->set_dtype(static_cast<v1::Dtype>(-1));
  ExpectRefused(FromProto(request), Reason::kDtypeUnknown, "start.spec.dtype");
  request.mutable_start()->mutable_spec()->set_dtype(v1::DTYPE_STRING);
  ExpectRefused(FromProto(request), Reason::kNotOffered, "");
}

TEST(Refusals, Enums) {
  auto request = Parse<v1::DownloadRequest>("tensor { id: 3 }");
  request.set_checksum(static_cast<v1::ChecksumAlgorithm>(9));
  const auto refused = FromProto(request);
  ExpectRefused(refused, Reason::kFieldInvalid, "checksum");
  EXPECT_EQ(DetailsOf(refused.status()).Get("value"), "9");
  EXPECT_NE(std::string(refused.status().message()).find("CHECKSUM_ALGORITHM_CRC32"), std::string::npos);

  auto execute = Parse<v1::ExecuteRequest>("program_id: 1 outputs { name: 'a' } outputs { name: 'b' }");
  execute.mutable_outputs(1)->set_value(static_cast<v1::ValueFormat>(3));
  const auto value = FromProto(execute);
  ExpectRefused(value, Reason::kFieldInvalid, "outputs[1].value");
  EXPECT_EQ(std::string(value.status().message()).find("outputs[1].value is 3"), 0u) << value.status();

  auto matmul = Parse<v1::Program>("instructions { op: 'matmul' inputs: [1, 2] output: 3 matmul { } }");
  matmul.mutable_instructions(0)->mutable_matmul()->set_precision(static_cast<v1::Precision>(5));
  ExpectRefused(FromProto(matmul), Reason::kFieldInvalid, "instructions[0].matmul.precision");
}

TEST(Refusals, Shapes) {
  auto request = Parse<v1::UploadRequest>("start { id: 1 spec { dtype: DTYPE_FLOAT32 shape: [2, -1] } }");
  ExpectRefused(FromProto(request), Reason::kShapeInvalid, "start.spec.shape");

  request = Parse<v1::UploadRequest>("start { id: 1 spec { dtype: DTYPE_FLOAT32 shape: [4611686018427387904, 4] } }");
  ExpectRefused(FromProto(request), Reason::kShapeInvalid, "start.spec.shape");
  request = Parse<v1::UploadRequest>(
      "start { id: 1 spec { dtype: DTYPE_FLOAT32 shape: [0, 4611686018427387904, 4611686018427387904] } }");
  ExpectRefused(FromProto(request), Reason::kShapeInvalid, "start.spec.shape");

  request = Parse<v1::UploadRequest>("start { id: 1 spec { dtype: DTYPE_FLOAT32 } }");
  for (int i = 0; i < 64; ++i) request.mutable_start()->mutable_spec()->add_shape(1);
  EXPECT_TRUE(FromProto(request).ok());
  request.mutable_start()->mutable_spec()->add_shape(1);
  const auto rank = FromProto(request);
  ExpectRefused(rank, Reason::kLimitExceeded, "start.spec.shape");
  EXPECT_EQ(DetailsOf(rank.status()).Get("limit"), "max_rank");
  EXPECT_EQ(DetailsOf(rank.status()).Get("value"), "65");
  EXPECT_EQ(DetailsOf(rank.status()).Get("maximum"), "64");

  const auto program = Parse<v1::Program>("inputs { id: 1 shape { dimensions { size: -3 } } }");
  ExpectRefused(FromProto(program), Reason::kShapeInvalid, "inputs[0].shape");
}

TEST(Refusals, Texts) {
  v1::PublishRequest request = Parse<v1::PublishRequest>("tensor { id: 1 }");
  request.set_name(std::string(4096, 'a'));
  EXPECT_TRUE(FromProto(request).ok());
  request.set_name(std::string(4097, 'a'));
  const auto refused = FromProto(request);
  ExpectRefused(refused, Reason::kLimitExceeded, "name");
  EXPECT_EQ(DetailsOf(refused.status()).Get("limit"), "max_text_bytes");
  EXPECT_EQ(DetailsOf(refused.status()).Get("value"), "4097");

  v1::ListDevicesRequest devices;
  devices.add_devices("cpu");
  devices.add_devices(std::string(5000, 'a'));
  ExpectRefused(FromProto(devices), Reason::kLimitExceeded, "devices[1]");

  auto model = Parse<v1::UpdateModelRequest>("model { id: 1 }");
  (*model.mutable_parameters())[std::string(5000, 'p')].set_id(1);
  const auto key = FromProto(model);
  EXPECT_EQ(ReasonOf(key.status()), Reason::kLimitExceeded);
  EXPECT_EQ(PathOf(key.status()), "parameters[" + std::string(128, 'p') + "].key");
}

TEST(Refusals, Lists) {
  v1::DeleteTensorsRequest request;
  for (int i = 0; i < 1000; ++i) request.add_tensors()->set_id(1);
  EXPECT_TRUE(FromProto(request).ok());
  request.add_tensors()->set_id(1);
  const auto page = FromProto(request);
  ExpectRefused(page, Reason::kLimitExceeded, "tensors");
  EXPECT_EQ(DetailsOf(page.status()).Get("limit"), "max_page_size");

  v1::OpenSessionRequest open;
  for (int i = 0; i < 1025; ++i) open.add_wanted_features("f");
  ExpectRefused(FromProto(open), Reason::kLimitExceeded, "wanted_features");

  v1::Program program;
  auto* reduce = program.add_instructions();
  reduce->set_op("sum");
  for (int i = 0; i < 65; ++i) reduce->mutable_reduce()->add_axes(i);
  ExpectRefused(FromProto(program), Reason::kLimitExceeded, "instructions[0].reduce.axes");
  reduce->mutable_reduce()->clear_axes();
  EXPECT_TRUE(FromProto(program).ok());
  for (int i = 0; i < 1024; ++i) reduce->add_inputs(1);
  EXPECT_TRUE(FromProto(program).ok());
  reduce->add_inputs(1);
  ExpectRefused(FromProto(program), Reason::kArityInvalid, "instructions[0].inputs");
  reduce->clear_inputs();
  reduce->set_output_count(4000000000);
  ExpectRefused(FromProto(program), Reason::kArityInvalid, "instructions[0].output_count");
  reduce->set_output_count(1024);
  EXPECT_TRUE(FromProto(program).ok());

  for (int i = 0; i < 65537; ++i) program.add_ops("add");
  ExpectRefused(FromProto(program), Reason::kLimitExceeded, "ops");
}

TEST(Refusals, LimitsCanBeSet) {
  Limits limits;
  limits.max_program_instructions = 2;
  limits.max_chunk_bytes = 3;
  limits.max_program_depth = 2;
  SetLimits(limits);
  v1::Program program;
  for (int i = 0; i < 3; ++i) program.add_instructions()->add_frees(1);
  const auto refused = FromProto(program);
  const auto chunk = FromProto(UploadChunkToProto({0, std::nullopt, "1234"}));
  const auto fits = FromProto(UploadChunkToProto({0, std::nullopt, "123"}));
  const auto deep = FromProto(Parse<v1::CreateModelRequest>(
      "layers { type: 'Sequential' layers { type: 'Sequential' layers { type: 'ReLU' } } }"));
  SetLimits(Limits{});
  ExpectRefused(refused, Reason::kLimitExceeded, "instructions");
  ExpectRefused(chunk, Reason::kLimitExceeded, "data");
  EXPECT_TRUE(fits.ok());
  ExpectRefused(deep, Reason::kLimitExceeded, "layers.layers[0].layers[0].layers");
}

TEST(Refusals, Chunks) {
  v1::UploadRequest request;
  ExpectRefused(FromProto(request), Reason::kFieldInvalid, "offset");
  request.set_offset(0);
  ExpectRefused(FromProto(request), Reason::kFieldInvalid, "data");
  request.set_data("x");
  EXPECT_TRUE(FromProto(request).ok());
  *request.mutable_start() = Parse<v1::UploadStart>("id: 1 spec { dtype: DTYPE_INT8 shape: 1 }");
  ExpectRefused(FromProto(request), Reason::kFieldInvalid, "start");
}

TEST(Refusals, UploadStart) {
  auto request = Parse<v1::UploadRequest>("start { id: 1 spec { dtype: DTYPE_INT8 shape: 1 } sha256: 'short' }");
  ExpectRefused(FromProto(request), Reason::kFieldInvalid, "start.sha256");
  request.mutable_start()->clear_sha256();
  request.mutable_start()->mutable_publish()->set_name("x");
  EXPECT_TRUE(FromProto(request).ok());
  request.mutable_start()->mutable_publish()->mutable_tensor()->set_id(5);
  ExpectRefused(FromProto(request), Reason::kFieldInvalid, "start.publish.tensor");
  request.mutable_start()->clear_publish();
  request.mutable_start()->mutable_segment()->set_segment(1);
  const auto segment = FromProto(request);
  ExpectRefused(segment, Reason::kFeatureUnavailable, "");
  EXPECT_EQ(DetailsOf(segment.status()).Get("feature"), "shared-memory");
}

TEST(Refusals, Required) {
  ExpectRefused(FromProto(v1::ExecuteRequest()), Reason::kFieldInvalid, "program");
  ExpectRefused(FromProto(v1::RegisterProgramRequest()), Reason::kFieldInvalid, "program");
  ExpectRefused(FromProto(v1::GetTensorRequest()), Reason::kFieldInvalid, "tensor");
  ExpectRefused(FromProto(v1::DownloadRequest()), Reason::kFieldInvalid, "tensor");
  ExpectRefused(FromProto(v1::PublishRequest()), Reason::kFieldInvalid, "tensor");
  ExpectRefused(FromProto(v1::GetModelRequest()), Reason::kFieldInvalid, "model");
  ExpectRefused(FromProto(v1::DeleteModelRequest()), Reason::kFieldInvalid, "model");
  ExpectRefused(FromProto(v1::UpdateModelRequest()), Reason::kFieldInvalid, "model");
  ExpectRefused(FromProto(v1::CreateModelRequest()), Reason::kFieldInvalid, "layers");
  ExpectRefused(FromProto(Parse<v1::DeleteTensorsRequest>("tensors { id: 1 } tensors { }")), Reason::kFieldInvalid,
                "tensors[1]");
  ExpectRefused(FromProto(Parse<v1::GetTensorRequest>("tensor { parameter { path: '0.weight' } }")),
                Reason::kFieldInvalid, "tensor.parameter.model");
  ExpectRefused(FromProto(Parse<v1::ExecuteRequest>("program_id: 1 inputs { name: 'x' }")), Reason::kFieldInvalid,
                "inputs[0].tensor");
  ExpectRefused(FromProto(Parse<v1::UpdateModelRequest>("model { id: 1 } parameters { key: 'w' value { } }")),
                Reason::kFieldInvalid, "parameters[w]");
  ExpectRefused(FromProto(Parse<v1::CreateModelRequest>("layers { options { key: 'bias' value { } } }")),
                Reason::kFieldInvalid, "layers.options[bias].scalar");
}

TEST(Refusals, Values) {
  ExpectRefused(FromProto(Parse<v1::ExecuteRequest>("program_id: 1 priority: 11")), Reason::kFieldInvalid, "priority");
  ExpectRefused(FromProto(Parse<v1::ExecuteRequest>("program_id: 1 inputs { tensor { name: 'x' } donate: true }")),
                Reason::kFieldInvalid, "inputs[0].donate");
  EXPECT_TRUE(FromProto(Parse<v1::ExecuteRequest>("program_id: 1 inputs { tensor { id: 4 } donate: true }")).ok());
  ExpectRefused(FromProto(Parse<v1::WatchDevicesRequest>("interval { nanos: 1000 }")), Reason::kFieldInvalid,
                "interval");
  ExpectRefused(FromProto(Parse<v1::WatchDevicesRequest>("interval { seconds: 3601 }")), Reason::kFieldInvalid,
                "interval");
  EXPECT_TRUE(FromProto(Parse<v1::WatchDevicesRequest>("interval { nanos: 100000000 }")).ok());
}

TEST(Refusals, Durations) {
  for (const char* text : {"lease { seconds: -1 }", "lease { seconds: 1 nanos: -1 }", "lease { nanos: 1000000000 }",
                           "lease { seconds: 9223372036854775807 }", "lease { seconds: 315576000001 }"}) {
    ExpectRefused(FromProto(Parse<v1::OpenSessionRequest>(text)), Reason::kFieldInvalid, "lease");
  }
  const auto open = FromProto(Parse<v1::OpenSessionRequest>("lease { seconds: 2 nanos: 500000000 } grace { }"));
  ASSERT_TRUE(open.ok());
  EXPECT_EQ(open->lease, absl::Milliseconds(2500));
  EXPECT_EQ(open->grace, absl::ZeroDuration());

  ExpectRefused(FromProto(Parse<v1::PublishRequest>("tensor { id: 1 } name: 'x' ttl { seconds: 315576000 }")),
                Reason::kLimitExceeded, "ttl");
  EXPECT_TRUE(FromProto(Parse<v1::PublishRequest>("tensor { id: 1 } name: 'x' ttl { seconds: 315360000 }")).ok());
}

TEST(Refusals, InlineValues) {
  auto request =
      Parse<v1::ExecuteRequest>("program_id: 1 inputs { literal { spec { dtype: DTYPE_UINT8 shape: [1024, 1024] } } }");
  request.mutable_inputs(0)->mutable_literal()->mutable_data()->set_raw(std::string(1 << 20, 'a'));
  EXPECT_TRUE(FromProto(request).ok());
  // The bound holds for all values of a message together.
  *request.add_inputs() = Parse<v1::Argument>("literal { spec { dtype: DTYPE_UINT8 shape: 1 } data { raw: 'a' } }");
  const auto both = FromProto(request);
  ExpectRefused(both, Reason::kLimitExceeded, "inputs[1].literal.data");
  EXPECT_EQ(DetailsOf(both.status()).Get("limit"), "max_inline_bytes");
  EXPECT_EQ(DetailsOf(both.status()).Get("value"), "1048577");
  // Refused by the declared size, before any value is looked at.
  const auto huge = FromProto(Parse<v1::ExecuteRequest>(
      "program_id: 1 inputs { literal { spec { dtype: DTYPE_UINT8 shape: 4611686018427387904 } } }"));
  ExpectRefused(huge, Reason::kLimitExceeded, "inputs[0].literal.data");
}

TEST(Refusals, NotOffered) {
  const auto what = [](const auto& value) { return std::string(DetailsOf(StatusOf(value)).Get("what")); };
  const auto onnx = FromProto(Parse<v1::CreateModelRequest>("name: 'm' onnx { file { id: 40 } }"));
  ExpectRefused(onnx, Reason::kNotOffered, "");
  EXPECT_EQ(what(onnx), "model source onnx");
  const auto program = FromProto(Parse<v1::CreateModelRequest>("name: 'm' program { }"));
  ExpectRefused(program, Reason::kNotOffered, "");
  const auto repository = FromProto(Parse<v1::CreateModelRequest>("name: 'm' repository: 'r'"));
  ExpectRefused(repository, Reason::kFeatureUnavailable, "");
  EXPECT_EQ(DetailsOf(repository.status()).Get("feature"), "repository");
  ExpectRefused(FromProto(Parse<v1::CreateModelRequest>("layers { type: 'ReLU' } weights { id: 1 }")),
                Reason::kNotOffered, "");
  const auto batching = FromProto(Parse<v1::CreateModelRequest>("layers { type: 'ReLU' } batching { max_batch: 2 }"));
  ExpectRefused(batching, Reason::kNotOffered, "");
  EXPECT_EQ(what(batching), "batching");
  EXPECT_TRUE(FromProto(Parse<v1::CreateModelRequest>("layers { type: 'ReLU' } batching { max_batch: 1 }")).ok());
  ExpectRefused(FromProto(Parse<v1::UpdateModelRequest>("model { id: 1 } batching { instances: 2 }")),
                Reason::kNotOffered, "");
  ExpectRefused(FromProto(Parse<v1::Program>("bodies { }")), Reason::kNotOffered, "");
  ExpectRefused(FromProto(Parse<v1::Program>("inputs { id: 1 kind: VALUE_KIND_SEQUENCE }")), Reason::kNotOffered, "");
  ExpectRefused(FromProto(Parse<v1::Program>("outputs { id: 1 kind: VALUE_KIND_OPTIONAL }")), Reason::kNotOffered, "");
  ExpectRefused(FromProto(v1::MonitorOpsRequest()), Reason::kNotOffered, "");
  ExpectRefused(FromProto(v1::ShareMemoryRequest()), Reason::kFeatureUnavailable, "");
  ExpectRefused(FromProto(v1::UnshareMemoryRequest()), Reason::kFeatureUnavailable, "");
  ExpectRefused(FromProto(Parse<v1::DownloadRequest>("tensor { id: 1 } segment { segment: 1 }")),
                Reason::kFeatureUnavailable, "");
  ExpectRefused(FromProto(Parse<v1::Program>("instructions { op: 'add' inputs: [1, 0] output: 2 "
                                             "scalars { complex { real: 1 } } }")),
                Reason::kNotOffered, "");
  ExpectRefused(FromProto(Parse<v1::Program>("instructions { op: 'add' inputs: [1, 0] output: 2 "
                                             "scalars { text: 'a' } }")),
                Reason::kNotOffered, "");
  ExpectRefused(FromProto(Parse<v1::Program>("instructions { op: 'add' inputs: [1, 0] output: 2 "
                                             "scalars { real: 1 dtype: DTYPE_COMPLEX64 } }")),
                Reason::kNotOffered, "");
  // Text is an ordinary option of a layer.
  EXPECT_TRUE(FromProto(Parse<v1::CreateModelRequest>(
                            "layers { type: 'GELU' options { key: 'approximate' value { scalar { text: 'tanh' } } } }"))
                  .ok());
}

}  // namespace
}  // namespace tensord::wire
