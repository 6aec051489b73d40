// TENSORD_EMULATED_CUDA: how programs that cannot call Configure are told what devices there are.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kernels/emulated/control.h"

namespace tensord::emulated {
namespace {

[[noreturn]] void Refuse(std::string_view what) {
  std::fprintf(stderr, "TENSORD_EMULATED_CUDA: cannot read \"%.*s\"\n", static_cast<int>(what.size()), what.data());
  std::exit(2);
}

// A number with an optional unit of bytes.
uint64_t Number(std::string_view item, std::string_view text) {
  uint64_t value = 0;
  size_t digits = 0;
  while (digits < text.size() && digits < 18 && text[digits] >= '0' && text[digits] <= '9') {
    value = value * 10 + static_cast<uint64_t>(text[digits++] - '0');
  }
  const std::string_view unit = text.substr(digits);
  int shift = 0;
  if (unit == "KiB") {
    shift = 10;
  } else if (unit == "MiB") {
    shift = 20;
  } else if (unit == "GiB") {
    shift = 30;
  } else if (!unit.empty()) {
    Refuse(item);
  }
  if (digits == 0 || value > (UINT64_MAX >> shift)) Refuse(item);
  return value << shift;
}

void Apply(std::string_view item, Options& options) {
  const size_t equals = item.find('=');
  if (equals == std::string_view::npos) Refuse(item);
  const std::string_view key = item.substr(0, equals);
  const std::string_view value = item.substr(equals + 1);
  if (key == "mode") {
    if (value == "eager") {
      options.mode = Mode::kEager;
    } else if (value == "lazy") {
      options.mode = Mode::kLazy;
    } else if (value == "background") {
      options.mode = Mode::kBackground;
    } else {
      Refuse(item);
    }
  } else if (key == "order") {
    if (value == "ascending") {
      options.order = Order::kAscending;
    } else if (value == "descending") {
      options.order = Order::kDescending;
    } else if (value == "random") {
      options.order = Order::kRandom;
    } else {
      Refuse(item);
    }
  } else if (key == "devices") {
    options.devices = static_cast<int>(Number(item, value));
  } else if (key == "memory") {
    options.memory_bytes = Number(item, value);
  } else if (key == "seed") {
    options.seed = Number(item, value);
  } else if (key == "multiprocessors") {
    options.multiprocessors = static_cast<int>(Number(item, value));
  } else if (key == "startup_error") {
    options.startup_error = static_cast<cudaError_t>(Number(item, value));
  } else if (key == "peers") {
    options.peers = Number(item, value) != 0;
  } else if (key == "guard") {
    options.guard_pages = Number(item, value) != 0;
  } else if (key == "fill") {
    options.fill_fresh = Number(item, value) != 0;
  } else if (key == "reports") {
    options.print_reports = Number(item, value) != 0;
  } else {
    Refuse(item);
  }
}

}  // namespace

Options OptionsFromEnvironment() {
  Options options;
  const char* text = std::getenv("TENSORD_EMULATED_CUDA");
  std::string_view rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    Apply(rest.substr(0, comma), options);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return options;
}

}  // namespace tensord::emulated
