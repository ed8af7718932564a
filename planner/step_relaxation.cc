#include "planner/step_relaxation.h"

#include <algorithm>
#include <utility>

#include "planner/decide/gaps/relaxation.h"
#include "planner/threads/parallel.h"

namespace tidemark::plan {
namespace {

using decide::gaps::Choice;
using decide::gaps::GapProblem;
using decide::gaps::SearchStart;

constexpr int kRelaxationRounds = 16;
constexpr int kBriefRelaxationRounds = 6;
constexpr int kFirstAscent = 60;  ///< steps of a rank's first answer
constexpr int kAscent = 10;       ///< and of its others, from the prices of the one before
constexpr int kPlaceAnew = 5;     ///< rounds between looks at where recomputations that are chosen run
/// What costs nothing is given up without measure, which leaves prices of memory nothing to go by.
constexpr double kLeastPaid = 1e-3;

/// A rank's gaps at the weights of the moment, and the share of each that it gives up so far.
class RankRelaxation {
 public:
  explicit RankRelaxation(const RelaxedRank& rank)
      : problem_(*rank.problem), full_(decide::sites::at_full_cost(problem_.gaps())) {
    const std::vector<std::int32_t> positions = decide::gaps::critical_positions(full_, rank.device_budget);
    relaxation_ = decide::gaps::relaxation_of(full_, positions, rank.device_budget, rank.host_budget);
    from_.least_worth = full_.least_worth;
    from_.most_worth = full_.most_worth;
    start_.prices.clock = start_.full_prices.clock = positions;
    swap_share_.assign(full_.gaps.size(), 0);
    recompute_share_.assign(full_.gaps.size(), 0);
    place_copies();
    place_runs();
  }

  /// The cheapest fractional plan at these weights takes `part` of the plan so far; what that adds.
  void answer(std::span<const float> weights, float part, std::span<float> added) {
    weigh(weights);
    const bool is_first = from_.device.empty();
    decide::gaps::Ascent now = decide::gaps::ascend(relaxation_, from_, is_first ? kFirstAscent : kAscent);
    for (std::size_t g = 0; g < swap_share_.size(); ++g) {
      swap_share_[g] += part * (now.swap_share[g] - swap_share_[g]);
      recompute_share_[g] += part * (now.recompute_share[g] - recompute_share_[g]);
    }
    if (is_first) {
      start_.full_prices.device = now.device;
      start_.full_prices.host = now.host;
      for (double& price : start_.full_prices.device) price /= static_cast<double>(weights.front());
      for (double& price : start_.full_prices.host) price /= static_cast<double>(weights.front());
    }
    from_.device = std::move(now.device);
    from_.host = std::move(now.host);
    add_up(added);
  }

  /// Recomputations of a site share the time that hides them: what those cost that are chosen by now.
  void place_chosen_runs() {
    for (const decide::sites::Evaluator::Placed& run : problem_.evaluator().recomputations(rounded()))
      runs_[static_cast<std::size_t>(run.unit)] = {.at = run.clock, .ns = static_cast<double>(run.ns)};
  }

  [[nodiscard]] SearchStart start() && {
    start_.choice = rounded();
    start_.prices.device = std::move(from_.device);
    start_.prices.host = std::move(from_.host);
    return std::move(start_);
  }

 private:
  /// Work on the compute lane, and where.
  struct Work {
    std::int32_t at = 0;
    double ns = 0;
  };

  void place_copies() {
    const decide::sites::DecisionProblem& p = problem_.sites();
    for (const decide::sites::GapRow& gap : p.gaps) {
      outs_.push_back({.at = p.clock_of[row(gap.gap.before)], .ns = static_cast<double>(gap.copy_out.compute_ns)});
      ins_.push_back({.at = decide::sites::copy_in_clock(p, gap), .ns = static_cast<double>(gap.copy_in.compute_ns)});
    }
  }

  /// Where each unit is recomputed if nothing else of its site is.
  void place_runs() {
    runs_.resize(full_.units.size());
    for (const decide::gaps::Move& move : problem_.gaps().moves)
      if (move.action == Action::recompute)
        runs_[static_cast<std::size_t>(move.unit)] = {.at = move.run_at / 2, .ns = move.full_cost};
  }

  void weigh(std::span<const float> weights) {
    const auto paid = [&](const Work& work) {
      const auto weight = static_cast<double>(weights[std::min(weights.size() - 1, static_cast<std::size_t>(work.at))]);
      return work.ns * std::max(kLeastPaid, weight);
    };
    for (std::size_t g = 0; g < full_.gaps.size(); ++g)
      if (full_.gaps[g].swap_cost >= 0) relaxation_.gaps[g].swap_cost = paid(outs_[g]) + paid(ins_[g]);
    for (std::size_t u = 0; u < full_.units.size(); ++u)
      if (full_.units[u].recompute_cost >= 0) relaxation_.units[u].recompute_cost = paid(runs_[u]);
  }

