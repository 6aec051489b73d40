// tensorctl over an engine in this process: every command, both output formats, exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/line_reader.h"
#include "client/cli/shape_text.h"
#include "client/cli/shell.h"
#include "kernels/core/error.h"
#include "tests/unit/expr/testing_engine.h"

namespace tensord::cli {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Passes every call on to an engine that lives longer than one command.
class Borrowed : public Engine {
 public:
  explicit Borrowed(Engine& engine) : e_(engine) {}
  absl::StatusOr<OpenSessionResponse> OpenSession(const Caller& c, const OpenSessionRequest& r) override {
    return e_.OpenSession(c, r);
  }
  absl::StatusOr<KeepAliveResponse> KeepAlive(const Caller& c) override { return e_.KeepAlive(c); }
  absl::StatusOr<FreedSession> CloseSession(const Caller& c) override { return e_.CloseSession(c); }
  absl::StatusOr<ListSessionsResponse> ListSessions(const Caller& c, const PageRequest& p) override {
    return e_.ListSessions(c, p);
  }
  absl::StatusOr<FreedSession> KillSession(const Caller& c, const std::string& s) override {
    return e_.KillSession(c, s);
  }
  absl::StatusOr<ListDevicesResponse> ListDevices(const Caller& c, const std::vector<std::string>& d, bool h) override {
    return e_.ListDevices(c, d, h);
  }
  absl::StatusOr<uint64_t> TrimMemory(const Caller& c, const std::vector<std::string>& d) override {
    return e_.TrimMemory(c, d);
  }
  void Execute(const Caller& c, ExecuteRequest r, Done<ExecuteResponse> d) override {
    e_.Execute(c, std::move(r), std::move(d));
  }
  absl::StatusOr<std::unique_ptr<InstructionStream>> OpenStream(const Caller& c,
                                                                std::shared_ptr<StreamListener> l) override {
    return e_.OpenStream(c, std::move(l));
  }
  absl::StatusOr<RegisterProgramResponse> RegisterProgram(const Caller& c, uint64_t id, Program p) override {
    return e_.RegisterProgram(c, id, std::move(p));
  }
  absl::Status UnregisterProgram(const Caller& c, uint64_t id) override { return e_.UnregisterProgram(c, id); }
  absl::StatusOr<std::vector<OpDescription>> ListOps(const Caller& c, const std::string& p) override {
    return e_.ListOps(c, p);
  }
  absl::StatusOr<std::unique_ptr<UploadSink>> Upload(const Caller& c, const UploadStart& s) override {
    return e_.Upload(c, s);
  }
  void Download(const Caller& c, const DownloadRequest& r, Done<std::unique_ptr<DownloadSource>> d) override {
    e_.Download(c, r, std::move(d));
  }
  absl::StatusOr<TensorInfo> GetTensor(const Caller& c, const TensorRef& t) override { return e_.GetTensor(c, t); }
  absl::StatusOr<ListTensorsResponse> ListTensors(const Caller& c, const ListTensorsRequest& r) override {
    return e_.ListTensors(c, r);
  }
  absl::StatusOr<PublishResponse> Publish(const Caller& c, const PublishRequest& r) override {
    return e_.Publish(c, r);
  }
  absl::StatusOr<DeleteTensorsResponse> DeleteTensors(const Caller& c, const DeleteTensorsRequest& r) override {
    return e_.DeleteTensors(c, r);
  }
  void CreateModel(const Caller& c, CreateModelRequest r, Done<ModelInfo> d) override {
    e_.CreateModel(c, std::move(r), std::move(d));
  }
  absl::StatusOr<ModelInfo> GetModel(const Caller& c, const ModelRef& m, bool p) override {
    return e_.GetModel(c, m, p);
  }
  absl::StatusOr<ListModelsResponse> ListModels(const Caller& c, const ListModelsRequest& r) override {
    return e_.ListModels(c, r);
  }
  void UpdateModel(const Caller& c, UpdateModelRequest r, Done<ModelInfo> d) override {
    e_.UpdateModel(c, std::move(r), std::move(d));
  }
  absl::StatusOr<uint64_t> DeleteModel(const Caller& c, const ModelRef& m) override { return e_.DeleteModel(c, m); }

