// Command line, environment, log lines.
#include "server/flags.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/core/error.h"
#include "server/observe/log.h"

namespace tensord {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  std::optional<int> code;
  DaemonFlags flags;
  std::string out;
  std::string err;
};

Parsed Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "tensord");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  Parsed parsed;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  parsed.code = ParseFlags(static_cast<int>(argv.size()), argv.data(), "tensord 9.9.9", parsed.flags);
  parsed.out = ::testing::internal::GetCapturedStdout();
  parsed.err = ::testing::internal::GetCapturedStderr();
  return parsed;
}

TEST(Flags, Defaults) {
  const Parsed parsed = Parse({});
  EXPECT_EQ(parsed.code, std::nullopt);
  EXPECT_THAT(parsed.flags.server.listen, ElementsAre("localhost:7070"));
  EXPECT_FALSE(parsed.flags.server.insecure);
  EXPECT_EQ(parsed.flags.emulated_devices, 0u);
  EXPECT_EQ(parsed.flags.shutdown_grace, absl::Seconds(5));
  EXPECT_EQ(parsed.flags.server.limits.max_message_bytes, Limits{}.max_message_bytes);
  EXPECT_EQ(parsed.flags.server.limits.max_chunk_bytes, Limits{}.max_chunk_bytes);
  EXPECT_EQ(parsed.flags.server.limits.max_inline_bytes, Limits{}.max_inline_bytes);
}

TEST(Flags, EveryKindOfValue) {
  const Parsed parsed = Parse({"--listen",
                               "localhost:0",
                               "--listen=unix:/tmp/t.sock",
                               "--emulate-cuda=2:64MiB",
                               "--device-memory-limit",
                               "cpu=1.5GiB",
                               "--device-memory-limit",
                               "cuda:1=10MiB",
                               "--threads",
                               "3",
                               "--isa",
                               "x86-64-v3",
                               "--lease",
                               "1m30s",
                               "--grace",
                               "0s",
                               "--shutdown-grace",
                               "250ms",
                               "--max-handles",
                               "4294967296",
                               "--max-chunk-size",
                               "1MiB",
                               "--log",
                               "rpc,debug",
                               "--log-format",
                               "json"});
  ASSERT_EQ(parsed.code, std::nullopt) << parsed.err;
  EXPECT_THAT(parsed.flags.server.listen, ElementsAre("localhost:0", "unix:/tmp/t.sock"));
  EXPECT_EQ(parsed.flags.emulated_devices, 2u);
  EXPECT_EQ(parsed.flags.emulated_bytes, size_t{64} << 20);
  EXPECT_EQ(parsed.flags.memory_limits.at(DeviceId{}), size_t{3} << 29);
  EXPECT_EQ(parsed.flags.memory_limits.at(DeviceId{DeviceKind::kCuda, 1}), size_t{10} << 20);
  EXPECT_EQ(parsed.flags.threads, 3);
  EXPECT_EQ(parsed.flags.isa, "x86-64-v3");
  EXPECT_EQ(parsed.flags.lease, absl::Seconds(90));
  EXPECT_EQ(parsed.flags.grace, absl::ZeroDuration());
  EXPECT_EQ(parsed.flags.shutdown_grace, absl::Milliseconds(250));
  EXPECT_EQ(parsed.flags.server.limits.max_handles, uint64_t{1} << 32);
  EXPECT_EQ(parsed.flags.server.limits.max_chunk_bytes, size_t{1} << 20);
  EXPECT_EQ(parsed.flags.log.topics, "rpc,debug");
  EXPECT_EQ(parsed.flags.log.format, LogFormat::kJson);
}

TEST(Flags, EnvironmentIsTheDefaultAndTheCommandLineWins) {
  setenv("TENSORD_EMULATE_CUDA", "3", 1);
  setenv("TENSORD_LISTEN", "localhost:1,unix:/tmp/t.sock", 1);
  setenv("TENSORD_INSECURE", "1", 1);
  setenv("TENSORD_LOG", "rpc", 1);
  const Parsed parsed = Parse({});
  const Parsed won = Parse({"--emulate-cuda", "1"});
  for (const char* name : {"TENSORD_EMULATE_CUDA", "TENSORD_LISTEN", "TENSORD_INSECURE", "TENSORD_LOG"}) unsetenv(name);
  EXPECT_EQ(parsed.flags.emulated_devices, 3u);
  EXPECT_EQ(parsed.flags.emulated_bytes, size_t{1} << 30);
  EXPECT_THAT(parsed.flags.server.listen, ElementsAre("localhost:1", "unix:/tmp/t.sock"));
  EXPECT_TRUE(parsed.flags.server.insecure);
  EXPECT_EQ(parsed.flags.log.topics, "rpc");
  EXPECT_EQ(won.flags.emulated_devices, 1u);
}

