// Failures at every k-th call of every kind: one error, everything given back, nothing silently wrong.

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>

#include "tests/support/planned_step.h"
#include "tests/support/sanitized.h"
#include "tests/swap/failing_device.h"

namespace tidemark::swap {
namespace {

using testing::Call;
using testing::CallCounts;
using testing::FailingDevice;
using testing::kCallCount;
using testing::kCallNames;
using testing::PlannedStep;
using testing::StepGenerator;

/// Some sites as planned, some that need room, some that run in chunks.
double load_above(SiteId site) {
  return 1.1 + 0.3 * static_cast<double>(row(site) % 7);
}

struct Ended {
  bool failed = false;
  std::string message;
};

/// Runs one rank with a fault and looks at what is left.
Ended run_with(const PlannedStep& step, const plan::RankPlan& plan, const Fault& fault, bool above) {
  SimOptions options = run::sim_options_for(plan, step.request.machine);
  options.faults = {fault};
  const std::unique_ptr<SimDevice> device = make_sim_device(options);
  Ended ended;
  {
    RunOptions run{.verify = true, .names = run::names_of(plan)};
    if (above) run.load = load_above;
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
  EXPECT_EQ(device->leaks(), "") << "point " << static_cast<int>(fault.point) << ", call " << fault.first_call;
  return ended;
}

/// Calls to try: the first ones, then ever rarer.
std::vector<std::int64_t> calls_to_fail() {
  std::vector<std::int64_t> calls;
  for (std::int64_t k = 1; k < 20'000; k += 1 + k / 6) calls.push_back(k);
  return calls;
}

/// What a rank does above the planned load; nothing if it fails.
RunReport report_above(const PlannedStep& step, const plan::RankPlan& plan) {
  const std::unique_ptr<SimDevice> device = make_sim_device(run::sim_options_for(plan, step.request.machine));
  const RunOptions run{.load = load_above};
  Result<std::unique_ptr<Executor>> executor = Executor::open(plan.program, *device, run);
  if (!executor.ok() || !executor.value()->issue().ok()) return {};
  Result<RunReport> report = executor.value()->finish();
  return report.ok() ? std::move(report).value() : RunReport{};
}

/// A rank of a step.
struct Rich {
  PlannedStep step;
  std::size_t rank = 0;
  [[nodiscard]] const plan::RankPlan& plan() const { return step.outcome.ranks[rank]; }
};

/// Ranks that do, above the planned load, all that a fault can come in the way of.
struct Ranks {
  std::optional<Rich> copying;    ///< swaps
  std::optional<Rich> in_chunks;  ///< runs sections in chunks, and takes windows
};

const Ranks& ranks() {
  static const Ranks found = [] {
    Ranks ranks;
    StepGenerator generator(21);
    for (int i = 0; i < 24 && !(ranks.copying && ranks.in_chunks); ++i) {
      const PlannedStep step = generator.next_routed(1.1, 50 + 5 * (i % 12));
      for (std::size_t r = 0; r < step.outcome.ranks.size(); ++r) {
        const RunReport report = report_above(step, step.outcome.ranks[r]);
        const auto keep_if = [&](bool wanted, std::optional<Rich>& rich) {
          if (wanted && !rich) rich = {.step = step, .rank = r};
        };
        keep_if(report.out.copies > 0 && report.in.copies > 0, ranks.copying);
        keep_if(!report.sections.empty() && report.oversized.size() > report.sections.size(), ranks.in_chunks);
      }
    }
    return ranks;
  }();
  return found;
}

TEST(FaultRun, EveryKindOfCallFailingAtEveryPlaceIsOneErrorAndLeavesNothing) {
  ASSERT_TRUE(ranks().copying && ranks().in_chunks);
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
    for (const Rich* rich : {&*ranks().copying, &*ranks().in_chunks})
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

/// Where in the life of an executor a call comes.
enum Stage : std::uint8_t { kOpening, kFirstStep, kSecondStep, kGivingBack, kStageCount };

/// A life of two steps above the planned load.
struct Life {
  std::array<CallCounts, kStageCount> until{};  ///< calls so far at the end of each stage
  std::string message;                          ///< of the error; empty: none
  int reports = 0;
  bool struck = false;  ///< the call that was to fail came
};

/// `setup` changes the device and may make one of its calls fail.
Life live(const Rich& rich, const std::function<void(SimOptions&)>& options_of,
          const std::function<void(FailingDevice&)>& setup) {
  const plan::RankPlan& plan = rich.plan();
  SimOptions options = run::sim_options_for(plan, rich.step.request.machine);
  options_of(options);
  const std::unique_ptr<SimDevice> sim = make_sim_device(options);
  FailingDevice device(*sim);
  setup(device);
  Life life;
  {
    const RunOptions run{.verify = true, .load = load_above};
    Result<std::unique_ptr<Executor>> executor = Executor::open(plan.program, device, run);
    if (!executor.ok()) life.message = executor.error().message;
    life.until[kOpening] = device.counts();
    for (const Stage stage : {kFirstStep, kSecondStep}) {
      if (life.message.empty()) {
        Status status = executor.value()->issue();
        if (status.ok()) {
          const Result<RunReport> report = executor.value()->finish();
          if (!report.ok()) status = report.error();
          life.reports += report.ok() ? 1 : 0;
        }
        if (!status.ok()) life.message = status.error().message;
      }
      life.until[stage] = device.counts();
    }
  }
  life.until[kGivingBack] = device.counts();
  life.struck = device.struck();
  Mismatch first;
  EXPECT_EQ(sim->mismatches(first), 0) << "work " << first.work_id;
  EXPECT_EQ(sim->race_count(), 0) << to_string(sim->races().front());
  EXPECT_EQ(sim->leaks(), "");
  return life;
}

/// What a kind of call may answer that ends a step.
DeviceCode failure_of(Call call) {
  switch (call) {
    case Call::reserve:
    case Call::map:
    case Call::alias:
    case Call::allocate_plain:
    case Call::allocate_pinned:
      return DeviceCode::out_of_memory;
    case Call::create_stream:
      return DeviceCode::no_resource;
    default:
      return DeviceCode::copy_failed;
  }
}

/// Calls first + 1 .. last, thinned out: both ends and some between, fewer where a sanitizer slows them down.
std::vector<std::int64_t> calls_between(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> calls;
  constexpr std::int64_t kThinning = testing::kSanitized ? 1 : 2;
  for (std::int64_t k = first + 1; k <= last; k += 1 + (k - first) / kThinning) calls.push_back(k);
  if (!calls.empty() && calls.back() != last) calls.push_back(last);
  return calls;
}

/// Lets every kind of call fail in every stage that makes it, at both ends and in between.
void fail_everywhere(const Rich& rich, const std::function<void(SimOptions&)>& options_of, CallCounts& tried) {
  const Life sound = live(rich, options_of, [](FailingDevice&) {});
  ASSERT_EQ(sound.message, "");
  ASSERT_EQ(sound.reports, 2);
  for (std::size_t c = 0; c < kCallCount; ++c) {
    for (std::size_t stage = 0; stage < kStageCount; ++stage) {
      const std::int64_t first = stage == 0 ? 0 : sound.until[stage - 1][c];
      for (const std::int64_t k : calls_between(first, sound.until[stage][c])) {
        SCOPED_TRACE(std::string(kCallNames[c]) + " " + std::to_string(k) + ", stage " + std::to_string(stage));
        const auto call = static_cast<Call>(c);
        const Life life =
            live(rich, options_of, [&](FailingDevice& device) { device.fail(call, k, failure_of(call)); });
        ++tried[c];
        EXPECT_TRUE(life.struck);
        EXPECT_EQ(life.reports, stage == kGivingBack ? 2 : stage == kSecondStep ? 1 : 0);
        EXPECT_EQ(life.message.find("rank ") == 0, stage != kGivingBack) << life.message;
      }
    }
  }
}

/// Every kind of call the executor makes, in every stage of its life, with copies and chunks under way: one
/// error (none while giving back), nothing left, no race, nothing wrong read.
TEST(FaultRun, EveryCallInEveryStageIsOneErrorAndLeavesNothing) {
  ASSERT_TRUE(ranks().copying && ranks().in_chunks);
  const auto as_is = [](SimOptions&) {};
  const auto few_events = [](SimOptions& o) { o.event_limit = 2; };
  const auto plain = [](SimOptions& o) {
    o.mapping = o.aliasing = false;
    o.capacity_bytes *= 2;
  };
  CallCounts tried{};
  fail_everywhere(*ranks().copying, as_is, tried);
  fail_everywhere(*ranks().in_chunks, as_is, tried);
  fail_everywhere(*ranks().copying, few_events, tried);
  fail_everywhere(*ranks().copying, plain, tried);
  for (std::size_t c = 0; c < kCallCount; ++c) EXPECT_GT(tried[c], 0) << kCallNames[c] << " was never called";
}

/// Out of event or stream slots for one call, wherever it comes: the host waits and the step goes on.
TEST(FaultRun, OneSlotTooFewAnywhereIsWaitedOut) {
  ASSERT_TRUE(ranks().in_chunks.has_value());
  const auto as_is = [](SimOptions&) {};
  const Life sound = live(*ranks().in_chunks, as_is, [](FailingDevice&) {});
  for (const Call call : {Call::create_event, Call::record_event, Call::wait_event, Call::copy, Call::launch}) {
    const auto c = static_cast<std::size_t>(call);
    for (const std::int64_t k : calls_between(0, sound.until[kSecondStep][c])) {
      SCOPED_TRACE(std::string(kCallNames[c]) + " " + std::to_string(k));
      const Life life = live(*ranks().in_chunks, as_is,
                             [&](FailingDevice& device) { device.fail(call, k, DeviceCode::no_resource); });
      EXPECT_TRUE(life.struck);
      EXPECT_EQ(life.message, "");
      EXPECT_EQ(life.reports, 2);
    }
  }
}

/// Copies and launches that are accepted and fail later are told when the step is finished.
TEST(FaultRun, LateFailuresAreToldAtTheEnd) {
  const PlannedStep step = StepGenerator(31).next_routed(1.1, 60);
  const plan::RankPlan& plan = step.outcome.ranks.back();
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
  const plan::RankPlan& plan = step.outcome.ranks.back();
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
  for (const plan::RankPlan& plan : step.outcome.ranks) {
    const Ended ended = run_with(step, plan, fault, false);
    EXPECT_FALSE(ended.failed) << ended.message;
  }
}

}  // namespace
}  // namespace tidemark::swap
