#pragma once
// Independent work on oneTBB's threads, with an order that tools can see.
//
// oneTBB orders what a thread hands over before what another takes up, but it is linked as it comes from the system,
// not built with ThreadSanitizer, so that tool sees none of it. Two atomics of our own repeat the same order: what the
// caller did happens before every body, and every body before what the caller does next. Races *between* bodies stay
// visible. What the tool still says about oneTBB's own headers is listed in tests/support/tsan.supp.

#include <tbb/parallel_for.h>

#include <atomic>
#include <cstddef>
#include <optional>
#include <vector>

#include "core/result.h"

namespace tidemark::threads {

/// One way in and one way out: bodies read `started` and add to `finished`, so they are not ordered among themselves.
struct HandOver {
  std::atomic<int> started{0};
  std::atomic<int> finished{0};
};

template <class Body>
class HandedOver {
 public:
  HandedOver(const Body& body, HandOver& order) : body_(&body), order_(&order) {}
  void operator()(std::size_t i) const {
    static_cast<void>(order_->started.load(std::memory_order_acquire));
    (*body_)(i);
    order_->finished.fetch_add(1, std::memory_order_release);
  }

 private:
  const Body* body_;
  HandOver* order_;
};

/// body(i) for every i in [begin, end), in any order and on any thread; returns when all are done. Bodies must not
/// throw.
template <class Body>
void parallel_for_each(std::size_t begin, std::size_t end, const Body& body) {
  HandOver order;
  order.started.store(1, std::memory_order_release);
  tbb::parallel_for(begin, end, HandedOver<Body>(body, order));
  static_cast<void>(order.finished.load(std::memory_order_acquire));
}

/// body(i) for every i < count as above; the error of the lowest i that has one, so the outcome does not depend on
/// timing.
template <class Body>
[[nodiscard]] Status parallel_try_each(std::size_t count, const Body& body) {
  std::vector<std::optional<Error>> errors(count);
  parallel_for_each(0, count, [&](std::size_t i) {
    if (Status status = body(i); !status) errors[i] = status.error();
  });
  for (const auto& error : errors)
    if (error) return *error;
  return {};
}

}  // namespace tidemark::threads
