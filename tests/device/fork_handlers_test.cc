// Order and pairing of what objects do around a fork, and forks while objects come and go.
#include "device/fork_handlers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fork.h"

namespace tidemark {
namespace {

/// Notes its steps in `seen`, e.g. "+a", "-a", "*a" in the child.
std::unique_ptr<ForkHandlers> noting(std::string& seen, ForkLevel level, const std::string& name) {
  return std::make_unique<ForkHandlers>(level, ForkSteps{.before_fork = [&seen, name] { seen += "+" + name; },
                                                         .after_fork_in_parent = [&seen, name] { seen += "-" + name; },
                                                         .after_fork_in_child = [&seen, name] { seen += "*" + name; }});
}

TEST(ForkHandlers, LevelsAreTakenInOrderAndReleasedInReverse) {
  std::string seen;
  const auto device = noting(seen, ForkLevel::device, "d"), order = noting(seen, ForkLevel::stream_order, "s");
  const auto first = noting(seen, ForkLevel::allocator, "a"), second = noting(seen, ForkLevel::allocator, "b");
  EXPECT_EQ(in_a_fork([&] { return seen == "+a+b+s+d*d*s*b*a"; }), 0);
  EXPECT_EQ(seen, "+a+b+s+d-d-s-b-a");
}

TEST(ForkHandlers, AnObjectThatIsGoneIsNotAsked) {
  std::string seen;
  auto gone = noting(seen, ForkLevel::allocator, "g");
  const auto stays = noting(seen, ForkLevel::allocator, "s");
  gone.reset();
  EXPECT_EQ(in_a_fork([&] { return seen == "+s*s"; }), 0);
  EXPECT_EQ(seen, "+s-s");
}

TEST(ForkHandlers, StepsMayBeLeftOut) {
  const ForkHandlers empty(ForkLevel::device, {});
  EXPECT_EQ(in_a_fork([] { return true; }), 0);
}

/// The child can fork in turn: it has the registry unlocked, and its own objects.
TEST(ForkHandlers, AChildForksAsItsParentDoes) {
  std::string seen;
  const auto object = noting(seen, ForkLevel::device, "x");
  const auto forks_again = [&] { return in_a_fork([&] { return seen == "+x*x+x*x"; }) == 0 && seen == "+x*x+x-x"; };
  EXPECT_EQ(in_a_fork(forks_again), 0);
}

/// A lock that other threads take all the time, and objects that come and go: the child has both free.
TEST(ForkHandlers, AForkBesideThreadsThatHoldLocksLeavesThemFreeInTheChild) {
  std::mutex mutex;
  const ForkHandlers holder(ForkLevel::device, {.before_fork = [&] { mutex.lock(); },
                                                .after_fork_in_parent = [&] { mutex.unlock(); },
                                                .after_fork_in_child = [&] { mutex.unlock(); }});
  std::atomic<bool> stop{false};
  std::atomic<int> counter{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        { const ForkHandlers passing(ForkLevel::allocator, {}); }
        const std::lock_guard lock(mutex);
        ++counter;
      }
    });
  }
  while (counter < 3) std::this_thread::yield();
  for (int i = 0; i < 50; ++i) {
    const auto takes_both = [&] {
      const ForkHandlers own(ForkLevel::allocator, {});
      const std::lock_guard lock(mutex);
      return true;
    };
    EXPECT_EQ(in_a_fork(takes_both), 0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tidemark
