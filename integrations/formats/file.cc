#include "integrations/formats/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tidemark {
namespace {

/// Owns a file descriptor. `close` reports what a destructor would swallow.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] bool open() const { return fd_ >= 0; }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool close() {
    const int fd = fd_;
    fd_ = -1;
    return ::close(fd) == 0;
  }

 private:
  int fd_;
};

Error failed(const std::filesystem::path& path, std::string_view verb, int error) {
  return bad_input(fmt::format("{}: cannot {}: {}", path.string(), verb, std::strerror(error)));
}

/// 0, or the errno of the first write that failed.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

Status write_in_place(const std::filesystem::path& path, std::string_view bytes) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.open()) return failed(path, "write", errno);
  if (const int error = write_all(file.get(), bytes); error != 0) return failed(path, "write", error);
  if (!file.close()) return failed(path, "write", errno);
  return {};
}

/// Where a link leads, so that replacing the file keeps the link.
std::filesystem::path resolved(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  std::filesystem::path target = std::filesystem::weakly_canonical(path, error);
  return error ? path : target;
}

/// A new file beside `target`: same directory, so that a rename is atomic. Its name is in `path`.
struct Temporary {
  std::filesystem::path path;
  int fd = -1;
};

Temporary open_temporary(const std::filesystem::path& target) {
  constexpr int kTries = 100;
  Temporary temporary;
  for (int i = 0; i < kTries; ++i) {
    temporary.path = target.parent_path() / fmt::format(".tidemark-{}-{}.tmp", ::getpid(), i);
    temporary.fd = ::open(temporary.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (temporary.fd >= 0 || errno != EEXIST) break;
  }
  return temporary;
}

/// 0, or the errno of the step that failed. The file keeps the permissions of the one it replaces; `fd` is closed.
int fill(int fd, std::string_view bytes, const struct stat* replaced) {
  Descriptor file(fd);
  if (const int error = write_all(file.get(), bytes); error != 0) return error;
  if (replaced != nullptr && ::fchmod(file.get(), replaced->st_mode & 07777) != 0) return errno;
  if (::fsync(file.get()) != 0) return errno;
  return file.close() ? 0 : errno;
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return failed(path, "read", errno);
  std::string bytes;
  constexpr std::size_t kStep = std::size_t{1} << 16;
  for (;;) {
    const std::size_t have = bytes.size();
    bytes.resize(have + kStep);
    const ssize_t got = ::read(file.get(), bytes.data() + have, kStep);
    bytes.resize(have + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(path, "read", errno);
    if (got == 0) return bytes;
  }
}

Status write_file(const std::filesystem::path& path, std::string_view bytes) {
  if (path.empty()) return bad_input("no file name is given to write to");
  const std::filesystem::path target = resolved(path);
  struct stat existing {};
  const bool exists = ::stat(target.c_str(), &existing) == 0;
  if (exists && S_ISDIR(existing.st_mode)) return failed(path, "write", EISDIR);
  if (exists && !S_ISREG(existing.st_mode)) return write_in_place(path, bytes);
  if (exists && ::access(target.c_str(), W_OK) != 0) return failed(path, "write", errno);

  const Temporary temporary = open_temporary(target);
  if (temporary.fd < 0) return failed(path, "write", errno);
  int error = fill(temporary.fd, bytes, exists ? &existing : nullptr);
  if (error == 0 && ::rename(temporary.path.c_str(), target.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(temporary.path.c_str());
  return failed(path, "write", error);
}

}  // namespace tidemark
