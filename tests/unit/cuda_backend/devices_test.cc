// Which devices a daemon takes, and which plugins it does not.
#include "server/devices.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "kernels/core/error.h"
#include "kernels/cuda/plugin/loader.h"
#include "tests/unit/cuda_backend/harness.h"

namespace tensord::testing {
namespace {

using Indices = std::vector<size_t>;

const std::vector<CandidateDevice> kCandidates = {{{DeviceKind::kCuda, 0}, "GPU-0f11aaaa-0000-0000-0000-000000000000"},
                                                  {{DeviceKind::kCuda, 1}, "GPU-0f22bbbb-0000-0000-0000-000000000000"},
                                                  {{DeviceKind::kCuda, 2}, "MIG-77cc0000-0000-0000-0000-000000000000"}};

TEST(SelectDevices, ByNameUuidAndKind) {
  const auto select = [](const std::vector<std::string>& selectors) {
    return Must(SelectDevices(selectors, kCandidates));
  };
  EXPECT_EQ(select({}), (Indices{0, 1, 2}));
  EXPECT_EQ(select({"cpu"}), Indices{});
  EXPECT_EQ(select({"cuda"}), (Indices{0, 1, 2}));
  EXPECT_EQ(select({"cpu", "cuda:1"}), (Indices{1}));
  EXPECT_EQ(select({"cuda:2", "cuda:0", "cuda:0"}), (Indices{0, 2}));
  EXPECT_EQ(select({"GPU-0f22"}), (Indices{1}));
  EXPECT_EQ(select({"MIG-77", "GPU-0f11aaaa-0000-0000-0000-000000000000"}), (Indices{0, 2}));
}

TEST(SelectDevices, WhatIsNotThereIsNamedWithWhatIs) {
  for (const char* selector : {"cuda:3", "GPU-0f33", "MIG-0f11"}) {
    const absl::Status status = SelectDevices({"cpu", selector}, kCandidates).status();
    EXPECT_EQ(ReasonOf(status), Reason::kDeviceUnknown);
    EXPECT_EQ(DetailsOf(status).Get("device"), selector);
    EXPECT_NE(DetailsOf(status).Get("known").find("cuda:1 (GPU-0f22bbbb-"), std::string_view::npos) << status;
  }
  const absl::Status ambiguous = SelectDevices({"GPU-0f"}, kCandidates).status();
  EXPECT_EQ(ReasonOf(ambiguous), Reason::kDeviceUnknown);
  EXPECT_EQ(DetailsOf(ambiguous).Get("device"), "GPU-0f (2 have it)");
  EXPECT_EQ(ReasonOf(SelectDevices({"cuda"}, {}).status()), Reason::kDeviceUnknown);
  EXPECT_EQ(Must(SelectDevices({"cpu"}, {})), Indices{});
}

TEST(SelectDevices, CpuAloneLeavesTheGpusAlone) {
  EXPECT_TRUE(WantsCuda({}));
  EXPECT_TRUE(WantsCuda({"cpu", "cuda:0"}));
  EXPECT_FALSE(WantsCuda({"cpu"}));
  EXPECT_FALSE(WantsCuda({"cpu", "cpu"}));
}

TEST(Flags, DeviceSelectors) {
  for (const char* good : {"cpu", "cuda", "cuda:0", "cuda:17", "GPU-0", "MIG-0f11aaaa-0000-0000-0000-00000000000A"}) {
    EXPECT_EQ(Must(ParseDeviceSelector(good)), good);
  }
  for (const char* bad :
       {"", "gpu", "cuda:", "cuda:x", "GPU-", "GPU-xyz", "0", "GPU-0f11aaaa-0000-0000-0000-0000000000000000"}) {
    EXPECT_EQ(ReasonOf(ParseDeviceSelector(bad).status()), Reason::kFieldInvalid) << bad;
  }
}

TEST(MakeDevices, TakesTheEmulatedOnesThatAreNamed) {
  DaemonFlags flags;
  flags.emulated_devices = 3;
  flags.emulated_bytes = size_t{1} << 20;
  flags.devices = {"cuda:2"};
  flags.memory_limits[{DeviceKind::kCuda, 2}] = 4096;
  const std::vector<EngineDevice> devices = Must(MakeDevices(flags));
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].backend->Info().id.ToString(), "cpu");
  EXPECT_EQ(devices[1].backend->Info().id.ToString(), "cuda:2");
  EXPECT_EQ(devices[1].stack.back()->Stats().limit, 4096);
  flags.devices = {"cuda:3"};
  EXPECT_EQ(ReasonOf(MakeDevices(flags).status()), Reason::kDeviceUnknown);
}

class PluginTest : public ::testing::Test {
 protected:
  static cuda::LoadedPlugin Load(const std::string& folder) {
    setenv("TENSORD_PLUGIN_DIR", folder.c_str(), 1);
    cuda::LoadedPlugin loaded = cuda::LoadCudaPlugin();
    unsetenv("TENSORD_PLUGIN_DIR");
    return loaded;
  }
  static void ExpectRefused(const std::string& folder, const std::string& text) {
    const cuda::LoadedPlugin loaded = Load(folder);
    EXPECT_EQ(loaded.plugin, nullptr);
    EXPECT_FALSE(loaded.absent);
    EXPECT_NE(loaded.why.find(text), std::string::npos) << loaded.why;
    EXPECT_NE(loaded.why.find(folder), std::string::npos) << loaded.why;
  }
};

TEST_F(PluginTest, OfAnotherBuildIsRefusedByName) {
  ExpectRefused(PLUGIN_FOLDER "/abi", "has plugin interface 99, this daemon 1");
  ExpectRefused(PLUGIN_FOLDER "/build", std::string("is of build 0.0.0-other, this daemon of ") + cuda::CudaBuildId());
  ExpectRefused(PLUGIN_FOLDER "/none", "is no plugin of tensord");
}

TEST_F(PluginTest, ThatIsNoLibraryIsRefused) {
  std::string folder = (std::filesystem::temp_directory_path() / "tensord-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::ofstream(folder + "/libtensord_cuda.so") << "not a library";
  ExpectRefused(folder, "libtensord_cuda.so");
  std::filesystem::remove_all(folder);
}

TEST_F(PluginTest, ThatIsNotThereIsNoFailure) {
  const cuda::LoadedPlugin loaded = Load("/nonexistent");
  EXPECT_EQ(loaded.plugin, nullptr);
  EXPECT_TRUE(loaded.absent);
  EXPECT_EQ(loaded.why, "no plugin libtensord_cuda.so in /nonexistent");
}

}  // namespace
}  // namespace tensord::testing
