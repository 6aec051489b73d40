#include "tests/unit/wire/fill.h"

#include <set>
#include <string>
#include <vector>

#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/rpc/status.pb.h"
#include "kernels/core/error.h"
#include "kernels/ops/op.h"
#include "proto/wire/status.h"
#include "proto/wire/stream.h"
#include "proto/wire/tensor_data.h"
#include "tensord/v1/compute.pb.h"
#include "tensord/v1/device.pb.h"
#include "tensord/v1/model.pb.h"
#include "tensord/v1/program.pb.h"
#include "tensord/v1/tensor.pb.h"

namespace tensord::wire {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;

// Fields without a counterpart in the domain: not offered, or for later.
const std::set<std::string>& Absent() {
  static const auto& names = *new std::set<std::string>{
      "tensord.v1.Program.bodies",
      "tensord.v1.CreateModelRequest.weights",
      "tensord.v1.CreateModelRequest.onnx",
      "tensord.v1.CreateModelRequest.program",
      "tensord.v1.CreateModelRequest.repository",
      "tensord.v1.CreateModelRequest.batching",
      "tensord.v1.UpdateModelRequest.batching",
      "tensord.v1.Model.batching",
      "tensord.v1.Model.opsets",
      "tensord.v1.UploadStart.segment",
      "tensord.v1.DownloadRequest.segment",
      "tensord.v1.Value.kind",
      "tensord.v1.Scalar.complex",
      "tensord.v1.Scalar.text",
  };
  return names;
}

bool IsDeviceList(const std::string& name) {
  static const auto& names = *new std::set<std::string>{
      "tensord.v1.Model.devices", "tensord.v1.DeviceCapabilities.peers", "tensord.v1.DeviceQuota.device",
      "tensord.v1.InstructionReport.device", "tensord.v1.TensorSpec.device"};
  return names.contains(name);
}

void SetDataOf(Filler& filler, const v1::TensorSpec& spec, v1::TensorData* data, bool typed) {
  TensorType type;
  type.dtype = static_cast<Dtype>(spec.dtype());
  type.shape.assign(spec.shape().begin(), spec.shape().end());
  std::string raw(static_cast<size_t>(type.bytes()), '\0');
  for (char& c : raw) c = static_cast<char>(type.dtype == Dtype::kBool ? filler.Below(2) : filler.Below(100));
  data->Clear();
  *data = ToProto(raw, type, typed && !raw.empty() ? ValueFormat::kTyped : ValueFormat::kRaw);
}

}  // namespace

std::string Filler::Text() {
  std::string text;
  for (uint64_t n = 1 + Below(8); n > 0; --n) text.push_back(static_cast<char>('a' + Below(26)));
  return text;
}

std::string Filler::Device() {
  static constexpr const char* kNames[] = {"cpu", "cuda:0", "cuda:7"};
  return kNames[Below(3)];
}

void Filler::Fill(Message* message) {
  if (FillSpecial(message)) return;
  ++depth_;
  FillFields(message);
  --depth_;
  Finish(message);
}

void Filler::FillFields(Message* message) {
  const Descriptor& type = *message->GetDescriptor();
  for (int i = 0; i < type.real_oneof_decl_count(); ++i) {
    const OneofDescriptor& oneof = *type.oneof_decl(i);
    std::vector<const FieldDescriptor*> choices;
    for (int k = 0; k < oneof.field_count(); ++k) {
      if (!Absent().contains(oneof.field(k)->full_name())) choices.push_back(oneof.field(k));
    }
    FillField(message, choices[Below(choices.size())]);
  }
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    if (field->real_containing_oneof() != nullptr || Absent().contains(field->full_name())) continue;
    if (field->has_optional_keyword() && Coin()) continue;
    FillField(message, field);
  }
}

