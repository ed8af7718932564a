// Programs broken on purpose: the checks that pass sound ones must catch them.

#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "core/task_order.h"
#include "core/verify.h"
#include "tests/support/planned_step.h"

namespace tidemark::swap {
namespace {

using testing::PlannedStep;
using testing::run_of;
using testing::StepGenerator;

constexpr int kJobs = 8, kMutations = 15;

/// Races and mismatches of a step, a failure counted as one. Messages order nothing, so that each rank stands alone.
std::int64_t findings(const PlannedStep& step) {
  run::SimRunRequest request = run_of(step);
  request.verify = true;
  request.match_messages = false;
  const Result<run::SimRun> run = run::run_on_sim(request);
  if (!run.ok()) return 1;
  std::int64_t found = 0;
  for (const run::SimRankRun& rank : run.value().ranks) found += rank.races + rank.report.mismatches;
  return found;
}

/// Says from the order of tasks alone whether a run must go wrong: two touches of the same bytes, one of them a write,
/// that nothing orders, in one task or two; a read whose bytes were written for another residency since they were for
/// its own; or a read of what no task has written. What is held all step, on the device or as state on the host, is
/// written before it and read behind it.
/// Compares all pairs; shares no code with the checkers but the order of tasks.
class Wrong {
 public:
  explicit Wrong(const Program& program)
      : program_(program), order_(program.schedule), touches_(program.schedule.residencies.size()) {
    int place = 0;
    for (const ResidencyId residency : persistent())
      touches_[row(residency)].push_back({.place = place++, .kind = AccessKind::write});
    for (std::size_t t = 0; t < program.schedule.tasks.size(); ++t) list(id_of<TaskId>(t));
    for (const ResidencyId residency : persistent())
      touches_[row(residency)].push_back({.task = behind(), .place = place++, .kind = AccessKind::read});
  }

  [[nodiscard]] bool anywhere() const {
    for (std::size_t a = 0; a < touches_.size(); ++a) {
      if (read_unwritten(a)) return true;
      for (std::size_t b = 0; b < touches_.size(); ++b)
        if (share_bytes(a, b) && (unordered(a, b) || (a != b && overwritten(a, b)))) return true;
    }
    return false;
  }

 private:
  struct At {
    TaskId task = kNone<TaskId>;  ///< none: before the step; behind(): behind it
    int place = 0;                ///< within the task, or among what stays all step: reads come before writes
    AccessKind kind = AccessKind::read;
  };

  [[nodiscard]] TaskId behind() const { return id_of<TaskId>(program_.schedule.tasks.size()); }

  [[nodiscard]] std::vector<ResidencyId> persistent() const {
    std::vector<ResidencyId> all;
    const auto& residencies = program_.schedule.residencies;
    for (std::size_t r = 0; r < residencies.size(); ++r)
      if (residencies[r].first_task == id_of<TaskId>(0) &&
          row(residencies[r].last_task) + 1 == program_.schedule.tasks.size())
        all.push_back(id_of<ResidencyId>(r));
    return all;
  }

  void list(TaskId task) {
    const auto touches = program_.schedule.touches_of(task);
    int place = 0;
    for (const AccessKind kind : {AccessKind::read, AccessKind::write})
      for (const Schedule::Touch& touch : touches)
        if (touch.kind == kind)
          touches_[row(touch.residency)].push_back({.task = task, .place = place++, .kind = kind});
  }

