// Sections in chunks: all or none of a group run them, between the two limits every step completes, and every byte is
// where it belongs.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "core/dispatch_section.h"
#include "core/dynamic_region.h"
#include "integrations/run/run_plan.h"
#include "swap/bound_program.h"
#include "swap/dispatch_chunks.h"
#include "tests/support/planned_step.h"

namespace tidemark::swap {
namespace {

using testing::expect_clean;
using testing::PlannedStep;
using testing::run_of;
using testing::StepGenerator;

const Program& program_of(const PlannedStep& step, std::int32_t rank) {
  return step.outcome.ranks[static_cast<std::size_t>(rank)].program;
}

std::size_t sections_of(const PlannedStep& step) {
  std::size_t count = 0;
  for (const plan::RankPlan& rank : step.outcome.ranks) count += rank.program.sections.size();
  return count;
}

/// Steps that have sections, planned once for all tests.
const std::vector<PlannedStep>& chunked_steps() {
  static const std::vector<PlannedStep> steps = [] {
    constexpr std::size_t kSteps = 2;
    StepGenerator generator(55);
    std::vector<PlannedStep> found;
    for (int i = 0; found.size() < kSteps; ++i) {
      PlannedStep step = generator.next_routed(1.0 + 0.1 * (i % 4), 50 + 5 * (i % 14), true);
      if (sections_of(step) > 3) found.push_back(std::move(step));
    }
    return found;
  }();
  return steps;
}

const plan::RankPlan& rank_with_sections(const PlannedStep& step) {
  return *std::find_if(step.outcome.ranks.begin(), step.outcome.ranks.end(),
                       [](const plan::RankPlan& r) { return !r.program.sections.empty(); });
}

bool yes_if_wanted(std::int32_t /*group*/, std::int32_t /*level*/, ChunkWish wish) {
  return wish == ChunkWish::wanted;
}

std::size_t applied(const run::SimRun& run) {
  std::size_t count = 0;
  for (const run::SimRankRun& rank : run.ranks)
    for (const SectionRecord& s : rank.report.sections) count += s.outcome == SectionRecord::Outcome::applied ? 1 : 0;
  return count;
}

/// Each site its own load, some exactly at the second limit.
TEST(ChunkedRun, AnyLoadsUpToTheSecondLimitComplete) {
  std::size_t in_chunks = 0;
  for (const PlannedStep& step : chunked_steps()) {
    for (std::uint32_t trial = 0; trial < 4; ++trial) {
      run::SimRunRequest request = run_of(step, trial);
      request.verify = true;
      request.agree = yes_if_wanted;
      std::mt19937 random(trial + 100);
      request.load = [&](std::int32_t rank, SiteId) {
        const double limit = program_of(step, rank).collective_limit_f;
        return trial == 0 || random() % 4 == 0 ? limit : limit * static_cast<double>(random() % 1001) / 1000;
      };
      const Result<run::SimRun> run = run::run_on_sim(request);
      const std::string what = step.request.job.model.name + ", trial " + std::to_string(trial);
      ASSERT_TRUE(run.ok()) << what << ": " << run.error().message;
      expect_clean(step, run.value(), what);
      in_chunks += applied(run.value());
    }
  }
  EXPECT_GT(in_chunks, 30U);
}

/// Whatever the group says, and to whichever sections: the first limit holds.
TEST(ChunkedRun, UpToTheFirstLimitAnyAnswersDo) {
  std::size_t in_chunks = 0, refused = 0;
  for (const PlannedStep& step : chunked_steps()) {
    for (std::uint32_t trial = 0; trial < 4; ++trial) {
      run::SimRunRequest request = run_of(step, trial);
      request.verify = true;
      // Also where nobody here wants it: another rank of the group may.
      request.agree = [&](std::int32_t rank, std::int32_t level, ChunkWish wish) {
        return wish != ChunkWish::impossible && (level * 7 + rank + static_cast<std::int32_t>(trial)) % 3 != 0;
      };
      std::mt19937 random(trial + 200);
      request.load = [&](std::int32_t rank, SiteId) {
        const double limit = program_of(step, rank).contingency_limit_f;
        return trial == 0 || random() % 2 == 0 ? limit : limit * static_cast<double>(random() % 1001) / 1000;
      };
      const Result<run::SimRun> run = run::run_on_sim(request);
      const std::string what = step.request.job.model.name + ", trial " + std::to_string(trial);
      ASSERT_TRUE(run.ok()) << what << ": " << run.error().message;
      expect_clean(step, run.value(), what);
      in_chunks += applied(run.value());
      for (const run::SimRankRun& rank : run.value().ranks)
        for (const SectionRecord& s : rank.report.sections)
          refused += s.outcome == SectionRecord::Outcome::not_agreed ? 1 : 0;
    }
  }
  EXPECT_GT(in_chunks, 30U);
  EXPECT_GT(refused, 5U);
}

/// Without agreement what is above the first limit runs as long as it fits, and is refused before anything is
/// overwritten.
TEST(ChunkedRun, WithoutAgreementAboveTheFirstLimitIsRefusedCleanly) {
  int refused = 0;
  for (const PlannedStep& step : chunked_steps()) {
    for (const plan::RankPlan& plan : step.outcome.ranks) {
      const std::unique_ptr<SimDevice> device = make_sim_device(run::sim_options_for(plan, step.request.machine));
      {
        RunOptions options{.verify = true,
                           .load = [&](SiteId) { return plan.program.collective_limit_f; },
                           .agree = [](std::int32_t, std::int32_t, ChunkWish) { return false; }};
        Result<std::unique_ptr<Executor>> executor = Executor::open(plan.program, *device, options);
        ASSERT_TRUE(executor.ok()) << executor.error().message;
        const Status status = executor.value()->issue();
        if (!status.ok()) {
          ++refused;
          EXPECT_EQ(status.error().code, Error::Code::infeasible);
          EXPECT_NE(status.error().message.find(fmt::format("up to load {:.4g}, and up to {:.4g} where",
                                                            plan.program.contingency_limit_f,
                                                            plan.program.collective_limit_f)),
                    std::string::npos)
              << status.error().message;
        }
        ASSERT_EQ(device->synchronize_device(), DeviceCode::ok);
        Mismatch first;
        EXPECT_EQ(device->mismatches(first), 0);
      }
      EXPECT_EQ(device->race_count(), 0) << to_string(device->races().front());
      EXPECT_EQ(device->leaks(), "");
    }
  }
  EXPECT_GT(refused, 0);
}

/// A load that no buffer is planned for is never run in chunks, even where its rows are as many as at the limit.
TEST(ChunkedRun, AboveTheSecondLimitARankSaysItCannot) {
  std::size_t asked = 0;
  for (const PlannedStep& step : chunked_steps()) {
    for (const plan::RankPlan& plan : step.outcome.ranks) {
      const std::unique_ptr<SimDevice> device = make_sim_device(run::sim_options_for(plan, step.request.machine));
      RunOptions options{.load = [&](SiteId) { return plan.program.collective_limit_f * (1 + 1e-9); },
                         .agree =
                             [&](std::int32_t, std::int32_t, ChunkWish wish) {
                               ++asked;
                               EXPECT_EQ(wish, ChunkWish::impossible);
                               return false;
                             }};
      Result<std::unique_ptr<Executor>> executor = Executor::open(plan.program, *device, options);
      ASSERT_TRUE(executor.ok()) << executor.error().message;
      (void)executor.value()->issue();
    }
  }
  EXPECT_GE(asked, chunked_steps().size());
}

/// A step alone, and what it told its group.
struct Alone {
  std::string error;  ///< empty: none
  std::size_t in_chunks = 0;
  int left = 0;
};

/// Everything is given back, however it ends. `agree`: answers of the group.
Alone run_alone(const PlannedStep& step, const plan::RankPlan& plan, double load, const Agree& agree,
                const std::vector<Fault>& faults = {}) {
  SimOptions sim = run::sim_options_for(plan, step.request.machine);
  sim.faults = faults;
  const std::unique_ptr<SimDevice> device = make_sim_device(sim);
  Alone alone;
  {
    RunOptions options{.verify = true, .load = [&](SiteId) { return load; }};
    options.agree = [&](std::int32_t group, std::int32_t level, ChunkWish wish) {
      EXPECT_EQ(alone.left, 0) << "asks after it left";
      const bool yes = agree(group, level, wish);
      alone.in_chunks += yes ? 1 : 0;
      return yes;
    };
    options.leave = [&](std::int32_t group) {
      EXPECT_EQ(group, plan.figures.rank);
      ++alone.left;
    };
    Result<std::unique_ptr<Executor>> executor = Executor::open(plan.program, *device, std::move(options));
    if (!executor.ok()) {
      alone.error = executor.error().message;
    } else if (const Status issued = executor.value()->issue(); !issued.ok()) {
      alone.error = issued.error().message;
    } else {
      const Result<RunReport> report = executor.value()->finish();
      if (report.ok()) {
        EXPECT_EQ(report.value().mismatches, 0) << report.value().first_mismatch;
      } else {
        alone.error = report.error().message;
      }
    }
    EXPECT_EQ(alone.left, executor.ok() && !alone.error.empty() ? 1 : 0) << alone.error;
  }
  EXPECT_EQ(device->leaks(), "");
  return alone;
}

/// A group that says yes to what was said to be impossible is told so, and nothing is overwritten.
TEST(ChunkedRun, YesToTheImpossibleIsRefused) {
  std::size_t refused = 0;
  for (const PlannedStep& step : chunked_steps())
    for (const plan::RankPlan& plan : step.outcome.ranks) {
      bool impossible = false;
      const Alone alone = run_alone(step, plan, plan.program.collective_limit_f * (1 + 1e-9),
                                    [&](std::int32_t, std::int32_t, ChunkWish wish) {
                                      impossible = impossible || wish == ChunkWish::impossible;
                                      return true;
                                    });
      const bool said = alone.error.find("which this rank said it cannot") != std::string::npos;
      EXPECT_EQ(said, impossible) << alone.error;
      refused += said ? 1 : 0;
    }
  EXPECT_GE(refused, chunked_steps().size());
}

/// A step that runs in chunks and fails somewhere is one error, told to the group once, and leaves nothing behind.
TEST(ChunkedRun, FailuresAtEveryPlaceAreToldToTheGroupOnce) {
  const PlannedStep& step = chunked_steps().front();
  const plan::RankPlan& plan = rank_with_sections(step);
  std::size_t after_yes = 0;
  for (const FaultPoint point : {FaultPoint::launch, FaultPoint::map, FaultPoint::record_event,
                                 FaultPoint::create_event, FaultPoint::synchronize})
    for (const bool late : {false, true}) {
      if (late && point != FaultPoint::launch) continue;
      std::size_t failures = 0;
      for (std::int64_t call = 1;; call += 1 + call / 4) {
        const Fault fault{.point = point,
                          .first_call = call,
                          .code = point == FaultPoint::map ? DeviceCode::out_of_memory : DeviceCode::lost,
                          .late = late};
        const Alone alone = run_alone(step, plan, plan.program.collective_limit_f, yes_if_wanted, {fault});
        if (alone.error.empty()) break;  // there are no more calls of this kind
        ++failures;
        after_yes += alone.in_chunks > 0 && alone.left > 0 ? 1 : 0;
        ASSERT_LT(call, 1'000'000);
      }
      EXPECT_GT(failures, 0U) << "point " << static_cast<int>(point);
    }
  EXPECT_GT(after_yes, 10U);
}

/// Some sections agreed to and some not, above the first limit: what is refused is not what was just agreed to.
TEST(ChunkedRun, WhoSaysItCanIsNotRefusedAfterYes) {
  std::size_t refused = 0, agreed = 0;
  for (const PlannedStep& step : chunked_steps()) {
    for (std::uint32_t trial = 0; trial < 12; ++trial) {
      for (const plan::RankPlan& plan : step.outcome.ranks) {
        std::mt19937 random(trial * 100 + static_cast<std::uint32_t>(plan.figures.rank));
        const std::unique_ptr<SimDevice> device = make_sim_device(run::sim_options_for(plan, step.request.machine));
        RunOptions options{
            .load = [&](SiteId) { return plan.program.collective_limit_f * (random() % 3 == 0 ? 0.9 : 1.0); },
            .agree =
                [&](std::int32_t, std::int32_t, ChunkWish wish) {
                  const bool yes = wish != ChunkWish::impossible && random() % 3 > 0;
                  agreed += yes ? 1 : 0;
                  return yes;
                }};
        Result<std::unique_ptr<Executor>> executor = Executor::open(plan.program, *device, options);
        ASSERT_TRUE(executor.ok()) << executor.error().message;
        const Status status = executor.value()->issue();
        if (status.ok()) continue;
        ++refused;
        EXPECT_EQ(status.error().message.find("had agreed"), std::string::npos) << status.error().message;
      }
    }
  }
  EXPECT_GT(refused, 5U);
  EXPECT_GT(agreed, 30U);
}

/// The ranks of an expert group, each in a thread of its own: yes if one wants it and all can. A rank that says no to
/// a level does so by saying impossible.
class Group {
 public:
  explicit Group(int members) : members_(members) {}

