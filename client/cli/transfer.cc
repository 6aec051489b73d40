// tensorctl put, get: files up and down, in chunks.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <ostream>
#include <vector>

#include "absl/time/clock.h"
#include "client/cli/commands.h"
#include "client/cli/execute.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/shape_text.h"
#include "client/cpp/tensor_file.h"
#include "kernels/core/error.h"
#include "server/engine/blocking.h"

namespace tensord::cli {
namespace {

constexpr size_t kChunk = 1 << 20;

bool IsNpy(const std::string& path) { return path.ends_with(".npy"); }

// A line on a terminal that counts bytes; silent elsewhere and for what is done in a moment.
class Progress {
 public:
  Progress(Context& context, std::string what, uint64_t total)
      : context_(context),
        what_(std::move(what)),
        total_(total),
        show_(isatty(STDERR_FILENO) != 0 && !context.json()),
        start_(absl::Now()) {}
  ~Progress() {
    if (shown_) context_.err() << "\r\x1b[K" << std::flush;
  }
  void Update(uint64_t done) {
    const absl::Time now = absl::Now();
    if (!show_ || now - last_ < absl::Milliseconds(100) || now - start_ < absl::Milliseconds(300)) return;
    last_ = now;
    shown_ = true;
    const double seconds = absl::ToDoubleSeconds(now - start_);
    const auto rate = static_cast<uint64_t>(static_cast<double>(done) / seconds);
    const uint64_t percent = total_ == 0 ? 100 : done / (total_ / 100 + 1);
    const std::string bar(static_cast<size_t>(percent) * 30 / 100, '=');
    const std::string left = rate == 0 ? "?" : StrCat((total_ - done) / rate, " s");
    context_.err() << "\r\x1b[K" << what_ << " [" << bar << std::string(30 - bar.size(), ' ') << "] " << percent
                   << " %  " << BytesText(done) << " of " << BytesText(total_) << "  " << BytesText(rate) << "/s  "
                   << left << " left" << std::flush;
  }

