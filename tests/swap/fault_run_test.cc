// Failures at every k-th call of every kind: one error, everything given back, nothing silently wrong.

#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "tests/support/planned_step.h"

namespace tidemark {
namespace {

using testing::PlannedStep;
using testing::StepGenerator;

struct Ended {
  bool failed = false;
  std::string message;
};

/// Runs one rank with a fault and looks at what is left.
Ended run_with(const PlannedStep& step, const RankPlan& plan, const Fault& fault, bool above) {
  SimOptions options = sim_options_for(plan, step.request.machine);
  options.faults = {fault};
  const std::unique_ptr<SimDevice> device = make_sim_device(options);
  Ended ended;
  {
    RunOptions run{.verify = true, .names = names_of(plan)};
    if (above) run.load = [&](SiteId) { return plan.program.contingency_limit_f; };
    Result<std::unique_ptr<Executor>> executor = Executor::open(plan.program, *device, run);
    Status status = executor.ok() ? executor.value()->issue() : Status(executor.error());
    if (status.ok()) {
      const Result<RunReport> report = executor.value()->finish();
      if (report.ok()) {
        EXPECT_EQ(report.value().mismatches, 0) << report.value().first_mismatch;
      } else {
        status = report.error();
      }
    }
    if (!status.ok()) ended = {.failed = true, .message = status.error().message};
  }
  // A lost device answers `lost` to every free (device/device.h): memory, pinned too, is gone with it.
  const std::string leaks = device->leaks();
  const std::string where = "point " + std::to_string(static_cast<int>(fault.point)) + ", call " +
                            std::to_string(fault.first_call) + ": " + leaks;
  if (fault.code == DeviceCode::lost) {
    for (const char* what : {"stream", "event"}) EXPECT_EQ(leaks.find(what), std::string::npos) << where;
  } else {
    EXPECT_EQ(leaks, "") << where;
  }
  return ended;
}

/// Calls to try: the first ones, then ever rarer.
std::vector<std::int64_t> calls_to_fail() {
  std::vector<std::int64_t> calls;
  for (std::int64_t k = 1; k < 20'000; k += 1 + k / 6) calls.push_back(k);
  return calls;
}

/// What a rank does above the planned load; nothing if it fails.
RunReport report_above(const PlannedStep& step, const RankPlan& plan) {
  const std::unique_ptr<SimDevice> device = make_sim_device(sim_options_for(plan, step.request.machine));
  const RunOptions run{.load = [&](SiteId) { return plan.program.contingency_limit_f; }};
  Result<std::unique_ptr<Executor>> executor = Executor::open(plan.program, *device, run);
  if (!executor.ok() || !executor.value()->issue().ok()) return {};
  Result<RunReport> report = executor.value()->finish();
  return report.ok() ? std::move(report).value() : RunReport{};
}

/// A rank of a step.
struct Rich {
  PlannedStep step;
  std::size_t rank = 0;
  [[nodiscard]] const RankPlan& plan() const { return step.outcome.ranks[rank]; }
};

/// The first rank whose run above the planned load does what is wanted.
std::optional<Rich> rank_that(const std::function<bool(const RunReport&)>& wanted) {
  StepGenerator generator(21);
  for (int i = 0; i < 24; ++i) {
    PlannedStep step = generator.next_routed(1.1, 50 + 5 * (i % 12));
    for (std::size_t r = 0; r < step.outcome.ranks.size(); ++r)
      if (wanted(report_above(step, step.outcome.ranks[r]))) return Rich{.step = std::move(step), .rank = r};
  }
  return std::nullopt;
}

TEST(FaultRun, EveryKindOfCallFailingAtEveryPlaceIsOneErrorAndLeavesNothing) {
  const std::optional<Rich> copying =
      rank_that([](const RunReport& r) { return r.out.copies > 0 && r.in.copies > 0 && r.pinned_bytes > 0; });
  const std::optional<Rich> above =
      rank_that([](const RunReport& r) { return !r.oversized.empty() && !r.contingencies.empty(); });
  ASSERT_TRUE(copying.has_value());
  ASSERT_TRUE(above.has_value());
  struct Kind {
    FaultPoint point;
    DeviceCode code;
  };
  for (const Kind kind :
       {Kind{FaultPoint::map, DeviceCode::out_of_memory}, Kind{FaultPoint::allocate_pinned, DeviceCode::out_of_memory},
        Kind{FaultPoint::create_stream, DeviceCode::no_resource}, Kind{FaultPoint::create_event, DeviceCode::lost},
        Kind{FaultPoint::record_event, DeviceCode::lost}, Kind{FaultPoint::copy, DeviceCode::copy_failed},
        Kind{FaultPoint::launch, DeviceCode::lost}, Kind{FaultPoint::launch, DeviceCode::copy_failed},
        Kind{FaultPoint::synchronize, DeviceCode::lost}}) {
    int failures = 0;
    for (const Rich* rich : {&*copying, &*above})
      for (const std::int64_t call : calls_to_fail()) {
        const Fault fault{.point = kind.point, .first_call = call, .code = kind.code};
        const Ended ended = run_with(rich->step, rich->plan(), fault, true);
        if (!ended.failed) break;  // there are no more calls of this kind
        ++failures;
        EXPECT_NE(ended.message.find("rank "), std::string::npos) << ended.message;
      }
    EXPECT_GT(failures, 0) << "point " << static_cast<int>(kind.point);
  }
}

/// Copies and launches that are accepted and fail later are told when the step is finished.
TEST(FaultRun, LateFailuresAreToldAtTheEnd) {
  const PlannedStep step = StepGenerator(31).next_routed(1.1, 60);
  const RankPlan& plan = step.outcome.ranks.back();
  for (const std::int64_t call : {1, 7, 50}) {
    const Fault fault{.point = FaultPoint::launch, .first_call = call, .code = DeviceCode::copy_failed, .late = true};
    const Ended ended = run_with(step, plan, fault, false);
    EXPECT_TRUE(ended.failed);
    EXPECT_NE(ended.message.find("failed"), std::string::npos) << ended.message;
  }
}

/// No slot free for a while is not an error: the host waits for what is in flight.
TEST(FaultRun, AShortageOfSlotsIsWaitedOut) {
  const PlannedStep step = StepGenerator(31).next_routed(1.1, 60);
  const RankPlan& plan = step.outcome.ranks.back();
  for (const FaultPoint point : {FaultPoint::record_event, FaultPoint::launch, FaultPoint::create_event}) {
    // Not the very first ones: there must be something to wait for.
    const Fault fault{
        .point = point, .first_call = point == FaultPoint::create_event ? 4 : 300, .code = DeviceCode::no_resource};
    const Ended ended = run_with(step, plan, fault, false);
    EXPECT_FALSE(ended.failed) << ended.message;
  }
}

/// Stalled copies cost time, nothing else.
TEST(FaultRun, StalledCopiesAreWaitedFor) {
  StepGenerator generator(31);
  const PlannedStep step = generator.next();
  const Fault fault{.point = FaultPoint::copy, .calls = Fault::kNoEnd, .stall_ns = 1'000'000};
  for (const RankPlan& plan : step.outcome.ranks) {
    const Ended ended = run_with(step, plan, fault, false);
    EXPECT_FALSE(ended.failed) << ended.message;
  }
}

}  // namespace
}  // namespace tidemark
