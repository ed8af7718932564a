#include "allocator/thread_number.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace tidemark {
namespace {

/// Never destroyed: threads may end after the statics of a process.
struct Numbers {
  std::mutex mutex;
  std::vector<bool> taken;

  std::size_t take() {
    const std::lock_guard lock(mutex);
    const auto vacant = std::find(taken.begin(), taken.end(), false);
    const auto number = static_cast<std::size_t>(vacant - taken.begin());
    if (vacant == taken.end()) taken.push_back(true);
    taken[number] = true;
    return number;
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

constinit thread_local std::size_t known = 0;  ///< one more than the number; 0: not asked for yet

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