  void add_up(std::span<float> added) const {
    std::ranges::fill(added, 0.0F);
    const auto add = [&](const Work& work, float share) {
      added[std::min(added.size() - 1, static_cast<std::size_t>(work.at))] += share * static_cast<float>(work.ns);
    };
    for (std::size_t g = 0; g < full_.gaps.size(); ++g) {
      add(outs_[g], swap_share_[g]);
      add(ins_[g], swap_share_[g]);
    }
    for (std::size_t u = 0; u < full_.units.size(); ++u) {
      const auto first = static_cast<std::size_t>(full_.gaps_of(full_.units[u]).front());
      if (full_.units[u].recompute_cost >= 0) add(runs_[u], recompute_share_[first]);
    }
  }

  /// Of each kind of unit, one after the other, as many as the shares add up to.
  [[nodiscard]] Choice rounded() const {
    struct Owed {
      float recompute = 0;
      std::vector<float> swap;
    };
    std::vector<Owed> of_kind(static_cast<std::size_t>(full_.kinds));
    Choice choice(full_.gaps.size(), Action::keep);
    const auto is_due = [](float& owed, float share) {
      owed += share;
      if (owed < 0.5F) return false;
      owed -= 1;
      return true;
    };
    for (const GapProblem::Unit& unit : full_.units) {
      Owed& owed = of_kind[static_cast<std::size_t>(unit.kind)];
      owed.swap.resize(static_cast<std::size_t>(unit.count), 0);
      const std::span<const std::int32_t> gaps = full_.gaps_of(unit);
      const bool recomputes = is_due(owed.recompute, recompute_share_[static_cast<std::size_t>(gaps.front())]);
      for (std::size_t i = 0; i < gaps.size(); ++i) {
        const auto g = static_cast<std::size_t>(gaps[i]);
        if (recomputes) {
          owed.swap[i] += swap_share_[g];
          choice[g] = Action::recompute;
        } else if (is_due(owed.swap[i], swap_share_[g])) {
          choice[g] = Action::swap;
        }
      }
    }
    return choice;
  }

  decide::RankProblem& problem_;
  GapProblem full_;
  decide::gaps::Relaxation relaxation_;
  decide::gaps::AscentStart from_;  ///< with prices of the last answer
  std::vector<Work> outs_, ins_;    ///< per gap
  std::vector<Work> runs_;          ///< per unit
  std::vector<float> swap_share_, recompute_share_;
  SearchStart start_;
};

/// The mean of the longest paths of so many steps, from even weights on: from a single path the first answers would go
/// to extremes, and prices of memory after them.
class PathMean {
 public:
  explicit PathMean(simulate::PerComputeTask& weights) : weights_(weights) {
    for (std::vector<float>& of_rank : weights_) std::ranges::fill(of_rank, 1.0F / static_cast<float>(weights_.size()));
  }

  void take(const std::vector<simulate::ComputeTask>& path) {
    const float part = 1.0F / static_cast<float>(++paths_);
    for (std::vector<float>& of_rank : weights_)
      for (float& weight : of_rank) weight *= 1 - part;
    for (const simulate::ComputeTask& task : path)
      weights_[static_cast<std::size_t>(task.rank)][static_cast<std::size_t>(task.place)] += part;
  }

 private:
  simulate::PerComputeTask& weights_;
  int paths_ = 8;  ///< as many as the even weights of the begin count for
};

}  // namespace

StepRelaxation relax_step(std::span<const simulate::RankWork> works, std::span<const RelaxedRank> ranks,
                          bool is_brief) {
  simulate::LongestPath longest(works);
  simulate::PerComputeTask added = longest.nothing();
  StepRelaxation result{.weights = longest.nothing()};
  const double kept_ns = longest.step_ns(added);
  std::vector<RankRelaxation> relaxed;
  relaxed.reserve(ranks.size());
  for (const RelaxedRank& rank : ranks) relaxed.emplace_back(rank);
  PathMean mean(result.weights);
  const int rounds = is_brief ? kBriefRelaxationRounds : kRelaxationRounds;
  for (int round = 0; round < rounds; ++round) {
    if (round > 0) mean.take(longest.compute_tasks());
    const float part = 2.0F / static_cast<float>(round + 2);
    threads::parallel_for_each(0, ranks.size(), [&](std::size_t i) {
      const auto rank = static_cast<std::size_t>(ranks[i].problem->graph().rank);
      if (round % kPlaceAnew == 1) relaxed[i].place_chosen_runs();
      relaxed[i].answer(result.weights[rank], part, added[rank]);
    });
    result.added_ns = longest.step_ns(added) - kept_ns;
    if (result.added_ns <= 0) break;
  }
  for (RankRelaxation& rank : relaxed) result.starts.push_back(std::move(rank).start());
  return result;
}

}  // namespace tidemark::plan
