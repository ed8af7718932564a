#include "tests/planner/decide/flat/flat_step.h"

#include "core/verify.h"
#include "planner/schedule/scheduler.h"

namespace tidemark::testing {

Schedule scheduled(const FlatStep& flat, const decide::flat::RunOrder& order) {
  const Plan plan = decide::flat::plan_of(flat.problem, order);
  Result<Schedule> schedule = schedule::build_schedule(
      {.graph = flat.graph, .liveness = flat.problem.liveness, .nominal = flat.problem.nominal, .plan = plan});
  if (schedule) return std::move(schedule).value();
  ADD_FAILURE() << schedule.error().message;
  return {};
}

void expect_carried_out(const FlatStep& flat, const decide::flat::RunOrder& order) {
  const ReferenceReplay reference = replay(flat.step, order, flat.problem.rules);
  ASSERT_EQ(reference.fault, "");
  const decide::flat::RunOutcome outcome = decide::flat::carry_out(flat.problem, order);
  ASSERT_EQ(outcome.fault, "");
  ASSERT_EQ(outcome.profile.size(), reference.profile.size());
  if (flat.step.copies_take_time()) {
    for (std::size_t p = 0; p < outcome.profile.size(); ++p)
      EXPECT_LE(outcome.profile[p], reference.profile[p]) << "position " << p;
    EXPECT_LE(outcome.peak_bytes, reference.peak_bytes);
  } else {
    EXPECT_EQ(outcome.profile, reference.profile);
    EXPECT_EQ(outcome.peak_bytes, reference.peak_bytes);
    EXPECT_EQ(outcome.peak_position, reference.peak_position);
  }
  EXPECT_EQ(outcome.cost, reference.cost);
  EXPECT_EQ(outcome.added_cost, reference.added_cost);
  EXPECT_EQ(outcome.waited, reference.waited);
  EXPECT_EQ(outcome.host_peak_bytes, reference.host_peak_bytes);
  const std::optional<Violation> violation = verify_schedule(flat.graph, scheduled(flat, order));
  EXPECT_FALSE(violation.has_value()) << violation->detail;
}

}  // namespace tidemark::testing
