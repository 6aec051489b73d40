// Uploads and downloads through gRPC. Payloads are copied once on this side: into a recycled buffer that gRPC sends, or
// from its slices to the reader.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "client/cpp/chunk_frame.h"
#include "client/cpp/remote_call.h"
#include "client/cpp/slice_pool.h"
#include "kernels/core/error.h"
#include "proto/wire/chunk.h"

namespace tensord {
namespace {

// Payload of a chunk unless the caller sends smaller ones: larger ones gain nothing (server/design).
constexpr size_t kChunkBytes = 1 << 20;
// Chunks on their way while the next one is made.
constexpr size_t kChunksInFlight = 3;
// How long an upload that is given up waits for what was written to arrive.
constexpr absl::Duration kAbandon = absl::Seconds(5);

grpc::ByteBuffer Encode(const google::protobuf::MessageLite& message) {
  const std::string bytes = message.SerializeAsString();
  grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

template <class Message>
absl::StatusOr<Message> Decode(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  Message message;
  if ((!buffer.TrySingleSlice(&slice).ok() && !buffer.DumpToSingleSlice(&slice).ok()) ||
      !message.ParseFromArray(slice.begin(), static_cast<int>(slice.size()))) {
    return Error(Reason::kInternal).With("id", "-").Say("cause", "a message of the daemon that cannot be read");
  }
  return message;
}

class RemoteUpload : public UploadSink {
 public:
  RemoteUpload(std::shared_ptr<Connection> connection, const UploadStart& start, std::shared_ptr<RawCall> call)
      : connection_(std::move(connection)),
        call_(std::move(call)),
        checksum_(start.checksum),
        total_(static_cast<uint64_t>(start.spec.type.bytes())),
        chunk_bytes_(
            std::clamp<uint64_t>(kChunkBytes, 1, std::max<uint64_t>(1, connection_->limits().max_chunk_bytes))),
        pool_(std::make_shared<SlicePool>(chunk_bytes_)) {}

  ~RemoteUpload() override {
    if (finished_) return;
    // Half-closing tells the daemon to keep what has arrived, and by the time it answers all of it has. An upload that
    // has every byte would become a tensor by it, so that one is cancelled.
    if (!failed_ && position_ < total_) {
      call_->WritesDone();
      call_->FinishWithin(kAbandon);
    }
    call_->Cancel();
  }

  // The daemon's first answer: where to begin.
  absl::Status Begin() {
    const std::optional<grpc::ByteBuffer> message = call_->Read();
    if (!message) return Ended();
    TENSORD_RETURN_IF_ERROR(Progress(*message));
    position_ = progress_.received_bytes;
    return absl::OkStatus();
  }

  uint64_t received() const override { return position_; }
  uint64_t total() const override { return total_; }
  bool complete() const override { return progress_.complete || position_ == total_; }

  absl::Status Write(uint64_t offset, absl::Span<const std::string_view> pieces,
                     std::optional<uint64_t> checksum) override {
    if (failed_) return failure_;
    uint64_t bytes = 0;
    for (const std::string_view piece : pieces) bytes += piece.size();
    if (offset != position_ || bytes > total_ - position_) {
      return Fail(Error(Reason::kChunkOffset)
                      .With("expected", position_)
                      .With("got", offset != position_ ? offset : offset + bytes)
                      .With("total", total_));
    }
    if (bytes == 0) return absl::OkStatus();
    if (checksum && bytes > chunk_bytes_) {
      // The caller's checksum covers the whole: it goes as one message, and the daemon says if that is too long.
      return Send(Joined(pieces), bytes, checksum);
    }
    // Pieces are gathered into chunks of at most chunk_bytes_.
    size_t piece = 0;
    size_t at = 0;
    for (uint64_t left = bytes; left > 0;) {
      const auto n = static_cast<size_t>(std::min<uint64_t>(left, chunk_bytes_));
      std::unique_ptr<char[]> buffer = pool_->Get();
      for (size_t filled = 0; filled < n;) {
        const size_t part = std::min(n - filled, pieces[piece].size() - at);
        std::memcpy(buffer.get() + filled, pieces[piece].data() + at, part);
        filled += part;
        at += part;
        if (at == pieces[piece].size()) {
          ++piece;
          at = 0;
        }
      }
      std::optional<uint64_t> sum = checksum;
      const std::string_view chunk(buffer.get(), n);
      if (!sum && checksum_ == Checksum::kXxh3) sum = Xxh3({&chunk, 1});
      TENSORD_RETURN_IF_ERROR(Send(pool_->Wrap(std::move(buffer), n), n, sum));
      left -= n;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<TensorInfo> Finish() override {
    if (failed_) return failure_;
    finished_ = true;
    call_->WritesDone();
    while (const std::optional<grpc::ByteBuffer> message = call_->Read()) {
      if (absl::Status status = Progress(*message); !status.ok()) return Fail(status);
    }
    const absl::Status status = call_->Finish();
    if (!status.ok()) return Fail(connection_->Explain(status));
    if (!progress_.complete || !progress_.tensor) {
      return Fail(Error(Reason::kUploadIncomplete).With("received", progress_.received_bytes).With("total", total_));
    }
    return *progress_.tensor;
  }

 private:
  static grpc::Slice Joined(absl::Span<const std::string_view> pieces) {
    std::string all;
    for (const std::string_view piece : pieces) all.append(piece);
    return grpc::Slice(all);
  }

  absl::Status Send(grpc::Slice data, uint64_t bytes, std::optional<uint64_t> checksum) {
    std::array<char, kMaxChunkHead> head;
    const size_t length = WriteChunkHead(position_, checksum, bytes, head);
    const std::array<grpc::Slice, 2> slices = {grpc::Slice(head.data(), length), std::move(data)};
    if (!call_->Write(grpc::ByteBuffer(slices.data(), slices.size()), /*last=*/false)) return Ended();
    position_ += bytes;
    return absl::OkStatus();
  }

  absl::Status Progress(const grpc::ByteBuffer& buffer) {
    TENSORD_ASSIGN_OR_RETURN(const auto response, Decode<v1::UploadResponse>(buffer));
    TENSORD_ASSIGN_OR_RETURN(progress_, wire::FromProto(response));
    return absl::OkStatus();
  }

  // The call is over before its time.
  absl::Status Ended() {
    absl::Status status = connection_->Explain(call_->Finish());
    if (status.ok()) status = Error(Reason::kUploadIncomplete).With("received", position_).With("total", total_);
    return Fail(status);
  }
  absl::Status Fail(absl::Status status) {
    failed_ = true;
    failure_ = status;
    return status;
  }

  const std::shared_ptr<Connection> connection_;
  const std::shared_ptr<RawCall> call_;
  const Checksum checksum_;
  const uint64_t total_;
  const uint64_t chunk_bytes_;
  const std::shared_ptr<SlicePool> pool_;
  wire::UploadProgress progress_;
  uint64_t position_ = 0;
  bool failed_ = false;
  bool finished_ = false;
  absl::Status failure_;
};

class RemoteDownload : public DownloadSource {
 public:
  RemoteDownload(std::shared_ptr<Connection> connection, std::shared_ptr<RawCall> call, uint64_t offset)
      : connection_(std::move(connection)), call_(std::move(call)), offset_(offset) {}
  ~RemoteDownload() override { call_->Cancel(); }

  // The first message, which is there.
  absl::Status Begin() {
    const std::optional<grpc::ByteBuffer> message = call_->Read();
    if (!message) return Ended();
    TENSORD_ASSIGN_OR_RETURN(message_, Decode<v1::DownloadResponse>(*message));
    TENSORD_ASSIGN_OR_RETURN(wire::DownloadPart part, wire::FromProto(message_));
    auto* begin = std::get_if<wire::DownloadBegin>(&part);
    if (begin == nullptr) return Broken("a download that does not begin with its start");
    info_ = std::move(begin->tensor);
    total_ = begin->total_bytes;
    return absl::OkStatus();
  }

  const TensorInfo& info() const override { return info_; }
  uint64_t total() const override { return total_; }

  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    size_t filled = 0;
    while (filled < out.size() && position_ < total_) {
      if (piece_ == pieces_.size()) TENSORD_RETURN_IF_ERROR(NextChunk());
      std::string_view& piece = pieces_[piece_];
      const size_t n = std::min(piece.size(), out.size() - filled);
      std::memcpy(out.data() + filled, piece.data(), n);
      piece.remove_prefix(n);
      if (piece.empty()) ++piece_;
      filled += n;
      position_ += n;
    }
    if (filled == 0 && !out.empty() && !ended_) {
      // The daemon's last word: a failure after the last byte counts.
      ended_ = true;
      TENSORD_RETURN_IF_ERROR(connection_->Explain(call_->Finish()));
    }
    return filled;
  }

 private:
  absl::Status NextChunk() {
    pieces_.clear();
    piece_ = 0;
    const std::optional<grpc::ByteBuffer> message = call_->Read();
    if (!message) return Ended();
    TENSORD_ASSIGN_OR_RETURN(wire::Chunk chunk, Split(*message));
    uint64_t bytes = 0;
    for (const std::string_view piece : pieces_) bytes += piece.size();
    if (chunk.offset != offset_ + position_ || bytes == 0 || bytes > total_ - position_) {
      return Broken(StrCat("a chunk of ", bytes, " bytes at ", chunk.offset, ", expected at ", offset_ + position_,
                           " of ", offset_ + total_));
    }
    if (chunk.checksum) {
      if (const uint64_t sum = Xxh3(pieces_); sum != *chunk.checksum) {
        return Error(Reason::kChecksumMismatch)
            .With("scope", "chunk")
            .With("offset", chunk.offset)
            .With("expected", *chunk.checksum)
            .With("got", sum);
      }
    }
    return absl::OkStatus();
  }

  // Fills pieces_ with the payload, where gRPC put it if the message has the usual layout.
  absl::StatusOr<wire::Chunk> Split(const grpc::ByteBuffer& message) {
    slices_.clear();
    if (!message.Dump(&slices_).ok()) return Broken("a chunk that cannot be read");
    std::array<char, kMaxChunkHead> begin;
    size_t have = 0;
    for (const grpc::Slice& slice : slices_) {
      const size_t n = std::min(slice.size(), begin.size() - have);
      std::memcpy(begin.data() + have, slice.begin(), n);
      have += n;
    }
    if (const std::optional<ChunkHead> head = ReadChunkHead({begin.data(), have}, message.Length())) {
      size_t skip = head->head_bytes;
      for (const grpc::Slice& slice : slices_) {
        std::string_view piece(reinterpret_cast<const char*>(slice.begin()), slice.size());
        const size_t n = std::min(skip, piece.size());
        skip -= n;
        if (n < piece.size()) pieces_.push_back(piece.substr(n));
      }
      return wire::Chunk{head->offset, head->checksum, {}};
    }
    TENSORD_ASSIGN_OR_RETURN(message_, Decode<v1::DownloadResponse>(message));
    TENSORD_ASSIGN_OR_RETURN(wire::DownloadPart part, wire::FromProto(message_));
    const auto* chunk = std::get_if<wire::Chunk>(&part);
    if (chunk == nullptr) return Broken("a second start");
    pieces_.push_back(chunk->data);
    return *chunk;
  }

  absl::Status Ended() {
    absl::Status status = connection_->Explain(call_->Finish());
    if (status.ok()) return Broken(StrCat("the download ended at byte ", position_, " of ", total_));
    return status;
  }
  static absl::Status Broken(std::string_view cause) {
    return Error(Reason::kInternal).With("id", "-").Say("cause", cause);
  }

  const std::shared_ptr<Connection> connection_;
  const std::shared_ptr<RawCall> call_;
  const uint64_t offset_;
  TensorInfo info_;
  uint64_t total_ = 0;
  uint64_t position_ = 0;
  bool ended_ = false;
  // The chunk being read: its pieces lie in slices_, or in message_.
  std::vector<grpc::Slice> slices_;
  v1::DownloadResponse message_;
  std::vector<std::string_view> pieces_;
  size_t piece_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<UploadSink>> StartUpload(std::shared_ptr<Connection> connection, const Caller& caller,
                                                        const UploadStart& start) {
  // The size is needed here too, and must not overflow.
  TENSORD_RETURN_IF_ERROR(CheckedBytes(start.spec.type.dtype, start.spec.type.shape).status());
  auto context = std::make_unique<grpc::ClientContext>();
  TENSORD_RETURN_IF_ERROR(SetCaller(*context, caller));
  std::shared_ptr<RawCall> call = RawCall::Start(connection->generic, "/tensord.v1.Tensors/Upload", std::move(context),
                                                 {.max_queued_writes = kChunksInFlight});
  call->Write(Encode(wire::UploadStartToProto(start)), /*last=*/false);
  auto upload = std::make_unique<RemoteUpload>(std::move(connection), start, std::move(call));
  TENSORD_RETURN_IF_ERROR(upload->Begin());
  return upload;
}

void StartDownload(std::shared_ptr<Connection> connection, const Caller& caller, const DownloadRequest& request,
                   Done<std::unique_ptr<DownloadSource>> done) {
  auto context = std::make_unique<grpc::ClientContext>();
  if (absl::Status status = SetCaller(*context, caller); !status.ok()) return done(status);
  std::shared_ptr<RawCall> call =
      RawCall::Start(connection->generic, "/tensord.v1.Tensors/Download", std::move(context), {.max_queued_reads = 1});
  call->Write(Encode(wire::ToProto(wire::DownloadCall{.request = request, .checksum = Checksum::kXxh3})),
              /*last=*/true);
  auto shared_done = std::make_shared<Done<std::unique_ptr<DownloadSource>>>(std::move(done));
  // WhenReadable calls once the first message, or the end, is there: Begin then has nothing to wait for.
  call->WhenReadable([call, connection = std::move(connection), offset = request.offset, shared_done] {
    auto download = std::make_unique<RemoteDownload>(connection, call, offset);
    if (absl::Status status = download->Begin(); !status.ok()) return (*shared_done)(status);
    (*shared_done)(std::unique_ptr<DownloadSource>(std::move(download)));
  });
}

}  // namespace tensord
