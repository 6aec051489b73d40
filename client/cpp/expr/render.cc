#include "client/cpp/expr/render.h"

#include <utility>
#include <vector>

#include "client/cpp/expr/elements.h"
#include "client/cpp/expr/models.h"
#include "client/cpp/expr/print.h"

namespace tensord::expr {
namespace {

// The first and last entries of every long axis, put together in the daemon.
absl::StatusOr<TensorPtr> Edges(Env& env, TensorPtr tensor) {
  const Dims shape = tensor->spec.type.shape;
  const int64_t edge = env.print.edgeitems;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] <= 2 * edge) continue;
    ViewAttributes head;
    head.axes = {static_cast<int32_t>(axis)};
    head.starts = {0};
    head.stops = {edge};
    head.steps = {1};
    ViewAttributes tail = head;
    tail.starts = {shape[axis] - edge};
    tail.stops = {shape[axis]};
    TENSORD_ASSIGN_OR_RETURN(TensorPtr first, env.graph->Apply(Op::kSlice, {tensor}, head));
    TENSORD_ASSIGN_OR_RETURN(TensorPtr last, env.graph->Apply(Op::kSlice, {tensor}, tail));
    TENSORD_ASSIGN_OR_RETURN(tensor,
                             env.graph->Apply(Op::kConcat, {first, last}, JoinAttributes{static_cast<int32_t>(axis)}));
  }
  return tensor;
}

absl::StatusOr<std::string> TensorTextOf(Env& env, const TensorPtr& tensor) {
  TensorPtr shown = tensor;
  if (IsSummarized(tensor->spec.type.shape, env.print)) {
    TENSORD_ASSIGN_OR_RETURN(shown, Edges(env, tensor));
  }
  TENSORD_ASSIGN_OR_RETURN(const std::string data, env.graph->Fetch(shown));
  return TensorText(tensor->spec, data, env.print);
}

}  // namespace

absl::StatusOr<std::string> RenderText(Env& env, const Value& value) {
  if (const TensorPtr* tensor = value.As<TensorPtr>()) return TensorTextOf(env, *tensor);
  if (const LayersPtr* layers = value.As<LayersPtr>()) return LayerText((*layers)->layer);
  if (const ModelPtr* model = value.As<ModelPtr>()) return ModelText(**model);
  const ListPtr* list = value.As<ListPtr>();
  if (list == nullptr) return HostText(value);
  std::vector<std::string> items;
  for (const Value& item : (*list)->items) {
    TENSORD_ASSIGN_OR_RETURN(std::string text, RenderText(env, item));
    items.push_back(std::move(text));
  }
  const std::string inside = StrJoin(items, (*list)->one_per_line ? ",\n " : ", ");
  if (!(*list)->tuple) return StrCat("[", inside, "]");
  return StrCat("(", inside, items.size() == 1 ? ",)" : ")");
}

absl::StatusOr<std::string> RenderJson(Env& env, const Value& value) {
  if (value.Is<None>()) return std::string("null");
  if (const bool* b = value.As<bool>()) return JsonText(Dtype::kBool, *b);
  if (const int64_t* i = value.As<int64_t>()) return JsonText(Dtype::kInt64, *i);
  if (const uint64_t* u = value.As<uint64_t>()) return JsonText(Dtype::kUint64, *u);
  if (const double* d = value.As<double>()) return JsonText(Dtype::kFloat64, *d);
  if (const std::string* s = value.As<std::string>()) return JsonString(*s);
  if (const Dtype* dtype = value.As<Dtype>()) return JsonString(DtypeName(*dtype));
  if (const DeviceValue* device = value.As<DeviceValue>()) return JsonString(device->id.ToString());
  if (const TensorPtr* tensor = value.As<TensorPtr>()) {
    TENSORD_ASSIGN_OR_RETURN(const std::string data, env.graph->Fetch(*tensor));
    return TensorJson((*tensor)->spec, data);
  }
  if (const LayersPtr* layers = value.As<LayersPtr>())
    return StrCat("{\"layers\":", JsonString(LayerText((*layers)->layer)), "}");
  if (const ModelPtr* model = value.As<ModelPtr>()) return ModelJson(**model);
  const ListPtr* list = value.As<ListPtr>();
  if (list == nullptr) return JsonString(HostText(value));
  std::vector<std::string> items;
  for (const Value& item : (*list)->items) {
    TENSORD_ASSIGN_OR_RETURN(std::string json, RenderJson(env, item));
    items.push_back(std::move(json));
  }
  return StrCat("[", StrJoin(items, ","), "]");
}

}  // namespace tensord::expr
