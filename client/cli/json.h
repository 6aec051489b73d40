// JSON text put together by hand: tensors need the shortest digits of float32 and float16, which a JSON library that
// knows double alone cannot give, and
// may be larger than one would hold twice.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/cpp/expr/elements.h"
#include "kernels/core/text.h"

namespace tensord::cli {

class JsonObject {
 public:
  // `json` is JSON already.
  JsonObject& Raw(std::string_view key, std::string_view json) {
    text_ += StrCat(text_.empty() ? "" : ",", expr::JsonString(key), ":", json);
    return *this;
  }
  JsonObject& Text(std::string_view key, std::string_view value) { return Raw(key, expr::JsonString(value)); }
  template <class T>
  JsonObject& Number(std::string_view key, T value) {
    if constexpr (std::is_floating_point_v<T>) {
      return Raw(key, expr::JsonText(sizeof(T) == 4 ? Dtype::kFloat32 : Dtype::kFloat64, static_cast<double>(value)));
    } else {
      return Raw(key, StrCat(value));
    }
  }
  JsonObject& Bool(std::string_view key, bool value) { return Raw(key, value ? "true" : "false"); }
  // null where there is none.
  JsonObject& MaybeText(std::string_view key, const std::optional<std::string>& value) {
    return value ? Text(key, *value) : Raw(key, "null");
  }
  template <class T>
  JsonObject& MaybeNumber(std::string_view key, const std::optional<T>& value) {
    return value ? Number(key, *value) : Raw(key, "null");
  }
  std::string Done() const { return StrCat("{", text_, "}"); }

 private:
  std::string text_;
};

inline std::string JsonList(const std::vector<std::string>& items) { return StrCat("[", StrJoin(items, ","), "]"); }
inline std::string JsonTexts(const std::vector<std::string>& texts) {
  std::vector<std::string> items;
  for (const std::string& text : texts) items.push_back(expr::JsonString(text));
  return JsonList(items);
}

}  // namespace tensord::cli
