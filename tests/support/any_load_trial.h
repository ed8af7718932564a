#pragma once
// One random job (tests/support/any_load_job.h) and what expert loads do to its steps: planned at a budget up to
// everything kept, or where that does not do at what its plan names; then played on `sim` at loads that routing may
// come to. Every step must complete, race-free and within the memory planned.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/dynamic_region.h"
#include "integrations/run/sim_run.h"
#include "planner/graph_build/load_shape.h"
#include "planner/planner.h"
#include "policies/policies.h"
#include "tests/support/any_load_job.h"

namespace tidemark::testing {

/// Over all jobs tried.
struct AnyLoadCounts {
  std::int64_t jobs = 0, routed = 0, without_host = 0;
  std::int64_t fit = 0;           ///< completed at the budget drawn
  std::int64_t named_budget = 0;  ///< did not fit; completed at the budget that the plan names
  std::int64_t least_budget = 0;  ///< of those: 2 % below it, reserves left out, the plan does not fit
  std::int64_t fewer_parts = 0;   ///< promised nothing in parts; completed with the exchange whole, as the plan says
  std::int64_t steps = 0, oversized = 0, spilled = 0, in_chunks = 0, recomputes = 0;
  std::int32_t most_chunks = 0;
  std::vector<std::string> failures;  ///< job and what went wrong

  [[nodiscard]] std::int64_t completed() const { return fit + named_budget + fewer_parts; }
};

class AnyLoadTrial {
 public:
  /// Job `number` of a seed.
  AnyLoadTrial(std::uint64_t seed, std::int64_t number, AnyLoadCounts& counts)
      : jobs_(seed * 1'000'003 + static_cast<std::uint64_t>(number)), number_(number), counts_(counts) {}

  void run() {
    ++counts_.jobs;
    request_ = {.job = jobs_.next(), .machine = ascend_910b(), .policy = policies::find_policy("keep-all")};
    if (const auto problems = graph_build::find_problems(request_.job); !problems.empty())
      return fail(problems.front().key + ": " + problems.front().message);
    request_.threads = 1;
    // A load of next to no row is planned for as well.
    request_.load = jobs_.below(8) == 0 ? 0.001 * (1 + jobs_.below(20)) : 0.1 * (8 + jobs_.below(8));
    if (!draw_budgets()) return;
    plan::PlanOutcome outcome;
    if (!plan_until_promised(outcome)) return;
    const std::size_t failed = counts_.failures.size();
    play_all(outcome);
    if (counts_.failures.size() == failed) count_completed();
  }

 private:
  using Load = std::function<SiteLoad(std::int32_t rank, SiteId)>;

  void fail(const std::string& what) {
    const graph_build::ParallelSpec& p = request_.job.parallel;
    const graph_build::MoeSpec& moe = request_.job.model.moe;
    counts_.failures.push_back(fmt::format(
        "job {} (TP {}, PP {}, VPP {}, CP {}, EP {}{}, {} experts, top-{}, planned load {}, budget {}, host {}): {}",
        number_, p.tensor, p.pipeline, p.virtual_pipeline, p.context, p.expert, p.tensor_extends_expert ? " x TP" : "",
        moe.experts, moe.top_k, *request_.load, request_.budget_bytes.value_or(0),
        request_.host_budget_bytes.value_or(0), what));
  }

  [[nodiscard]] bool plan_into(plan::PlanOutcome& outcome) {
    Result<plan::PlanOutcome> planned = plan::plan_step(request_);
    if (!planned) return fail(planned.error().message), false;
    outcome = std::move(planned).value();
    return true;
  }

  /// No pinned memory for half of the jobs. A device budget between what stands all step and everything kept: where
  /// that does not fit, the smallest that the plan names is next.
  [[nodiscard]] bool draw_budgets() {
    const bool with_host = jobs_.below(2) == 0;
    counts_.without_host += with_host ? 0 : 1;
    plan::PlanOutcome kept;
    if (!plan_into(kept)) return false;
    Bytes floor = 0, most = 0;
    for (const plan::RankPlan& rank : kept.ranks) {
      floor = std::max(floor, rank.figures.reserve_bytes + rank.figures.static_bytes);
      most = std::max(most, rank.figures.peak_bytes);
    }
    request_.policy = policies::find_policy("optimal");
    request_.host_budget_bytes = with_host ? most / (1 + jobs_.below(8)) : 0;
    request_.budget_bytes = floor + (most - floor) * jobs_.below(101) / 100;
    return true;
  }

