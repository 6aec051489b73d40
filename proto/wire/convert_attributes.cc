// Attributes of instructions. Which fields an op takes is said by its row in ops.def, and checked here by name for all
// families alike.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "kernels/core/error.h"
#include "proto/wire/convert_tensor.h"
#include "proto/wire/parts.h"

namespace tensord::wire {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

absl::Status Refuse(Op op, std::string_view attribute, std::string_view value, std::string_view allowed,
                    std::string_view path) {
  return Error(Reason::kAttributeInvalid)
      .With("op", RowOf(op).name)
      .With("attribute", attribute)
      .With("value", value)
      .With("allowed", allowed.empty() ? "none" : allowed)
      .At(path);
}

// "a,b" has "a".
bool Lists(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
  return false;
}

// The attributes must be those of the op's family, and no field may be set that the op does not take.
absl::Status CheckFields(const v1::Instruction& proto, Op op) {
  const OpRow& row = RowOf(op);
  const std::string_view expected = FamilyAttributes(row.family);
  const auto number = static_cast<int>(proto.attributes_case());
  const FieldDescriptor& given = *proto.GetDescriptor()->FindFieldByNumber(number);
  if (given.name() != expected) {
    return Refuse(op, given.name(), "set", expected.empty() ? "no attributes" : expected, given.name());
  }
  if (row.family == Family::kConstant) return absl::OkStatus();  // a literal, whole
  const Message& message = proto.GetReflection()->GetMessage(proto, &given);
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (Lists(row.fields, field->name())) continue;
    return Refuse(op, field->name(), "set", row.fields.empty() ? "no attributes" : row.fields,
                  StrCat(given.name(), ".", field->name()));
  }
  return absl::OkStatus();
}

// What an op cannot do without.
absl::Status CheckPresent(const v1::Instruction& proto, Op op) {
  switch (RowOf(op).family) {
    case Family::kCreate:
      if (proto.has_create()) return absl::OkStatus();
      return Error(Reason::kDtypeUnknown).With("value", "not set").With("known", KnownDtypes()).At("create.spec.dtype");
    case Family::kConstant:
      if (proto.has_constant()) return absl::OkStatus();
      return Refuse(op, "constant", "not set", "spec and data", "constant");
    case Family::kCall:
      if (proto.call().callee_case() != v1::CallAttributes::CALLEE_NOT_SET) return absl::OkStatus();
      return Refuse(op, "call", "not set", "program or model", "call");
    default:
      return absl::OkStatus();
  }
}

Precision DecodePrecision(int number) {
  return number == v1::PRECISION_TF32       ? Precision::kTf32
         : number == v1::PRECISION_BFLOAT16 ? Precision::kBfloat16
                                            : Precision::kFloat32;
}

absl::StatusOr<CreateAttributes> Decode(const v1::CreateAttributes& proto, const Decoder& decoder) {
  CreateAttributes out;
  auto spec = DecodeSpecRequest(proto.spec(), decoder);
  if (!spec.ok()) return Inside("create.spec", spec.status());
  out.spec = *std::move(spec);
  if (proto.has_seed()) out.seed = proto.seed();
  out.seed_offset = proto.seed_offset();
  out.diagonal = proto.diagonal();
  out.exclude_stop = proto.exclude_stop();
  return out;
}

ReduceAttributes Decode(const v1::ReduceAttributes& proto) {
  ReduceAttributes out;
  out.axes = CopyOf<Axes>(proto.axes());
  out.all_axes = proto.all_axes();
  out.keepdims = proto.keepdims();
  out.dtype = DecodeDtype(proto.dtype());
  out.correction = proto.correction();
  out.last_index = proto.last_index();
  return out;
}

ViewAttributes Decode(const v1::ViewAttributes& proto) {
  ViewAttributes out;
  out.shape = CopyOf<Dims>(proto.shape());
  out.axes = CopyOf<Axes>(proto.axes());
  out.starts = CopyOf<Dims>(proto.starts());
  out.stops = CopyOf<Dims>(proto.stops());
  out.steps = CopyOf<Dims>(proto.steps());
  out.diagonal = proto.diagonal();
  return out;
}

WindowAttributes Decode(const v1::WindowAttributes& proto) {
  WindowAttributes out;
  out.sizes = CopyOf<Dims>(proto.sizes());
  out.strides = CopyOf<Dims>(proto.strides());
  out.dilations = CopyOf<Dims>(proto.dilations());
  out.pads_begin = CopyOf<Dims>(proto.pads_begin());
  out.pads_end = CopyOf<Dims>(proto.pads_end());
  out.groups = proto.groups();
  out.ceil_mode = proto.ceil_mode();
  out.count_pads = proto.count_pads();
  out.precision = DecodePrecision(proto.precision());
  return out;
}

absl::StatusOr<CallAttributes> Decode(const v1::CallAttributes& proto, const Decoder& decoder) {
  CallAttributes out;
  if (proto.callee_case() == v1::CallAttributes::kProgram) out.program = proto.program();
  if (proto.callee_case() == v1::CallAttributes::kModel) {
    auto model = DecodeRef(proto.model(), decoder);
    if (!model.ok()) return Inside("call.model", model.status());
    out.model = *std::move(model);
  }
  return out;
}

// One overload a struct of Attributes.
struct Encoder {
  v1::Instruction* proto;

