// The locks of sessions, and what a fork makes of them.
//
// A forked process has the forking thread alone, so a lock that another thread holds then is never released there. The
// lock over calls of sessions may be held for as long as kernels are recomputed: a fork does not wait for that. The
// child has a new lock, and what was half changed under the old one it must leave as it is. The lock over pointers is
// held for moments, and by the fork itself.

#pragma once

#include <mutex>
#include <utility>

namespace tidemark_torch {

/// While it lives the calling thread, which may have more of them, is the only one of the process in a call of a
/// session. Whoever has it may be waiting for Python's lock, so that is not held by who waits.
class SessionLock {
 public:
  SessionLock();
  /// Does not wait: see has_lock(). For who may be what the other thread waits for.
  explicit SessionLock(std::try_to_lock_t);
  SessionLock(const SessionLock&) = delete;
  SessionLock& operator=(const SessionLock&) = delete;
  ~SessionLock();
  [[nodiscard]] bool has_lock() const { return has_lock_; }

 private:
  const bool has_lock_ = true;
};

/// How many forks on the way to this process found another thread in a call of a session. What was made under another
/// number is lost.
[[nodiscard]] int forks_in_calls();

/// Of what is lost: not even destroyed.
template <class T>
void abandon(T& object) {
  static_cast<void>(new T(std::move(object)));
}

/// For pointers that one thread changes and others copy. Nothing else is taken, and nothing destroyed, while it is
/// held.
[[nodiscard]] std::mutex& pointer_mutex();

}  // namespace tidemark_torch
