// Runs one unary op, named on the command line, on the CPU backend for every real dtype and compares with the oracle.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/ops/infer.h"
#include "tests/oracle/elementwise.h"

namespace tensord {
namespace {

int Run(std::string_view name) {
  const Op op = FindOp(name);
  const auto& table = oracle::Elementwise();
  const auto meaning = table.find(std::string(name));
  if (op == Op::kNone || meaning == table.end()) {
    std::printf("%s: %s\n", std::string(name).c_str(), op == Op::kNone ? "no such op" : "no oracle");
    return 1;
  }
  const auto backend = MakeCpuBackend({});
  for (const Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16, Dtype::kFloat32, Dtype::kFloat64}) {
    const oracle::Array input = oracle::Sample(dtype, {37, 61}, 1);
    oracle::Array expected = oracle::Array::Zeros(dtype, {37, 61});
    for (int64_t i = 0; i < input.size(); ++i) expected.Set(i, meaning->second.unary(input.At(i), dtype));

    Instruction instruction;
    instruction.op = op;
    instruction.inputs = {1};
    const OperandType operand{&input.type, nullptr};
    const auto inferred = Infer(instruction, {&operand, 1});
    if (!inferred.ok()) {
      std::printf("%s\n", inferred.status().ToString().c_str());
      return 1;
    }
    oracle::Array got = oracle::Array::Zeros(dtype, {37, 61});
    const Dims strides = ContiguousStrides(input.type.shape);
    const TensorView in{dtype, input.type.shape, strides, const_cast<char*>(input.bytes.data())};
    const TensorView out{dtype, got.type.shape, strides, got.bytes.data()};
    const KernelOperand kernel_operand{&in, nullptr};
    const KernelCall call{op, &instruction.attributes, inferred->compute, {&kernel_operand, 1}, {&out, 1}};
    const absl::Status status = backend->Run(call, backend->default_stream(), backend->memory());
    const std::string difference = status.ok() ? oracle::Compare(got, expected, 2) : status.ToString();
    std::printf("%s %s: %s\n", std::string(name).c_str(), std::string(DtypeName(dtype)).c_str(),
                difference.empty() ? "agrees with the oracle" : difference.c_str());
    if (!difference.empty()) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) { return argc == 2 ? tensord::Run(argv[1]) : 2; }
