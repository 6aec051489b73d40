// Sessions, names, devices, shutdown.
#include <gmock/gmock.h>

#include <thread>

#include "tests/unit/engine/client.h"

namespace tensord::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SessionTest : public EngineTest {
 protected:
  void SetUp() override { Start(); }
  static PublishRequest Gift(TensorRef tensor, std::string name) {
    PublishRequest publish;
    publish.source = std::move(tensor);
    publish.name = std::move(name);
    return publish;
  }
};

TEST_F(SessionTest, OpensWithWhatItWasAskedFor) {
  OpenSessionRequest request;
  request.client = "test/1";
  request.lease = absl::Milliseconds(1);
  request.grace = absl::Hours(100);
  request.wanted_features = {"shared-memory"};
  const auto opened = engine->OpenSession(Caller{}, request);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->session.size(), 16u);
  EXPECT_EQ(opened->token.size(), 32u);
  EXPECT_EQ(opened->version, 1u);
  EXPECT_TRUE(opened->features.empty());
  EXPECT_EQ(opened->lease, absl::Seconds(1)) << "cut to the bound";
  EXPECT_EQ(opened->grace, absl::Hours(1));
  EXPECT_EQ(opened->next_sequence, 1u);
  EXPECT_EQ(opened->highest_id, 0u);
  EXPECT_EQ(opened->incarnation, engine->incarnation());
  EXPECT_NE(opened->incarnation, 0u);
  EXPECT_EQ(opened->quota.session_used, 1u);
  ASSERT_EQ(opened->quota.devices.size(), 2u);
  EXPECT_FALSE(opened->resumed);
}

TEST_F(SessionTest, RefusesWhatItCannotBe) {
  const auto open = [&](auto change) {
    OpenSessionRequest request;
    change(request);
    return engine->OpenSession(Caller{}, request).status();
  };
  const absl::Status version = open([](auto& r) { r.min_version = 2, r.max_version = 3; });
  EXPECT_EQ(ReasonOf(version), Reason::kVersionMismatch);
  EXPECT_EQ(Meta(version, "upgrade"), "daemon");
  EXPECT_EQ(ReasonOf(open([](auto& r) { r.min_version = 0; })), Reason::kFieldInvalid);
  EXPECT_EQ(Meta(open([](auto& r) { r.required_features = {"state"}; }), "feature"), "state");
  EXPECT_EQ(ReasonOf(open([](auto& r) { r.workspace = "../x"; })), Reason::kNameInvalid);
  EXPECT_EQ(Meta(open([](auto& r) { r.client.resize(5000); }), "limit"), "max_text_bytes");
  EXPECT_EQ(Meta(open([](auto& r) { r.resume_token = "nobody"; }), "cause"), "unknown");
  const absl::Status restarted = open([](auto& r) { r.resume_token = "nobody", r.incarnation = 5; });
  EXPECT_EQ(Meta(restarted, "cause"), "restarted");
  EXPECT_EQ(Meta(restarted, "incarnation"), std::to_string(engine->incarnation()));
  EXPECT_EQ(engine->CountAlive().sessions, 0u);
}

