#include "server/flags.h"

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "server/rpc/listen.h"

namespace tensord {
namespace {

constexpr std::array<std::pair<std::string_view, size_t>, 4> kUnits = {
    {{"KiB", size_t{1} << 10}, {"MiB", size_t{1} << 20}, {"GiB", size_t{1} << 30}, {"TiB", size_t{1} << 40}}};
constexpr uint32_t kMaxEmulated = 64;

absl::Status Invalid(std::string_view what, std::string_view value, std::string_view allowed) {
  return Error(Reason::kFieldInvalid)
      .Say("field", what)
      .With("value", StrCat("\"", value, "\""))
      .With("allowed", allowed);
}

// A check for CLI11: the message, or "" where `parsed` is fine.
template <class T>
std::string MessageOf(const absl::StatusOr<T>& parsed) {
  return parsed.ok() ? std::string() : std::string(parsed.status().message());
}

CLI::Validator DurationBetween(absl::Duration least, absl::Duration most) {
  const std::string range = StrCat(absl::FormatDuration(least), " to ", absl::FormatDuration(most));
  return CLI::Validator(
      [=](std::string& text) {
        absl::Duration value;
        if (absl::ParseDuration(text, &value) && value >= least && value <= most) return std::string();
        return std::string(Invalid("a duration", text, StrCat(range, ", as 500ms, 30s, 1m30s or 2h")).message());
      },
      "");
}

CLI::Validator CountBetween(uint64_t least, uint64_t most) {
  return CLI::Validator(
      [=](std::string& text) {
        uint64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool whole = error == std::errc() && end == text.data() + text.size();
        if (whole && value >= least && value <= most) return std::string();
        return std::string(Invalid("a count", text, StrCat(least, " to ", most)).message());
      },
      "");
}

CLI::Validator SizeBetween(size_t least, size_t most) {
  return CLI::Validator(
      [=](std::string& text) {
        const absl::StatusOr<size_t> value = ParseSize(text);
        if (value.ok() && *value >= least && *value <= most) return std::string();
        return std::string(
            Invalid("a size", text, StrCat(SizeText(least), " to ", SizeText(most), ", as 512KiB, 64MiB or 1.5GiB"))
                .message());
      },
      "");
}

absl::Duration DurationOf(const std::string& checked) {
  absl::Duration value;
  absl::ParseDuration(checked, &value);
  return value;
}

// "--listen: --listen is …" names the flag twice, once by CLI11 and once by the check.
std::string WithoutEcho(std::string_view message) {
  const size_t colon = message.find(": ");
  if (colon != std::string_view::npos && message.substr(colon + 2).starts_with(message.substr(0, colon))) {
    message.remove_prefix(colon + 2);
  }
  return std::string(message);
}

std::string EnvName(std::string_view flag) {
  std::string name = "TENSORD_";
  for (const char c : flag.substr(2))
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

constexpr const char* kExamples = R"(Examples:
  tensord                                   this machine's CPU, reached from this machine alone
  tensord --emulate-cuda=2:64MiB            two emulated CUDA devices beside it: try multi-device code anywhere
  tensord --listen unix:/run/user/1000/tensord.sock
  tensord --listen localhost:7070 --listen unix:/tmp/tensord.sock
  tensord --device-memory-limit cpu=8GiB --lease 10m
  tensord --listen 0.0.0.0:7070 --insecure  on a network you trust: no encryption, no passwords
  TENSORD_LOG=rpc tensord                   a line for every call

Every flag is also an environment variable: --shutdown-grace is TENSORD_SHUTDOWN_GRACE.
Once it can be reached, the daemon prints "listening on ADDRESS". SIGTERM or SIGINT ends it within --shutdown-grace, and
at most 2 s more where a device is still computing; a second one at once.
Talk to it with tensorctl, the C++ library, or any gRPC client.)";

}  // namespace

absl::StatusOr<size_t> ParseSize(std::string_view text) {
  std::string_view digits = text;
  double unit = 1;
  for (const auto& [name, bytes] : kUnits) {
    if (text.ends_with(name)) {
      unit = static_cast<double>(bytes);
      digits.remove_suffix(name.size());
    }
  }
  double value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed);
  const double all = std::floor(value * unit);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || !(all >= 1) || all >= 0x1p62) {
    return Invalid("a size", text, "bytes, or a number with KiB, MiB, GiB or TiB, as 64MiB");
  }
  return static_cast<size_t>(all);
}

absl::StatusOr<std::pair<uint32_t, size_t>> ParseEmulated(std::string_view text) {
  std::pair<uint32_t, size_t> result = {0, size_t{1} << 30};
  const size_t colon = text.find(':');
  const std::string_view count = text.substr(0, colon);
  const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), result.first);
  if (count.empty() || error != std::errc() || end != count.data() + count.size() || result.first > kMaxEmulated) {
    return Invalid("--emulate-cuda", text,
                   StrCat("COUNT or COUNT:SIZE with COUNT from 0 to ", kMaxEmulated, ", as 2 or 2:64MiB"));
  }
  if (colon != std::string_view::npos) {
    TENSORD_ASSIGN_OR_RETURN(result.second, ParseSize(text.substr(colon + 1)));
  }
  return result;
}

