#include "integrations/cli/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

namespace tidemark::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

fs::path folder_of(const fs::path& file) {
  std::error_code error;
  fs::path target = fs::weakly_canonical(fs::absolute(file, error), error);
  if (error) target = file;
  return target.parent_path().empty() ? "." : target.parent_path();
}

/// True: another process holds it. Any other refusal is of a file system that has no such locks.
bool is_held(int fd) {
  int result = 0;
  do result = ::flock(fd, LOCK_EX | LOCK_NB);
  while (result != 0 && errno == EINTR);
  return result != 0 && errno == EWOULDBLOCK;
}

}  // namespace

Result<FolderLock> FolderLock::take(const fs::path& file, const std::function<void(const std::string&)>& say,
                                    const LockPatience& patience) {
  constexpr std::chrono::milliseconds kPause{20};
  const fs::path folder = folder_of(file);
  FolderLock lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Clock::time_point begin = Clock::now();
  bool is_said = false;
  // flock(2) has no limit of time, so it is asked again.
  while (lock.fd_ >= 0 && is_held(lock.fd_)) {
    const auto waited = Clock::now() - begin;
    if (waited >= patience.most)
      return bad_input(fmt::format(
          "{}: nothing was written: another process has held the lock (flock) on its folder {} for {} s; run it again "
          "when that has ended (`fuser {}` names it)",
          file.string(), folder.string(), std::chrono::duration_cast<std::chrono::seconds>(patience.most).count(),
          folder.string()));
    if (!is_said && waited >= patience.silent) {
      say(fmt::format("waiting for another process, which holds the lock on {}", folder.string()));
      is_said = true;
    }
    std::this_thread::sleep_for(kPause);
  }
  return lock;
}

FolderLock::FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace tidemark::cli