void Filler::FillField(Message* message, const FieldDescriptor* field) {
  const Reflection& r = *message->GetReflection();
  const bool device = IsDeviceList(field->full_name());
  // Layers hold layers: three deep is enough.
  const bool leaf = field->full_name() == "tensord.v1.Layer.layers" && depth_ > 3;
  const uint64_t count = leaf ? 0 : field->is_repeated() ? Below(4) : 1;
  const bool list = field->is_repeated();
  for (uint64_t i = 0; i < count; ++i) {
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        Message* part = list ? r.AddMessage(message, field) : r.MutableMessage(message, field);
        Fill(part);
        break;
      }
      case FieldDescriptor::CPPTYPE_STRING: {
        const std::string text = device ? Device() : Text();
        list ? r.AddString(message, field, text) : r.SetString(message, field, text);
        break;
      }
      case FieldDescriptor::CPPTYPE_ENUM: {
        const int n = field->enum_type()->value_count() - (field->enum_type() == v1::Dtype_descriptor() ? 1 : 0);
        const int number =
            field->enum_type()->value(1 + static_cast<int>(Below(static_cast<uint64_t>(n - 1))))->number();
        list ? r.AddEnumValue(message, field, number) : r.SetEnumValue(message, field, number);
        break;
      }
      case FieldDescriptor::CPPTYPE_BOOL:
        list ? r.AddBool(message, field, true) : r.SetBool(message, field, true);
        break;
      case FieldDescriptor::CPPTYPE_INT32: {
        const auto v = static_cast<int32_t>(Below(20)) - 10;
        list ? r.AddInt32(message, field, v) : r.SetInt32(message, field, v);
        break;
      }
      case FieldDescriptor::CPPTYPE_INT64: {
        const auto v = static_cast<int64_t>(Below(2000)) - 1000;
        list ? r.AddInt64(message, field, v) : r.SetInt64(message, field, v);
        break;
      }
      case FieldDescriptor::CPPTYPE_UINT32: {
        const auto v = static_cast<uint32_t>(1 + Below(1000));
        list ? r.AddUInt32(message, field, v) : r.SetUInt32(message, field, v);
        break;
      }
      case FieldDescriptor::CPPTYPE_UINT64: {
        const uint64_t v = Coin() ? 1 + Below(1000) : 1 + Below(uint64_t{1} << 62);
        list ? r.AddUInt64(message, field, v) : r.SetUInt64(message, field, v);
        break;
      }
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        const double v = static_cast<double>(Below(1000)) / 8 + 0.5;
        list ? r.AddDouble(message, field, v) : r.SetDouble(message, field, v);
        break;
      }
      case FieldDescriptor::CPPTYPE_FLOAT: {
        const auto v = static_cast<float>(Below(1000)) / 8 + 0.5F;
        list ? r.AddFloat(message, field, v) : r.SetFloat(message, field, v);
        break;
      }
    }
  }
}