 private:
  Context& context_;
  std::string what_;
  uint64_t total_;
  bool show_;
  bool shown_ = false;
  absl::Time start_;
  absl::Time last_ = absl::InfinitePast();
};

struct PutOptions {
  std::string file, name, device = "cpu", dtype, shape, ttl;
  bool raw = false;
  bool no_clobber = false;
};

absl::StatusOr<std::unique_ptr<TensorFileReader>> OpenFile(const PutOptions& options) {
  const bool described = !options.dtype.empty() || !options.shape.empty();
  if (!options.raw && (IsNpy(options.file) || !described)) {
    if (described) {
      return Error(Reason::kFieldInvalid)
          .Say("field", "--dtype or --shape")
          .With("value", "given")
          .With("allowed", "with raw files only: a .npy file says them itself");
    }
    if (!IsNpy(options.file) && options.file != "-") {
      return Error(Reason::kFieldInvalid)
          .Say("field", "FILE")
          .With("value", StrCat("\"", options.file, "\""))
          .With("allowed", "a .npy file, or raw bytes with --dtype and --shape");
    }
    return TensorFileReader::OpenNpy(options.file);
  }
  if (options.shape.empty()) {
    return Error(Reason::kFieldInvalid)
        .Say("field", "--shape")
        .With("value", "not given")
        .With("allowed", "the sizes of the raw bytes, as --shape 2,3; () for a single number");
  }
  TensorType type;
  TENSORD_ASSIGN_OR_RETURN(type.dtype, ParseDtypeOption(options.dtype.empty() ? "float32" : options.dtype));
  TENSORD_ASSIGN_OR_RETURN(type.shape, ParseShape(options.shape));
  TENSORD_RETURN_IF_ERROR(CheckedBytes(type.dtype, type.shape).status());
  return TensorFileReader::OpenRaw(options.file, type);
}

absl::Status Put(Context& context, const PutOptions& options) {
  TENSORD_RETURN_IF_ERROR(context.CheckName(options.name));
  TENSORD_ASSIGN_OR_RETURN(const std::unique_ptr<TensorFileReader> reader, OpenFile(options));
  UploadStart start;
  start.spec.type = reader->type();
  start.spec.device = options.device;
  start.checksum = Checksum::kXxh3;
  PublishRequest& publish = start.publish.emplace();
  publish.name = context.Qualified(options.name);
  publish.replace = !options.no_clobber;
  if (!options.ttl.empty()) {
    absl::Duration ttl;
    if (!absl::ParseDuration(options.ttl, &ttl) || ttl <= absl::ZeroDuration()) {
      return Error(Reason::kFieldInvalid)
          .Say("field", "--ttl")
          .With("value", options.ttl)
          .With("allowed", "a duration, as 90s, 30m or 12h");
    }
    publish.ttl = ttl;
  }
  TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
  TENSORD_ASSIGN_OR_RETURN(const std::unique_ptr<UploadSink> sink, engine->Upload(context.caller(), start));
  Progress progress(context, StrCat("put ", options.name), reader->total());
  std::vector<char> buffer(kChunk);
  uint64_t offset = sink->received();
  while (offset < reader->total()) {
    TENSORD_ASSIGN_OR_RETURN(const size_t n, reader->Read(absl::MakeSpan(buffer)));
    if (n == 0) break;
    const std::string_view piece(buffer.data(), n);
    TENSORD_RETURN_IF_ERROR(sink->Write(offset, {&piece, 1}, std::nullopt));
    offset += n;
    progress.Update(offset);
  }
  TENSORD_ASSIGN_OR_RETURN(const TensorInfo info, sink->Finish());
  if (context.json()) {
    context.PrintJson(TensorInfoJson(info));
  } else {
    context.Print(StrCat(options.name, ": ", info.spec.ToString(), ", ", BytesText(info.bytes), "\n"));
  }
  return absl::OkStatus();
}

absl::Status Get(Context& context, const std::string& name, const std::string& file, bool raw) {
  TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
  DownloadRequest request;
  request.tensor = TensorRef::Name(context.Qualified(name));
  TENSORD_ASSIGN_OR_RETURN(const std::unique_ptr<DownloadSource> source,
                           Await<std::unique_ptr<DownloadSource>>(
                               [&](auto done) { engine->Download(context.caller(), request, std::move(done)); }));
  const TensorType& type = source->info().spec.type;
  const bool npy = IsNpy(file) && !raw;
  TENSORD_ASSIGN_OR_RETURN(const std::unique_ptr<TensorFileWriter> writer,
                           npy ? TensorFileWriter::OpenNpy(file, type) : TensorFileWriter::OpenRaw(file, type));
  Progress progress(context, StrCat("get ", name), source->total());
  std::vector<char> buffer(kChunk);
  uint64_t offset = 0;
  while (true) {
    TENSORD_ASSIGN_OR_RETURN(const size_t n, source->Read(absl::MakeSpan(buffer)));
    if (n == 0) break;
    TENSORD_RETURN_IF_ERROR(writer->Write({buffer.data(), n}));
    offset += n;
    progress.Update(offset);
  }
  TENSORD_RETURN_IF_ERROR(writer->Finish());
  if (file == "-") return absl::OkStatus();
  if (context.json()) {
    JsonObject json;
    json.Text("file", file)
        .Text("format", npy ? "npy" : "raw")
        .Text("dtype", DtypeName(type.dtype))
        .Raw("shape", ShapeText(type.shape));
    context.PrintJson(json.Number("bytes", offset).Done());
  } else {
    context.Print(StrCat(file, ": ", type.ToString(), ", ", BytesText(offset), npy ? "" : ", raw", "\n"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddTransferCommands(const Command& app, Context& context) {
  const Command put = app.Add("put", "Upload a file as a tensor");
  auto p = std::make_shared<PutOptions>();
  put.Value("FILE", p->file, "A .npy file, a file of raw bytes, or - for standard input").Required();
  put.Value("NAME", p->name, "The tensor's name; what has it is replaced").Required();
  put.Value("--device,-d", p->device, "Where to: cpu, cuda:0").ShowDefault();
  put.Value("--dtype", p->dtype, "Of raw bytes; float32 without it");
  put.Value("--shape", p->shape, "Of raw bytes: 2,3");
  put.Flag("--raw", p->raw, "Raw bytes, whatever the file is called");
  put.Value("--ttl", p->ttl, "How long the name lasts: 90s, 12h");
  put.Flag("-n,--no-clobber", p->no_clobber, "Refuse where the name exists");
  put.Footer(
      "Examples:\n  tensorctl put weights.npy W --device cuda:0\n  tensorctl put image.bin I --dtype uint8 --shape "
      "224,224,3\n  zcat x.npy.gz | tensorctl put - X");
  put.Run([=, &context] { return Put(context, *p); });

  const Command get = app.Add("get", "Bring a tensor home into a file");
  auto name = std::make_shared<std::string>();
  auto file = std::make_shared<std::string>();
  auto raw = std::make_shared<bool>(false);
  get.Value("NAME", *name, "Its name").Required();
  get.Value("FILE", *file, ".npy by its ending, else raw little-endian bytes; - is standard output").Required();
  get.Flag("--raw", *raw, "Raw bytes, whatever the file is called");
  get.Footer("Examples:\n  tensorctl get W weights.npy\n  tensorctl get W - | sha256sum");
  get.Run([=, &context] { return Get(context, *name, *file, *raw); });
}

}  // namespace tensord::cli
