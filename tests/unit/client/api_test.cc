// The public API against a whole daemon, in process and through gRPC alike.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/client/daemon.h"

namespace td = tensord::client;

namespace tensord::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
std::vector<T> Values(const td::Tensor& tensor) {
  absl::StatusOr<std::vector<T>> values = tensor.get<T>();
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? *values : std::vector<T>();
}

class ApiTest : public ::testing::TestWithParam<bool> {
 protected:
  ApiTest() : client_(GetParam() ? daemon_.Client() : ClientOn(daemon_.engine())) {}

  Daemon daemon_;
  td::Client client_;
};
INSTANTIATE_TEST_SUITE_P(, ApiTest, ::testing::Bool(), [](const auto& p) { return p.param ? "Grpc" : "InProcess"; });

TEST_P(ApiTest, TutorialOfDevices) {
  EXPECT_THAT(client_.try_all_gpus(), ElementsAre("cuda:0", "cuda:1"));
  EXPECT_EQ(client_.try_gpu(), "cuda:0");
  EXPECT_EQ(client_.try_gpu(7), "cpu");
  const td::Tensor x = client_.ones({2, 3}, {.device = client_.try_gpu()});
  const td::Tensor y = client_.rand({2, 3}, {.device = client_.try_gpu(7)});
  EXPECT_EQ(*y.device(), "cpu");
  const absl::Status refused = (x + y).get<float>().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(td::reason_of(refused), "DEVICE_MISMATCH");
  EXPECT_EQ(td::metadata_of(refused)["op"], "add");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("cuda:0"));
  const td::Tensor z = y.cuda(0);
  EXPECT_EQ(z.cuda(0).handle(), z.handle()) << "no copy, the same handle";
  EXPECT_EQ(*(x + z).device(), "cuda:0");
  EXPECT_TRUE(*((x + z) > z).all().item<bool>());
  const absl::Status nowhere = client_.ones({2}, {.device = "cuda:7"}).wait();
  EXPECT_EQ(nowhere.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(td::reason_of(nowhere), "DEVICE_UNKNOWN");
  EXPECT_THAT(std::string(nowhere.message()), HasSubstr("cpu, cuda:0, cuda:1"));
}

