#pragma once
// Every joint choice of actions of all ranks of a small pipeline, played: what `optimal` is held against. Shares with
// the planner what a choice means (the evaluator's plan of it, the scheduler, the packer, the simulator), and nothing
// of how one is found.
//
// A choice fits where the evaluator's profile of it is within the budgets, as in every search of the planner, and
// addresses are found for it by the packers that a plan gets: without them it is no plan.
//
// Looked for is a step that is shorter than a limit. A rank's choice is passed over where the step is no shorter with
// nothing added and nothing but data waited for on all other ranks: every schedule of a rank runs the ops of its graph
// in their order with their waits for data, so none is faster than that.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "planner/built_plan.h"
#include "planner/cost/op_prices.h"
#include "planner/graph_build/liveness.h"
#include "planner/graph_build/step_graph.h"
#include "planner/rank_planner.h"
#include "planner/schedule/scheduler.h"

namespace tidemark::plan {

/// What is chosen for: all sites of a class alike, or each micro-batch by itself.
enum class Grain : std::uint8_t { classes, sites };

class JointChoices {
 public:
  /// Every rank of the request at load 1, everything kept.
  explicit JointChoices(const PlanRequest& request) : request_(request), budgets_(budgets_of(request)) {
    for (std::int32_t r = 0; r < request.job.parallel.pipeline; ++r) {
      plans_.push_back({.graph = graph_build::build_step_graph(request.job, request.machine, r, 1.0).value()});
      plans_.back().liveness = graph_build::analyse_liveness(plans_.back().graph);
      op_ns_.push_back(cost::op_durations(plans_.back().graph, request.machine, 1));
      nominal_work_.push_back(simulate::work_of(plans_.back().graph, op_ns_.back()));
    }
    nominal_ = simulate::simulate_step(nominal_work_).value();
  }

  /// The shortest step of all joint choices that is shorter than `limit_ns`; nothing: none is. Two hundred thousand
  /// choices of a rank are too many.
  std::optional<std::int64_t> shorter_than(std::int64_t limit_ns, Grain grain) {
    best_ns_ = limit_ns;
    for (std::size_t r = 0; r < plans_.size(); ++r) list(r, grain);
    std::vector<simulate::RankWork> works = nominal_work_;
    combine(0, 0, works);
    if (best_ns_ == limit_ns) return std::nullopt;
    return best_ns_;
  }

  /// Choices that fit, of all ranks.
  [[nodiscard]] std::int64_t fitting() const { return fitting_; }
  /// Ranks that cannot keep everything.
  [[nodiscard]] int pressed() const { return pressed_; }

 private:
  static constexpr double kMostChoices = 200'000;

  /// Gaps decided together, with what may be done to each of one site's.
  struct Part {
    std::vector<std::vector<std::int32_t>> sites;  ///< gaps of the unit, by site
    std::vector<std::vector<Action>> options;
  };

  struct Option {
    decide::RankProblem* problem = nullptr;
    decide::gaps::Choice choice;
    simulate::RankWork work;
    Bytes height = -1, host_height = 0;  ///< of addresses; -1: not looked for yet
    std::int64_t least_ns = 0;
  };

  /// Everything that the rank may do, with its recomputation late as well as hidden.
  void list(std::size_t rank, Grain grain) {
    using decide::sites::RunTime;
    options_.emplace_back();
    const RankRequest in{.request = request_, .nominal = nominal_.ranks[rank], .op_ns = op_ns_[rank], .load = 1.0};
    for (const RunTime run_time : {RunTime::hidden, RunTime::late}) {
      problems_.push_back(make_problem(in, budgets_, plans_[rank], {}, run_time));
      decide::RankProblem& problem = *problems_.back();
      ASSERT_TRUE(problem.check().ok());
      const std::vector<Part> parts = parts_of(problem, grain);
      double count = 1;
      for (const Part& part : parts) count *= static_cast<double>(part.options.size());
      ASSERT_LE(count, kMostChoices);
      decide::gaps::Choice choice(problem.gaps().gaps.size(), Action::keep);
      if (problem.keep_all_peak_bytes() > budgets_.device && run_time == RunTime::hidden) ++pressed_;
      descend(rank, problem, parts, 0, choice);
      if (!problem.sites().runs_early) break;
    }
    std::ranges::stable_sort(options_[rank], {}, &Option::least_ns);
  }