TEST_F(SessionTest, TellsHowASessionEnded) {
  Client closed(*engine);
  ASSERT_TRUE(closed.Send({Make(Op::kOnes, 1, {100}), Reshape(1, 2, {10, 10}), Make(Op::kOnes, 3, {25})}).ok());
  closed.Settle();
  const auto freed = engine->CloseSession(closed.caller);
  ASSERT_TRUE(freed.ok());
  EXPECT_EQ(freed->handles, 3u);
  EXPECT_EQ(freed->bytes, 500u);
  EXPECT_EQ(Meta(engine->KeepAlive(closed.caller).status(), "cause"), "closed");
  EXPECT_EQ(Meta(closed.listener->AwaitEnd(), "cause"), "closed");
  EXPECT_EQ(Meta(closed.stream->Submit(closed.Message({})), "cause"), "closed");

  Client killed(*engine);
  EXPECT_TRUE(engine->KillSession(Caller{}, killed.session).ok());
  EXPECT_EQ(Meta(engine->KeepAlive(killed.caller).status(), "cause"), "killed");
  EXPECT_EQ(Meta(engine->KillSession(Caller{}, killed.session).status(), "cause"), "killed");

  OpenSessionRequest request;
  request.grace = absl::ZeroDuration();
  Client expired(*engine, request);
  ASSERT_TRUE(expired.Send({Make(Op::kOnes, 1, {100})}).ok());
  expired.stream.reset();
  AwaitCounts([](const auto& c) { return c.sessions == 0 && c.handles == 0 && c.buffers == 0; });
  EXPECT_EQ(Meta(engine->KeepAlive(expired.caller).status(), "cause"), "expired");
}

TEST_F(SessionTest, AnotherPrincipalHasNoPartInIt) {
  Client alice(*engine, {}, "alice");
  Caller mallory = alice.caller;
  mallory.principal = "mallory";
  EXPECT_EQ(Meta(engine->KeepAlive(mallory).status(), "cause"), "unknown");
  OpenSessionRequest resume;
  resume.resume_token = alice.caller.token;
  EXPECT_EQ(Meta(engine->OpenSession(mallory, resume).status(), "cause"), "unknown");
  EXPECT_EQ(Meta(engine->KillSession(mallory, alice.session).status(), "cause"), "unknown");
  mallory.token.clear();
  EXPECT_TRUE(engine->ListSessions(mallory, {})->sessions.empty());
}

TEST_F(SessionTest, CallsThatNeedASessionSaySo) {
  EXPECT_EQ(ReasonOf(engine->KeepAlive(Caller{}).status()), Reason::kSessionRequired);
  EXPECT_EQ(ReasonOf(engine->GetTensor(Caller{}, TensorRef::Id(1)).status()), Reason::kSessionRequired);
  EXPECT_EQ(ReasonOf(engine->RegisterProgram(Caller{}, 1, {}).status()), Reason::kSessionRequired);
  EXPECT_EQ(ReasonOf(engine->OpenStream(Caller{}, std::make_shared<Listener>()).status()), Reason::kSessionRequired);
  ListTensorsRequest handles;
  handles.handles = true;
  EXPECT_EQ(ReasonOf(engine->ListTensors(Caller{}, handles).status()), Reason::kSessionRequired);
}

TEST_F(SessionTest, ListsThemByPages) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(std::make_unique<Client>(*engine));
  ASSERT_TRUE(clients[0]->Send({Make(Op::kOnes, 1, {100})}).ok());
  clients[0]->Settle();
  std::vector<std::string> seen;
  PageRequest page;
  page.page_size = 2;
  do {
    const auto response = engine->ListSessions(Caller{}, page);
    ASSERT_TRUE(response.ok());
    EXPECT_LE(response->sessions.size(), 2u);
    for (const SessionInfo& s : response->sessions) {
      seen.push_back(s.session);
      EXPECT_FALSE(s.expire_time.has_value()) << "its stream is open";
      if (s.session == clients[0]->session) {
        EXPECT_EQ(s.handles, 1u);
        EXPECT_EQ(s.bytes.at("cpu"), 400u);
        EXPECT_EQ(s.queued_instructions, 0u);
      }
    }
    page.page_token = response->next_page_token;
  } while (!page.page_token.empty());
  EXPECT_EQ(seen.size(), 5u);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
  page.page_token = "nonsense";
  EXPECT_EQ(ReasonOf(engine->ListSessions(Caller{}, page).status()), Reason::kFieldInvalid);
}

