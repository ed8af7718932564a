#include "integrations/formats/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <utility>

namespace tidemark::formats {
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

Error cannot_read(const std::filesystem::path& path, int error) {
  return bad_input(fmt::format("{}: cannot read: {}", path.string(), std::strerror(error)));
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

Error too_large(const std::filesystem::path& path, Bytes bytes, Bytes most_bytes) {
  return bad_input(fmt::format("{}: is {} large; it must be at most {}", path.string(), format_bytes(bytes),
                               format_bytes(most_bytes)));
}

/// What its size says may change while it is read.
Result<std::string> read_all(int fd, const std::filesystem::path& path, Bytes most_bytes) {
  constexpr std::size_t kStep = std::size_t{1} << 16;
  std::string bytes;
  for (;;) {
    const std::size_t have = bytes.size();
    if (static_cast<Bytes>(have) > most_bytes) return too_large(path, static_cast<Bytes>(have), most_bytes);
    bytes.resize(have + kStep);
    const ssize_t got = ::read(fd, bytes.data() + have, kStep);
    bytes.resize(have + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot_read(path, errno);
    if (got == 0) return bytes;
  }
}

Status write_in_place(const std::filesystem::path& path, std::string_view bytes) {
  Descriptor file(open_in_place(path));
  if (!file.open()) return cannot_write(path, errno);
  if (const int error = write_all(file.get(), bytes); error != 0) return cannot_write(path, error);
  if (!file.close()) return cannot_write(path, errno);
  return {};
}

/// Where a link leads, so that replacing the file keeps the link.
std::filesystem::path resolved(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  std::filesystem::path target = std::filesystem::weakly_canonical(path, error);
  return error ? path : target;
}

/// A name for the signal handler, which may not allocate or lock.
struct Slot {
  enum State : int { unused, changing, live };
  std::atomic<int> state{unused};
  int lock = -1;  ///< the descriptor that holds the file's lock until it is forgotten
  std::array<char, PATH_MAX> name{};
};
static_assert(std::atomic<int>::is_always_lock_free);

std::array<Slot, 64>& slots() {
  static constinit std::array<Slot, 64> table;
  return table;
}

/// Takes the lock along. False: as many files are in use as have room.
bool remember(const std::filesystem::path& path, int lock) {
  const std::string& name = path.native();
  if (name.size() >= PATH_MAX) return false;
  for (Slot& slot : slots()) {
    int expected = Slot::unused;
    if (!slot.state.compare_exchange_strong(expected, Slot::changing)) continue;
    std::memcpy(slot.name.data(), name.c_str(), name.size() + 1);
    slot.lock = lock;
    slot.state = Slot::live;
    return true;
  }
  return false;
}

/// A lock that ends with the process, whatever ends it, or -1 and errno. A file without a name was taken for abandoned
/// between its making and its locking.
int lock_of(int fd) {
  const int lock = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  struct stat facts {};
  if (lock < 0) return lock;
  const bool held = ::flock(lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;  // or the file system has no locks
  if (held && ::fstat(lock, &facts) == 0 && facts.st_nlink > 0) return lock;
  ::close(lock);
  errno = EEXIST;
  return -1;
}

bool is_temporary_name(std::string_view name) {
  constexpr std::string_view kBegin = ".tidemark-", kEnd = ".tmp";
  return name.size() > kBegin.size() + kEnd.size() && name.starts_with(kBegin) && name.ends_with(kEnd) &&
         name.find_first_not_of("0123456789-", kBegin.size()) == name.size() - kEnd.size();
}

/// Unlinks the temporary files that no living process holds: those of processes that were killed.
void remove_abandoned(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::filesystem::path& path = entry->path();
    if (!is_temporary_name(path.filename().native())) continue;
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file.open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  }
}

constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU};

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kEndingSignals) sigaddset(&set, number);
  return set;
}

/// Keeps the signals from this thread between the making of a file and the noting of its name.
class SignalsHeld {
 public:
  SignalsHeld() {
    const sigset_t set = ending_signals();
    ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~SignalsHeld() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_{};
};

/// Async-signal-safe. The default action is back in place (SA_RESETHAND) and takes effect when this returns.
extern "C" void unlink_and_end(int number) {
  remove_temporaries();
  ::raise(number);
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

static Status check_regular(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status)) return cannot_read(path, EISDIR);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    return bad_input(fmt::format("{}: is not a regular file; give a file", path.string()));
  return {};
}

