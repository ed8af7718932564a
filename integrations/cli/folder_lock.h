#pragma once
// One command at a time between reading a file and replacing it.

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "core/result.h"

namespace tidemark::cli {

/// How long a lock is waited for.
struct LockPatience {
  std::chrono::milliseconds silent{2'000};  ///< then a person is told
  std::chrono::milliseconds most{60'000};   ///< then it is an error
};

/// Holds the folder of a file from other commands that lock it; they wait. It leaves no file behind: the lock is on the
/// folder itself (flock(2)) and ends with the process, whatever ends it. A file system without such locks gives none.
/// Links are followed. Threads: any.
class FolderLock {
 public:
  /// `say` is given one line, once, where it is waited for. Errors (bad_input): another process holds it all the time.
  [[nodiscard]] static Result<FolderLock> take(const std::filesystem::path& file,
                                               const std::function<void(const std::string&)>& say,
                                               const LockPatience& patience = {});
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}

  int fd_ = -1;
};

}  // namespace tidemark::cli