TEST_F(SessionTest, APrincipalsSessionsAreBounded) {
  EngineOptions options;
  options.limits.max_sessions = 1;
  Start(options);
  Client client(*engine);
  EXPECT_EQ(Meta(engine->OpenSession(Caller{}, {}).status(), "quota"), "sessions");
  ASSERT_TRUE(engine->CloseSession(client.caller).ok());
  EXPECT_TRUE(engine->OpenSession(Caller{}, {}).ok());
}

TEST_F(SessionTest, NamesOutliveTheirSession) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {4})}).ok());
  const auto published = engine->Publish(client.caller, Gift(TensorRef::Id(1), "x"));
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(published->name, "default/x");
  EXPECT_EQ(published->version, 1);
  client.Settle();
  const auto session = engine->ListSessions(Caller{}, {})->sessions[0];
  EXPECT_TRUE(session.bytes.empty()) << "the name holds it now";
  ASSERT_TRUE(engine->CloseSession(client.caller).ok());
  const auto info = engine->GetTensor(Caller{}, TensorRef::Name("default/x"));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_THAT(info->names, ElementsAre("default/x"));
  EXPECT_EQ(info->state, TensorState::kReady);
  const auto deleted = engine->DeleteTensors(Caller{}, Delete({TensorRef::Name("x")}));
  ASSERT_TRUE(deleted.ok());
  EXPECT_EQ(deleted->deleted, 1u);
  EXPECT_EQ(deleted->freed_bytes, 16u);
  EXPECT_EQ(engine->CountAlive().buffers, 0u);
}

TEST_F(SessionTest, WorkForAPublishedNameGoesOnWhenItsSessionEnds) {
  Client client(*engine);
  cpu->Hold();
  ASSERT_TRUE(client
                  .Send({Make(Op::kOnes, 1, {1}), Apply(Op::kAdd, {1, 1}, 2), Apply(Op::kAdd, {2, 2}, 3),
                         Make(Op::kOnes, 4, {7})})
                  .ok());
  ASSERT_TRUE(engine->Publish(client.caller, Gift(TensorRef::Id(3), "x")).ok());
  ASSERT_TRUE(engine->CloseSession(client.caller).ok());
  cpu->Release();
  ExecuteRequest request;
  Program program;
  program.inputs = {Formal("x", 1)};
  program.outputs = {Formal("x", 1)};
  request.callee = program;
  request.inputs = {Given(TensorRef::Name("x"))};
  const auto response = Run(Caller{}, request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(Floats(*response->outputs[0].data), ElementsAre(4));
  AwaitCounts([](const auto& c) { return c.buffers == 1; });
  for (const RunRecord& run : cpu->runs()) EXPECT_NE(run.shape, Dims({7})) << "nobody wanted that";
}

TEST_F(SessionTest, NamesHaveRules) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {1}), Make(Op::kOnes, 2, {2})}).ok());
  const auto position = [&](std::string name) {
    const absl::Status status = engine->Publish(client.caller, Gift(TensorRef::Id(1), std::move(name))).status();
    return ReasonOf(status) == Reason::kNameInvalid ? Meta(status, "position") : status.ToString();
  };
  EXPECT_EQ(position(""), "0");
  EXPECT_EQ(position("a b"), "1");
  EXPECT_EQ(position("../x"), "0");
  EXPECT_EQ(position("a/../b"), "2");
  EXPECT_EQ(position("a/b/c"), "3");
  EXPECT_EQ(position("/x"), "0");
  EXPECT_EQ(position("-x"), "0");
  EXPECT_EQ(position(std::string("a\0b", 3)), "1");
  EXPECT_EQ(position(std::string(129, 'a')), "128");
  ASSERT_TRUE(engine->Publish(client.caller, Gift(TensorRef::Id(1), "weights")).ok());
  EXPECT_EQ(ReasonOf(engine->Publish(client.caller, Gift(TensorRef::Id(2), "weights")).status()), Reason::kNameInUse);
  const absl::Status unknown = engine->GetTensor(client.caller, TensorRef::Name("weight")).status();
  EXPECT_EQ(ReasonOf(unknown), Reason::kNameUnknown);
  EXPECT_EQ(Meta(unknown, "nearest"), "weights");
  PublishRequest request = Gift(TensorRef::Id(2), "weights");
  request.if_version = 7;
  const absl::Status changed = engine->Publish(client.caller, request).status();
  EXPECT_EQ(ReasonOf(changed), Reason::kNameChanged);
  EXPECT_EQ(Meta(changed, "version"), "1");
  request.if_version = -1;
  EXPECT_EQ(ReasonOf(engine->Publish(client.caller, request).status()), Reason::kNameChanged);
  request.if_version = 1;
  EXPECT_EQ(engine->Publish(client.caller, request)->version, 2);
  request.if_version = 0;
  request.replace = true;
  EXPECT_EQ(engine->Publish(client.caller, request)->version, 3);
  ASSERT_TRUE(engine->DeleteTensors(client.caller, Delete({TensorRef::Name("weights")})).ok());
  EXPECT_EQ(engine->Publish(client.caller, Gift(TensorRef::Id(2), "weights"))->version, 4)
      << "who knew version 1 is not fooled";
  request.durable = true;
  EXPECT_EQ(Meta(engine->Publish(client.caller, request).status(), "feature"), "state");
  ASSERT_TRUE(client.Send({Apply(Op::kErf, {1}, 9)}).ok());
  EXPECT_EQ(ReasonOf(engine->Publish(client.caller, Gift(TensorRef::Id(9), "bad")).status()), Reason::kOpUnsupported);
  EXPECT_EQ(ReasonOf(engine->Publish(client.caller, PublishRequest()).status()), Reason::kNameInvalid);
}

