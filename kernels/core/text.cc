#include "kernels/core/text.h"

#include <charconv>

namespace tensord::text_internal {

std::string DoubleText(double value) {
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return {buffer, result.ptr};
}

}  // namespace tensord::text_internal
