// The contract as text, compared with the one on record: no field may change its number, type or name unseen.
//
// After a wanted change: UPDATE_GOLDEN=1 unit_wire --gtest_filter='Golden.*', then look at the difference and
// commit it.
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "kernels/core/dtype.h"
#include "kernels/ops/op.h"
#include "tensord/v1/attributes.pb.h"
#include "tensord/v1/compute.pb.h"
#include "tensord/v1/device.pb.h"
#include "tensord/v1/error.pb.h"
#include "tensord/v1/limits.pb.h"
#include "tensord/v1/model.pb.h"
#include "tensord/v1/program.pb.h"
#include "tensord/v1/session.pb.h"
#include "tensord/v1/tensor.pb.h"
#include "tensord/v1/types.pb.h"

namespace tensord {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;

std::string TypeText(const FieldDescriptor& field) {
  if (field.is_map()) {
    return "map<" + TypeText(*field.message_type()->map_key()) + ", " + TypeText(*field.message_type()->map_value()) +
           ">";
  }
  if (field.type() == FieldDescriptor::TYPE_MESSAGE) return field.message_type()->full_name();
  if (field.type() == FieldDescriptor::TYPE_ENUM) return field.enum_type()->full_name();
  return field.type_name();
}

void Print(const EnumDescriptor& type, std::ostream& out) {
  out << "enum " << type.full_name() << "\n";
  for (int i = 0; i < type.value_count(); ++i) {
    out << "  " << type.value(i)->number() << " " << type.value(i)->name() << "\n";
  }
  for (int i = 0; i < type.reserved_range_count(); ++i) {
    out << "  reserved " << type.reserved_range(i)->start << " to " << type.reserved_range(i)->end << "\n";
  }
}

void Print(const Descriptor& type, std::ostream& out) {
  if (type.options().map_entry()) return;
  out << "message " << type.full_name() << "\n";
  std::set<std::pair<int, const FieldDescriptor*>> fields;
  for (int i = 0; i < type.field_count(); ++i) fields.insert({type.field(i)->number(), type.field(i)});
  for (const auto& [number, field] : fields) {
    out << "  " << number << " " << field->name() << ": ";
    if (field->is_repeated() && !field->is_map()) out << "repeated ";
    if (field->has_optional_keyword()) out << "optional ";
    out << TypeText(*field);
    if (const auto* oneof = field->real_containing_oneof()) out << " in " << oneof->name();
    out << "\n";
  }
  for (int i = 0; i < type.reserved_range_count(); ++i) {
    out << "  reserved " << type.reserved_range(i)->start << " to " << type.reserved_range(i)->end - 1 << "\n";
  }
  for (int i = 0; i < type.nested_type_count(); ++i) Print(*type.nested_type(i), out);
  for (int i = 0; i < type.enum_type_count(); ++i) Print(*type.enum_type(i), out);
}

void Print(const FileDescriptor& file, std::ostream& out) {
  out << "file " << file.name() << " package " << file.package() << "\n";
  for (int i = 0; i < file.service_count(); ++i) {
    const auto& service = *file.service(i);
    out << "service " << service.full_name() << "\n";
    for (int k = 0; k < service.method_count(); ++k) {
      const auto& method = *service.method(k);
      out << "  " << method.name() << "(" << (method.client_streaming() ? "stream " : "")
          << method.input_type()->full_name() << ") " << (method.server_streaming() ? "stream " : "")
          << method.output_type()->full_name() << "\n";
    }
  }
  for (int i = 0; i < file.message_type_count(); ++i) Print(*file.message_type(i), out);
  for (int i = 0; i < file.enum_type_count(); ++i) Print(*file.enum_type(i), out);
}

std::string Contract() {
  std::ostringstream out;
  for (const FileDescriptor* file :
       {v1::TensorSpec::descriptor()->file(), v1::CreateAttributes::descriptor()->file(),
        v1::Instruction::descriptor()->file(), v1::ExecuteRequest::descriptor()->file(),
        v1::UploadRequest::descriptor()->file(), v1::OpenSessionRequest::descriptor()->file(),
        v1::ListDevicesRequest::descriptor()->file(), v1::CreateModelRequest::descriptor()->file(),
        v1::Limits::descriptor()->file(), v1::Origin::descriptor()->file(), google::rpc::Status::descriptor()->file(),
        google::rpc::ErrorInfo::descriptor()->file()}) {
    Print(*file, out);
  }
  return out.str();
}

TEST(Golden, ContractIsTheOneOnRecord) {
  const std::string contract = Contract();
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    std::ofstream(TENSORD_GOLDEN) << contract;
    GTEST_SKIP() << "golden file written";
  }
  std::ifstream file(TENSORD_GOLDEN);
  ASSERT_TRUE(file) << "no golden file: run with UPDATE_GOLDEN=1";
  std::stringstream recorded;
  recorded << file.rdbuf();
  // Line by line, so that a failure shows the field.
  std::istringstream now(contract);
  std::string expected;
  std::string line;
  for (int number = 1; std::getline(recorded, expected); ++number) {
    ASSERT_TRUE(std::getline(now, line)) << "line " << number << " is gone: " << expected;
    ASSERT_EQ(line, expected) << "line " << number << " changed; if wanted: UPDATE_GOLDEN=1";
  }
  ASSERT_FALSE(std::getline(now, line)) << "new: " << line << "; if wanted: UPDATE_GOLDEN=1";
}

TEST(Golden, DtypesAreTheWiresNumbers) {
  const EnumDescriptor& type = *v1::Dtype_descriptor();
  for (int number = 1; number < kDtypeCount; ++number) {
    const auto* value = type.FindValueByNumber(number);
    ASSERT_NE(value, nullptr);
    std::string name = "DTYPE_";
    for (const char c : DtypeName(static_cast<Dtype>(number))) name.push_back(static_cast<char>(std::toupper(c)));
    EXPECT_EQ(value->name(), name);
  }
}

// ops.def and families.def name fields of the contract by text.
TEST(Golden, OpTableNamesFieldsThatExist) {
  for (int i = 1; i <= kOpCount; ++i) {
    const OpRow& row = RowOf(static_cast<Op>(i));
    const std::string attributes(FamilyAttributes(row.family));
    if (attributes.empty()) {
      EXPECT_EQ(row.fields, "") << row.name;
      continue;
    }
    const FieldDescriptor* field = v1::Instruction::descriptor()->FindFieldByName(attributes);
    ASSERT_NE(field, nullptr) << row.name << ": " << attributes;
    std::istringstream fields{std::string(row.fields)};
    for (std::string name; std::getline(fields, name, ',');) {
      EXPECT_NE(field->message_type()->FindFieldByName(name), nullptr) << row.name << ": " << name;
    }
  }
}

}  // namespace
}  // namespace tensord