TEST_F(SessionTest, NamesWithATimeToLiveEnd) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {1})}).ok());
  PublishRequest request = Gift(TensorRef::Id(1), "brief");
  request.ttl = absl::Milliseconds(1);
  ASSERT_TRUE(engine->Publish(client.caller, request).ok());
  AwaitCounts([](const auto& c) { return c.names == 0; });
  EXPECT_EQ(ReasonOf(engine->GetTensor(Caller{}, TensorRef::Name("brief")).status()), Reason::kNameUnknown);
  request.ttl = absl::Hours(1);
  ASSERT_TRUE(engine->Publish(client.caller, request).ok());
  EXPECT_TRUE(engine->GetTensor(Caller{}, TensorRef::Name("brief"))->expire_time.has_value());
  request.ttl = absl::ZeroDuration();
  EXPECT_EQ(ReasonOf(engine->Publish(client.caller, request).status()), Reason::kFieldInvalid);
}

TEST_F(SessionTest, DeletesAllOrNothing) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {1}), Make(Op::kOnes, 2, {1})}).ok());
  ASSERT_TRUE(engine->Publish(client.caller, Gift(TensorRef::Id(1), "x")).ok());
  const std::vector<TensorRef> bad = {TensorRef::Id(1), TensorRef::Name("x"), TensorRef::Id(99)};
  EXPECT_EQ(ReasonOf(engine->DeleteTensors(client.caller, Delete(bad)).status()), Reason::kHandleUnknown);
  const std::vector<TensorRef> bad_name = {TensorRef::Id(1), TensorRef::Name("y")};
  EXPECT_EQ(ReasonOf(engine->DeleteTensors(client.caller, Delete(bad_name)).status()), Reason::kNameUnknown);
  EXPECT_EQ(engine->CountAlive().handles, 2u);
  EXPECT_EQ(engine->CountAlive().names, 1u);
  DeleteTensorsRequest lenient = Delete(bad);
  lenient.tensors.push_back(TensorRef::Name("y"));
  lenient.tensors.push_back(TensorRef::Id(1));
  lenient.allow_missing = true;
  const auto deleted = engine->DeleteTensors(client.caller, lenient);
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->deleted, 2u);
  EXPECT_EQ(engine->CountAlive().handles, 1u);
  EXPECT_EQ(ReasonOf(engine->DeleteTensors(client.caller, Delete({TensorRef{}})).status()), Reason::kFieldInvalid);
}

