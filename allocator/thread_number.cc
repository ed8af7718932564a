#include "allocator/thread_number.h"

#include <array>
#include <atomic>

namespace tidemark::allocator {
namespace {

constexpr std::size_t kNumbers = 4096;

/// No lock, and nothing to construct or destroy: a process may fork, and threads may end, at any time. In the child of
/// a fork the numbers of the parent's other threads stay taken.
constinit std::array<std::atomic<bool>, kNumbers> taken{};

constinit thread_local std::size_t known = 0;  ///< one more than the number; 0: not asked for yet

struct Ticket {
  std::size_t number = 0;

  Ticket() {
    while (number < kNumbers && taken[number].exchange(true, std::memory_order_relaxed)) ++number;
  }
  ~Ticket() {
    if (number < kNumbers) taken[number].store(false, std::memory_order_relaxed);
  }
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

}  // namespace tidemark::allocator
