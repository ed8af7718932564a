// Programs broken on purpose: the checks that pass sound ones must catch them.

#include <gtest/gtest.h>

#include <random>

#include "core/verify.h"
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
  int wrong = 0, harmless = 0;
  for (int tried = 0; tried < 40; ++tried) {
    RankPlan& rank = step.outcome.ranks[random() % step.outcome.ranks.size()];
    Program& program = rank.program;
    const Program sound = program;
    if (program.schedule.waits.empty()) continue;
    const std::size_t wait = random() % program.schedule.waits.size();
    remove_wait(program.schedule, wait);
    const std::optional<Violation> violation = verify_program(rank.graph, program);
    // The other rules speak of residencies, whose ends a run does not touch.
    const bool races = violation && violation->rule == Violation::Rule::data_order;
    ++(races ? wrong : harmless);
    if (races) {
      EXPECT_GT(findings(step), 0) << "wait " << wait << ": " << violation->detail;
    }
    program = sound;
  }
  EXPECT_GT(wrong, 5);
  RecordProperty("harmless", harmless);
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
  int tried = 0, wrong = 0, caught = 0;
  while (tried < 20) {
    RankPlan& rank = step.outcome.ranks[random() % step.outcome.ranks.size()];
    Program& program = rank.program;
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
    const std::optional<Violation> violation = verify_program(rank.graph, program);
    // Bytes shared outside of the touches of both are refused by the checker and harmless in a run.
    if (violation) {
      ++wrong;
      caught += findings(step) > 0 ? 1 : 0;
    }
    program.layout.offset_of[a] = kept;
  }
  EXPECT_GT(wrong, 10);
  EXPECT_GT(caught, wrong / 2);
}

/// Turns the first write of a recompute into a read.
bool forget_recompute_write(Schedule& schedule) {
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    if (schedule.tasks[t].kind != TaskKind::recompute) continue;
    const std::size_t first = static_cast<std::size_t>(schedule.tasks[t].first_touch);
    for (std::size_t k = first; k < first + schedule.touches_of(id_of<TaskId>(t)).size(); ++k) {
      if (schedule.touches[k].kind != AccessKind::write) continue;
      schedule.touches[k].kind = AccessKind::read;
      return true;
    }
  }
  return false;
}

/// Has a copy in land in another residency of the storage: nobody brings the right one back.
bool redirect_copy_in(Program& program) {
  Schedule& schedule = program.schedule;
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    if (schedule.tasks[t].kind != TaskKind::swap_in) continue;
    const std::size_t first = static_cast<std::size_t>(schedule.tasks[t].first_touch);
    for (std::size_t k = first; k < first + schedule.touches_of(id_of<TaskId>(t)).size(); ++k) {
      const ResidencyId to = schedule.touches[k].residency;
      const Residency& right = schedule.residencies[row(to)];
      if (right.space != MemorySpace::device) continue;
      for (std::size_t j = 0; j < schedule.residencies.size(); ++j) {
        const Residency& other = schedule.residencies[j];
        if (j == row(to) || other.storage != right.storage || other.space != MemorySpace::device) continue;
        // At the same place it is the right one.
        if (program.layout.offset_of[j] == program.layout.offset_of[row(to)]) continue;
        schedule.touches[k].residency = id_of<ResidencyId>(j);
        return true;
      }
    }
  }
  return false;
}

/// What a missing recompute or copy in loses is not made up for by filling what nobody wrote.
TEST(BrokenProgram, DataThatNobodyBringsBackIsSeen) {
  StepGenerator generator(42);
  int recomputes = 0, copies = 0;
  for (int i = 0; i < 8; ++i) {
    PlannedStep step = generator.next();
    for (RankPlan& rank : step.outcome.ranks) {
      const Program sound = rank.program;
      if (recomputes < 8 && forget_recompute_write(rank.program.schedule)) {
        ++recomputes;
        EXPECT_GT(findings(step), 0) << "recompute, job " << i << ", rank " << rank.figures.rank;
      }
      rank.program = sound;
      if (copies < 8 && redirect_copy_in(rank.program)) {
        ++copies;
        EXPECT_GT(findings(step), 0) << "copy in, job " << i << ", rank " << rank.figures.rank;
      }
      rank.program = sound;
    }
  }
  EXPECT_GT(recomputes, 3);
  EXPECT_GT(copies, 1);
}

}  // namespace
}  // namespace tidemark