TEST_P(ApiTest, CreatesAndTellsWhatItMadeWithoutAsking) {
  EXPECT_THAT(Values<int64_t>(client_.arange(0, 5)), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Values<float>(client_.arange(0.0, 1.0, 0.5)), ElementsAre(0.0f, 0.5f));
  EXPECT_THAT(Values<float>(client_.linspace(0, 1, 3)), ElementsAre(0.0f, 0.5f, 1.0f));
  EXPECT_THAT(Values<int32_t>(client_.eye(2, 2, {.dtype = td::int32})), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(Values<bool>(client_.full({2}, true)), ElementsAre(true, true));
  EXPECT_THAT(Values<int64_t>(client_.full({1}, 7)), ElementsAre(7));
  EXPECT_EQ(Values<float>(client_.rand({5}, {}, 42)), Values<float>(client_.rand({5}, {.device = "cuda:1"}, 42).cpu()));
  const td::Tensor z = client_.zeros({4, 0, 2}, {.dtype = td::float64, .device = "cuda"});
  EXPECT_THAT(*z.shape(), ElementsAre(4, 0, 2));
  EXPECT_EQ(*z.dtype(), td::float64);
  EXPECT_EQ(z.description(), "float64[4,0,2] on cuda:0");
  EXPECT_THAT(Values<double>(z), ElementsAre());
}

TEST_P(ApiTest, ComputesWithOperatorsMethodsAndFunctions) {
  const td::Tensor x = client_.arange(0, 6).reshape({2, 3}).cast(td::float32);
  EXPECT_THAT(Values<float>((x * 2.0 + 1.0).relu()), ElementsAre(1, 3, 5, 7, 9, 11));
  EXPECT_THAT(Values<float>(10 - x), ElementsAre(10, 9, 8, 7, 6, 5));
  EXPECT_THAT(Values<bool>(x >= 3), ElementsAre(false, false, false, true, true, true));
  EXPECT_THAT(Values<bool>(x == x), ElementsAre(true, true, true, true, true, true));
  EXPECT_THAT(Values<float>(x.sum({0})), ElementsAre(3, 5, 7));
  EXPECT_THAT(*x.sum({-1}, true).shape(), ElementsAre(2, 1));
  EXPECT_EQ(*x.sum().item<float>(), 15.0f);
  EXPECT_EQ(*td::max(x).item<float>(), 5.0f);
  EXPECT_THAT(Values<int64_t>(x.argmax({1})), ElementsAre(2, 2));
  EXPECT_THAT(Values<float>(x.matmul(x.transpose())), ElementsAre(5, 14, 14, 50));
  EXPECT_THAT(Values<float>(x.slice(1, std::nullopt, std::nullopt, -1)), ElementsAre(2, 1, 0, 5, 4, 3));
  EXPECT_THAT(Values<float>(x[-1]), ElementsAre(3, 4, 5));
  EXPECT_THAT(Values<float>(td::where(x > 2, x, -1)), ElementsAre(-1, -1, -1, 3, 4, 5));
  EXPECT_THAT(Values<float>(x.clip({}, 3)), ElementsAre(0, 1, 2, 3, 3, 3));
  EXPECT_THAT(Values<float>(td::concat({x, x}, 1).sum({1})), ElementsAre(6, 24));
  EXPECT_THAT(*td::stack({x, x}).shape(), ElementsAre(2, 2, 3));
  EXPECT_THAT(Values<float>(x.take(client_.arange(1, 2), 1)), ElementsAre(1, 4));
  EXPECT_THAT(*x.softmax().shape(), ElementsAre(2, 3));
}

TEST_P(ApiTest, ErrorsAreToldByWhoReadsWithTheirOrigin) {
  const td::Tensor bad = client_.ones({2, 3}) + client_.ones({4});
  EXPECT_EQ(td::reason_of(bad.shape().status()), "SHAPE_MISMATCH") << "known here without asking";
  const td::Tensor later = (bad * 2.0).relu().sum();
  const absl::Status status = later.get<float>().status();
  EXPECT_EQ(td::reason_of(status), "SHAPE_MISMATCH");
  const std::optional<td::Origin> origin = td::origin_of(status);
  ASSERT_TRUE(origin);
  EXPECT_EQ(origin->op, "add");
  EXPECT_EQ(origin->distance, 3u);
  // The stream goes on.
  EXPECT_THAT(Values<float>(client_.ones({2})), ElementsAre(1, 1));
  EXPECT_EQ(td::reason_of(client_.ones({2}).get<double>().status()), "DTYPE_MISMATCH");
  EXPECT_EQ(td::reason_of(client_.ones({2}).item<float>().status()), "DATA_INVALID");
  EXPECT_EQ(td::Tensor().get<float>().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ((td::Tensor() + 1.0).wait().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(ApiTest, UploadsSmallLargeAndStrided) {
  const std::vector<int16_t> small = {1, 2, 3, 4};
  EXPECT_EQ(Values<int16_t>(*client_.upload(std::span(small), {2, 2}, {.device = "cuda:0"})), small);
  std::vector<float> large(3'000'000);
  std::iota(large.begin(), large.end(), 0.0f);
  uint64_t last = 0, total = 0;
  int steps = 0;
  const absl::StatusOr<td::Tensor> up =
      client_.upload(std::span(large), {1000, 3000}, {}, [&](uint64_t done, uint64_t all) {
        EXPECT_GT(done, last);
        last = done;
        total = all;
        ++steps;
      });
  ASSERT_TRUE(up.ok()) << up.status();
  EXPECT_EQ(last, large.size() * 4);
  EXPECT_EQ(total, large.size() * 4);
  EXPECT_GT(steps, 5);
  EXPECT_EQ(Values<float>(*up), large);
  std::vector<float> there(large.size());
  ASSERT_TRUE(up->get_into(std::span(there)).ok());
  EXPECT_EQ(there, large);
  EXPECT_EQ(td::reason_of(up->get_into(std::span(there).first(5))), "DATA_INVALID");
  // The logical array arrives, whatever its strides: a transpose, a reversed line, a broadcast, a large transpose.
  EXPECT_THAT(Values<int16_t>(*client_.upload(td::StridedSpan<int16_t>{small.data(), {2, 2}, {1, 2}})),
              ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(Values<int16_t>(*client_.upload(td::StridedSpan<int16_t>{small.data() + 3, {4}, {-1}})),
              ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(Values<int16_t>(*client_.upload(td::StridedSpan<int16_t>{small.data(), {2, 3}, {1, 0}})),
              ElementsAre(1, 1, 1, 2, 2, 2));
  const absl::StatusOr<td::Tensor> turned =
      client_.upload(td::StridedSpan<float>{large.data(), {3000, 1000}, {1, 3000}});
  ASSERT_TRUE(turned.ok()) << turned.status();
  EXPECT_EQ(Values<float>(turned->transpose()), large);
  EXPECT_TRUE(*(turned->transpose() == *up).all().item<bool>());
  // Refusals before anything is sent.
  EXPECT_EQ(td::reason_of(client_.upload(std::span(small), {3}).status()), "DATA_INVALID");
  EXPECT_EQ(td::reason_of(client_.upload(std::span(small), {4}, {.dtype = td::int32}).status()), "DTYPE_MISMATCH");
  EXPECT_EQ(td::reason_of(client_.upload(std::span(large), {int64_t{1} << 62, 4}).status()), "SHAPE_INVALID");
}

TEST_P(ApiTest, NamesOutliveTheSession) {
  const td::Tensor x = client_.full({2}, 3.0);
  ASSERT_TRUE(client_.publish(x, "kept").ok());
  EXPECT_EQ(td::reason_of(client_.publish(x, "kept")), "NAME_IN_USE");
  ASSERT_TRUE(client_.publish(x + 1.0, "kept", {.replace = true}).ok());
  EXPECT_EQ(td::reason_of(client_.publish(x, "not a name")), "NAME_INVALID");
  const td::Client other = GetParam() ? daemon_.Client() : ClientOn(daemon_.engine());
  const absl::StatusOr<td::Tensor> seen = other.open("kept");
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_EQ(seen->description(), "float32[2] on cpu");
  EXPECT_THAT(Values<float>(*seen), ElementsAre(4, 4));
  const absl::StatusOr<std::vector<td::Entry>> names = other.list();
  ASSERT_TRUE(names.ok()) << names.status();
  ASSERT_EQ(names->size(), 1u);
  EXPECT_THAT((*names)[0].name, ::testing::EndsWith("kept"));
  EXPECT_EQ((*names)[0].bytes, 8u);
  ASSERT_TRUE(other.remove("kept").ok());
  EXPECT_EQ(td::reason_of(other.open("kept").status()), "NAME_UNKNOWN");
  // Handles of two sessions do not mix.
  EXPECT_EQ(td::reason_of((*seen + x).wait()), "HANDLE_UNKNOWN");
}

TEST_P(ApiTest, RunsModels) {
  namespace nn = td::nn;
  const std::vector<float> weight = {1, 2, 3}, bias = {10};
  absl::StatusOr<td::Model> net =
      client_.create_model(nn::Sequential({nn::Linear(3, 1), nn::ReLU()}),
                           {.parameters = {{"0.weight", *client_.upload(std::span(weight), {1, 3})},
                                           {"0.bias", *client_.upload(std::span(bias), {1})}}});
  ASSERT_TRUE(net.ok()) << net.status();
  const td::Tensor x = client_.ones({2, 3});
  EXPECT_THAT(Values<float>((*net)(x)), ElementsAre(16, 16));
  EXPECT_THAT(*(*net)(x).shape(), ElementsAre(2, 1));
  EXPECT_EQ(td::reason_of((*net)(x.cuda()).wait()), "DEVICE_MISMATCH");
  ASSERT_TRUE(net->to("cuda:0").ok());
  EXPECT_EQ(*net->device(), "cuda:0");
  EXPECT_EQ(td::reason_of((*net)(x).wait()), "DEVICE_MISMATCH");
  EXPECT_THAT(Values<float>((*net)(x.cuda())), ElementsAre(16, 16));
  EXPECT_EQ(*net->parameter("0.weight").device(), "cuda:0");
  EXPECT_EQ(td::reason_of(net->parameter("0.wait").wait()), "PARAMETER_UNKNOWN");
  const absl::StatusOr<std::vector<td::ParameterInfo>> parameters = net->parameters();
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  ASSERT_EQ(parameters->size(), 2u);
  EXPECT_EQ((*parameters)[0].path, "0.weight");
  EXPECT_THAT((*parameters)[0].shape, ElementsAre(1, 3));
  ASSERT_TRUE(client_.publish(*net, "net").ok());
  EXPECT_THAT(Values<float>((*client_.open_model("net"))(x.cuda())), ElementsAre(16, 16));
  ASSERT_TRUE(client_.remove("net").ok());
  EXPECT_EQ(td::reason_of(client_.create_model(td::nn::Layer{.type = "Linea"}).status()), "LAYER_INVALID");
}

TEST_P(ApiTest, HandlesAreFreedWithTheirLastCopy) {
  ASSERT_TRUE(client_.synchronize().ok());
  const uint64_t before = daemon_.engine().CountAlive().handles;
  {
    td::Tensor x = client_.ones({4});
    for (int i = 0; i < 5000; ++i) x = x + 1.0;
    EXPECT_EQ(*x.sum().item<float>(), 4.0f * 5001);
    absl::StatusOr<td::Model> net = client_.create_model(td::nn::Linear(2, 2));
    ASSERT_TRUE(net.ok()) << net.status();
  }
  ASSERT_TRUE(client_.synchronize().ok());
  EXPECT_EQ(daemon_.engine().CountAlive().handles, before);
}

TEST_P(ApiTest, TheSessionEndsWithItsLastHandle) {
  td::Tensor kept;
  {
    const td::Client other = GetParam() ? daemon_.Client() : ClientOn(daemon_.engine());
    kept = other.full({1}, 5.0);
  }
  EXPECT_EQ(daemon_.engine().CountAlive().sessions, 2u);
  EXPECT_THAT(Values<float>(kept), ElementsAre(5));
  kept = td::Tensor();
  EXPECT_EQ(daemon_.engine().CountAlive().sessions, 1u);
}

TEST_P(ApiTest, ManyThreadsShareASession) {
  std::vector<std::thread> threads;
  std::vector<float> sums(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        td::Tensor x = client_.full({8}, static_cast<double>(t));
        for (int k = 0; k < 10; ++k) x = x * 1.0 + 1.0;
        sums[t] += *x.sum().item<float>();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < 8; ++t) EXPECT_EQ(sums[t], 50.0f * 8 * (t + 10));
}

}  // namespace
}  // namespace tensord::testing