TEST(Flags, MistakesAreNamedAndExitTwo) {
  const auto message = [](std::vector<std::string> arguments) {
    const Parsed parsed = Parse(std::move(arguments));
    EXPECT_EQ(parsed.code, 2);
    EXPECT_EQ(parsed.out, "");
    EXPECT_THAT(parsed.err, HasSubstr("tensord --help"));
    return parsed.err;
  };
  EXPECT_THAT(message({"--listn", "x"}), HasSubstr("--listn"));
  EXPECT_THAT(message({"--listen", "7070"}), HasSubstr("HOST:PORT"));
  EXPECT_THAT(message({"--emulate-cuda", "2:64MB"}), HasSubstr("KiB, MiB, GiB"));
  EXPECT_THAT(message({"--emulate-cuda", "-1"}), HasSubstr("COUNT"));
  EXPECT_THAT(message({"--emulate-cuda", "65"}), HasSubstr("64"));
  EXPECT_THAT(message({"--device-memory-limit", "tpu:0=1GiB"}), HasSubstr("DEVICE=SIZE"));
  EXPECT_THAT(message({"--lease", "25h"}), HasSubstr("24h"));
  EXPECT_THAT(message({"--lease", "60"}), HasSubstr("30s"));
  EXPECT_THAT(message({"--max-chunk-size", "17MiB"}), HasSubstr("16 MiB"));
  EXPECT_THAT(message({"--max-message-size", "1MiB"}), HasSubstr("--max-chunk-size"));
  EXPECT_THAT(message({"--isa", "avx2"}), HasSubstr("x86-64-v3"));
  EXPECT_THAT(message({"--log", "everything"}), HasSubstr("rpc"));
  EXPECT_THAT(message({"stray"}), HasSubstr("stray"));
}

TEST(Flags, HelpTeachesAndVersionTells) {
  const Parsed help = Parse({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("--emulate-cuda"));
  EXPECT_THAT(help.out, HasSubstr("Examples:"));
  EXPECT_THAT(help.out, HasSubstr("TENSORD_SHUTDOWN_GRACE"));
  const Parsed version = Parse({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, HasSubstr("tensord 9.9.9"));
}

TEST(Sizes, ReadAndWritten) {
  EXPECT_EQ(*ParseSize("1"), 1u);
  EXPECT_EQ(*ParseSize("0.5KiB"), 512u);
  EXPECT_EQ(*ParseSize("2TiB"), size_t{2} << 40);
  for (const char* bad : {"", "KiB", "0", "-1", "1e3", "nan", "1 MiB", "1MB", "99999999999TiB"})
    EXPECT_FALSE(ParseSize(bad).ok()) << bad;
  EXPECT_EQ(SizeText(512), "512 B");
  EXPECT_EQ(SizeText(size_t{64} << 20), "64 MiB");
  EXPECT_EQ(SizeText(size_t{3} << 29), "1.5 GiB");
}

TEST(Log, ALineIsQuotedWhereItMustBe) {
  EXPECT_EQ(FormatEvent(LogFormat::kText, "call", {{"method", "Tensors/Get"}, {"why", "two words"}, {"none", ""}}),
            "call method=Tensors/Get why=\"two words\"");
  EXPECT_EQ(FormatEvent(LogFormat::kText, "call", {{"peer", "a\nb=\"c\""}}), R"(call peer="a\nb=\"c\"")");
  EXPECT_EQ(FormatEvent(LogFormat::kJson, "call", {{"why", "two \"words\""}, {"none", ""}}),
            R"("event":"call","why":"two \"words\"","none":"")");
  EXPECT_EQ(FormatEvent(LogFormat::kJson, "x", {{"bad", "\xff"}}), R"("event":"x","bad":"\ufffd")");
}

TEST(Log, CallsShowWithTheTopicAndFaultsAlways) {
  const auto log = [](const absl::Status& status) {
    ::testing::internal::CaptureStderr();
    LogCall({.method = "Tensors/GetTensor",
             .session = "5d1c90aa7e03f2b4",
             .peer = "unix:",
             .status = status,
             .duration = absl::Milliseconds(2)});
    return ::testing::internal::GetCapturedStderr();
  };
  const absl::Status unknown = Error(Reason::kHandleUnknown).With("id", 4).With("kind", "tensor");
  ASSERT_TRUE(ConfigureLog({}).ok());
  EXPECT_EQ(log(unknown), "");
  EXPECT_THAT(log(Error(Reason::kInternal).With("id", "7")), HasSubstr("warning call method=Tensors/GetTensor"));
  ASSERT_TRUE(ConfigureLog({.format = LogFormat::kText, .topics = "rpc"}).ok());
  EXPECT_THAT(log(unknown), HasSubstr("info call method=Tensors/GetTensor session=5d1c90aa7e03f2b4 peer=unix: "
                                      "code=NOT_FOUND reason=HANDLE_UNKNOWN ms=2 message=\"no tensor has handle 4\""));
  ASSERT_TRUE(ConfigureLog({.format = LogFormat::kJson, .topics = "rpc"}).ok());
  EXPECT_THAT(log(absl::OkStatus()),
              ::testing::MatchesRegex(
                  R"(\{"time":"[0-9T:.-]+Z","level":"info","event":"call",.*"code":"OK","reason":"-","ms":"2",.*\}.)"));
  EXPECT_EQ(ReasonOf(ConfigureLog({.format = LogFormat::kText, .topics = "all"})), Reason::kFieldInvalid);
  ASSERT_TRUE(ConfigureLog({}).ok());
}

}  // namespace
}  // namespace tensord
