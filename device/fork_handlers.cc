#include "device/fork_handlers.h"

#include <pthread.h>

#include <array>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace tidemark {

/// The objects of the process. The lock is held from before a fork until after it, in both processes, so that nobody
/// comes or goes in between.
struct ForkRegistry {
  using Step = std::function<void()> ForkSteps::*;

  std::mutex mutex;
  std::array<std::vector<const ForkHandlers*>, kForkLevelCount> levels;  ///< in order of registration

  static ForkRegistry& get();

  static void run(const ForkHandlers& object, Step step) {
    if (object.steps_.*step) (object.steps_.*step)();
  }

  static void before_fork() {
    get().mutex.lock();
    for (const auto& level : get().levels) {
      for (const ForkHandlers* object : level) run(*object, &ForkSteps::before_fork);
    }
  }

  static void after_fork(Step step) {
    const auto& levels = get().levels;
    for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
      for (auto object = level->rbegin(); object != level->rend(); ++object) run(**object, step);
    }
    get().mutex.unlock();
  }

  std::vector<const ForkHandlers*>& level_of(const ForkHandlers& object) {
    return levels[static_cast<std::size_t>(object.level_)];
  }
};

namespace {

// Neither is made at its first use: a fork of another thread meanwhile would leave the child waiting for that for ever.
// The registry is never destroyed: forks happen until the very end of the process.
union Registry {
  constexpr Registry() : object() {}
  ~Registry() {}
  ForkRegistry object;
} constinit registry_of_process;

const int watching = pthread_atfork([] { ForkRegistry::before_fork(); },
                                    [] { ForkRegistry::after_fork(&ForkSteps::after_fork_in_parent); },
                                    [] { ForkRegistry::after_fork(&ForkSteps::after_fork_in_child); });

}  // namespace

ForkRegistry& ForkRegistry::get() {
  return registry_of_process.object;
}

ForkHandlers::ForkHandlers(ForkLevel level, ForkSteps steps) : level_(level), steps_(std::move(steps)) {
  if (watching != 0) throw std::bad_alloc();
  ForkRegistry& registry = ForkRegistry::get();
  const std::lock_guard lock(registry.mutex);
  registry.level_of(*this).push_back(this);
}

ForkHandlers::~ForkHandlers() {
  ForkRegistry& registry = ForkRegistry::get();
  const std::lock_guard lock(registry.mutex);
  std::erase(registry.level_of(*this), this);
}

}  // namespace tidemark