 private:
  Engine& e_;
};

class CliTest : public testing::Test {
 protected:
  CliTest() : engine_(MakeTestingEngine()) {
    std::string pattern = (std::filesystem::temp_directory_path() / "tensorctl-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~CliTest() override { std::filesystem::remove_all(folder_); }

  Context MakeContext() {
    out_.str("");
    err_.str("");
    return Context(
        [this](const std::string&) {
          return absl::StatusOr<std::unique_ptr<Engine>>(std::make_unique<Borrowed>(*engine_));
        },
        out_, err_);
  }

  // Runs one command; returns what it printed, and keeps its exit code.
  std::string Ctl(std::vector<std::string> arguments) {
    Context context = MakeContext();
    arguments.insert(arguments.begin(), "tensorctl");
    std::vector<const char*> argv;
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    code_ = Main(static_cast<int>(argv.size()), argv.data(), context);
    return out_.str() + err_.str();
  }
  json Json(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"-o", "json"});
    return json::parse(Ctl(std::move(arguments)));
  }
  std::string Shell(const std::string& lines, const ShellOptions& options = {}) {
    Context context = MakeContext();
    std::istringstream in(lines);
    const std::unique_ptr<LineReader> reader = MakeStreamReader(in);
    code_ = ExitCode(RunShellOver(context, options, *reader));
    return out_.str() + err_.str();
  }
  std::string File(const std::string& name) const { return folder_ + "/" + name; }