TEST_F(SessionTest, ListsTensorsByPagesOfNamesOrHandles) {
  OpenSessionRequest open;
  open.workspace = "lab";
  Client client(*engine, open);
  std::vector<Instruction> instructions;
  for (uint64_t i = 1; i <= 5; ++i) instructions.push_back(Make(Op::kOnes, i, {1}));
  ASSERT_TRUE(client.Send(std::move(instructions)).ok());
  for (uint64_t i = 1; i <= 5; ++i) {
    ASSERT_TRUE(engine->Publish(client.caller, Gift(TensorRef::Id(i), StrCat(i < 4 ? "w" : "v", i))).ok());
  }
  ListTensorsRequest request;
  request.page.page_size = 2;
  request.prefix = "w";
  std::vector<std::string> names;
  do {
    const auto page = engine->ListTensors(client.caller, request);
    ASSERT_TRUE(page.ok());
    for (const TensorInfo& info : page->tensors) names.push_back(info.names[0]);
    request.page.page_token = page->next_page_token;
  } while (!request.page.page_token.empty());
  EXPECT_THAT(names, ElementsAre("lab/w1", "lab/w2", "lab/w3"));
  request.prefix.clear();
  request.workspace = "default";
  EXPECT_TRUE(engine->ListTensors(client.caller, request)->tensors.empty());
  request.handles = true;
  std::vector<uint64_t> ids;
  do {
    const auto page = engine->ListTensors(client.caller, request);
    for (const TensorInfo& info : page->tensors) ids.push_back(info.id);
    request.page.page_token = page->next_page_token;
  } while (!request.page.page_token.empty());
  EXPECT_THAT(ids, ElementsAre(1, 2, 3, 4, 5));
  request.page.page_token = "x";
  EXPECT_EQ(ReasonOf(engine->ListTensors(client.caller, request).status()), Reason::kFieldInvalid);
}

TEST_F(SessionTest, DevicesAreFoundByNameUuidAndBus) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {100}, "cuda:0")}).ok());
  client.Settle();
  const auto all = engine->ListDevices(Caller{}, {}, false);
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->devices.size(), 2u);
  EXPECT_EQ(all->devices[0].info.id.ToString(), "cpu");
  EXPECT_EQ(all->devices[1].info.id.ToString(), "cuda:0");
  EXPECT_TRUE(all->devices[1].holders.empty());
  EXPECT_EQ(all->devices[1].memory.used, 400);
  EXPECT_EQ(all->host.incarnation, engine->incarnation());
  for (const std::string name : {"cuda", "GPU-0", "0000:00:00.0"}) {
    const auto one = engine->ListDevices(Caller{}, {name, name}, true);
    ASSERT_TRUE(one.ok()) << name;
    ASSERT_EQ(one->devices.size(), 1u);
    ASSERT_EQ(one->devices[0].holders.size(), 1u);
    EXPECT_EQ(one->devices[0].holders[0].session, client.session);
    EXPECT_EQ(one->devices[0].holders[0].bytes, 400u);
    EXPECT_EQ(one->devices[0].holders[0].tensors, 1u);
  }
  const absl::Status unknown = engine->ListDevices(Caller{}, {"cpu", "cuda:3"}, false).status();
  EXPECT_EQ(Meta(unknown, "known"), "cpu, cuda:0");
  EXPECT_EQ(DetailsOf(unknown).fields[0].first, "devices[1]");
  EXPECT_TRUE(engine->TrimMemory(Caller{}, {"cuda:0"}).ok());
  EXPECT_EQ(cuda->trims(), 1);
  EXPECT_EQ(ReasonOf(engine->TrimMemory(Caller{}, {"x"}).status()), Reason::kDeviceUnknown);
}