  std::vector<Part> parts_of(decide::RankProblem& problem, Grain grain) const {
    std::vector<Part> parts;
    for (const decide::sites::SiteClass& c : problem.sites().classes)
      for (const decide::sites::SiteClass::Unit& unit : c.units) {
        Part part;
        for (std::uint32_t swapped = 0; swapped < (1U << unit.slots.size()); ++swapped) {
          std::vector<Action> actions(unit.slots.size(), Action::keep);
          bool is_possible = swapped == 0 || budgets_.host > 0;
          for (std::size_t i = 0; i < actions.size(); ++i) {
            if ((swapped >> i & 1U) == 0) continue;
            actions[i] = Action::swap;
            const auto gap = static_cast<std::size_t>(c.first_gap.front() + unit.slots[i]);
            is_possible = is_possible && problem.gaps().gaps[gap].swap_cost >= 0;
          }
          if (is_possible) part.options.push_back(std::move(actions));
        }
        if (unit.recipe != kNone<RecipeId>) part.options.emplace_back(unit.slots.size(), Action::recompute);
        for (const std::int32_t first : c.first_gap) {
          std::vector<std::int32_t> gaps;
          for (const std::int32_t slot : unit.slots) gaps.push_back(first + slot);
          part.sites.push_back(std::move(gaps));
        }
        if (part.options.size() == 1) continue;
        if (grain == Grain::classes) {
          parts.push_back(std::move(part));
          continue;
        }
        for (std::vector<std::int32_t>& site : part.sites)
          parts.push_back({.sites = {std::move(site)}, .options = part.options});
      }
    return parts;
  }

  void descend(std::size_t rank, decide::RankProblem& problem, std::span<const Part> parts, std::size_t at,
               decide::gaps::Choice& choice) {
    if (at == parts.size()) return add(rank, problem, choice);
    for (const std::vector<Action>& actions : parts[at].options) {
      for (const std::vector<std::int32_t>& site : parts[at].sites)
        for (std::size_t i = 0; i < site.size(); ++i) choice[static_cast<std::size_t>(site[i])] = actions[i];
      descend(rank, problem, parts, at + 1, choice);
    }
  }

  void add(std::size_t rank, decide::RankProblem& problem, const decide::gaps::Choice& choice) {
    const decide::gaps::Pricing pricing = problem.evaluator().price(choice);
    if (pricing.host_peak_bytes > budgets_.host || pricing.peak_bytes > budgets_.device) return;
    decide::gaps::PlanCost cost;
    const Plan plan = problem.evaluator().plan(choice, cost);
    const Result<Schedule> schedule = schedule::build_schedule(
        {.graph = problem.graph(), .liveness = problem.liveness(), .nominal = problem.nominal(), .plan = plan});
    ASSERT_TRUE(schedule.ok()) << schedule.error().message;
    ++fitting_;
    const auto estimates = schedule::task_durations(problem.graph(), schedule.value(), request_.machine, 1);
    Option option{.problem = &problem,
                  .choice = choice,
                  .work = simulate::work_of(
                      problem.graph(), schedule.value(),
                      schedule::charged_durations(problem.graph(), schedule.value(), request_.machine, estimates))};
    std::swap(nominal_work_[rank], option.work);
    option.least_ns = play(nominal_work_);
    std::swap(nominal_work_[rank], option.work);
    if (option.least_ns < best_ns_) options_[rank].push_back(std::move(option));
  }

  /// Whether addresses are found for it, by the packers that a plan gets.
  bool has_addresses(Option& option) {
    if (option.height < 0) {
      PolicyAnswer answer;
      answer.plan = option.problem->evaluator().plan(option.choice, answer.cost);
      const BuiltPlan built = build_plan(*option.problem, answer, budgets_, request_).value();
      option.height = built.height();
      option.host_height = built.host_height();
    }
    return option.height <= budgets_.device && option.host_height <= budgets_.host;
  }

  static std::int64_t play(const std::vector<simulate::RankWork>& works) {
    return simulate::simulate_step(works).value().step_ns;
  }

  /// Ranks from `rank` on are still relaxed in `works`, whose step is `least_ns`.
  void combine(std::size_t rank, std::int64_t least_ns, std::vector<simulate::RankWork>& works) {
    for (Option& option : options_[rank]) {
      if (option.least_ns >= best_ns_) return;
      std::swap(works[rank], option.work);
      const std::int64_t ns = rank == 0 ? option.least_ns : play(works);
      EXPECT_GE(ns, std::max(least_ns, option.least_ns)) << "what is passed over was no bound";
      if (ns < best_ns_ && has_addresses(option)) {
        if (rank + 1 == plans_.size()) {
          best_ns_ = ns;
        } else {
          combine(rank + 1, ns, works);
        }
      }
      std::swap(works[rank], option.work);
    }
  }

  const PlanRequest& request_;
  Budgets budgets_;
  std::vector<RankPlan> plans_;  ///< graph and liveness alone
  std::vector<std::vector<std::int64_t>> op_ns_;
  std::vector<simulate::RankWork> nominal_work_;
  simulate::StepTiming nominal_;
  std::vector<std::unique_ptr<decide::RankProblem>> problems_;
  std::vector<std::vector<Option>> options_;  ///< by rank: those that may be part of a shorter step
  std::int64_t best_ns_ = 0, fitting_ = 0;
  int pressed_ = 0;
};

}  // namespace tidemark::plan