  std::unique_ptr<LocalEngine> engine_;
  std::string folder_;
  std::ostringstream out_, err_;
  int code_ = -1;
};

TEST_F(CliTest, CreateCatListMoveCopyRemove) {
  EXPECT_EQ(Ctl({"create", "X", "--shape", "2,3", "--device", "cuda:0", "--fill", "ones"}),
            "X: float32[2,3] on cuda:0\n");
  EXPECT_EQ(Ctl({"cat", "X"}), "tensor([[1., 1., 1.],\n        [1., 1., 1.]], device='cuda:0')\n");
  EXPECT_EQ(Ctl({"mv", "X", "cpu"}), "X: float32[2,3] on cpu\n");
  EXPECT_EQ(Ctl({"cp", "X", "Y", "--device", "cuda:0"}), "Y: float32[2,3] on cuda:0\n");
  EXPECT_EQ(Ctl({"ls"}), "X\nY\n");
  EXPECT_THAT(Ctl({"ls", "-l"}), AllOf(HasSubstr("NAME"), HasSubstr("float32  [2,3]  cuda:0  24 B   ready")));
  EXPECT_EQ(Ctl({"ls", "Y"}), "Y\n");
  EXPECT_EQ(Ctl({"rm", "X"}), "removed 1 name\n");
  EXPECT_EQ(Ctl({"rm", "--all"}), "removed 1 name\n");
  EXPECT_EQ(Ctl({"ls"}), "");
  EXPECT_EQ(engine_->CountAlive().buffers, 0u);
}

TEST_F(CliTest, CreateFills) {
  EXPECT_EQ(Ctl({"create", "A", "--shape", "()", "--fill", "7", "--dtype", "int64"}), "A: int64[] on cpu\n");
  EXPECT_EQ(Ctl({"cat", "A"}), "tensor(7)\n");
  Ctl({"create", "B", "--shape", "2", "--fill", "-0.5"});
  EXPECT_EQ(Ctl({"cat", "B"}), "tensor([-0.5000, -0.5000])\n");
  Ctl({"create", "C", "--shape", "2", "--dtype", "bool", "--fill", "true"});
  EXPECT_EQ(Ctl({"cat", "C"}), "tensor([True, True])\n");
  Ctl({"create", "R", "--shape", "3", "--fill", "rand", "--seed", "1"});
  Ctl({"create", "S", "--shape", "3", "--fill", "rand", "--seed", "1", "--device", "cuda"});
  EXPECT_EQ(Json({"cat", "R"})["data"], Json({"cat", "S"})["data"]);
}

TEST_F(CliTest, BadShapesAndDtypesAreRefusedBeforeAnythingIsMade) {
  for (const std::string shape : {"2x,3", "1e9", "-1", "2,,3", "2,", ",", "9223372036854775808"}) {
    EXPECT_THAT(Ctl({"create", "X", "--shape=" + shape}), HasSubstr("FIELD_INVALID: --shape is \"" + shape + "\""))
        << shape;
    EXPECT_EQ(code_, 3);
  }
  EXPECT_THAT(Ctl({"create", "X", "--shape", "8589934592,2147483648"}), HasSubstr("SHAPE_INVALID"));
  EXPECT_THAT(Ctl({"create", "X", "--shape", "34695175488228160"}),
              HasSubstr("error RESOURCE_EXHAUSTED MEMORY_EXHAUSTED"));
  EXPECT_EQ(code_, 6);
  EXPECT_THAT(Ctl({"create", "X", "--shape", "2", "--dtype", "float99"}), HasSubstr("DTYPE_UNKNOWN"));
  EXPECT_THAT(Ctl({"create", "X", "--shape", "2", "--fill", "blue"}), HasSubstr("--fill is blue"));
  EXPECT_THAT(Ctl({"create", "X", "--shape", "2", "--device", "cuda:7"}),
              HasSubstr("error NOT_FOUND DEVICE_UNKNOWN: no device cuda:7; there are cpu, cuda:0"));
  EXPECT_EQ(code_, 4);
  EXPECT_EQ(Ctl({"ls"}), "");
}

TEST_F(CliTest, FilesGoUpAndComeBack) {
  Ctl({"run", "X = arange(1000000).reshape(10, 100000).to(float32) / 7"});
  EXPECT_EQ(Ctl({"get", "X", File("x.npy")}), File("x.npy") + ": float32[10,100000], 3.8 MiB\n");
  EXPECT_EQ(Ctl({"put", File("x.npy"), "Y", "--device", "cuda:0"}), "Y: float32[10,100000] on cuda:0, 3.8 MiB\n");
  EXPECT_EQ(Ctl({"run", "(X == Y.cpu()).all()"}), "tensor(True)\n");
  EXPECT_EQ(Ctl({"get", "Y", File("y.bin")}), File("y.bin") + ": float32[10,100000], 3.8 MiB, raw\n");
  EXPECT_EQ(std::filesystem::file_size(File("y.bin")), 4000000u);
  Ctl({"put", File("y.bin"), "Z", "--dtype", "float32", "--shape", "1000000"});
  EXPECT_EQ(Ctl({"run", "(X.flatten() == Z).all()"}), "tensor(True)\n");
  // Refusals leave no name behind.
  EXPECT_THAT(Ctl({"put", File("y.bin"), "W", "--dtype", "float32", "--shape", "999999"}),
              HasSubstr("error INVALID_ARGUMENT"));
  EXPECT_THAT(Ctl({"put", File("y.bin"), "W"}), HasSubstr("FIELD_INVALID: FILE is"));
  EXPECT_THAT(Ctl({"put", File("x.npy"), "W", "--shape", "3"}), HasSubstr("with raw files only"));
  EXPECT_THAT(Ctl({"put", File("none.npy"), "W"}), HasSubstr("error NOT_FOUND"));
  EXPECT_EQ(code_, 4);
  std::ofstream(File("bad.npy")) << "\x93NUMPY\x01";
  EXPECT_THAT(Ctl({"put", File("bad.npy"), "W"}), HasSubstr("error INVALID_ARGUMENT"));
  EXPECT_THAT(Ctl({"put", File("x.npy"), "Y", "-n"}), HasSubstr("error ALREADY_EXISTS NAME_IN_USE"));
  EXPECT_EQ(code_, 5);
  EXPECT_THAT(Ctl({"get", "W", File("w.npy")}), HasSubstr("NAME_UNKNOWN"));
  EXPECT_FALSE(std::filesystem::exists(File("w.npy")));
  EXPECT_EQ(Ctl({"ls"}), "X\nY\nZ\n");
}

TEST_F(CliTest, NamesThatNoCommandMakes) {
  Ctl({"run", "X = ones(2)"});
  Ctl({"get", "X", File("x.npy")});
  for (const std::string name : {"", "_q", "alice/_q", "alice/"}) {
    const std::string reason = name.ends_with("q") ? "FIELD_INVALID: NAME is \"" + name : "NAME_INVALID: \"" + name;
    for (const std::vector<std::string>& command : {std::vector<std::string>{"create", "--shape", "1", "--", name},
                                                    {"put", "--", File("x.npy"), name},
                                                    {"cp", "--", "X", name},
                                                    {"cp", "--device", "cuda:0", "--", "X", name},
                                                    {"mv", "--", name, "cpu"},
                                                    {"model", "create", name, "nn.Linear(1, 1)"}}) {
      EXPECT_THAT(Ctl(command), HasSubstr(reason)) << command[0];
      EXPECT_EQ(code_, 3) << command[0];
    }
  }
  EXPECT_EQ(Ctl({"ls"}), "X\n");
}

TEST_F(CliTest, RawFilesNeedAShape) {
  std::ofstream(File("raw24")) << std::string(24, '\0');
  EXPECT_THAT(Ctl({"put", File("raw24"), "r", "--dtype", "float32"}), HasSubstr("--shape is not given"));
  EXPECT_EQ(code_, 3);
  Ctl({"put", File("raw24"), "r", "--dtype", "float32", "--shape", "6"});
  EXPECT_EQ(code_, 0);
}

// A stream that takes nothing, as /dev/full.
class FullBuffer : public std::streambuf {
 protected:
  int_type overflow(int_type) override { return traits_type::eof(); }
};

TEST_F(CliTest, OutputThatCannotBeWrittenIsAnError) {
  for (const std::vector<const char*>& argv : {std::vector<const char*>{"tensorctl", "devices"},
                                               {"tensorctl", "run", "rand(3)"},
                                               {"tensorctl", "-o", "json", "devices"},
                                               {"tensorctl", "--help"}}) {
    FullBuffer full;
    std::ostream out(&full);
    std::ostringstream err;
    Context context(
        [this](const std::string&) {
          return absl::StatusOr<std::unique_ptr<Engine>>(std::make_unique<Borrowed>(*engine_));
        },
        out, err);
    EXPECT_EQ(Main(static_cast<int>(argv.size()), argv.data(), context), 1);
    EXPECT_THAT(err.str(), HasSubstr("standard output cannot be written"));
  }
}

TEST_F(CliTest, DevicesAsTable) {
  Ctl({"create", "X", "--shape", "1024", "--device", "cuda:0"});
  const std::string table = Ctl({"devices"});
  EXPECT_THAT(table, StartsWith("DEVICE  MODEL"));
  for (const char* head : {"CORES", "UUID", "PCI BUS ID", "DRIVER", "CUDA", "TEMP", "POWER", "UTIL", "LOAD",
                           "MEMORY USED / TOTAL", "HELD"}) {
    EXPECT_THAT(table, HasSubstr(head));
  }
  EXPECT_THAT(table, AllOf(HasSubstr("\ncpu "), HasSubstr("\ncuda:0 "), HasSubstr("(emulated)"), HasSubstr("default/X"),
                           HasSubstr("4 KiB")));
  EXPECT_THAT(Ctl({"devices", "-L"}), HasSubstr("cuda:0: "));
  EXPECT_THAT(Ctl({"devices", "cuda:5"}), HasSubstr("DEVICE_UNKNOWN"));
}

TEST_F(CliTest, DevicesAsJson) {
  Ctl({"create", "X", "--shape", "1024", "--device", "cuda:0"});
  const json devices = Json({"devices"})["devices"];
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[1]["name"], "cuda:0");
  EXPECT_EQ(devices[1]["emulated"], true);
  EXPECT_EQ(devices[1]["held_bytes"], 4096);
  EXPECT_EQ(devices[1]["telemetry"]["power_watts"], nullptr);
  EXPECT_EQ(devices[1]["holders"][0]["name"], "default/X");
  EXPECT_EQ(devices[1]["holders"][0]["bytes"], 4096);
  EXPECT_EQ(devices[0]["name"], "cpu");
}