TEST_F(SessionTest, OpsAreListedWithWhatDevicesTake) {
  const auto ops = engine->ListOps(Caller{}, "");
  ASSERT_TRUE(ops.ok());
  EXPECT_EQ(ops->size(), static_cast<size_t>(kOpCount));
  const auto some = engine->ListOps(Caller{}, "er");
  ASSERT_EQ(some->size(), 1u);
  EXPECT_EQ((*some)[0].op, Op::kErf);
  ASSERT_EQ((*some)[0].support.size(), 2u);
  EXPECT_TRUE((*some)[0].support[0].dtypes.empty()) << "the fake has no erf";
  EXPECT_EQ(engine->ListOps(Caller{}, "relu")->at(0).support[0].dtypes.size(), 13u);
}

TEST_F(SessionTest, ShutdownDrainsThenRefuses) {
  Client client(*engine);
  cpu->Hold();
  ASSERT_TRUE(client.Send({Make(Op::kOnes, 1, {2}), Apply(Op::kAdd, {1, 1}, 2)}, {{1, 2, ValueFormat::kRaw}}).ok());
  cpu->AwaitHeld();
  std::thread shutdown([&] { engine->Shutdown(absl::Seconds(60)); });
  while (client.listener->notices().empty()) std::this_thread::yield();
  EXPECT_EQ(ReasonOf(client.listener->notices()[0]), Reason::kDraining);
  EXPECT_EQ(ReasonOf(engine->OpenSession(Caller{}, {}).status()), Reason::kDraining);
  EXPECT_EQ(ReasonOf(Run(Caller{}, {}).status()), Reason::kDraining);
  cpu->Release();
  EXPECT_THAT(Floats(*client.listener->Await(1).data), ElementsAre(2, 2)) << "what was queued is finished";
  shutdown.join();
  EXPECT_EQ(ReasonOf(client.listener->AwaitEnd()), Reason::kDraining);
  EXPECT_EQ(ReasonOf(engine->KeepAlive(client.caller).status()), Reason::kDraining);
  EXPECT_EQ(ReasonOf(client.stream->Submit(client.Message({}))), Reason::kDraining);
  const LocalEngine::Counts counts = engine->CountAlive();
  EXPECT_EQ(counts.sessions + counts.handles + counts.names + counts.buffers, 0u);
  client.stream.reset();
}

TEST_F(SessionTest, ShutdownWithoutGraceAnswersEveryCall) {
  Client client(*engine);
  ASSERT_TRUE(client.Send({Make(Op::kUpload, 1, {2}), Apply(Op::kRelu, {1}, 2), Make(Op::kOnes, 3, {2})}).ok());
  std::atomic<int> answered{0};
  ExecuteRequest request;
  Program program;
  program.inputs = {Formal("x", 1)};
  program.instructions = {Apply(Op::kAdd, {1, 1}, 2)};
  program.outputs = {Formal("y", 2)};
  request.callee = program;
  request.inputs = {Given(TensorRef::Id(2))};
  request.outputs = {Keep(10)};
  const auto count = [&](const auto& result) {
    EXPECT_FALSE(result.ok());
    ++answered;
  };
  engine->Execute(client.caller, request, count);
  Caller after = client.caller;
  after.after = 50;
  request.outputs = {Keep(11)};
  engine->Execute(after, request, count);
  DownloadRequest download;
  download.tensor = TensorRef::Id(1);
  engine->Download(client.caller, download, count);
  auto sink = engine->Upload(client.caller, UploadOf(1, Spec({2})));
  ASSERT_TRUE(sink.ok());
  engine->Shutdown(absl::ZeroDuration());
  EXPECT_EQ(answered.load(), 3);
  engine->Shutdown(absl::ZeroDuration());
  sink->reset();
  client.stream.reset();
  EXPECT_EQ(engine->CountAlive().buffers, 0u);
}

}  // namespace
}  // namespace tensord::testing
