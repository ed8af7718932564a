#pragma once
// A forked process that answers a question. One that hangs ends by a signal after 30 s, so that a test fails instead.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tidemark {

/// A child at work on `check` beside its parent.
class Fork {
 public:
  template <class Check>
  explicit Fork(const Check& check) : child_(fork()) {
    if (child_ != 0) return;
    alarm(30);
    _exit(check() ? 0 : 1);
  }
  /// Waits for its end, once: 0 right, 1 wrong, 255 a signal.
  [[nodiscard]] int status() const {
    int status = -1;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
  }

 private:
  const pid_t child_;
};

/// The same, waited for at once.
template <class Check>
[[nodiscard]] int in_a_fork(const Check& check) {
  return Fork(check).status();
}

}  // namespace tidemark
