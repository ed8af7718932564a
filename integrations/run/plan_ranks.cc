#include "integrations/run/plan_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "integrations/formats/rank_words.h"

namespace tidemark::run {

std::span<const plan::RankPlan> ranks_of(const plan::PlanOutcome& plan, std::optional<std::int32_t> rank) {
  if (!rank) return plan.ranks;
  const auto found = std::ranges::find_if(plan.ranks, [&](const plan::RankPlan& r) { return r.figures.rank == *rank; });
  return found == plan.ranks.end() ? std::span<const plan::RankPlan>() : std::span<const plan::RankPlan>(&*found, 1);
}

Error no_such_rank(const plan::PlanOutcome& plan, std::optional<std::int32_t> rank) {
  if (plan.ranks.empty()) return bad_input("--rank: the plan holds no rank at all");
  std::vector<std::int32_t> ranks;
  for (const plan::RankPlan& one : plan.ranks) ranks.push_back(one.figures.rank);
  return bad_input(
      fmt::format("--rank: rank {} is not in this plan; it holds {}", rank.value_or(0), formats::ranks_text(ranks)));
}

std::optional<simulate::StepTiming> simulated(const plan::PlanOutcome& plan) {
  std::vector<simulate::RankWork> work;
  for (const plan::RankPlan& rank : plan.ranks) {
    if (rank.figures.rank != static_cast<std::int32_t>(work.size())) return std::nullopt;
    work.push_back(simulate::work_of(rank.graph, rank.program.schedule, rank.task_ns));
  }
  Result<simulate::StepTiming> timing = simulate::simulate_step(work);
  if (!timing) return std::nullopt;
  return std::move(timing).value();
}

}  // namespace tidemark::run