  void operator()(std::monostate) const {}
  void operator()(const CreateAttributes& a) const {
    v1::CreateAttributes* out = proto->mutable_create();
    *out->mutable_spec() = ToProto(a.spec);
    if (a.seed) out->set_seed(*a.seed);
    out->set_seed_offset(a.seed_offset);
    out->set_diagonal(a.diagonal);
    out->set_exclude_stop(a.exclude_stop);
  }
  void operator()(const ConstantAttributes& a) const { *proto->mutable_constant() = EncodeLiteral(a.spec, a.data); }
  void operator()(const ConvertAttributes& a) const {
    v1::ConvertAttributes* out = proto->mutable_convert();
    out->set_dtype(EncodeDtype(a.dtype));
    out->set_device(a.device);
    out->set_copy(a.copy);
  }
  void operator()(const ReduceAttributes& a) const {
    v1::ReduceAttributes* out = proto->mutable_reduce();
    CopyTo(a.axes, out->mutable_axes());
    out->set_all_axes(a.all_axes);
    out->set_keepdims(a.keepdims);
    out->set_dtype(EncodeDtype(a.dtype));
    out->set_correction(a.correction);
    out->set_last_index(a.last_index);
  }
  void operator()(const ViewAttributes& a) const {
    v1::ViewAttributes* out = proto->mutable_view();
    CopyTo(a.shape, out->mutable_shape());
    CopyTo(a.axes, out->mutable_axes());
    CopyTo(a.starts, out->mutable_starts());
    CopyTo(a.stops, out->mutable_stops());
    CopyTo(a.steps, out->mutable_steps());
    out->set_diagonal(a.diagonal);
  }
  void operator()(const JoinAttributes& a) const { proto->mutable_join()->set_axis(a.axis); }
  void operator()(const IndexAttributes& a) const { proto->mutable_index()->set_axis(a.axis); }
  void operator()(const MatmulAttributes& a) const {
    v1::MatmulAttributes* out = proto->mutable_matmul();
    out->set_transpose_a(a.transpose_a);
    out->set_transpose_b(a.transpose_b);
    out->set_precision(static_cast<v1::Precision>(a.precision));
  }
  void operator()(const WindowAttributes& a) const {
    v1::WindowAttributes* out = proto->mutable_window();
    CopyTo(a.sizes, out->mutable_sizes());
    CopyTo(a.strides, out->mutable_strides());
    CopyTo(a.dilations, out->mutable_dilations());
    CopyTo(a.pads_begin, out->mutable_pads_begin());
    CopyTo(a.pads_end, out->mutable_pads_end());
    out->set_groups(a.groups);
    out->set_ceil_mode(a.ceil_mode);
    out->set_count_pads(a.count_pads);
    out->set_precision(static_cast<v1::Precision>(a.precision));
  }
  void operator()(const NormAttributes& a) const {
    proto->mutable_norm()->set_axis(a.axis);
    proto->mutable_norm()->set_epsilon(a.epsilon);
  }
  void operator()(const CallAttributes& a) const {
    v1::CallAttributes* out = proto->mutable_call();
    if (a.model) {
      *out->mutable_model() = ToProto(*a.model);
    } else {
      out->set_program(a.program);
    }
  }
};

}  // namespace

absl::StatusOr<Attributes> DecodeAttributes(const v1::Instruction& proto, Op op, Decoder& decoder) {
  if (decoder.strict) TENSORD_RETURN_IF_ERROR(CheckPresent(proto, op));
  if (proto.attributes_case() == v1::Instruction::ATTRIBUTES_NOT_SET) return Attributes();
  if (decoder.strict) TENSORD_RETURN_IF_ERROR(CheckFields(proto, op));
  switch (proto.attributes_case()) {
    case v1::Instruction::kCreate:
      return Decode(proto.create(), decoder);
    case v1::Instruction::kConstant: {
      auto literal = DecodeLiteral(proto.constant(), decoder);
      if (!literal.ok()) return Inside("constant", literal.status());
      return ConstantAttributes{std::move(literal->spec), std::move(literal->data)};
    }
    case v1::Instruction::kConvert:
      return ConvertAttributes{DecodeDtype(proto.convert().dtype()), proto.convert().device(), proto.convert().copy()};
    case v1::Instruction::kReduce:
      return Decode(proto.reduce());
    case v1::Instruction::kView:
      return Decode(proto.view());
    case v1::Instruction::kJoin:
      return JoinAttributes{proto.join().axis()};
    case v1::Instruction::kIndex:
      return IndexAttributes{proto.index().axis()};
    case v1::Instruction::kMatmul:
      return MatmulAttributes{proto.matmul().transpose_a(), proto.matmul().transpose_b(),
                              DecodePrecision(proto.matmul().precision())};
    case v1::Instruction::kWindow:
      return Decode(proto.window());
    case v1::Instruction::kNorm:
      return NormAttributes{proto.norm().axis(), proto.norm().epsilon()};
    case v1::Instruction::kCall:
      return Decode(proto.call(), decoder);
    default:
      // Only of a response: a family that this version has no ops of.
      return Attributes();
  }
}

void EncodeAttributes(const Attributes& attributes, v1::Instruction* proto) { std::visit(Encoder{proto}, attributes); }

}  // namespace tensord::wire
