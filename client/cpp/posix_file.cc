#include "client/cpp/posix_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "kernels/core/text.h"

namespace tensord {

absl::Status SystemError(const std::string& name, int error) {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      code = absl::StatusCode::kNotFound;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = absl::StatusCode::kPermissionDenied;
      break;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      code = absl::StatusCode::kResourceExhausted;
      break;
    case EISDIR:
      code = absl::StatusCode::kInvalidArgument;
      break;
    default:
      break;
  }
  char buffer[256] = "";
  return absl::Status(code, StrCat(name, ": ", strerror_r(error, buffer, sizeof(buffer))));
}

PosixFile& PosixFile::operator=(PosixFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(owned_, other.owned_);
  std::swap(name_, other.name_);
  return *this;
}

PosixFile::~PosixFile() {
  if (owned_ && fd_ >= 0) ::close(fd_);
}

absl::StatusOr<PosixFile> PosixFile::OpenToRead(const std::string& path) {
  if (path == "-") return PosixFile(STDIN_FILENO, false, "standard input");
  PosixFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC), true, path);
  if (file.fd_ < 0) return SystemError(path, errno);
  struct stat st = {};
  if (::fstat(file.fd_, &st) != 0) return SystemError(path, errno);
  if (S_ISDIR(st.st_mode)) return SystemError(path, EISDIR);
  return file;
}

absl::StatusOr<PosixFile> PosixFile::OpenToWrite(const std::string& path) {
  if (path == "-") return PosixFile(STDOUT_FILENO, false, "standard output");
  PosixFile file(::open(path.c_str(), O_WRONLY | O_CLOEXEC), true, path);
  if (file.fd_ < 0) return SystemError(path, errno);
  return file;
}

absl::StatusOr<PosixFile> PosixFile::CreateBeside(const std::string& path, std::string& temporary) {
  std::vector<char> pattern(path.begin(), path.end());
  for (char c : std::string_view(".XXXXXX")) pattern.push_back(c);
  pattern.push_back('\0');
  PosixFile file(::mkostemp(pattern.data(), O_CLOEXEC), true, path);
  if (file.fd_ < 0) return SystemError(path, errno);
  temporary = pattern.data();
  // mkostemp gives 0600; a file made in the ordinary way has what the umask leaves. A target that exists keeps its
  // mode.
  struct stat st = {};
  mode_t mode = 0;
  if (::stat(path.c_str(), &st) == 0) {
    mode = st.st_mode & 07777;
  } else {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    mode = 0666 & ~mask;
  }
  if (::fchmod(file.fd_, mode) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return SystemError(path, error);
  }
  return file;
}

std::optional<uint64_t> PosixFile::Remaining() const {
  struct stat st = {};
  if (::fstat(fd_, &st) != 0 || !S_ISREG(st.st_mode)) return std::nullopt;
  const off_t at = ::lseek(fd_, 0, SEEK_CUR);
  if (at < 0) return std::nullopt;
  return static_cast<uint64_t>(std::max<off_t>(0, st.st_size - at));
}

absl::StatusOr<size_t> PosixFile::Read(char* out, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::read(fd_, out + done, bytes - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(name_, errno);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

absl::Status PosixFile::Write(const char* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = ::write(fd_, data + done, bytes - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(name_, errno);
    done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status PosixFile::Close() {
  if (!owned_ || fd_ < 0) return absl::OkStatus();
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) return SystemError(name_, errno);
  return absl::OkStatus();
}

}  // namespace tensord
