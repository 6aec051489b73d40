// The examples of the public headers, as they stand there; each is run.
#include <gtest/gtest.h>
#include <tensord/tensord.h>

#include "tests/unit/client/daemon.h"

namespace td = tensord::client;

namespace {

absl::Status Overview(const std::string& address) {
  absl::StatusOr<td::Client> client = td::Client::connect({.server = address});
  if (!client.ok()) return client.status();
  td::Tensor x = client->ones({2, 3}, {.device = client->try_gpu()});
  td::Tensor y = (x * 2.0 + 1.0).relu();
  absl::StatusOr<std::vector<float>> values = y.get<float>();
  if (!values.ok()) return values.status();
  EXPECT_EQ(*values, (std::vector<float>{3, 3, 3, 3, 3, 3}));

  td::Tensor z = x.matmul(y.transpose()).sum({0}, /*keepdims=*/true);
  EXPECT_EQ(*z.get<float>(), (std::vector<float>{18, 18}));
  td::Tensor picked = td::where(x > 0.0, x, 0.0);
  td::Tensor joined = td::concat({picked, y}, /*axis=*/1);
  EXPECT_EQ(*joined.shape(), (td::Shape{2, 6}));

  td::Tensor elsewhere = client->ones({2, 3});
  EXPECT_EQ(td::reason_of((x + elsewhere).get<float>().status()), "DEVICE_MISMATCH");
  return absl::OkStatus();
}

absl::Status Names(const std::string& address) {
  absl::StatusOr<td::Client> client = td::Client::connect({.server = address});
  if (!client.ok()) return client.status();
  std::vector<float> host = {1, 2, 3, 4};
  absl::StatusOr<td::Tensor> x = client->upload(std::span(host), {2, 2}, {.device = client->try_gpu()});
  if (!x.ok()) return x.status();
  absl::Status status = client->publish(*x, "weights");
  return status;
}

absl::Status Models(const std::string& address) {
  absl::StatusOr<td::Client> client = td::Client::connect({.server = address});
  if (!client.ok()) return client.status();
  namespace nn = td::nn;
  absl::StatusOr<td::Model> net = client->create_model(nn::Sequential({nn::Linear(3, 8), nn::ReLU(), nn::Linear(8, 1)}),
                                                       {.device = "cuda:0", .seed = 7});
  if (!net.ok()) return net.status();
  td::Tensor x = client->ones({2, 3}, {.device = "cuda:0"});
  td::Tensor y = (*net)(x);
  td::Tensor w = net->parameter("0.weight");
  EXPECT_EQ(*y.shape(), (td::Shape{2, 1}));
  EXPECT_EQ(*w.shape(), (td::Shape{8, 3}));
  return y.wait();
}

TEST(HeaderExamplesTest, Run) {
  tensord::testing::Daemon daemon;
  EXPECT_EQ(Overview(daemon.address()), absl::OkStatus());
  EXPECT_EQ(Names(daemon.address()), absl::OkStatus());
  EXPECT_EQ(Models(daemon.address()), absl::OkStatus());
}

}  // namespace
