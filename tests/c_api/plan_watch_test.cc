// A caller's watch over a search of many threads (plan_watch.h).

#include "integrations/c_api/plan_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace tidemark::c_api {
namespace {

struct Watched {
  std::vector<double> told;
  std::size_t stop_at = 0;  ///< the call that says stop; 0: none does
  bool is_inside = false, met = false;
};

std::int32_t watch(void* user, double share) {
  auto* seen = static_cast<Watched*>(user);
  seen->met |= seen->is_inside;
  seen->is_inside = true;
  seen->told.push_back(share);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  seen->is_inside = false;
  return seen->told.size() == seen->stop_at ? 1 : 0;
}

/// Several threads tell and ask, each share by itself and in any order.
void search(PlanWatch& plan_watch, int calls) {
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&plan_watch, calls, thread] {
      for (int i = 0; i < calls && !plan_watch.should_stop(); ++i) {
        plan_watch.tell(static_cast<double>((i * 7 + thread) % calls) / calls);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
}

TEST(PlanWatch, IsAskedByOneThreadAtATimeWithSharesThatRise) {
  Watched seen;
  PlanWatch plan_watch(watch, &seen);
  search(plan_watch, 100);
  EXPECT_GT(seen.told.size(), 1);
  EXPECT_LT(seen.told.size(), 4 * 2 * 100) << "not at every call";
  EXPECT_FALSE(seen.met);
  EXPECT_TRUE(std::ranges::is_sorted(seen.told));
}

TEST(PlanWatch, StopHolds) {
  for (const std::size_t at : {1U, 3U}) {
    Watched seen{.stop_at = at};
    PlanWatch plan_watch(watch, &seen);
    search(plan_watch, 10'000);
    EXPECT_TRUE(plan_watch.should_stop());
    EXPECT_EQ(seen.told.size(), at) << "asked again";
  }
}

}  // namespace
}  // namespace tidemark::c_api
