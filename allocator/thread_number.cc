#include "allocator/thread_number.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "device/fork_handlers.h"

namespace tidemark {
namespace {

constinit thread_local std::size_t known = 0;  ///< one more than the number; 0: not asked for yet

/// Never destroyed: threads may end after the statics of a process.
struct Numbers {
  std::mutex mutex;
  std::vector<bool> taken;
  const ForkHandlers at_fork{ForkLevel::allocator,
                             {.before_fork = [this] { mutex.lock(); },
                              .after_fork_in_parent = [this] { mutex.unlock(); },
                              .after_fork_in_child = [this] { keep_only_mine(); }}};

  std::size_t take() {
    const std::lock_guard lock(mutex);
    const auto vacant = std::find(taken.begin(), taken.end(), false);
    const auto number = static_cast<std::size_t>(vacant - taken.begin());
    if (vacant == taken.end()) taken.push_back(true);
    taken[number] = true;
    return number;
  }
  /// In the child of a process, where the forking thread is the only one.
  void keep_only_mine() {
    for (std::size_t number = 0; number < taken.size(); ++number) taken[number] = number + 1 == known;
    mutex.unlock();
  }
  void leave(std::size_t number) {
    const std::lock_guard lock(mutex);
    taken[number] = false;
  }
};

Numbers& numbers() {
  static auto* const all = new Numbers;
  return *all;
}

struct Ticket {
  const std::size_t number = numbers().take();
  ~Ticket() { numbers().leave(number); }
};

std::size_t first_number() {
  thread_local const Ticket ticket;
  known = ticket.number + 1;
  return ticket.number;
}

}  // namespace

std::size_t thread_number() {
  return known != 0 ? known - 1 : first_number();
}

}  // namespace tidemark