absl::StatusOr<std::pair<DeviceId, size_t>> ParseMemoryLimit(std::string_view text) {
  const size_t equals = text.find('=');
  const std::optional<DeviceId> device =
      equals == 0 || equals == std::string_view::npos ? std::nullopt : DeviceId::Parse(text.substr(0, equals));
  if (!device.has_value()) return Invalid("--device-memory-limit", text, "DEVICE=SIZE, as cpu=4GiB or cuda:0=512MiB");
  TENSORD_ASSIGN_OR_RETURN(const size_t bytes, ParseSize(text.substr(equals + 1)));
  return std::pair(*device, bytes);
}

absl::StatusOr<std::string> ParseDeviceSelector(std::string_view text) {
  const auto is_uuid = [&] {
    constexpr std::string_view kDigits = "0123456789abcdefABCDEF-";
    return (text.starts_with("GPU-") || text.starts_with("MIG-")) && text.size() > 4 && text.size() <= 40 &&
           text.substr(4).find_first_not_of(kDigits) == std::string_view::npos;
  };
  if (!text.empty() && (DeviceId::Parse(text).has_value() || is_uuid())) return std::string(text);
  return Invalid("--devices", text, "cpu, cuda, cuda:N, or GPU-… or MIG-… with the beginning of a UUID");
}

std::string SizeText(size_t bytes) {
  std::string_view unit = "B";
  double value = static_cast<double>(bytes);
  for (const auto& [name, size] : kUnits) {
    if (bytes < size) break;
    unit = name;
    value = static_cast<double>(bytes) / static_cast<double>(size);
  }
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), value == std::floor(value) ? "%.0f" : "%.1f", value);
  return StrCat(text.data(), " ", unit);
}

