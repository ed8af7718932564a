// How a process ends on an exception that nobody was to throw: each in a process of its own.

#include "integrations/cli/last_exception.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tidemark::cli {
namespace {

using ::testing::ExitedWithCode;
using ::testing::MatchesRegex;

constexpr const char* kOfMemory = "tidemark: not enough memory on this machine .*\n";

class LastException : public ::testing::Test {
 protected:
  LastException() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }  // some of them start threads
};

[[noreturn]] void throw_it(const auto& exception) {
  throw exception;
}

/// To nobody.
[[noreturn]] void throw_on(const auto& exception) noexcept {
  throw_it(exception);
}

[[noreturn]] void handle(const auto& exception) {
  try {
    throw_it(exception);
  } catch (...) {
    end_on_exception();
  }
}

/// The refusal goes to stdout, which a test of this kind does not see.
void show_stdout() {
  std::fflush(stdout);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
}

TEST_F(LastException, HasAStatusAndALineOfItsKind) {
  const auto ends = [](const auto& exception, int status, const char* line) {
    const auto thrown = [&](auto how) {
      expect_last_exception(false);
      how(exception);
    };
    EXPECT_EXIT(thrown([](const auto& e) { throw_on(e); }), ExitedWithCode(status), MatchesRegex(line));
    EXPECT_EXIT(thrown([](const auto& e) { handle(e); }), ExitedWithCode(status), MatchesRegex(line));
  };
  ends(std::runtime_error("boom"), 3, "tidemark: fault: boom\n");
  ends(7, 3, "tidemark: fault: of unknown kind\n");
  ends(std::bad_alloc(), 2, kOfMemory);
  ends(std::bad_array_new_length(), 2, kOfMemory);
}

TEST_F(LastException, WithoutAnExceptionIsAFault) {
  const auto end = [] {
    expect_last_exception(false);
    std::terminate();
  };
  EXPECT_EXIT(end(), ExitedWithCode(3), MatchesRegex("tidemark: fault: of unknown kind\n"));
}

struct Silent : std::exception {
  [[nodiscard]] const char* what() const noexcept override { std::terminate(); }
};

/// What goes wrong while it is told is the second, and the status is that of the first.
TEST_F(LastException, KeepsTheStatusOfTheFirst) {
  const auto end = [] {
    expect_last_exception(false);
    throw_on(Silent());
  };
  EXPECT_EXIT(end(), ExitedWithCode(3), "");
}

TEST_F(LastException, IsToldWhileStaticObjectsGo) {
  const auto end = [] {
    show_stdout();
    {
      const std::vector<std::string> arguments{"plan"};  // whatever main had is gone by then
      expect_last_exception(true);
    }
    std::atexit([] { throw_on(std::runtime_error("late")); });
    std::exit(0);
  };
  EXPECT_EXIT(
      end(), ExitedWithCode(3),
      MatchesRegex("tidemark: fault: late\n\\{\n.*\"exit_status\": 3,\n.*\"kind\": \"fault\",\n.*\"late\"\n\\}\n"));
}

struct ThrowsAtThreadExit {
  ~ThrowsAtThreadExit() noexcept { throw_on(std::bad_alloc()); }
};

TEST_F(LastException, IsToldWhileAThreadGoes) {
  const auto end = [] {
    show_stdout();
    expect_last_exception(true);
    std::thread([] { static thread_local const ThrowsAtThreadExit one; }).join();
  };
  EXPECT_EXIT(end(), ExitedWithCode(2),
              MatchesRegex(std::string(kOfMemory) + "\\{\n.*\"exit_status\": 2,\n.*\"bad_input\",\n.*\n\\}\n"));
}

/// Of many at once, handled by main or by nobody, one is told, once, and the status is its own.
TEST_F(LastException, OfManyThreadsOneIsTold) {
  const auto end = [] {
    expect_last_exception(false);
    std::atomic<int> waiting{8};
    const auto at_once = [&] {
      for (--waiting; waiting > 0;) std::this_thread::yield();
    };
    std::vector<std::jthread> threads;
    for (int i = 0; i < 7; ++i)
      threads.emplace_back([&, i] {
        at_once();
        if (i % 2 == 0) handle(std::runtime_error("boom"));
        throw_on(std::runtime_error("boom"));
      });
    at_once();
    handle(std::runtime_error("boom"));
  };
  for (int time = 0; time < 10; ++time)
    EXPECT_EXIT(end(), ExitedWithCode(3), MatchesRegex("tidemark: fault: boom\n")) << time;
}

}  // namespace
}  // namespace tidemark::cli
