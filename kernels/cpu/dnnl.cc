#include "kernels/cpu/dnnl.h"

#include <dnnl.hpp>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "kernels/core/error.h"

namespace tensord::cpu {
namespace {

using dnnl::memory;

// Never destroyed: the library may be gone by the time statics end.
const dnnl::engine& Engine() {
  static const auto* const kEngine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *kEngine;
}

memory::data_type TypeOf(Dtype dtype) {
  return dtype == Dtype::kBfloat16 ? memory::data_type::bf16 : memory::data_type::f32;
}

absl::Status Failed(const dnnl::error& error) {
  return Error(Reason::kInternal).Say("id", "cpu.dnnl").With("cause", std::string(error.what()));
}

dnnl::primitive_attr AttributesFor(bool allow_bfloat16) {
  dnnl::primitive_attr attributes;
  if (allow_bfloat16) attributes.set_fpmath_mode(dnnl::fpmath_mode::bf16);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// A primitive and what has to be laid out anew for it.
struct Prepared {
  struct Argument {
    int id = 0;
    memory::desc given;   // as the caller's memory lies
    memory::desc wanted;  // as the primitive reads or writes it
    std::optional<dnnl::primitive> reorder;
  };
  dnnl::primitive primitive;
  std::vector<Argument> arguments;  // the result last
  // The library's own scratchpad belongs to the thread that made the primitive; another device's executor may run it.
  memory::desc scratchpad;
};

// Primitives by what they were made for. Thread safe.
class Cache {
 public:
  std::shared_ptr<const Prepared> Find(const Dims& key) {
    const absl::MutexLock lock(&mutex_);
    const auto it = entries_.find(key);
    return it == entries_.end() ? nullptr : it->second;
  }
  void Add(const Dims& key, std::shared_ptr<const Prepared> prepared) {
    const absl::MutexLock lock(&mutex_);
    // Shapes that never come back must not pile up.
    if (entries_.size() >= kMost) entries_.clear();
    entries_[key] = std::move(prepared);
  }

 private:
  static constexpr size_t kMost = 1024;
  absl::Mutex mutex_;
  absl::flat_hash_map<Dims, std::shared_ptr<const Prepared>> entries_ ABSL_GUARDED_BY(mutex_);
};

Cache& Primitives() {
  static auto* const kCache = new Cache();
  return *kCache;
}

void AddArgument(Prepared& prepared, int id, const memory::desc& given, const memory::desc& wanted, bool result) {
  Prepared::Argument argument{id, given, wanted, std::nullopt};
  if (given != wanted) {
    const memory::desc& from = result ? wanted : given;
    const memory::desc& to = result ? given : wanted;
    argument.reorder.emplace(dnnl::reorder(dnnl::reorder::primitive_desc(Engine(), from, Engine(), to)));
  }
  prepared.arguments.push_back(std::move(argument));
}

// Runs it with the caller's memory, one pointer an argument; what lies otherwise goes through scratch.
absl::Status Execute(const Prepared& prepared, absl::Span<void* const> data, Context& context) {
  dnnl::stream stream(Engine());
  std::unordered_map<int, memory> arguments;
  std::vector<Scratch> scratch;
  std::optional<std::pair<dnnl::primitive, std::pair<memory, memory>>> back;
  for (size_t i = 0; i < prepared.arguments.size(); ++i) {
    const Prepared::Argument& argument = prepared.arguments[i];
    memory given(argument.given, Engine(), data[i]);
    if (!argument.reorder) {
      arguments.emplace(argument.id, std::move(given));
      continue;
    }
    TENSORD_ASSIGN_OR_RETURN(Scratch block, Scratch::Allocate(argument.wanted.get_size(), context));
    memory laid(argument.wanted, Engine(), block.data());
    scratch.push_back(std::move(block));
    if (i + 1 < prepared.arguments.size()) {
      argument.reorder->execute(stream, {{DNNL_ARG_FROM, given}, {DNNL_ARG_TO, laid}});
    } else {
      back.emplace(*argument.reorder, std::make_pair(laid, given));
    }
    arguments.emplace(argument.id, std::move(laid));
  }
  if (const size_t bytes = prepared.scratchpad.get_size(); bytes > 0) {
    TENSORD_ASSIGN_OR_RETURN(Scratch block, Scratch::Allocate(bytes, context));
    arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(prepared.scratchpad, Engine(), block.data()));
    scratch.push_back(std::move(block));
  }
  prepared.primitive.execute(stream, arguments);
  if (back) back->first.execute(stream, {{DNNL_ARG_FROM, back->second.first}, {DNNL_ARG_TO, back->second.second}});
  stream.wait();
  return absl::OkStatus();
}

memory::dims Of(const Dims& dims) { return memory::dims(dims.begin(), dims.end()); }

std::shared_ptr<const Prepared> PrepareMatmul(const DnnlProduct& p) {
  const memory::data_type type = TypeOf(p.dtype);
  const auto matrix = [&](const DnnlMatrix& x, int64_t rows, int64_t columns) {
    // A dimension of size 1 may come with any stride; the library wants it to be plausible.
    const int64_t row = rows == 1 ? std::max(x.row_stride, columns * x.column_stride) : x.row_stride;
    const int64_t column = columns == 1 && x.row_stride != 1 ? 1 : x.column_stride;
    if (p.batch == 1) return memory::desc({rows, columns}, type, memory::dims{row, column});
    const int64_t one = std::max(rows * row, columns * column);
    return memory::desc({x.batch_stride == 0 ? 1 : p.batch, rows, columns}, type,
                        memory::dims{x.batch_stride == 0 ? one : x.batch_stride, row, column});
  };
  const memory::desc a = matrix(p.a, p.m, p.k);
  const memory::desc b = matrix(p.b, p.k, p.n);
  const memory::desc c = p.batch == 1 ? memory::desc({p.m, p.n}, type, memory::dims{p.n, 1})
                                      : memory::desc({p.batch, p.m, p.n}, type, memory::dims{p.m * p.n, p.n, 1});
  memory::desc bias;
  if (p.bias != nullptr) {
    bias = p.batch == 1 ? memory::desc({1, p.n}, memory::data_type::f32, memory::dims{p.n, 1})
                        : memory::desc({1, 1, p.n}, memory::data_type::f32, memory::dims{p.n, p.n, 1});
  }
  const dnnl::primitive_attr attributes = AttributesFor(p.allow_bfloat16);
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc made = p.bias != nullptr
                                                ? dnnl::matmul::primitive_desc(Engine(), a, b, bias, c, attributes)
                                                : dnnl::matmul::primitive_desc(Engine(), a, b, c, attributes);
#else
  const dnnl::matmul::primitive_desc made(
      p.bias != nullptr ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c), attributes, Engine());
#endif
  auto prepared = std::make_shared<Prepared>();
  prepared->primitive = dnnl::matmul(made);
  prepared->scratchpad = made.scratchpad_desc();
  AddArgument(*prepared, DNNL_ARG_SRC, a, a, false);
  AddArgument(*prepared, DNNL_ARG_WEIGHTS, b, b, false);
  if (p.bias != nullptr) AddArgument(*prepared, DNNL_ARG_BIAS, bias, bias, false);
  AddArgument(*prepared, DNNL_ARG_DST, c, c, true);
  return prepared;
}

std::shared_ptr<const Prepared> PrepareConvolution(const DnnlConvolution& c) {
  const memory::data_type type = TypeOf(c.dtype);
  const auto plain = [&](const memory::dims& dims) {
    const Dims strides = ContiguousStrides(dims);
    return memory::desc(dims, type, Of(strides));
  };
  const auto any = [&](const memory::dims& dims) { return memory::desc(dims, type, memory::format_tag::any); };
  const memory::dims x = Of(c.x_shape);
  const memory::dims out = Of(c.out_shape);
  memory::dims weight = Of(c.weight_shape);
  if (c.groups > 1) {
    weight[0] /= c.groups;
    weight.insert(weight.begin(), c.groups);
  }
  memory::dims dilations = Of(c.dilations);
  for (memory::dim& d : dilations) --d;
  const memory::desc bias = c.bias != nullptr
                                ? memory::desc({c.out_shape[1]}, memory::data_type::f32, memory::format_tag::x)
                                : memory::desc();
  const dnnl::primitive_attr attributes = AttributesFor(c.allow_bfloat16);
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
  constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
  const memory::dims strides = Of(c.strides);
  const memory::dims begin = Of(c.pads_begin);
  const memory::dims end = Of(c.pads_end);
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::convolution_forward::primitive_desc made(Engine(), kKind, kAlgorithm, any(x), any(weight), bias, any(out),
                                                       strides, dilations, begin, end, attributes);
#else
  const dnnl::convolution_forward::primitive_desc made(
      c.bias != nullptr ? dnnl::convolution_forward::desc(kKind, kAlgorithm, any(x), any(weight), bias, any(out),
                                                          strides, dilations, begin, end)
                        : dnnl::convolution_forward::desc(kKind, kAlgorithm, any(x), any(weight), any(out), strides,
                                                          dilations, begin, end),
      attributes, Engine());
#endif
  auto prepared = std::make_shared<Prepared>();
  prepared->primitive = dnnl::convolution_forward(made);
  prepared->scratchpad = made.scratchpad_desc();
  AddArgument(*prepared, DNNL_ARG_SRC, plain(x), made.src_desc(), false);
  AddArgument(*prepared, DNNL_ARG_WEIGHTS, plain(weight), made.weights_desc(), false);
  if (c.bias != nullptr) AddArgument(*prepared, DNNL_ARG_BIAS, bias, bias, false);
  AddArgument(*prepared, DNNL_ARG_DST, plain(out), made.dst_desc(), true);
  return prepared;
}

// Finds or makes the primitive for `key`, and runs it.
template <class Prepare>
absl::Status RunPrepared(const Dims& key, const Prepare& prepare, absl::Span<void* const> data, Context& context) {
  try {
    std::shared_ptr<const Prepared> prepared = Primitives().Find(key);
    if (prepared == nullptr) {
      prepared = prepare();
      Primitives().Add(key, prepared);
    }
    return Execute(*prepared, data, context);
  } catch (const dnnl::error& error) {
    return Failed(error);
  }
}

}  // namespace