// Messages whose fields depend on one another are made as a whole. True for those.
bool Filler::FillSpecial(Message* message) {
  if (auto* time = dynamic_cast<google::protobuf::Timestamp*>(message)) {
    time->set_seconds(1 + static_cast<int64_t>(Below(2'000'000'000)));
    time->set_nanos(static_cast<int32_t>(Below(1'000'000'000)));
    return true;
  }
  if (auto* duration = dynamic_cast<google::protobuf::Duration*>(message)) {
    duration->set_seconds(1 + static_cast<int64_t>(Below(3000)));
    duration->set_nanos(static_cast<int32_t>(Below(1'000'000'000)));
    return true;
  }
  if (auto* status = dynamic_cast<google::rpc::Status*>(message)) {
    const auto rows = ErrorRows();
    *status = ToRpcStatus(Error(rows[Below(rows.size())].reason).With("a", Text()).With("b", Text()).At(Text()));
    return true;
  }
  if (auto* spec = dynamic_cast<v1::TensorSpec*>(message)) {
    spec->set_dtype(static_cast<v1::Dtype>(1 + Below(15)));
    for (uint64_t n = Below(4); n > 0; --n) spec->add_shape(static_cast<int64_t>(Below(5)));
    spec->set_device(Device());
    return true;
  }
  if (auto* instruction = dynamic_cast<v1::Instruction*>(message)) {
    const OpRow& row = RowOf(static_cast<Op>(1 + Below(kOpCount)));
    instruction->set_op(std::string(row.name));
    for (uint64_t n = Below(4); n > 0; --n) instruction->add_inputs(1 + Below(1000));
    for (uint64_t n = Below(3); n > 0; --n) {
      instruction->add_inputs(0);
      Fill(instruction->add_scalars());
    }
    instruction->set_output(1 + Below(1000));
    instruction->set_output_count(static_cast<uint32_t>(Below(3)));
    for (uint64_t n = Below(3); n > 0; --n) instruction->add_frees(1 + Below(1000));
    if (Coin()) instruction->set_label(Text());
    const std::string attributes(FamilyAttributes(row.family));
    if (attributes.empty()) return true;
    const FieldDescriptor* field = instruction->GetDescriptor()->FindFieldByName(attributes);
    Message* part = instruction->GetReflection()->MutableMessage(instruction, field);
    Fill(part);
    // Only what the op takes.
    if (row.fields.empty()) return true;
    const std::string taken = "," + std::string(row.fields) + ",";
    for (int i = 0; i < part->GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor* one = part->GetDescriptor()->field(i);
      if (taken.find("," + one->name() + ",") == std::string::npos) part->GetReflection()->ClearField(part, one);
    }
    return true;
  }
  return false;
}

// Brings fields that were filled one by one into agreement.
void Filler::Finish(Message* message) {
  if (auto* scalar = dynamic_cast<v1::Scalar*>(message)) {
    if (scalar->value_case() == v1::Scalar::kUnsigned) scalar->set_unsigned_((uint64_t{1} << 63) + Below(1000));
    if (scalar->dtype() >= v1::DTYPE_COMPLEX64) scalar->set_dtype(v1::DTYPE_FLOAT32);
  } else if (auto* literal = dynamic_cast<v1::TensorLiteral*>(message)) {
    SetDataOf(*this, literal->spec(), literal->mutable_data(), false);
  } else if (auto* value = dynamic_cast<v1::ResultValue*>(message)) {
    SetDataOf(*this, value->tensor().spec(), value->mutable_data(), Coin());
  } else if (auto* reply = dynamic_cast<v1::ReadReply*>(message)) {
    SetDataOf(*this, reply->spec(), reply->mutable_data(), Coin());
  } else if (auto* formal = dynamic_cast<v1::Value*>(message)) {
    for (auto& dimension : *formal->mutable_shape()->mutable_dimensions()) {
      if (dimension.size() < 0) dimension.set_size(-dimension.size());
    }
  } else if (auto* argument = dynamic_cast<v1::Argument*>(message)) {
    if (!argument->has_tensor() || argument->tensor().ref_case() != v1::TensorRef::kId) argument->set_donate(false);
  } else if (auto* program = dynamic_cast<v1::Program*>(message)) {
    OpTable table;
    program->clear_ops();
    for (auto& instruction : *program->mutable_instructions()) {
      instruction.set_op_index(table.Intern(FindOp(instruction.op()), program->mutable_ops()));
    }
  } else if (auto* request = dynamic_cast<v1::StreamRequest*>(message)) {
    OpTable table;
    request->clear_ops();
    for (auto& instruction : *request->mutable_instructions()) {
      instruction.set_op_index(table.Intern(FindOp(instruction.op()), request->mutable_ops()));
    }
  } else if (auto* report = dynamic_cast<v1::InstructionReport*>(message)) {
    report->set_op("add");
  } else if (auto* device = dynamic_cast<v1::Device*>(message)) {
    device->set_name(Coin() ? "cpu" : "cuda:3");
    device->set_kind(device->name() == "cpu" ? "cpu" : "cuda");
    device->set_index(device->name() == "cpu" ? 0 : 3);
    if (device->health() == v1::DEVICE_HEALTH_SERVING) device->clear_health_message();
    device->clear_memory();
    v1::MemoryPool* pool = device->add_memory();
    FillFields(pool);
    pool->set_kind(v1::MEMORY_KIND_DEVICE);
    if (pool->has_used_bytes()) pool->set_used_bytes(pool->total_bytes() / 2);
    if (!pool->has_largest_free_bytes()) pool->set_largest_free_bytes(1);
    if (device->telemetry().ByteSizeLong() == 0) device->clear_telemetry();
  } else if (auto* publish = dynamic_cast<v1::UploadStart*>(message)) {
    publish->set_sha256(Coin() ? std::string(32, 'x') : "");
    if (Coin()) {
      publish->clear_publish();
    } else {
      publish->mutable_publish()->clear_tensor();
      publish->mutable_publish()->clear_model();
    }
  } else if (auto* watch = dynamic_cast<v1::WatchDevicesRequest*>(message)) {
    watch->mutable_interval()->set_seconds(1 + static_cast<int64_t>(Below(3000)));
  } else if (auto* info = dynamic_cast<v1::OpInfo*>(message)) {
    info->set_name("add");
  }
}

}  // namespace tensord::wire