std::optional<int> ParseFlags(int argc, char** argv, std::string_view version_text, DaemonFlags& flags) {
  CLI::App app(
      "tensord: a daemon that owns the memory of this machine's compute devices and lets clients work on it through "
      "gRPC.",
      "tensord");
  app.footer(kExamples);
  app.set_version_flag("--version", std::string(version_text), "Print version, protocol and backends, and exit.");
  const auto add = [&app](const char* flag, auto& value, const char* help) {
    return app.add_option(flag, value, help)->envname(EnvName(flag));
  };

  Limits& limits = flags.server.limits;
  std::string emulate;
  std::vector<std::string> memory_limits;
  std::string lease = "60s";
  std::string grace = "30s";
  std::string shutdown_grace = "5s";
  std::string log_format = "text";
  std::string on_device_loss;
  std::string message_size = "16MiB";
  std::string chunk_size = "4MiB";
  std::string inline_size = "1MiB";

  add("--listen", flags.server.listen,
      "Where to listen: HOST:PORT, [IPV6]:PORT or unix:/path; may be given again. Port 0 takes a free one.")
      ->type_name("ADDRESS")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->capture_default_str()
      ->check([](const std::string& text) { return MessageOf(ParseListenAddress(text)); });
  app.add_flag("--insecure", flags.server.insecure,
               "Allow addresses that other machines reach. There is no encryption and no authentication: whoever "
               "reaches the port owns the devices.")
      ->envname("TENSORD_INSECURE");

  add("--devices", flags.devices,
      "Which devices to take, as cpu,cuda:0 or GPU-5d3f: cuda, cuda:N, or the beginning of a UUID (GPU-… or MIG-…); "
      "may "
      "be given again. cpu is always there; alone, it leaves the GPUs alone. Default: all. CUDA_VISIBLE_DEVICES is "
      "heard first; cuda:N counts by PCI bus id.")
      ->type_name("DEVICE")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->check([](const std::string& text) { return MessageOf(ParseDeviceSelector(text)); })
      ->group("Devices");
  app.add_flag("--allow-tf32", flags.allow_tf32,
               "Let float32 products on CUDA devices round their inputs to TF32 (10 bits of mantissa): faster, less "
               "exact.")
      ->envname("TENSORD_ALLOW_TF32")
      ->group("Devices");
  add("--on-device-loss", on_device_loss,
      "When a device is lost for good: drain (open calls may end within --shutdown-grace) or exit (at once), both with "
      "exit code 75 for a supervisor to start the daemon again; or stay, with the devices that are left. Default: "
      "drain, "
      "and exit where it was the only CUDA device.")
      ->check(CLI::IsMember({"drain", "exit", "stay"}))
      ->group("Devices");
  add("--emulate-cuda", emulate,
      "COUNT emulated CUDA devices of SIZE memory each (1GiB) instead of this host's own: the CUDA backend on an "
      "emulated driver, computed on the CPU and marked emulated.")
      ->type_name("COUNT[:SIZE]")
      ->check([](const std::string& text) { return MessageOf(ParseEmulated(text)); })
      ->group("Devices");
  add("--device-memory-limit", memory_limits,
      "Most memory that the daemon takes on a device, as cpu=8GiB; may be given again. Default for cpu: 80 % of the "
      "smaller of RAM and the cgroup's limit.")
      ->type_name("DEVICE=SIZE")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->check([](const std::string& text) { return MessageOf(ParseMemoryLimit(text)); })
      ->group("Devices");
  add("--threads", flags.threads, "Threads that compute on the CPU; 0: one for each core the process may use.")
      ->type_name("COUNT")
      ->check(CountBetween(0, 4096))
      ->capture_default_str()
      ->group("Devices");
  add("--isa", flags.isa, "Instruction set of the CPU's loops; the best the machine has where not said.")
      ->check(CLI::IsMember({"x86-64-v2", "x86-64-v3", "x86-64-v4"}))
      ->group("Devices");

  add("--lease", lease, "How long a session outlives its last call where its client does not say: 1s to 24h.")
      ->type_name("DURATION")
      ->check(DurationBetween(absl::Seconds(1), absl::Hours(24)))
      ->capture_default_str()
      ->group("Sessions");
  add("--grace", grace,
      "How long a session can be resumed after its stream broke, where its client does not say: 0s to 1h.")
      ->type_name("DURATION")
      ->check(DurationBetween(absl::ZeroDuration(), absl::Hours(1)))
      ->capture_default_str()
      ->group("Sessions");
  add("--shutdown-grace", shutdown_grace, "How long open calls may go on after SIGTERM: 0s to 1h.")
      ->type_name("DURATION")
      ->check(DurationBetween(absl::ZeroDuration(), absl::Hours(1)))
      ->capture_default_str()
      ->group("Sessions");

  const auto bound = [&](const char* flag, auto& value, const char* help, uint64_t least, uint64_t most) {
    add(flag, value, help)
        ->type_name("COUNT")
        ->check(CountBetween(least, most))
        ->capture_default_str()
        ->group("Limits");
  };
  bound("--max-sessions", limits.max_sessions, "Open sessions of a principal, 1 to 4096.", 1, 4096);
  bound("--max-handles", limits.max_handles, "Live handles of a principal, 1 to 2^32.", 1, uint64_t{1} << 32);
  bound("--max-requests", limits.max_requests, "Calls in flight of a principal, streams and watches apart, 1 to 65536.",
        1, 65536);
  bound("--max-transfers", limits.max_transfers, "Uploads and downloads of a session at a time, 1 to 256.", 1, 256);
  bound("--max-connection-streams", flags.server.max_connection_streams,
        "Calls of one connection at a time, 1 to 1024.", 1, 1024);
  const auto size = [&](const char* flag, std::string& value, const char* help, size_t least, size_t most) {
    add(flag, value, help)->type_name("SIZE")->check(SizeBetween(least, most))->capture_default_str()->group("Limits");
  };
  size("--max-message-size", message_size, "One gRPC message, up to 64MiB.", size_t{64} << 10, size_t{64} << 20);
  size("--max-chunk-size", chunk_size, "Payload of one chunk of an upload or download, up to 16MiB.", size_t{4} << 10,
       size_t{16} << 20);
  size("--max-inline-size", inline_size, "Values inside other messages, up to 2MiB.", size_t{1} << 10, size_t{2} << 20);

  add("--log", flags.log.topics,
      "What to log beside start, stop and warnings: rpc (a line for every call), debug; separated by commas.")
      ->type_name("TOPICS")
      ->check([](const std::string& text) {
        return CheckLogTopics(text).ok() ? std::string() : std::string(CheckLogTopics(text).message());
      })
      ->group("Log");
  add("--log-format", log_format, "text, or json: one object a line.")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str()
      ->group("Log");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // 0 for --help and --version, which CLI11 prints itself.
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "tensord: %s\nTry: tensord --help\n", WithoutEcho(error.what()).c_str());
    return 2;
  }

  if (!emulate.empty()) std::tie(flags.emulated_devices, flags.emulated_bytes) = *ParseEmulated(emulate);
  for (const std::string& text : memory_limits) {
    const auto [device, bytes] = *ParseMemoryLimit(text);
    flags.memory_limits[device] = bytes;
  }
  flags.lease = DurationOf(lease);
  flags.grace = DurationOf(grace);
  flags.shutdown_grace = DurationOf(shutdown_grace);
  flags.on_device_loss = on_device_loss == "drain"  ? OnDeviceLoss::kDrain
                         : on_device_loss == "exit" ? OnDeviceLoss::kExit
                         : on_device_loss == "stay" ? OnDeviceLoss::kStay
                                                    : OnDeviceLoss::kDefault;
  flags.log.format = log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  limits.max_message_bytes = *ParseSize(message_size);
  limits.max_chunk_bytes = *ParseSize(chunk_size);
  limits.max_inline_bytes = *ParseSize(inline_size);
  if (limits.max_message_bytes < limits.max_chunk_bytes + (size_t{1} << 10) ||
      limits.max_message_bytes < 2 * limits.max_inline_bytes) {
    std::fprintf(stderr,
                 "tensord: --max-message-size %s is too small for --max-chunk-size %s or twice --max-inline-size "
                 "%s\nTry: tensord --help\n",
                 message_size.c_str(), chunk_size.c_str(), inline_size.c_str());
    return 2;
  }
  return std::nullopt;
}

}  // namespace tensord
