// Programs broken on purpose: the checks that pass sound ones must catch them.

#include <gtest/gtest.h>

#include <random>

#include "tests/support/planned_step.h"

namespace tidemark {
namespace {

using testing::PlannedStep;
using testing::run_of;
using testing::StepGenerator;

/// Races and mismatches of a step, a failure counted as one.
std::int64_t findings(const PlannedStep& step) {
  SimRunRequest request = run_of(step);
  request.verify = true;
  const Result<SimRun> run = run_on_sim(request);
  if (!run.ok()) return 1;
  std::int64_t found = 0;
  for (const SimRankRun& rank : run.value().ranks) found += rank.races + rank.report.mismatches;
  return found;
}

void remove_wait(Schedule& schedule, std::size_t wait) {
  schedule.waits.erase(schedule.waits.begin() + static_cast<std::ptrdiff_t>(wait));
  for (Task& task : schedule.tasks)
    if (static_cast<std::size_t>(task.first_wait) > wait) --task.first_wait;
}

/// Almost every wait orders bytes; those that do not are implied by others or only carry the compute clock on.
TEST(BrokenProgram, AMissingWaitIsSeen) {
  PlannedStep step = StepGenerator(41).next();
  ASSERT_EQ(findings(step), 0);
  std::mt19937 random(1);
  int tried = 0, caught = 0;
  for (; tried < 40; ++tried) {
    Program& program = step.outcome.ranks[random() % step.outcome.ranks.size()].program;
    const Program sound = program;
    if (program.schedule.waits.empty()) continue;
    remove_wait(program.schedule, random() % program.schedule.waits.size());
    caught += findings(step) > 0 ? 1 : 0;
    program = sound;
  }
  EXPECT_GT(caught, tried / 2);
}

/// A swapped storage whose copy in is not waited for is always seen.
TEST(BrokenProgram, AnUnawaitedCopyInIsSeen) {
  StepGenerator generator(42);
  int tried = 0;
  for (int i = 0; i < 20 && tried < 6; ++i) {
    PlannedStep step = generator.next();
    for (RankPlan& rank : step.outcome.ranks) {
      Schedule& schedule = rank.program.schedule;
      const auto wait = std::find_if(schedule.waits.begin(), schedule.waits.end(),
                                     [&](TaskId task) { return schedule.tasks[row(task)].kind == TaskKind::swap_in; });
      if (wait == schedule.waits.end()) continue;
      const Program sound = rank.program;
      remove_wait(schedule, static_cast<std::size_t>(wait - schedule.waits.begin()));
      EXPECT_GT(findings(step), 0);
      rank.program = sound;
      ++tried;
      break;
    }
  }
  EXPECT_GT(tried, 0);
}

/// Two storages alive together moved onto each other; some are over with before the other is written.
TEST(BrokenProgram, AShiftedOffsetIsSeen) {
  PlannedStep step = StepGenerator(43).next();
  std::mt19937 random(2);
  int tried = 0, caught = 0;
  while (tried < 20) {
    Program& program = step.outcome.ranks[random() % step.outcome.ranks.size()].program;
    const auto& residencies = program.schedule.residencies;
    const std::size_t a = random() % residencies.size(), b = random() % residencies.size();
    const Residency &x = residencies[a], &y = residencies[b];
    const bool together = x.acquire < y.release && y.acquire < x.release && x.release > x.acquire + 2;
    if (a == b || !together || x.space != MemorySpace::device || y.space != MemorySpace::device || x.bytes < 4096 ||
        y.bytes < 4096 || x.storage == y.storage)
      continue;
    const Bytes kept = program.layout.offset_of[a];
    program.layout.offset_of[a] = program.layout.offset_of[b] + 512;
    ++tried;
    caught += findings(step) > 0 ? 1 : 0;
    program.layout.offset_of[a] = kept;
  }
  EXPECT_GT(caught, tried / 2);
}

}  // namespace
}  // namespace tidemark