  /// Enough for every rank by what the plan says; 0: unknown.
  [[nodiscard]] static Bytes budget_named(const plan::PlanOutcome& outcome) {
    Bytes most = 0;
    for (const plan::RankPlan& rank : outcome.ranks) {
      if (rank.figures.fits) continue;
      if (rank.figures.smallest_budget_bytes == 0) return 0;
      most = std::max(most, rank.figures.smallest_budget_bytes);
    }
    return most;
  }
  [[nodiscard]] static bool promises(const plan::PlanOutcome& outcome) {
    return std::ranges::all_of(outcome.ranks, [](const plan::RankPlan& r) { return r.figures.worst_load_f > 0; });
  }

  /// Where the plan says that it cannot, what it names is done: once each.
  [[nodiscard]] bool plan_until_promised(plan::PlanOutcome& outcome) {
    for (;;) {
      if (!plan_into(outcome)) return false;
      if (promises(outcome)) return true;
      const auto cannot =
          std::ranges::find_if(outcome.ranks, [](const plan::RankPlan& r) { return r.figures.worst_load_f == 0; });
      const std::string why = fmt::format("rank {}: {}", cannot->figures.rank, cannot->figures.reason);
      if (const Bytes budget = budget_named(outcome); budget > 0 && !named_budget_) {
        request_.budget_bytes = budget;
        named_budget_ = true;
      } else if (why.ends_with("fewer parts of the expert exchange leave more")) {
        request_.job.parallel.expert_exchange_parts = 1;
        in_fewer_parts_ = true;
      } else {
        return fail(why), false;
      }
    }
  }

  /// And whether somewhat less would have done.
  void count_completed() {
    plan::PlanOutcome lower;
    if (in_fewer_parts_) {
      ++counts_.fewer_parts;
    } else if (named_budget_) {
      ++counts_.named_budget;
      *request_.budget_bytes -= (*request_.budget_bytes - plan::reserve_of(request_).total()) / 50;
      counts_.least_budget += plan_into(lower) && !promises(lower) ? 1 : 0;
    } else {
      ++counts_.fit;
    }
  }

  void play_all(const plan::PlanOutcome& outcome) {
    struct Where {
      std::int32_t rank = 0;
      SiteId site = kNone<SiteId>;
    };
    std::vector<Where> sites;
    for (const plan::RankPlan& rank : outcome.ranks) {
      for (const RoutedResidency& routed : rank.program.routed)
        if (sites.empty() || sites.back().rank != rank.figures.rank || sites.back().site != routed.site)
          sites.push_back({rank.figures.rank, routed.site});
      for (const Task& task : rank.program.schedule.tasks) counts_.recomputes += task.kind == TaskKind::recompute;
    }
    counts_.routed += sites.empty() ? 0 : 1;
    if (sites.empty()) return play(outcome, "no experts", [](std::int32_t, SiteId) { return 1.0; });
    const graph_build::LoadShape shape = graph_build::load_shape(request_.job, request_.machine).value();
    const bool sends_evenly = shape.nodes == 1;
    const SiteLoad worst = shape.worst(), usual = shape.with(*request_.load);
    const Where one = sites[static_cast<std::size_t>(jobs_.below(static_cast<std::int32_t>(sites.size())))];
    const auto layer_of = [&](std::int32_t rank, SiteId site) {
      return outcome.ranks[static_cast<std::size_t>(rank)].graph.sites[row(site)].layer;
    };
    const std::int32_t layer = layer_of(one.rank, one.site);
    play(outcome, "no row", [&](std::int32_t, SiteId) { return SiteLoad(0, sends_evenly ? 1 : 0); });
    play(outcome, "one site at worst",
         [&](std::int32_t rank, SiteId site) { return rank == one.rank && site == one.site ? worst : usual; });
    play(outcome, "one layer at worst", [&](std::int32_t rank, SiteId site) {
      return rank == one.rank && layer_of(rank, site) == layer ? worst : usual;
    });
    play(outcome, "all at worst", [&](std::int32_t, SiteId) { return worst; });
    std::mt19937 random(static_cast<std::mt19937::result_type>(jobs_.below(1 << 30)));
    const auto draw_one = [&](double spread, double middle, double most) {
      const double normal = (static_cast<double>(random() % 6001) + static_cast<double>(random() % 6001)) / 6000 - 1;
      return std::clamp(middle * std::exp(spread * normal), 0.0, most);
    };
    const auto draw = [&](double spread) {
      const double received = draw_one(spread, usual.received, worst.received);
      return SiteLoad(received, sends_evenly ? 1 : draw_one(spread, usual.sent, worst.sent));
    };
    for (const double spread : {0.3, 1.0, 3.0})
      play(outcome, "loads drawn", [&](std::int32_t, SiteId) { return draw(spread); });
  }

