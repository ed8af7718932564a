// Processes that end in the middle of their threads' allocations, in every way a process can (exit_program.cc): none
// hangs, crashes or loses a byte. TIDEMARK_SOAK_SECONDS and TIDEMARK_SOAK_SEED: tests/support/soak.h.

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/support/soak.h"

namespace tidemark::allocator {
namespace {

constexpr std::array kEnds = {"return", "exit", "thread_exit", "quick_exit", "_exit", "wait", "forks"};

class ExitPrograms : public testing::Test {
 protected:
  void SetUp() override {
    // ThreadSanitizer sleeps for a second at every exit unless told otherwise.
    const char* options = std::getenv("TSAN_OPTIONS");
    const std::string shorter = std::string(options == nullptr ? "" : options) + ":atexit_sleep_ms=20";
    ASSERT_EQ(setenv("TSAN_OPTIONS", shorter.c_str(), 1), 0);
  }

  static pid_t start(std::string end, std::string seed) {
    std::string program = TIDEMARK_EXIT_PROGRAM;
    char* const arguments[] = {program.data(), end.data(), seed.data(), nullptr};
    pid_t child = -1;
    EXPECT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ), 0);
    return child;
  }

  /// How the program ended, in words.
  static std::string ending_of(pid_t child) {
    int status = -1;
    if (waitpid(child, &status, 0) != child) return "waitpid failed";
    if (WIFEXITED(status)) return "status " + std::to_string(WEXITSTATUS(status));
    if (WTERMSIG(status) == SIGALRM) return "hung";
    return "signal " + std::to_string(WTERMSIG(status));
  }

  static std::string run(const std::string& end, std::uint64_t seed) {
    const pid_t child = start(end, std::to_string(seed));
    if (child > 0 && end == "wait") {
      std::this_thread::sleep_for(std::chrono::milliseconds(50 + seed % 100));
      EXPECT_EQ(kill(child, SIGKILL), 0);
    }
    return ending_of(child);
  }

  const Soak soak_{};
};

TEST_F(ExitPrograms, EndWellInTheMiddleOfTheirWork) {
  int programs = 0;
  for (; soak_.goes_on(programs, 2 * static_cast<int>(kEnds.size())); ++programs) {
    const auto step = static_cast<std::size_t>(programs);
    const std::string end = kEnds[step % kEnds.size()];
    const std::uint64_t seed = Soak::seed(step);
    ASSERT_EQ(run(end, seed), end == "wait" ? "signal 9" : "status 3") << "exit_program " << end << ' ' << seed;
  }
  std::printf("%d exit programs\n", programs);
}

TEST_F(ExitPrograms, AWrongProgramIsNoticed) {
  EXPECT_EQ(run("no such end", 1), "status 1");
}

}  // namespace
}  // namespace tidemark::allocator