bool HasNativeBfloat16() {
  static const bool has = [] {
    const auto isa = static_cast<int>(dnnl::get_effective_cpu_isa());
    const auto wanted = static_cast<int>(dnnl::cpu_isa::avx512_core_bf16);
    return (isa & wanted) == wanted;
  }();
  return has;
}

absl::Status DnnlMatmul(const DnnlProduct& p, Context& context) {
  const Dims key = {0,
                    static_cast<int64_t>(p.dtype),
                    p.batch,
                    p.m,
                    p.n,
                    p.k,
                    p.a.batch_stride,
                    p.a.row_stride,
                    p.a.column_stride,
                    p.b.batch_stride,
                    p.b.row_stride,
                    p.b.column_stride,
                    p.bias != nullptr,
                    p.allow_bfloat16};
  absl::InlinedVector<void*, 4> data = {const_cast<void*>(p.a.data), const_cast<void*>(p.b.data)};
  if (p.bias != nullptr) data.push_back(const_cast<float*>(p.bias));
  data.push_back(p.c);
  return RunPrepared(
      key, [&] { return PrepareMatmul(p); }, data, context);
}

absl::Status DnnlConvolve(const DnnlConvolution& c, Context& context) {
  Dims key = {1, static_cast<int64_t>(c.dtype), c.groups, c.bias != nullptr, c.allow_bfloat16};
  for (const Dims* dims :
       {&c.x_shape, &c.weight_shape, &c.out_shape, &c.strides, &c.dilations, &c.pads_begin, &c.pads_end}) {
    key.insert(key.end(), dims->begin(), dims->end());
  }
  absl::InlinedVector<void*, 4> data = {const_cast<void*>(c.x), const_cast<void*>(c.weight)};
  if (c.bias != nullptr) data.push_back(const_cast<float*>(c.bias));
  data.push_back(c.out);
  return RunPrepared(
      key, [&] { return PrepareConvolution(c); }, data, context);
}

}  // namespace tensord::cpu