  void play(const plan::PlanOutcome& outcome, const char* what, Load load) {
    ++counts_.steps;
    const std::uint64_t schedule = jobs_.below(4) == 0 ? 0 : static_cast<std::uint64_t>(1 + jobs_.below(1 << 30));
    const bool windows = jobs_.below(4) != 0;
    const bool in_group = jobs_.below(3) == 0;
    const Result<run::SimRun> run = run::run_on_sim({.ranks = outcome.ranks,
                                                     .machine = request_.machine,
                                                     .verify = true,
                                                     .measure_stall = false,
                                                     .schedule = {.seed = schedule},
                                                     .aliasing = windows,
                                                     .load = std::move(load),
                                                     .agree = in_group ? group_of(schedule) : swap::Agree()});
    const std::string where = fmt::format("{}, schedule {}, {}{}", what, schedule, windows ? "windows" : "no windows",
                                          in_group ? ", others want chunks" : "");
    if (!run) return fail(where + ": " + run.error().message);
    for (std::size_t i = 0; i < run.value().ranks.size(); ++i)
      if (std::string wrong = find_wrong(outcome.ranks[i].figures, run.value().ranks[i]); !wrong.empty())
        return fail(fmt::format("{}: rank {}: {}", where, i, wrong));
  }

  /// Others of the group want a quarter of the sections in chunks, more of them than this device needs.
  [[nodiscard]] static swap::Agree group_of(std::uint64_t seed) {
    return [seed](std::int32_t rank, std::int32_t section, swap::ChunkWish wish) {
      std::mt19937 random(static_cast<std::mt19937::result_type>(seed * 31 + static_cast<std::uint64_t>(rank) * 7919 +
                                                                 static_cast<std::uint64_t>(section)));
      const bool others = random() % 4 == 0 && wish.chunks > 0;
      if (!wish.wanted && !others) return 1;
      return wish.chunks + (others ? static_cast<std::int32_t>(random() % 3) : 0);
    };
  }

  /// Empty: nothing.
  [[nodiscard]] std::string find_wrong(const plan::RankFigures& plan, const run::SimRankRun& rank) {
    counts_.oversized += static_cast<std::int64_t>(rank.report.oversized.size());
    counts_.spilled += static_cast<std::int64_t>(rank.report.spills.size());
    counts_.in_chunks += static_cast<std::int64_t>(rank.report.sections.size());
    for (const swap::SectionRecord& section : rank.report.sections)
      counts_.most_chunks = std::max(counts_.most_chunks, section.chunks);
    if (rank.races > 0) return "a race: " + rank.race_texts.front();
    if (rank.report.mismatches > 0) return "wrong content: " + rank.report.first_mismatch;
    if (!rank.leaks.empty()) return "a leak: " + rank.leaks;
    const Bytes device = round_up(plan.budget_bytes - plan.reserve_bytes, kPlanGranule);
    if (rank.statistics.peak_device_bytes > device) return "more device memory than the budget has";
    if (rank.statistics.peak_pinned_bytes > *request_.host_budget_bytes) return "more pinned memory than its budget";
    return {};
  }

  AnyLoadJobGenerator jobs_;
  std::int64_t number_;
  AnyLoadCounts& counts_;
  plan::PlanRequest request_;
  bool named_budget_ = false, in_fewer_parts_ = false;
};

}  // namespace tidemark::testing
