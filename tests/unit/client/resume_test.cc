// A connection that breaks is taken up again: the session's handles, its order, its reads and its transfers survive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/client/daemon.h"

namespace td = tensord::client;

namespace tensord::testing {
namespace {

using ::testing::ElementsAre;

class ResumeTest : public ::testing::Test {
 protected:
  td::Client Connect(absl::Duration grace = absl::Seconds(60)) {
    absl::StatusOr<td::Client> client = td::Client::connect({.server = wire_.address(), .grace = grace});
    EXPECT_TRUE(client.ok()) << client.status();
    return *client;
  }

  Daemon daemon_;
  Wire wire_{daemon_.address()};
};

TEST_F(ResumeTest, HandlesAndOrderSurvive) {
  const td::Client client = Connect();
  td::Tensor x = client.full({2}, 1.0);
  ASSERT_TRUE(x.wait().ok());
  for (int i = 0; i < 5; ++i) {
    wire_.Cut();
    x = x + 1.0;  // what is sent while nothing is there waits
    wire_.Mend();
    x = x * 2.0;
    EXPECT_TRUE(x.wait().ok()) << x.wait();
  }
  // ((((1+1)*2+1)*2+1)*2 …
  EXPECT_THAT(*x.get<float>(), ElementsAre(94, 94));
  EXPECT_EQ(daemon_.engine().CountAlive().sessions, 1u);
}

TEST_F(ResumeTest, ReadsThatWaitAreAskedAgain) {
  const td::Client client = Connect();
  const td::Tensor x = client.full({3}, 5.0);
  ASSERT_TRUE(x.wait().ok());
  wire_.Cut();
  absl::StatusOr<std::vector<float>> values;
  std::thread reader([&] { values = x.get<float>(); });
  wire_.Mend();
  reader.join();
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values, ElementsAre(5, 5, 5));
}

TEST_F(ResumeTest, NothingRunsTwice) {
  const td::Client client = Connect();
  // A message that arrived twice would make its ids again, which is HANDLE_IN_USE.
  const td::Tensor first = client.rand({4});
  ASSERT_TRUE(first.wait().ok());
  std::vector<td::Tensor> drawn;
  for (int i = 0; i < 20; ++i) {
    drawn.push_back(client.rand({4}));
    client.flush();
    if (i % 5 == 2) {
      wire_.Cut();
      wire_.Mend();
    }
  }
  for (const td::Tensor& tensor : drawn) EXPECT_TRUE(tensor.wait().ok()) << tensor.wait();
  ASSERT_TRUE(client.synchronize().ok());
  EXPECT_EQ(daemon_.engine().CountAlive().handles, 21u);
}

TEST_F(ResumeTest, UploadsAndDownloadsGoOn) {
  const td::Client client = Connect();
  std::vector<float> data(16 << 20);
  std::iota(data.begin(), data.end(), 0.0f);
  int cuts = 0;
  const auto cut_on_the_way = [&](uint64_t done, uint64_t total) {
    if (done > total / 4 * (cuts + 1) && cuts < 3) {
      ++cuts;
      wire_.Cut();
      wire_.Mend();
    }
  };
  const absl::StatusOr<td::Tensor> up = client.upload(std::span<const float>(data), {16, 1 << 20}, {}, cut_on_the_way);
  ASSERT_TRUE(up.ok()) << up.status();
  EXPECT_GT(cuts, 0);
  cuts = 0;
  const absl::StatusOr<std::vector<float>> down = up->get<float>(cut_on_the_way);
  ASSERT_TRUE(down.ok()) << down.status();
  EXPECT_GT(cuts, 0);
  EXPECT_TRUE(*down == data);
}

TEST_F(ResumeTest, ASessionThatIsGoneIsToldToEveryReader) {
  const td::Client client = Connect();
  const td::Tensor x = client.full({3}, 5.0);
  ASSERT_TRUE(x.wait().ok());
  wire_.Cut();
  // The daemon loses the session meanwhile.
  ASSERT_TRUE(daemon_.engine().KillSession({}, client.session_id()).ok());
  wire_.Mend();
  const absl::Status gone = x.wait();
  EXPECT_EQ(gone.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(td::reason_of(gone), "SESSION_UNKNOWN");
  EXPECT_EQ(td::metadata_of(gone)["cause"], "killed");
  EXPECT_EQ(td::reason_of((x + 1.0).wait()), "SESSION_UNKNOWN");
}

TEST_F(ResumeTest, AConnectionThatStaysAwayIsGivenUpAfterTheGrace) {
  const td::Client client = Connect(absl::ZeroDuration());
  const td::Tensor x = client.full({3}, 5.0);
  ASSERT_TRUE(x.wait().ok());
  wire_.Cut();
  const absl::Status gone = x.wait();
  EXPECT_EQ(gone.code(), absl::StatusCode::kUnavailable) << gone;
}

}  // namespace
}  // namespace tensord::testing