TEST_F(CliTest, RunPrintsValuesAndPublishes) {
  EXPECT_EQ(Ctl({"run", "X = ones(2); X + 1"}), "tensor([2., 2.])\n");
  EXPECT_EQ(Ctl({"run", "X * 3"}), "tensor([3., 3.])\n");
  EXPECT_THAT(
      Ctl({"run", "X +"}),
      AllOf(StartsWith(
          "error INVALID_ARGUMENT EXPRESSION_INVALID: line 1, column 4: expected an expression, found end of line\n"
          "    X +\n       ^\nnext: ")));
  EXPECT_EQ(code_, 3);
}

TEST_F(CliTest, JsonIsStrict) {
  Ctl({"run", "X = tensor([nan, inf, -inf, 6e-7, -0.0, 1e30, 0.1])"});
  const json x = Json({"cat", "X"});
  EXPECT_EQ(x["dtype"], "float32");
  EXPECT_EQ(x["shape"], json::array({7}));
  EXPECT_EQ(x["data"][0], "NaN");
  EXPECT_EQ(x["data"][2], "-Infinity");
  EXPECT_EQ(static_cast<float>(x["data"][6].get<double>()), 0.1f);
  EXPECT_TRUE(std::signbit(x["data"][4].get<double>()));
  EXPECT_EQ(Json({"run", "tensor([9007199254740993])"})["data"][0].get<int64_t>(), 9007199254740993);
  EXPECT_EQ(Json({"ls"})["tensors"][0]["names"][0], "default/X");
  // Errors are JSON, too, on the error stream.
  const json error = Json({"cat", "a\"b\nc"})["error"];
  EXPECT_EQ(out_.str(), "");
  EXPECT_EQ(error["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(error["reason"], "NAME_INVALID");
  EXPECT_EQ(code_, 3);
  EXPECT_EQ(Json({"run", "1 +"})["error"]["metadata"]["column"], "4");
  EXPECT_EQ(Json({"frobnicate"})["error"]["reason"], "USAGE");
  EXPECT_EQ(code_, kExitUsage);
}

TEST_F(CliTest, Models) {
  EXPECT_THAT(Ctl({"model", "create", "net", "nn.Sequential(nn.Linear(3, 2))", "--seed", "4", "--device", "cuda:0"}),
              AllOf(HasSubstr("names: default/net"), HasSubstr("0.weight"), HasSubstr("[2,3]")));
  EXPECT_THAT(Ctl({"model", "ls"}), HasSubstr("net"));
  EXPECT_THAT(Ctl({"model", "show", "net"}), HasSubstr("devices: cuda:0"));
  Ctl({"create", "X", "--shape", "5,3", "--device", "cuda:0"});
  EXPECT_EQ(Ctl({"model", "forward", "net", "X", "--out", "Y"}), "Y: float32[5,2] on cuda:0\n");
  EXPECT_THAT(Ctl({"model", "forward", "net", "X"}), StartsWith("tensor([["));
  EXPECT_THAT(Ctl({"mv", "net", "cpu"}), HasSubstr("net: model on cpu"));
  EXPECT_THAT(Ctl({"model", "forward", "net", "X"}), HasSubstr("error FAILED_PRECONDITION DEVICE_MISMATCH"));
  EXPECT_EQ(code_, 5);
  Ctl({"run", "W = ones(1, 3)"});
  EXPECT_THAT(Ctl({"model", "create", "one", "nn.Linear(3, 1, bias=False)", "--param", "weight=W"}),
              HasSubstr("weight"));
  EXPECT_EQ(Ctl({"run", "one(full((1, 3), 2.0))"}), "tensor([[6.]])\n");
  EXPECT_THAT(Ctl({"model", "create", "bad", "nn.Linear(3"}), HasSubstr("EXPRESSION_INVALID"));
  EXPECT_THAT(Ctl({"model", "create", "bad", "nn.Linaer(3, 1)"}), HasSubstr("LAYER_INVALID"));
  EXPECT_EQ(Ctl({"model", "rm", "net", "one"}), "removed 2 models\n");
}

TEST_F(CliTest, Explain) {
  EXPECT_THAT(Ctl({"explain", "DEVICE_MISMATCH"}),
              AllOf(HasSubstr("code: FAILED_PRECONDITION"), HasSubstr("next: move one operand first")));
  EXPECT_THAT(Ctl({"explain", "device-mismatch"}), HasSubstr("DEVICE_MISMATCH"));
  EXPECT_THAT(Ctl({"explain", "EXPRESSION_INVALID"}), HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(Ctl({"explain", "DEVICE_MISSMATCH"}), HasSubstr("nearest: DEVICE_MISMATCH"));
  EXPECT_EQ(code_, 4);
  for (const ErrorRow& row : ErrorRows()) {
    EXPECT_EQ(Json({"explain", std::string(row.name)})["advice"], std::string(row.advice));
  }
  EXPECT_EQ(Json({"explain"})["reasons"].size(), ErrorRows().size());
}

TEST_F(CliTest, Information) {
  EXPECT_THAT(Ctl({"ping"}), HasSubstr("answers in"));
  EXPECT_EQ(Json({"version"})["client"], Json({"version"})["daemon"]);
  EXPECT_THAT(Ctl({"ops", "softmax"}),
              AllOf(HasSubstr("softmax(x, axes)"), HasSubstr("cpu: float16 bfloat16 float32 float64")));
  EXPECT_THAT(Ctl({"ops"}), HasSubstr("matmul"));
  EXPECT_EQ(Json({"ops"})["ops"].size(), static_cast<size_t>(kOpCount));
  EXPECT_THAT(Ctl({"sessions"}), HasSubstr("SESSION"));
  EXPECT_THAT(
      Ctl({"tutorial"}),
      StartsWith("x.cpu() moves a tensor to the *daemon's* CPU. `tensorctl get NAME FILE.npy` brings it home."));
}

TEST_F(CliTest, HelpAndUsage) {
  EXPECT_THAT(Ctl({"--help"}), AllOf(HasSubstr("Examples:"), HasSubstr("tensorctl put"), HasSubstr("Exit codes:")));
  EXPECT_EQ(code_, 0);
  EXPECT_THAT(Ctl({"put", "--help"}), HasSubstr("Examples:"));
  EXPECT_THAT(Ctl({"shell", "--help"}), HasSubstr("x.cpu() moves a tensor"));
  EXPECT_THAT(Ctl({}), HasSubstr("error "));
  EXPECT_EQ(code_, kExitUsage);
  Ctl({"rm"});
  EXPECT_EQ(code_, kExitUsage);
  EXPECT_THAT(Ctl({"-w", "alice", "lss", "-l"}), StartsWith("error no command is called lss; nearest: ls"));
  EXPECT_EQ(code_, kExitUsage);
  EXPECT_THAT(Ctl({"nosuchcommand"}), StartsWith("error no command is called nosuchcommand"));
  EXPECT_THAT(Ctl({"model", "shwo", "net"}), StartsWith("error no command is called model shwo; nearest: show"));
  EXPECT_THAT(Ctl({"rm", "nosuch"}), StartsWith("error NOT_FOUND NAME_UNKNOWN"));
  Ctl({"-o", "xml", "ls"});
  EXPECT_EQ(code_, kExitUsage);
}

TEST_F(CliTest, WorkspacesKeepNamesApart) {
  Ctl({"-w", "alice", "create", "X", "--shape", "1"});
  Ctl({"-w", "alice", "run", "Y = X + 1"});
  EXPECT_EQ(Ctl({"-w", "alice", "ls"}), "X\nY\n");
  EXPECT_EQ(Ctl({"ls"}), "");
  EXPECT_EQ(Ctl({"-w", "alice", "cat", "Y"}), "tensor([1.])\n");
  EXPECT_EQ(Ctl({"cat", "alice/Y"}), "tensor([1.])\n");
  EXPECT_EQ(Ctl({"-w", "alice", "rm", "--all"}), "removed 2 names\n");
}

TEST_F(CliTest, ShellRunsOnAfterAnError) {
  const std::string text = Shell("X = ones(2)\nX + ones(3)\nX\n");
  EXPECT_THAT(text, StartsWith("error INVALID_ARGUMENT SHAPE_MISMATCH: add: shapes [2] and [3]"));
  EXPECT_THAT(
      text, testing::EndsWith("\nnext: reshape or expand an operand so that the named axis fits\ntensor([1., 1.])\n"));
  EXPECT_EQ(code_, 0);
  EXPECT_THAT(Shell("ones(2) +\n1\n", {.strict = true}), HasSubstr("EXPRESSION_INVALID"));
  EXPECT_EQ(code_, 3);
}

TEST_F(CliTest, ShellTakesPastesAndLinesThatGoOn) {
  EXPECT_EQ(Shell(">>> X = tensor([[1, 2],\n...             [3, 4]])\n>>> X.sum()\n>>>\n"), "tensor(10)\n");
  EXPECT_EQ(Shell("X.sum(\n  axis=0\n)\n"), "tensor([4, 6])\n");
  EXPECT_EQ(Shell("1\nexit\n2\n"), "1\n");
  EXPECT_THAT(Shell("help\n"), HasSubstr("x.cpu() moves a tensor to the *daemon's* CPU"));
  EXPECT_EQ(Shell("1 + 1\r\n", {.echo = true}), ">>> 1 + 1\n2\n");
  EXPECT_THAT(Shell("ones(2,\n"), HasSubstr("expected"));
  EXPECT_THAT(Shell("[1, 2\n"), HasSubstr("expected"));
}

TEST_F(CliTest, ShellGoesOnAfterOpenBracketsThatCannotClose) {
  EXPECT_THAT(Shell("x = (1,\nones(2]\n1 + 1\n2 + 2\n"),
              AllOf(StartsWith("error INVALID_ARGUMENT EXPRESSION_INVALID: line 2"), testing::EndsWith("\n2\n4\n")));
  EXPECT_THAT(Shell("[1,2\ny = 3\n1 + 1\n"), AllOf(HasSubstr("found 'y'"), testing::EndsWith("\n2\n")));
  EXPECT_THAT(Shell("f(\n)]\n1 + 1\n"), AllOf(HasSubstr("error "), testing::EndsWith("\n2\n")));
  Shell("f(\n", {.strict = true});
  EXPECT_EQ(code_, 3);
}

TEST(Format, Texts) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText(uint64_t{64} << 30), "64 GiB");
  EXPECT_EQ(Table({{"A", "BB"}, {"ccc", "d"}}), "A    BB\nccc  d\n");
  EXPECT_EQ(Table({{"a\x1b[31m"}}), "a?[31m\n");  // a name cannot steer the terminal
  EXPECT_EQ(StripPrompt(">>> x"), "x");
  EXPECT_EQ(StripPrompt("... x"), "x");
  EXPECT_EQ(StripPrompt("...x"), "...x");
  EXPECT_EQ(*ParseShape("2, 3"), (Dims{2, 3}));
  EXPECT_EQ(*ParseShape("(2,)"), (Dims{2}));
  EXPECT_EQ(*ParseShape("()"), Dims());
}

TEST(Format, ExitCodesByClass) {
  EXPECT_EQ(ExitCode(absl::OkStatus()), 0);
  for (const ErrorRow& row : ErrorRows()) {
    const int code = ExitCode(absl::Status(row.code, ""));
    EXPECT_GE(code, 1) << row.name;
    EXPECT_NE(code, kExitUsage) << row.name;
  }
}

}  // namespace
}  // namespace tensord::cli
