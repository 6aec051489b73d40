// A daemon through its client, against a plain TCP loop, and calls one by one against a stream.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/ratio.h"
#include "tests/conformance/harness.h"
#include "tests/conformance/listener.h"

namespace tensord::bench {
namespace {

constexpr size_t kBytes = size_t{256} << 20;
constexpr size_t kPiece = size_t{1} << 20;

// Sends `kBytes` in writes of 1 MiB from one buffer to another, and waits for one byte that says all is there.
class PlainTcp {
 public:
  PlainTcp() : from_(kBytes, 'a'), to_(kBytes, 'b') {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener, 1) != 0) std::abort();
    getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
    sender_ = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(sender_, reinterpret_cast<sockaddr*>(&address), length) != 0) std::abort();
    receiver_ = accept(listener, nullptr, nullptr);
    close(listener);
    thread_ = std::thread([this] { Receive(); });
  }
  ~PlainTcp() {
    close(sender_);
    thread_.join();
    close(receiver_);
  }
  void Transfer() {
    for (size_t at = 0; at < kBytes; at += kPiece) {
      for (size_t done = 0; done < kPiece;) {
        const ssize_t n = write(sender_, &from_[at + done], kPiece - done);
        if (n <= 0) std::abort();
        done += static_cast<size_t>(n);
      }
    }
    char ready = 0;
    if (read(sender_, &ready, 1) != 1) std::abort();
  }

 private:
  void Receive() {
    for (;;) {
      for (size_t at = 0; at < kBytes;) {
        const ssize_t n = read(receiver_, &to_[at], std::min(kPiece, kBytes - at));
        if (n <= 0) return;
        at += static_cast<size_t>(n);
      }
      if (write(receiver_, "k", 1) != 1) return;
    }
  }
  std::string from_;
  std::string to_;
  int sender_ = -1;
  int receiver_ = -1;
  std::thread thread_;
};

void Transfers(conformance::TestSession& session) {
  PlainTcp tcp;
  oracle::Array array{{Dtype::kUint8, {int64_t{kBytes}}}, std::string(kBytes, 'x')};
  const auto upload = [&] { session.Free({session.Put(array, "cpu")}); };
  Ratio("upload of 256 MiB / plain TCP loop", upload, [&] { tcp.Transfer(); });
  const uint64_t id = session.Put(array, "cpu");
  std::string home(kBytes, '\0');
  const auto download = [&] {
    auto source = Await<std::unique_ptr<DownloadSource>>([&](auto done) {
      session.engine().Download(session.caller(), {TensorRef::Id(id), 0, 0}, std::move(done));
    });
    size_t at = 0;
    while (source.ok() && at < kBytes) {
      const auto n = (*source)->Read({&home[at], kBytes - at});
      if (!n.ok() || *n == 0) break;
      at += *n;
    }
    if (at != kBytes) std::printf("the download broke off\n");
  };
  Ratio("download of 256 MiB / plain TCP loop", download, [&] { tcp.Transfer(); });
  session.Free({id});
}

void SmallOps(conformance::TestSession& session) {
  const uint64_t x = session.Put(conformance::ArrayOf(Dtype::kFloat32, {2, 3}, {1, 2, 3, 4, 5, 6}), "cpu");
  auto listener = std::make_shared<conformance::Collector>();
  auto stream = session.engine().OpenStream(session.caller(), listener);
  if (!stream.ok()) return;
  uint64_t sequence = 0;
  uint64_t next = 1'000'000;
  uint64_t tag = 0;
  constexpr int kOps = 1000;
  // Adds that each free their predecessor, in one message, then one read.
  const auto streamed = [&] {
    StreamMessage message;
    message.sequence = ++sequence;
    uint64_t last = x;
    for (int i = 0; i < kOps; ++i) {
      Instruction add;
      add.op = Op::kAdd;
      add.inputs = {last, x};
      add.output = ++next;
      if (last != x) add.frees = {last};
      last = add.output;
      message.instructions.push_back(std::move(add));
    }
    message.reads = {{++tag, last, ValueFormat::kRaw}};
    (void)(*stream)->Submit(std::move(message));
    (void)listener->Await(tag);
  };
  const auto one_by_one = [&] {
    for (int i = 0; i < kOps / 10; ++i) (void)session.engine().KeepAlive(session.caller());
  };
  Ratio("1,000 adds of 2 x 3 on the stream and a read / 100 bare unary calls", streamed, one_by_one);
  const auto awaited = [&] {
    for (int i = 0; i < 100; ++i) {
      StreamMessage message;
      message.sequence = ++sequence;
      Instruction add;
      add.op = Op::kAdd;
      add.inputs = {x, x};
      add.output = ++next;
      message.instructions.push_back(std::move(add));
      message.reads = {{++tag, next, ValueFormat::kRaw}};
      (void)(*stream)->Submit(std::move(message));
      (void)listener->Await(tag);
    }
  };
  const auto unary = [&] {
    for (int i = 0; i < 100; ++i) (void)session.engine().KeepAlive(session.caller());
  };
  Ratio("an awaited add of 2 x 3 on the stream / a bare unary call", awaited, unary);
}

}  // namespace
}  // namespace tensord::bench

int main() {
  for (const auto& kind : tensord::conformance::SubjectKinds()) {
    if (kind.name != "Grpc") continue;
    const auto subject = kind.make({});
    tensord::conformance::TestSession session(subject->engine());
    tensord::bench::Transfers(session);
    tensord::bench::SmallOps(session);
  }
  return 0;
}