  bool ask(std::int32_t level, ChunkWish wish) {
    std::unique_lock lock(mutex_);
    Vote& vote = votes_[level];
    ++vote.cast;
    vote.wanted = vote.wanted || wish == ChunkWish::wanted;
    vote.impossible = vote.impossible || wish == ChunkWish::impossible;
    all_cast_.notify_all();
    // Who finds the vote complete first settles it for all: somebody may leave between two of them.
    all_cast_.wait(lock, [&] { return vote.answer || vote.cast >= members_ - gone_; });
    if (!vote.answer) vote.answer = gone_ == 0 && vote.wanted && !vote.impossible;
    return *vote.answer;
  }
  /// A member whose step was refused asks no more.
  void leave() {
    const std::lock_guard lock(mutex_);
    ++gone_;
    all_cast_.notify_all();
  }

 private:
  struct Vote {
    int cast = 0;
    bool wanted = false, impossible = false;
    std::optional<bool> answer;
  };
  int members_, gone_ = 0;
  std::map<std::int32_t, Vote> votes_;
  std::mutex mutex_;
  std::condition_variable all_cast_;
};

struct Member {
  std::map<std::int32_t, bool> in_chunks;  ///< per section recorded
  std::size_t wanted = 0;
  std::string refused;
};

constexpr int kMembers = 3;

/// Three ranks of one group with loads of their own; `says_no(member, level)`. `as_planned`: is told no loads.
template <class LoadOf, class SaysNo>
std::vector<Member> run_group(const PlannedStep& step, const plan::RankPlan& plan, LoadOf load_of, SaysNo says_no,
                              int as_planned = -1) {
  Group group(kMembers);
  std::vector<Member> members(kMembers);
  std::vector<std::thread> threads;
  for (int m = 0; m < kMembers; ++m) {
    threads.emplace_back([&, m] {
      const std::unique_ptr<SimDevice> device = make_sim_device(run::sim_options_for(plan, step.request.machine));
      RunOptions options{.verify = true,
                         .load = [&, m](SiteId site) { return load_of(m, site); },
                         .agree =
                             [&, m](std::int32_t, std::int32_t level, ChunkWish wish) {
                               return group.ask(level, says_no(m, level) ? ChunkWish::impossible : wish);
                             },
                         .leave = [&](std::int32_t) { group.leave(); }};
      if (m == as_planned) options.load = {};
      {
        Result<std::unique_ptr<Executor>> executor = Executor::open(plan.program, *device, std::move(options));
        ASSERT_TRUE(executor.ok()) << executor.error().message;
        const Status status = executor.value()->issue();
        if (!status.ok()) {
          members[static_cast<std::size_t>(m)].refused = status.error().message;
          return;
        }
        const Result<RunReport> report = executor.value()->finish();
        ASSERT_TRUE(report.ok()) << report.error().message;
        EXPECT_EQ(report.value().mismatches, 0) << report.value().first_mismatch;
        for (const SectionRecord& s : report.value().sections) {
          members[static_cast<std::size_t>(m)].in_chunks[s.section] = s.outcome == SectionRecord::Outcome::applied;
          members[static_cast<std::size_t>(m)].wanted += s.wanted ? 1 : 0;
        }
      }
      EXPECT_EQ(device->race_count(), 0) << to_string(device->races().front());
      EXPECT_EQ(device->leaks(), "");
    });
  }
  for (std::thread& thread : threads) thread.join();
  return members;
}

/// Per section, what all members did; one that ran it whole need not have wanted it.
std::size_t expect_all_or_none(const std::vector<Member>& members) {
  std::map<std::int32_t, std::vector<bool>> did;
  for (const Member& member : members)
    for (const auto& [section, in_chunks] : member.in_chunks) did[section].push_back(in_chunks);
  std::size_t in_chunks = 0;
  for (const auto& [section, all] : did) {
    const auto yes = static_cast<std::size_t>(std::count(all.begin(), all.end(), true));
    EXPECT_TRUE(yes == 0 || yes == members.size()) << "section " << section << ": " << yes << " of " << members.size();
    in_chunks += yes > 0 ? 1 : 0;
  }
  return in_chunks;
}

/// Each site is loaded on one member.
auto loads_up_to(double most) {
  return [most](int member, SiteId site) {
    const bool loaded = static_cast<int>(row(site)) % kMembers == member;
    return loaded ? most : 0.7 + 0.1 * member;
  };
}

TEST(ChunkedRun, AGroupRunsASectionInChunksIfOneWantsIt) {
  std::size_t in_chunks = 0, wanted = 0;
  for (const PlannedStep& step : chunked_steps()) {
    const plan::RankPlan& plan = rank_with_sections(step);
    const std::vector<Member> members =
        run_group(step, plan, loads_up_to(plan.program.collective_limit_f), [](int, std::int32_t) { return false; });
    in_chunks += expect_all_or_none(members);
    for (const Member& member : members) {
      EXPECT_EQ(member.refused, "");
      wanted += member.wanted;
    }
  }
  EXPECT_GT(in_chunks, 10U);
  EXPECT_GE(wanted, in_chunks);
}

/// Who is told no loads is asked all the same, and runs in chunks what others want so: else they would wait for it.
TEST(ChunkedRun, AMemberWithoutLoadsRunsInChunksWithItsGroup) {
  std::size_t in_chunks = 0;
  for (const PlannedStep& step : chunked_steps()) {
    const plan::RankPlan& plan = rank_with_sections(step);
    const std::vector<Member> members = run_group(
        step, plan, loads_up_to(plan.program.collective_limit_f), [](int, std::int32_t) { return false; }, 2);
    in_chunks += expect_all_or_none(members);
    for (const Member& member : members) EXPECT_EQ(member.refused, "");
    EXPECT_EQ(members[2].wanted, 0U);
  }
  EXPECT_GT(in_chunks, 5U);
}

TEST(ChunkedRun, OneRankThatCannotKeepsTheGroupWhole) {
  std::size_t in_chunks = 0, whole = 0;
  for (const PlannedStep& step : chunked_steps()) {
    const plan::RankPlan& plan = rank_with_sections(step);
    // Within the first limit, so that whole sections fit.
    const std::vector<Member> members = run_group(step, plan, loads_up_to(plan.program.contingency_limit_f),
                                                  [](int member, std::int32_t level) { return member == level % 5; });
    in_chunks += expect_all_or_none(members);
    for (const Member& member : members) EXPECT_EQ(member.refused, "");
    for (const Member& member : members)
      for (const auto& [_, chunked] : member.in_chunks) whole += chunked ? 0 : 1;
  }
  EXPECT_GT(in_chunks, 0U);
  EXPECT_GT(whole, 2U);
}

/// The others do not wait for it, and run whole.
TEST(ChunkedRun, ARankThatStopsLeavesTheGroup) {
  for (const PlannedStep& step : chunked_steps()) {
    const plan::RankPlan& plan = rank_with_sections(step);
    const auto load_of = [&](int member, SiteId) { return member == 1 ? 900.0 : plan.program.contingency_limit_f; };
    const std::vector<Member> members = run_group(step, plan, load_of, [](int, std::int32_t) { return false; });
    EXPECT_NE(members[1].refused, "");
    for (const int m : {0, 2}) {
      EXPECT_EQ(members[static_cast<std::size_t>(m)].refused, "");
      for (const auto& [section, in_chunks] : members[static_cast<std::size_t>(m)].in_chunks)
        EXPECT_FALSE(in_chunks) << "section " << section;
    }
  }
}

/// Parts of rows whose bytes are no multiple of anything, at scales that round them.
TEST(ChunkedRun, PartsStayWithinTheirBufferAndMeetInTheirSlot) {
  std::size_t met = 0, buffered = 0;
  for (const PlannedStep& step : chunked_steps()) {
    const Program& program = rank_with_sections(step).program;
    for (const Bytes row_bytes : {7, 1000, 4100, 4636})
      for (const std::int64_t scale : {1, 8, 64}) {
        Program odd = program;
        for (RoutedResidency& routed : odd.routed) routed.row_bytes = row_bytes;
        const Result<BoundProgram> bound = bind_program(odd, scale);
        ASSERT_TRUE(bound.ok()) << bound.error().message;
        DispatchChunks chunks(bound.value());
        const DispatchSection& section = odd.sections.front();
        const SectionParts& parts = chunks.parts(0);
        std::vector<Bytes> true_bytes(odd.schedule.residencies.size());
        for (const RoutedResidency& routed : odd.routed)
          true_bytes[row(routed.residency)] = routed_bytes(routed, odd.collective_limit_f);
        std::map<ResidencyId, Bytes> next;
        for (std::int32_t c = 0; c < section.chunks; ++c) {
          chunks.begin(0, c, true_bytes);
          for (const ResidencyId r : parts.inside) {
            const RoutedResidency& rule = odd.routed[static_cast<std::size_t>(bound.value().routed[row(r)])];
            const Bytes room = buffer_bytes(rule, 0, odd.collective_limit_f, section.chunks);
            const DispatchChunks::Part part = chunks.part_of(0, r, 0);
            EXPECT_EQ(part.offset, 0);
            EXPECT_LE(part.bytes, bound.value().scaled(room)) << "rows of " << row_bytes << " at 1/" << scale;
            buffered += part.bytes > 0 ? 1 : 0;
          }
          for (const ResidencyId r : parts.kept) {
            if (bound.value().routed[row(r)] < 0) continue;
            const DispatchChunks::Part part = chunks.part_of(0, r, 0);
            EXPECT_EQ(part.offset, next[r]);
            EXPECT_EQ(part.place, part.offset);
            next[r] = part.offset + part.bytes;
          }
        }
        for (const auto& [r, end] : next) EXPECT_EQ(end, bound.value().scaled(true_bytes[row(r)]));
        met += next.size();
      }
  }
  EXPECT_GT(buffered, 0U);
  EXPECT_GT(met, 0U);
}

/// On memory with bytes, in streams that are threads.
TEST(ChunkedRun, EveryByteIsRightOnTheHost) {
  for (const PlannedStep& step : chunked_steps()) {
    const plan::RankPlan& plan = rank_with_sections(step);
    for (const std::int64_t scale : {8, 64}) {
      const Result<run::RunOutcome> run =
          run::run_plan(step.outcome, step.request.machine,
                        {.device = run::RunDevice::host,
                         .rank = plan.figures.rank,
                         .scale = scale,
                         .verify = true,
                         .load = run::LoadChange{.load = plan.program.collective_limit_f}});
      ASSERT_TRUE(run.ok()) << run.error().message;
      EXPECT_TRUE(run.value().problems.empty()) << run.value().problems.front();
      const RunReport& report = run.value().ranks.front().report;
      EXPECT_EQ(report.sections.size(), plan.program.sections.size());
      for (const SectionRecord& s : report.sections) EXPECT_EQ(s.outcome, SectionRecord::Outcome::applied);
    }
  }
}

}  // namespace
}  // namespace tidemark::swap