  [[nodiscard]] bool share_bytes(std::size_t a, std::size_t b) const {
    const Layout& layout = program_.layout;
    const auto& r = program_.schedule.residencies;
    return layout.arena_of[a] == layout.arena_of[b] && layout.offset_of[a] < layout.offset_of[b] + r[b].bytes &&
           layout.offset_of[b] < layout.offset_of[a] + r[a].bytes;
  }
  [[nodiscard]] bool is_task(TaskId task) const { return task != kNone<TaskId> && task != behind(); }
  [[nodiscard]] bool before(const At& p, const At& q) const {
    if (p.task == q.task) return p.place < q.place;
    if (p.task == kNone<TaskId> || q.task == kNone<TaskId>) return p.task == kNone<TaskId>;
    if (p.task == behind() || q.task == behind()) return q.task == behind();
    return order_.before(p.task, q.task);
  }
  [[nodiscard]] bool unordered(std::size_t a, std::size_t b) const {
    for (const At& p : touches_[a])
      for (const At& q : touches_[b])
        if ((p.kind == AccessKind::write || q.kind == AccessKind::write) &&
            (p.task == q.task ? a != b && is_task(p.task) : !before(p, q) && !before(q, p)))
          return true;
    return false;
  }
  [[nodiscard]] bool read_unwritten(std::size_t a) const {
    return std::any_of(touches_[a].begin(), touches_[a].end(), [&](const At& read) {
      return read.kind == AccessKind::read && std::none_of(touches_[a].begin(), touches_[a].end(), [&](const At& own) {
               return own.kind == AccessKind::write && before(own, read);
             });
    });
  }
  [[nodiscard]] bool overwritten(std::size_t a, std::size_t b) const {
    for (const At& read : touches_[a]) {
      if (read.kind != AccessKind::read) continue;
      const At* own = nullptr;
      for (const At& write : touches_[a])
        if (write.kind == AccessKind::write && before(write, read) && (own == nullptr || before(*own, write)))
          own = &write;
      for (const At& write : touches_[b])
        if (write.kind == AccessKind::write && before(write, read) && (own == nullptr || before(*own, write)))
          return true;
    }
    return false;
  }

