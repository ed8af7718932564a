// A step of a group of which a device cannot go on.

#include "integrations/run/trace_run.h"

#include <gtest/gtest.h>

#include <vector>

#include "integrations/run/trace_summary.h"

namespace tidemark::run {
namespace {

PlayedDevice refused(std::int64_t device, const char* why, bool follows) {
  return {.traced = {.step = 7, .device = device, .refused = why}, .follows = follows};
}

/// Devices 2 and 3 find no room before the same section; the others ask for it and are told that one has left.
TEST(TraceRun, RefusalsThatFollowNameTheirCause) {
  TraceOutcome outcome{.file = "loads.csv", .shape = {.devices = 5, .mean_rows = 1, .most_rows = 4}};
  outcome.steps = with_causes({refused(0, "device 3 has left", true),
                               refused(1, "device 2 has left", true),
                               refused(2, "no room", false),
                               refused(3, "no room either", false),
                               {.traced = {.step = 7, .device = 4, .step_ns = 5}}});
  ASSERT_EQ(outcome.steps.size(), 5U);
  for (const std::size_t follower : {0U, 1U}) {
    EXPECT_EQ(outcome.steps[follower].refused_after, 2);
    EXPECT_EQ(outcome.steps[follower].refused,
              "device 2 was refused, and no device of the group goes on without the others");
  }
  for (const std::size_t other : {2U, 3U, 4U}) EXPECT_EQ(outcome.steps[other].refused_after, std::nullopt);
  EXPECT_EQ(outcome.steps[3].refused, "no room either");
  EXPECT_EQ(outcome.steps[4].refused, "");
  EXPECT_EQ(outcome.refused(), 4);
  EXPECT_EQ(outcome.refused_after(), 2);
  const std::string text = trace_text(outcome);
  EXPECT_NE(text.find("FAIL  4 of 5 device-steps refused (80.00 %), 2 by themselves, 2 because another device of the "
                      "group was; the first, step 7, device 2: no room\n"),
            std::string::npos)
      << text;
  EXPECT_NE(trace_json(outcome).find("\"refused_after\": 2"), std::string::npos);
}

/// One step in chunks is counted; that it is a reason to plan otherwise is said of half of them.
TEST(TraceRun, StepsInChunksAreCounted) {
  TraceOutcome outcome{.file = "loads.csv", .shape = {.devices = 1, .mean_rows = 1, .most_rows = 4}};
  for (std::int64_t step = 0; step < 5; ++step) outcome.steps.push_back({.step = step, .step_ns = 5});
  EXPECT_EQ(trace_text(outcome).find("sections ran in chunks in"), std::string::npos);
  outcome.steps[3].rungs = {0, 0, 2};
  EXPECT_NE(trace_text(outcome).find("sections ran in chunks in 1 of 5 steps\n"), std::string::npos);
}

/// Devices that ask for different sections are out of step: none is the cause, and each says so.
TEST(TraceRun, WithoutACauseEachRefusalStandsForItself) {
  for (const TracedStep& step : with_causes({refused(0, "out of step", true), refused(1, "out of step", true)})) {
    EXPECT_EQ(step.refused, "out of step");
    EXPECT_EQ(step.refused_after, std::nullopt);
  }
}

}  // namespace
}  // namespace tidemark::run
