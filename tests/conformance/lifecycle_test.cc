// Sessions, handles, names and transfers: who may see what, for how long, and what a wrong request gets.
#include <cstdlib>
#include <thread>

#include "absl/time/clock.h"
#include "tests/conformance/harness.h"

namespace tensord::conformance {
namespace {

class LifecycleTest : public ConformanceTest {
 protected:
  EngineOptions Options() const override {
    EngineOptions options;
    options.limits.max_sessions = 8;
    options.limits.max_handles = 200;
    options.limits.max_page_size = 10;
    return options;
  }
  uint64_t Ones(const std::string& device = "cpu", const Dims& shape = {2, 3}) {
    CreateAttributes create;
    create.spec = {{Dtype::kFloat32, shape}, device};
    return session().MustRun(Op::kOnes, {}, create);
  }
  absl::StatusOr<PublishResponse> Publish(const Caller& caller, TensorRef tensor, const std::string& name,
                                          bool replace = false, int64_t if_version = 0,
                                          std::optional<absl::Duration> ttl = std::nullopt) {
    PublishRequest request;
    request.source = std::move(tensor);
    request.name = name;
    request.replace = replace;
    request.if_version = if_version;
    request.ttl = ttl;
    return engine().Publish(caller, request);
  }
  absl::Status Delete(const Caller& caller, std::vector<TensorRef> tensors, bool allow_missing = false) {
    return engine().DeleteTensors(caller, {std::move(tensors), allow_missing}).status();
  }
};

TEST_P(LifecycleTest, AFreedHandleAndOneThatNeverWasAreToldApart) {
  const uint64_t id = Ones();
  session().Free({id});
  const absl::Status freed = engine().GetTensor(session().caller(), TensorRef::Id(id)).status();
  ExpectReason(freed, Reason::kHandleUnknown, {"id", "kind", "state"});
  EXPECT_EQ(DetailsOf(freed).Get("state"), "freed");
  const absl::Status never = engine().GetTensor(session().caller(), TensorRef::Id(id + 1000)).status();
  EXPECT_EQ(DetailsOf(never).Get("state"), "never");
  // Another session's handle is no handle at all.
  TestSession other(engine());
  const uint64_t mine = Ones();
  EXPECT_EQ(DetailsOf(engine().GetTensor(other.caller(), TensorRef::Id(mine)).status()).Get("state"), "never");
}

TEST_P(LifecycleTest, ANameOutlivesItsSession) {
  {
    TestSession writer(engine());
    const uint64_t id = writer.Put(ArrayOf(Dtype::kFloat32, {2}, {3, 4}), "cuda:0");
    const auto published = Publish(writer.caller(), TensorRef::Id(id), "kept");
    ASSERT_TRUE(published.ok()) << published.status();
    EXPECT_EQ(published->name, "default/kept");
  }
  const auto array = session().Get(TensorRef::Name("kept"));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(oracle::Compare(*array, ArrayOf(Dtype::kFloat32, {2}, {3, 4})), "");
  // Without a session too: names and inline values need none.
  EXPECT_TRUE(engine().GetTensor(Caller{}, TensorRef::Name("default/kept")).ok());
  EXPECT_TRUE(Delete(Caller{}, {TensorRef::Name("kept")}).ok());
  ExpectReason(session().Get(TensorRef::Name("kept")).status(), Reason::kNameUnknown, {"name", "kind"});
}

TEST_P(LifecycleTest, NamesHaveVersionsAndAreReplacedOnlyWhenAsked) {
  const auto first = Publish(session().caller(), TensorRef::Id(Ones()), "v");
  ASSERT_TRUE(first.ok());
  ExpectReason(Publish(session().caller(), TensorRef::Id(Ones()), "v").status(), Reason::kNameInUse, {"name", "kind"});
  const auto second = Publish(session().caller(), TensorRef::Id(Ones("cuda:0")), "v", true);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_GT(second->version, first->version);
  ExpectReason(Publish(session().caller(), TensorRef::Id(Ones()), "v", true, first->version).status(),
               Reason::kNameChanged, {"name", "expected", "version"});
  EXPECT_TRUE(Publish(session().caller(), TensorRef::Id(Ones()), "v", true, second->version).ok());
  EXPECT_EQ(Publish(session().caller(), TensorRef::Id(Ones()), "v", true, -1).status().code(),
            absl::StatusCode::kAborted);
  EXPECT_TRUE(Delete(session().caller(), {TensorRef::Name("v")}).ok());
}

TEST_P(LifecycleTest, NamesThatArePathsAreRefused) {
  const uint64_t id = Ones();
  for (const std::string& name :
       {std::string("../x"), std::string(".."), std::string("/etc"), std::string("a/../../b"),
        std::string("a%2F..%2Fb"), std::string("a\\..\\b"), std::string(""), std::string(" "), std::string("a\0b", 3),
        std::string(10240, 'a'), std::string("\xff\xfe"), std::string("a b")}) {
    const absl::Status status = Publish(session().caller(), TensorRef::Id(id), name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name << ": " << status;
  }
}

TEST_P(LifecycleTest, DeletingIsAllOrNothing) {
  const uint64_t id = Ones();
  ExpectReason(Delete(session().caller(), {TensorRef::Id(id), TensorRef::Name("nobody")}), Reason::kNameUnknown,
               {"name"});
  EXPECT_TRUE(engine().GetTensor(session().caller(), TensorRef::Id(id)).ok());
  EXPECT_TRUE(Delete(session().caller(), {TensorRef::Id(id), TensorRef::Name("nobody")}, true).ok());
  EXPECT_FALSE(engine().GetTensor(session().caller(), TensorRef::Id(id)).ok());
}

TEST_P(LifecycleTest, ListsComeInPagesAndByPrefix) {
  std::vector<TensorRef> names;
  const uint64_t id = Ones();
  for (int i = 0; i < 25; ++i) {
    names.push_back(TensorRef::Name(StrCat(i % 2 == 0 ? "even" : "odd", i)));
    ASSERT_TRUE(Publish(session().caller(), TensorRef::Id(id), std::get<std::string>(names.back().ref)).ok());
  }
  ListTensorsRequest request;
  request.prefix = "even";
  size_t found = 0;
  int pages = 0;
  do {
    const auto page = engine().ListTensors(session().caller(), request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->tensors.size(), 10u);
    found += page->tensors.size();
    request.page.page_token = page->next_page_token;
    ++pages;
  } while (!request.page.page_token.empty() && pages < 10);
  EXPECT_EQ(found, 13u);
  EXPECT_EQ(pages, 2);
  for (size_t i = 0; i < names.size(); i += 10) {
    EXPECT_TRUE(
        Delete(session().caller(), {names.begin() + static_cast<std::ptrdiff_t>(i),
                                    names.begin() + static_cast<std::ptrdiff_t>(std::min(i + 10, names.size()))})
            .ok());
  }
}

TEST_P(LifecycleTest, ClosingASessionFreesWhatItAloneHolds) {
  TestSession closing(engine());
  const uint64_t kept = closing.Put(oracle::Sample(Dtype::kFloat32, {1000}, 1), "cuda:0");
  (void)closing.Put(oracle::Sample(Dtype::kFloat32, {1000}, 2), "cuda:0");
  ASSERT_TRUE(Publish(closing.caller(), TensorRef::Id(kept), "survivor").ok());
  const auto freed = engine().CloseSession(closing.caller());
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_EQ(freed->handles, 2u);
  EXPECT_EQ(freed->bytes, 4000u);
  const absl::Status gone = engine().KeepAlive(closing.caller()).status();
  ExpectReason(gone, Reason::kSessionUnknown, {"cause"});
  EXPECT_EQ(DetailsOf(gone).Get("cause"), "closed");
  EXPECT_TRUE(session().Get(TensorRef::Name("survivor")).ok());
  EXPECT_TRUE(Delete(session().caller(), {TensorRef::Name("survivor")}).ok());
}

TEST_P(LifecycleTest, ASessionEndsWithItsLease) {
  OpenSessionRequest request;
  request.lease = absl::Seconds(1);
  request.grace = absl::ZeroDuration();
  TestSession brief(engine(), request);
  (void)brief.Put(oracle::Sample(Dtype::kFloat32, {100}, 1), "cpu");
  // No call of the session: they would renew it.
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (local().CountAlive().sessions > 1 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(5));
  const absl::Status gone = engine().KeepAlive(brief.caller()).status();
  ExpectReason(gone, Reason::kSessionUnknown, {"cause"});
  EXPECT_EQ(DetailsOf(gone).Get("cause"), "expired");
}

TEST_P(LifecycleTest, SessionsAndHandlesAreBounded) {
  {
    std::vector<std::unique_ptr<TestSession>> sessions;
    for (int i = 0; i < 7; ++i) sessions.push_back(std::make_unique<TestSession>(engine()));
    ExpectReason(engine().OpenSession(Caller{}, {}).status(), Reason::kQuotaExceeded,
                 {"quota", "used", "limit", "requested"});
  }
  std::vector<uint64_t> ids;
  absl::Status status;
  CreateAttributes create;
  create.spec = {{Dtype::kFloat32, {1}}, "cpu"};
  while (status.ok() && ids.size() < 300) {
    const auto id = session().Run(Op::kOnes, {}, create);
    status = id.status();
    if (id.ok()) ids.push_back(*id);
  }
  ExpectReason(status, Reason::kQuotaExceeded, {"quota", "used", "limit", "requested"});
  EXPECT_EQ(ids.size(), 200u);
  session().Free(ids);
}

TEST_P(LifecycleTest, UploadsRefuseWhatIsWrongBeforeMemoryIsTaken) {
  struct Case {
    TensorType type;
    std::string device;
    absl::StatusCode code;
  };
  const Case cases[] = {
      {{Dtype::kNone, {2}}, "cpu", absl::StatusCode::kInvalidArgument},
      {{Dtype::kFloat32, {-1, 4}}, "cpu", absl::StatusCode::kInvalidArgument},
      {{Dtype::kFloat32, {int64_t{1} << 62, 4}}, "cpu", absl::StatusCode::kInvalidArgument},
      {{Dtype::kFloat32, {int64_t{1} << 33, int64_t{1} << 31}}, "cpu", absl::StatusCode::kInvalidArgument},
      {{Dtype::kFloat32, Dims(65, 1)}, "cpu", absl::StatusCode::kInvalidArgument},
      {{Dtype::kUint8, {138780701932912640}}, "cpu", absl::StatusCode::kResourceExhausted},
      {{Dtype::kFloat32, {int64_t{1} << 30}}, "cuda:0", absl::StatusCode::kResourceExhausted},
      {{Dtype::kFloat32, {2}}, "cuda:9", absl::StatusCode::kNotFound},
      {{Dtype::kComplex64, {2}}, "cpu", absl::StatusCode::kUnimplemented},
  };
  for (const Case& c : cases) {
    auto sink = engine().Upload(session().caller(), {.id = session().NewId(), .spec = {c.type, c.device}});
    EXPECT_EQ(sink.status().code(), c.code) << c.type.ToString() << " on " << c.device << ": " << sink.status();
    EXPECT_FALSE(DetailsOf(sink.status()).reason_name.empty()) << sink.status();
  }
  EXPECT_EQ(local().CountAlive().buffers, 0u);
}

TEST_P(LifecycleTest, UploadsOfNothingAndOfOneElement) {
  for (const Dims& shape : {Dims{}, Dims{0}, Dims{0, 5}, Dims{1, 1}}) {
    const oracle::Array array = oracle::Sample(Dtype::kFloat64, shape, 1);
    EXPECT_EQ(oracle::Compare(session().MustGet(session().Put(array, "cuda:1")), array), "");
  }
}

TEST_P(LifecycleTest, BooleansMustBeBooleans) {
  auto sink = engine().Upload(session().caller(), {.id = session().NewId(), .spec = {{Dtype::kBool, {3}}, "cpu"}});
  ASSERT_TRUE(sink.ok());
  const std::string_view bytes("\0\1\2", 3);
  absl::Status status = (*sink)->Write(0, {&bytes, 1}, std::nullopt);
  if (status.ok()) status = (*sink)->Finish().status();
  ExpectReason(status, Reason::kDataInvalid, {"element"});
}

TEST_P(LifecycleTest, DownloadsOfAPart) {
  const oracle::Array array = oracle::Sample(Dtype::kInt32, {100}, 3);
  const uint64_t id = session().Put(array, "cuda:0");
  auto source = Await<std::unique_ptr<DownloadSource>>([&](auto done) {
    engine().Download(session().caller(), {.tensor = TensorRef::Id(id), .offset = 10, .length = 33}, std::move(done));
  });
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->total(), 33u);
  std::string part(33, '\0');
  size_t at = 0;
  while (at < part.size()) {
    const auto n = (*source)->Read(absl::MakeSpan(part).subspan(at));
    ASSERT_TRUE(n.ok() && *n > 0);
    at += *n;
  }
  EXPECT_EQ(part, array.bytes.substr(10, 33));
}

TEST_P(LifecycleTest, LargeTensorsOfEveryLayoutComeHome) {
  const oracle::Array array = oracle::Sample(Dtype::kFloat32, {1500, 1001}, 9, false);
  const uint64_t id = session().Put(array, "cuda:0");
  ViewAttributes permute;
  permute.axes = {1, 0};
  const uint64_t view = session().MustRun(Op::kPermute, {id}, permute);
  session().Free({id});
  const auto info = engine().GetTensor(session().caller(), TensorRef::Id(view));
  ASSERT_TRUE(info.ok());
  const oracle::Array home = session().MustGet(view);
  ASSERT_EQ(home.type.shape, (Dims{1001, 1500}));
  for (int64_t i = 0; i < home.size(); i += 997) {
    EXPECT_EQ(home.At(i).real, array.At(i % 1500 * 1001 + i / 1500).real);
  }
}

TEST_P(LifecycleTest, MovesKeepValuesAndWhatIsThereStays) {
  const oracle::Array array = oracle::Sample(Dtype::kFloat32, {64, 65}, 4);
  const uint64_t cpu = session().Put(array, "cpu");
  const auto to = [&](uint64_t id, const std::string& device) {
    ConvertAttributes convert;
    convert.device = device;
    return session().MustRun(Op::kTo, {id}, convert);
  };
  const uint64_t first = to(cpu, "cuda:0");
  const uint64_t second = to(first, "cuda:1");
  const uint64_t back = to(second, "cpu");
  for (const uint64_t id : {first, second, back}) EXPECT_EQ(oracle::Compare(session().MustGet(id), array), "");
  const uint64_t bytes = local().CountAlive().buffer_bytes;
  const uint64_t same = to(second, "cuda:1");
  EXPECT_EQ(local().CountAlive().buffer_bytes, bytes) << "moving to where it is copies nothing";
  EXPECT_EQ(oracle::Compare(session().MustGet(same), array), "");
  // The source may be freed right after the move was asked for.
  for (int i = 0; i < 20; ++i) {
    const uint64_t x = session().MustRun(Op::kAdd, {cpu, i});
    const uint64_t moved = to(x, "cuda:0");
    session().Free({x});
    EXPECT_EQ(session().MustGet(moved).At(7).real,
              static_cast<long double>(static_cast<float>(array.At(7).real) + static_cast<float>(i)));
  }
}

TEST_P(LifecycleTest, RandomNumbersDependOnSeedAndCounterAlone) {
  for (const Op op : {Op::kRand, Op::kRandn}) {
    for (const Dtype dtype : {Dtype::kFloat32, Dtype::kFloat64, Dtype::kFloat16}) {
      CreateAttributes create;
      create.spec = {{dtype, {1000}}, "cpu"};
      create.seed = 42;
      const oracle::Array cpu = session().MustGet(session().MustRun(op, {}, create));
      create.spec.device = "cuda:0";
      EXPECT_EQ(session().MustGet(session().MustRun(op, {}, create)).bytes, cpu.bytes);
      // From element 600 on: the counter says where.
      create.spec.type.shape = {400};
      create.seed_offset = 600;
      EXPECT_EQ(session().MustGet(session().MustRun(op, {}, create)).bytes, cpu.bytes.substr(600 * ItemSize(dtype)));
      create.seed.reset();
      create.seed_offset = 0;
      const oracle::Array drawn = session().MustGet(session().MustRun(op, {}, create));
      EXPECT_NE(session().MustGet(session().MustRun(op, {}, create)).bytes, drawn.bytes)
          << "the session goes on counting";
    }
  }
}

TEST_P(LifecycleTest, ManySessionsWorkAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      TestSession own(engine());
      const std::string device = DeviceNames()[static_cast<size_t>(t) % 3];
      uint64_t x = own.Put(ArrayOf(Dtype::kFloat32, {3}, {1.0 * t, 2, 3}), device);
      for (int i = 0; i < 50; ++i) {
        const uint64_t next = own.MustRun(Op::kAdd, {x, 1});
        own.Free({x});
        x = next;
      }
      EXPECT_EQ(oracle::Compare(own.MustGet(x), ArrayOf(Dtype::kFloat32, {3}, {50.0 + t, 52, 53})), "");
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_P(LifecycleTest, DevicesTellWhoHoldsWhat) {
  const uint64_t id = session().Put(oracle::Sample(Dtype::kFloat32, {1024}, 1), "cuda:1");
  const auto list = engine().ListDevices(session().caller(), {"cuda:1"}, true);
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->devices.size(), 1u);
  const DeviceDescription& device = list->devices[0];
  EXPECT_EQ(device.info.emulated, getenv("TENSORD_TEST_PLUGIN") == nullptr);
  EXPECT_EQ(device.memory.total, int64_t{64} << 20);
  ASSERT_EQ(device.holders.size(), 1u);
  EXPECT_EQ(device.holders[0].session, session().opened().session);
  EXPECT_EQ(device.holders[0].bytes, 4096u);
  const auto by_uuid = engine().ListDevices(session().caller(), {*device.info.uuid}, false);
  ASSERT_TRUE(by_uuid.ok()) << by_uuid.status();
  EXPECT_EQ(by_uuid->devices[0].info.id, device.info.id);
  ExpectReason(engine().ListDevices(session().caller(), {"cuda:7"}, false).status(), Reason::kDeviceUnknown,
               {"device", "known"});
  session().Free({id});
  EXPECT_TRUE(engine().TrimMemory(session().caller(), {}).ok());
}

INSTANTIATE_CONFORMANCE(LifecycleTest);

}  // namespace
}  // namespace tensord::conformance
