// A file descriptor with its name, for messages. Thread compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace tensord {

class PosixFile {
 public:
  PosixFile() = default;
  PosixFile(PosixFile&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), owned_(other.owned_), name_(std::move(other.name_)) {}
  PosixFile& operator=(PosixFile&& other) noexcept;
  ~PosixFile();

  // "-" is standard input.
  static absl::StatusOr<PosixFile> OpenToRead(const std::string& path);
  // "-" is standard output. For something that exists and is no regular file (a pipe, a terminal).
  static absl::StatusOr<PosixFile> OpenToWrite(const std::string& path);
  // A new file beside `path`; its own path goes to `temporary`.
  static absl::StatusOr<PosixFile> CreateBeside(const std::string& path, std::string& temporary);

  const std::string& name() const { return name_; }
  // Bytes from the position on, of a regular file; nothing where it cannot be known (a pipe).
  std::optional<uint64_t> Remaining() const;
  // As many bytes as there are, `bytes` at most: fewer only at the end.
  absl::StatusOr<size_t> Read(char* out, size_t bytes);
  absl::Status Write(const char* data, size_t bytes);
  // Reports what the system only says at the end (a full disk on a network).
  absl::Status Close();

 private:
  PosixFile(int fd, bool owned, std::string name) : fd_(fd), owned_(owned), name_(std::move(name)) {}
  int fd_ = -1;
  bool owned_ = false;
  std::string name_;
};

// "NAME: text of errno", with the code that fits.
absl::Status SystemError(const std::string& name, int error);

}  // namespace tensord
