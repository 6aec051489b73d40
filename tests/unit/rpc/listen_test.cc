// Reading and judging addresses, and what stands in the way of a socket.
#include "server/rpc/listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "tests/unit/rpc/fixture.h"

namespace tensord::testing {
namespace {

using ::testing::HasSubstr;

TEST(ParseListenAddress, TellsLoopbackFromTheRest) {
  const auto loopback = [](std::string_view text) {
    const absl::StatusOr<ListenAddress> address = ParseListenAddress(text);
    EXPECT_TRUE(address.ok()) << address.status();
    return address.ok() && address->loopback;
  };
  for (const char* text : {"localhost:7070", "127.0.0.1:7070", "127.255.3.4:1", "[::1]:7070", "unix:/run/t.sock",
                           "unix:///run/t.sock", "unix:t.sock"}) {
    EXPECT_TRUE(loopback(text)) << text;
  }
  for (const char* text :
       {"0.0.0.0:7070", "[::]:7070", "192.168.1.2:7070", "gpu-server:7070", "127.0.0.1.example.com:7070",
        "128.0.0.1:7070", "[::ffff:127.0.0.1]:7070", "localhost.example.com:7070", "127.1:7070"}) {
    EXPECT_FALSE(loopback(text)) << text;
  }
}

TEST(ParseListenAddress, KeepsTheParts) {
  const absl::StatusOr<ListenAddress> v6 = ParseListenAddress("[fe80::1]:65535");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->host, "fe80::1");
  EXPECT_EQ(v6->port, 65535);
  EXPECT_EQ(v6->ToString(), "[fe80::1]:65535");
  const absl::StatusOr<ListenAddress> path = ParseListenAddress("unix:///run/t.sock");
  ASSERT_TRUE(path.ok());
  EXPECT_EQ(path->path, "/run/t.sock");
  EXPECT_EQ(path->ToString(), "unix:/run/t.sock");
}

TEST(ParseListenAddress, RefusesWhatCannotBeMeant) {
  for (const char* text : {"", "7070", "localhost", ":7070", "localhost:", "localhost:65536", "localhost:-1",
                           "localhost:70x", "::1:7070", "[::1]", "[::g]:1", "[1.2.3.4]:1", "http://localhost:1",
                           "unix:", "unix:/tmp/", "unix-abstract:t", "unix:@t", "vsock:1:2", "a b:1"}) {
    const absl::StatusOr<ListenAddress> address = ParseListenAddress(text);
    EXPECT_EQ(ReasonOf(address.status()), Reason::kFieldInvalid) << text << ": " << address.status();
  }
  EXPECT_THAT(std::string(ParseListenAddress("unix-abstract:t").status().message()), HasSubstr("abstract"));
}

TEST(ParseListenAddress, BoundsTheSocketPath) {
  const std::string longest = "/" + std::string(kMaxSocketPath - 1, 'p');
  EXPECT_TRUE(ParseListenAddress("unix:" + longest).ok());
  const absl::Status status = ParseListenAddress("unix:" + longest + "p").status();
  EXPECT_EQ(ReasonOf(status), Reason::kLimitExceeded);
  EXPECT_EQ(DetailsOf(status).Get("maximum"), "107");
  EXPECT_EQ(DetailsOf(status).Get("value"), "108");
}

TEST(RefuseExposed, SaysWhyAndWhatToDo) {
  const ListenAddress everywhere = *ParseListenAddress("0.0.0.0:7070");
  const absl::Status status = RefuseExposed(everywhere, /*insecure=*/false);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("0.0.0.0:7070"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--insecure"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no encryption"));
  EXPECT_TRUE(RefuseExposed(everywhere, /*insecure=*/true).ok());
  EXPECT_TRUE(RefuseExposed(*ParseListenAddress("localhost:7070"), /*insecure=*/false).ok());
}

class ProbeTest : public ::testing::Test {
 protected:
  ListenAddress At(const std::string& name) { return *ParseListenAddress("unix:" + folder_.path() + "/" + name); }
  // Leaves a socket file; the descriptor says whether somebody answers on it.
  int MakeSocket(const std::string& name, bool listening) {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder_.path() + "/" + name;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_TRUE(!listening || listen(fd, 1) == 0);
    return fd;
  }
  std::string Refusal(const ListenAddress& address) {
    const absl::Status status = ProbeListenAddress(address).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    return std::string(status.message());
  }
  TempFolder folder_;
};

TEST_F(ProbeTest, TakesAFreePath) { EXPECT_TRUE(ProbeListenAddress(At("s")).ok()); }

TEST_F(ProbeTest, ReplacesAStaleSocket) {
  close(MakeSocket("s", /*listening=*/true));
  EXPECT_TRUE(ProbeListenAddress(At("s")).ok());
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/s"));
}

TEST_F(ProbeTest, LeavesALiveSocketAlone) {
  const int fd = MakeSocket("s", /*listening=*/true);
  EXPECT_THAT(Refusal(At("s")), HasSubstr("another daemon answers there"));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/s"));
  close(fd);
}

TEST_F(ProbeTest, LeavesAFileAlone) {
  std::ofstream(folder_.path() + "/s") << "precious";
  EXPECT_THAT(Refusal(At("s")), HasSubstr("no socket"));
  std::string text;
  std::ifstream(folder_.path() + "/s") >> text;
  EXPECT_EQ(text, "precious");
}

TEST_F(ProbeTest, NamesAFolderThatIsNotThere) { EXPECT_THAT(Refusal(At("none/s")), HasSubstr("No such file")); }

TEST_F(ProbeTest, NamesAFolderThatMayNotBeWritten) {
  // Root may write everywhere, so it is nobody for a moment.
  const uid_t before = geteuid();
  chmod(folder_.path().c_str(), before == 0 ? 0755 : 0555);
  ASSERT_TRUE(before != 0 || seteuid(65534) == 0);
  const std::string refusal = Refusal(At("s"));
  ASSERT_TRUE(before != 0 || seteuid(before) == 0);
  chmod(folder_.path().c_str(), 0700);
  EXPECT_THAT(refusal, HasSubstr("Permission denied"));
}

TEST_F(ProbeTest, NamesATakenPort) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string text = StrCat("127.0.0.1:", ntohs(address.sin_port));
  EXPECT_THAT(Refusal(*ParseListenAddress(text)), HasSubstr("another process listens there"));
  close(fd);
  EXPECT_TRUE(ProbeListenAddress(*ParseListenAddress(text)).ok());
}

TEST_F(ProbeTest, NamesAnAddressOfAnotherMachine) {
  EXPECT_THAT(Refusal(*ParseListenAddress("192.0.2.1:7070")), HasSubstr("no such address"));
}

}  // namespace
}  // namespace tensord::testing