Result<std::ifstream> open_file(const std::filesystem::path& path) {
  if (Status status = check_regular(path); !status) return status.error();
  errno = 0;
  std::ifstream in(path);
  if (!in) return cannot_read(path, errno != 0 ? errno : EIO);
  return in;
}

Result<std::string> read_file(const std::filesystem::path& path, Bytes most_bytes) {
  if (Status status = check_regular(path); !status) return status.error();
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return cannot_read(path, errno);
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) return cannot_read(path, errno);
  if (facts.st_size > most_bytes) return too_large(path, facts.st_size, most_bytes);
  return read_all(file.get(), path, most_bytes);
}

std::string read_head(const std::filesystem::path& path, Bytes most_bytes) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return {};
  std::string head(static_cast<std::size_t>(most_bytes), '\0');
  const ssize_t got = ::pread(file.get(), head.data(), head.size(), 0);
  head.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return head;
}

Error cannot_write(const std::filesystem::path& path, int error) {
  std::error_code no_matter;
  const bool is_unread = error == ENXIO && std::filesystem::is_fifo(path, no_matter);
  return bad_input(
      fmt::format("{}: cannot write: {}", path.string(),
                  is_unread ? "no process reads this pipe; start the one that does first" : std::strerror(error)));
}

int open_in_place(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return fd;
  // A reader that is slow is waited for.
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0 && ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

Status write_file(const std::filesystem::path& path, std::string_view bytes) {
  if (path.empty()) return bad_input("no file name is given to write to");
  const std::filesystem::path target = resolved(path);
  struct stat existing {};
  const bool exists = ::stat(target.c_str(), &existing) == 0;
  if (exists && S_ISDIR(existing.st_mode)) return cannot_write(path, EISDIR);
  if (exists && !S_ISREG(existing.st_mode)) return write_in_place(path, bytes);
  if (exists && ::access(target.c_str(), W_OK) != 0) return cannot_write(path, errno);

  const Temporary temporary = create_temporary(target);
  if (temporary.fd < 0) return cannot_write(path, errno);
  int error = fill(temporary.fd, bytes, exists ? &existing : nullptr);
  if (error == 0 && ::rename(temporary.path.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(temporary.path.c_str());
  forget_temporary(temporary.path);
  if (error == 0) return {};
  return cannot_write(path, error);
}

Result<std::unique_ptr<GrowingFile>> GrowingFile::create(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  const bool in_place = std::filesystem::exists(found) && !std::filesystem::is_regular_file(found);
  const int fd = in_place ? open_in_place(path) : ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return cannot_write(path, errno);
  return std::unique_ptr<GrowingFile>(new GrowingFile(path, fd));
}

GrowingFile::~GrowingFile() {
  ::close(fd_);
}

void GrowingFile::append(std::string_view bytes) {
  if (!status_) return;
  if (const int error = write_all(fd_, bytes); error != 0) status_ = cannot_write(path_, error);
}

Temporary create_temporary(const std::filesystem::path& target) {
  constexpr int kTries = 100;
  remove_abandoned(target.parent_path());
  const SignalsHeld held;
  Temporary temporary;
  int error = 0;
  for (int i = 0; i < kTries; ++i) {
    temporary.path = target.parent_path() / fmt::format(".tidemark-{}-{}.tmp", ::getpid(), i);
    temporary.fd = ::open(temporary.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const int lock = temporary.fd < 0 ? -1 : lock_of(temporary.fd);
    error = errno;
    if (lock >= 0 && remember(temporary.path, lock)) return temporary;
    if (lock >= 0) error = EMFILE;
    if (temporary.fd >= 0 && error != EEXIST) ::unlink(temporary.path.c_str());
    for (const int fd : {lock, std::exchange(temporary.fd, -1)})
      if (fd >= 0) ::close(fd);
    if (error != EEXIST) break;
  }
  errno = error;
  return temporary;
}

void forget_temporary(const std::filesystem::path& path) {
  for (Slot& slot : slots()) {
    if (slot.state != Slot::live || path.native() != slot.name.data()) continue;
    slot.state = Slot::changing;
    ::close(slot.lock);
    slot.state = Slot::unused;
  }
}

void remove_temporaries() noexcept {
  for (const Slot& slot : slots())
    if (slot.state == Slot::live) ::unlink(slot.name.data());
}

void remove_temporaries_on_signals() {
  for (const int number : kEndingSignals) {
    struct sigaction before {};
    if (::sigaction(number, nullptr, &before) != 0 || before.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = unlink_and_end;
    action.sa_mask = ending_signals();
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(number, &action, nullptr);
  }
  ::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace tidemark::formats
