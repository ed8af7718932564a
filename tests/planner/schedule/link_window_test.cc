#include "planner/schedule/link_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tidemark::schedule {
namespace {

TEST(LinkWindow, CopiesOutQueueAndCopiesInComeLate) {
  const LinkPlan plan = plan_copies({{.ready_ns = 0, .deadline_ns = 1000, .out_ns = 100, .in_ns = 50},
                                     {.ready_ns = 10, .deadline_ns = 1000, .out_ns = 100, .in_ns = 50}});
  EXPECT_EQ(plan.copies[0].out_end_ns, 100);
  EXPECT_EQ(plan.copies[1].out_end_ns, 200);
  EXPECT_EQ(plan.copies[0].in_start_ns, 900);
  EXPECT_EQ(plan.copies[1].in_start_ns, 950);
  EXPECT_EQ(plan.exposed_ns, 0);
}

TEST(LinkWindow, AWindowTooShortIsExposed) {
  const LinkPlan plan = plan_copies({{.ready_ns = 0, .deadline_ns = 120, .out_ns = 100, .in_ns = 50}});
  EXPECT_EQ(plan.copies[0].in_start_ns, 100);
  EXPECT_EQ(plan.exposed_ns, 30);
}

TEST(LinkWindow, CopiesInComeByDeadlineAndThoseOfOneAsAskedFor) {
  const LinkPlan plan = plan_copies({{.ready_ns = 0, .deadline_ns = 900, .out_ns = 10, .in_ns = 50},
                                     {.ready_ns = 10, .deadline_ns = 500, .out_ns = 10, .in_ns = 50},
                                     {.ready_ns = 20, .deadline_ns = 900, .out_ns = 10, .in_ns = 50},
                                     {.ready_ns = 30, .deadline_ns = 500, .out_ns = 10, .in_ns = 50}});
  EXPECT_EQ(plan.in_order, (std::vector<std::uint32_t>{1, 3, 0, 2}));
  EXPECT_EQ(plan.copies[1].in_start_ns, 400);
  EXPECT_EQ(plan.copies[3].in_start_ns, 450);
  EXPECT_EQ(plan.copies[0].in_start_ns, 800);
  EXPECT_EQ(plan.copies[2].in_start_ns, 850);
}

/// Hall's condition on one direction: exposure is zero exactly if every interval of deadlines can carry its bytes after
/// the last copy out has ended.
TEST(LinkWindow, NothingIsExposedExactlyWhenEveryDeadlineCanBeMet) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<CopyRequest> requests;
    std::int64_t ready = 0;
    const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random()) % n; };
    for (std::int64_t i = 0, n = 1 + below(8); i < n; ++i) {
      ready += below(40);
      requests.push_back(
          {.ready_ns = ready, .deadline_ns = ready + 20 + below(300), .out_ns = 1 + below(30), .in_ns = 1 + below(30)});
    }
    const LinkPlan plan = plan_copies(requests);
    // Earliest deadline first with releases at the ends of the copies out, preemptive: the feasibility oracle.
    std::vector<std::int64_t> left, release;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      left.push_back(requests[i].in_ns);
      release.push_back(plan.copies[i].out_end_ns);
    }
    std::int64_t worst = 0;
    for (std::int64_t now = 0; std::any_of(left.begin(), left.end(), [](std::int64_t l) { return l > 0; }); ++now) {
      std::size_t pick = requests.size();
      for (std::size_t i = 0; i < requests.size(); ++i)
        if (left[i] > 0 && release[i] <= now &&
            (pick == requests.size() || requests[i].deadline_ns < requests[pick].deadline_ns))
          pick = i;
      if (pick == requests.size()) continue;
      if (--left[pick] == 0) worst = std::max(worst, now + 1 - requests[pick].deadline_ns);
    }
    // The link here is not preempted, so it may expose more, never less.
    EXPECT_GE(plan.exposed_ns, worst) << "round " << round;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_GE(plan.copies[i].in_start_ns, plan.copies[i].out_end_ns);
      EXPECT_LE(plan.copies[i].in_start_ns + requests[i].in_ns, requests[i].deadline_ns + plan.exposed_ns);
      for (std::size_t j = 0; j < i; ++j)
        EXPECT_TRUE(plan.copies[i].in_start_ns + requests[i].in_ns <= plan.copies[j].in_start_ns ||
                    plan.copies[j].in_start_ns + requests[j].in_ns <= plan.copies[i].in_start_ns)
            << "two copies in at once";
    }
  }
}

}  // namespace
}  // namespace tidemark::schedule