  const Program& program_;
  const TaskOrder order_;
  std::vector<std::vector<At>> touches_;  ///< per residency
};

/// Whatever must go wrong is refused by the checker and found by a run; whatever need not, a run is silent about.
void expect_found_if_wrong(const PlannedStep& step, const plan::RankPlan& rank, const std::string& what, int& wrong,
                           int& harmless) {
  const bool is_wrong = Wrong(rank.program).anywhere();
  ++(is_wrong ? wrong : harmless);
  const std::optional<Violation> violation = verify_program(rank.graph, rank.program);
  if (is_wrong) {
    EXPECT_TRUE(violation.has_value()) << what;
  }
  EXPECT_EQ(findings(step) > 0, is_wrong) << what << ": " << (violation ? violation->detail : "sound");
}

void remove_wait(Schedule& schedule, std::size_t wait) {
  schedule.waits.erase(schedule.waits.begin() + static_cast<std::ptrdiff_t>(wait));
  for (Task& task : schedule.tasks)
    if (static_cast<std::size_t>(task.first_wait) > wait) --task.first_wait;
}

/// Almost every wait orders bytes; those that do not are implied by others or only carry the compute clock on. Exactly
/// those that a run must go wrong without are refused by the checker, and found by a run.
TEST(BrokenProgram, AMissingWaitIsSeen) {
  StepGenerator generator(41);
  std::mt19937 random(1);
  int wrong = 0, harmless = 0;
  for (int job = 0; job < kJobs; ++job) {
    PlannedStep step = generator.next();
    ASSERT_EQ(findings(step), 0);
    for (int tried = 0; tried < kMutations; ++tried) {
      plan::RankPlan& rank = step.outcome.ranks[random() % step.outcome.ranks.size()];
      Program& program = rank.program;
      const Program sound = program;
      if (program.schedule.waits.empty()) continue;
      const std::size_t wait = random() % program.schedule.waits.size();
      remove_wait(program.schedule, wait);
      expect_found_if_wrong(step, rank, "wait " + std::to_string(wait), wrong, harmless);
      program = sound;
    }
  }
  EXPECT_GT(wrong, 20);
  EXPECT_GT(harmless, 0);
}

/// A swapped storage whose copy in is not waited for is always seen.
TEST(BrokenProgram, AnUnawaitedCopyInIsSeen) {
  StepGenerator generator(42);
  int tried = 0;
  for (int i = 0; i < 20 && tried < 6; ++i) {
    PlannedStep step = generator.next();
    for (plan::RankPlan& rank : step.outcome.ranks) {
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

constexpr Bytes kShift = 512;

/// Two storages of some size, alive together, and room for `a` where `b` stands.
bool may_move_onto(const Program& program, std::size_t a, std::size_t b) {
  const Layout& layout = program.layout;
  const Residency &x = program.schedule.residencies[a], &y = program.schedule.residencies[b];
  const bool together = x.acquire < y.release && y.acquire < x.release && x.release > x.acquire + 2;
  return a != b && together && x.storage != y.storage && x.space == MemorySpace::device &&
         y.space == MemorySpace::device && x.bytes >= 4096 && y.bytes >= 4096 &&
         layout.arena_of[a] == layout.arena_of[b] &&
         layout.offset_of[b] + kShift + x.bytes <= layout.arenas[row(layout.arena_of[a])].height_bytes;
}

/// Storages alive together moved onto each other. Some pairs take turns all the same, each read before the other is
/// written: the checker refuses those, too, and a run has nothing to find. Beyond the arena's height nothing is tried:
/// what is mapped ends at a granule.
TEST(BrokenProgram, AShiftedOffsetIsSeen) {
  StepGenerator generator(43);
  std::mt19937 random(2);
  int wrong = 0, harmless = 0;
  for (int job = 0; job < kJobs; ++job) {
    PlannedStep step = generator.next();
    for (int tried = 0; tried < kMutations;) {
      plan::RankPlan& rank = step.outcome.ranks[random() % step.outcome.ranks.size()];
      Layout& layout = rank.program.layout;
      const std::size_t count = rank.program.schedule.residencies.size();
      const std::size_t a = random() % count, b = random() % count;
      if (!may_move_onto(rank.program, a, b)) continue;
      const Bytes kept = std::exchange(layout.offset_of[a], layout.offset_of[b] + kShift);
      ++tried;
      expect_found_if_wrong(step, rank, "residency " + std::to_string(a) + " onto " + std::to_string(b), wrong,
                            harmless);
      layout.offset_of[a] = kept;
    }
  }
  EXPECT_GT(wrong, 40);
  RecordProperty("harmless", harmless);
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

/// Two messages that take each other's tags at one end arrive in order and bring another micro-batch.
TEST(BrokenProgram, ExchangedTagsAreSeen) {
  StepGenerator generator(44);
  int tried = 0;
  for (int i = 0; i < 20 && tried < 4; ++i) {
    PlannedStep step = generator.next();
    for (plan::RankPlan& rank : step.outcome.ranks) {
      std::vector<SendEvent>& sends = rank.program.sends;
      const auto site_of = [&](const SendEvent& send) { return rank.program.schedule.tasks[row(send.task)].site; };
      const auto other = std::find_if(sends.begin(), sends.end(), [&](const SendEvent& send) {
        return send.peer_rank == sends.front().peer_rank &&
               rank.graph.sites[row(site_of(send))].micro_batch !=
                   rank.graph.sites[row(site_of(sends.front()))].micro_batch;
      });
      if (other == sends.end()) continue;
      std::swap(other->tag, sends.front().tag);
      const Result<run::SimRun> run = run::run_on_sim(run_of(step));
      ASSERT_FALSE(run.ok());
      EXPECT_NE(run.error().message.find("micro-batch"), std::string::npos) << run.error().message;
      std::swap(other->tag, sends.front().tag);
      ++tried;
    }
  }
  EXPECT_GT(tried, 0);
}

/// What a missing recompute or copy in loses is not made up for by filling what nobody wrote.
TEST(BrokenProgram, DataThatNobodyBringsBackIsSeen) {
  StepGenerator generator(42);
  int recomputes = 0, copies = 0;
  for (int i = 0; i < 8; ++i) {
    PlannedStep step = generator.next();
    for (plan::RankPlan& rank : step.outcome.ranks) {
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
}  // namespace tidemark::swap
