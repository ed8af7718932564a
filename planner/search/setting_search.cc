#include "planner/search/setting_search.h"

#include <tbb/global_control.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "planner/decide/sites/evaluator.h"
#include "planner/graph_build/liveness.h"
#include "planner/simulate/keep_all_step.h"
#include "planner/threads/parallel.h"

namespace tidemark::search {
namespace {

constexpr int kMostRounds = 64;      ///< of changes to one group of settings
constexpr int kMostRetries = 3;      ///< with a lower target, where packing needs more than the bytes alive
constexpr Bytes kPackingShare = 56;  ///< of the activations' room, left for packing

/// One rank to be evaluated. Its parts borrow each other, so it does not move.
struct RankCase {
  std::int32_t rank = 0;
  Graph graph;
  Liveness liveness;
  simulate::Timeline nominal;
  decide::sites::DecisionProblem problem;
  std::unique_ptr<decide::sites::Evaluator> evaluator;
};

/// Smaller is better: bytes that do not fit, device and host, then added time, then how much is set.
struct Score {
  Bytes over = 0;
  std::int64_t added_ns = 0;
  std::int64_t set = 0;
  friend auto operator<=>(const Score&, const Score&) = default;
};

/// A change to `to` is a better step than one to `other`: where something does not fit, the one that buys its bytes
/// for less time; otherwise the lower score. REQUIRES: both are below `from`.
bool is_better_step(const Score& from, const Score& to, const Score& other) {
  if (from.over == 0) return to < other;
  const auto bytes = [&](const Score& s) { return static_cast<double>(from.over - s.over); };
  const auto ns = [&](const Score& s) {
    return static_cast<double>(std::max<std::int64_t>(1, s.added_ns - from.added_ns));
  };
  const double left = bytes(to) * ns(other), right = bytes(other) * ns(to);
  return left != right ? left > right : to < other;
}

class Searcher {
 public:
  Searcher(const SettingSearch& search, const Machine& machine) : search_(search), machine_(machine) {}

  Status prepare() {
    const plan::PlanRequest& request = search_.request;
    Result<simulate::KeepAllStep> step =
        simulate::keep_all_step(request.job, machine_, search_.loads, request.time_scale);
    if (!step) return step.error();
    for (const std::int32_t rank : request.ranks) {
      const auto r = static_cast<std::size_t>(rank);
      auto c = std::make_unique<RankCase>();
      c->rank = rank;
      c->graph = std::move(step.value().graphs[r]);
      c->nominal = std::move(step.value().timing.ranks[r]);
      c->liveness = graph_build::analyse_liveness(c->graph);
      Result<decide::sites::DecisionProblem> problem =
          decide::sites::build_problem(c->graph, c->liveness, machine_, c->nominal, std::move(step.value().op_ns[r]));
      if (!problem) return problem.error();
      c->problem = std::move(problem).value();
      c->evaluator = std::make_unique<decide::sites::Evaluator>(c->problem);
      cases_.push_back(std::move(c));
    }
    return {};
  }

  /// From every start downhill; `shrink` is taken off the device target.
  [[nodiscard]] SettingValues find(Bytes shrink) {
    std::optional<std::pair<Score, SettingValues>> best;
    for (SettingValues values : search_.starts) {
      for (const std::int32_t group : groups()) descend(group, shrink, values);
      const Score score = score_of(values, -1, shrink);
      if (!best || score < best->first) best = {score, values};
    }
    return best->second;
  }

 private:
  /// The ranks that have settings of their own, after the whole job's.
  [[nodiscard]] std::set<std::int32_t> groups() const {
    std::set<std::int32_t> ranks;
    for (const Setting& setting : search_.settings) ranks.insert(setting.rank);
    return ranks;
  }

  /// Takes the best change of one setting of the group for as long as one helps.
  void descend(std::int32_t group, Bytes shrink, SettingValues& values) {
    Score now = score_of(values, group, shrink);
    for (int round = 0; round < kMostRounds; ++round) {
      Score best;
      SettingValues best_values;
      for (const SettingValues& changed : neighbours(group, values)) {
        const Score score = score_of(changed, group, shrink);
        if (score >= now || (!best_values.empty() && !is_better_step(now, score, best))) continue;
        best = score;
        best_values = changed;
      }
      if (best_values.empty()) return;
      now = best;
      values = std::move(best_values);
    }
  }

  /// One setting one step up or down, or one on in place of another that is on. Turning one on turns on what it needs
  /// and off what it excludes.
  [[nodiscard]] std::vector<SettingValues> neighbours(std::int32_t group, const SettingValues& values) const {
    std::vector<SettingValues> list;
    const auto add = [&](SettingValues changed) {
      if (are_consistent(search_.settings, changed)) list.push_back(std::move(changed));
    };
    for (std::size_t s = 0; s < values.size(); ++s) {
      const Setting& setting = search_.settings[s];
      if (setting.rank != group) continue;
      for (const std::int32_t step : {-1, 1}) {
        SettingValues changed = values;
        changed[s] += step;
        if (changed[s] < 0 || changed[s] > setting.most()) continue;
        add(changed);
        if (step > 0) add(made_consistent(setting, std::move(changed)));
      }
      for (std::size_t other = 0; values[s] == 0 && other < values.size(); ++other) {
        if (values[other] == 0 || search_.settings[other].rank != group) continue;
        SettingValues changed = values;
        changed[other] = 0;
        changed[s] = 1;
        add(made_consistent(setting, std::move(changed)));
      }
    }
    return list;
  }

  [[nodiscard]] static SettingValues made_consistent(const Setting& setting, SettingValues values) {
    for (const std::int32_t needed : setting.needs) {
      std::int32_t& value = values[static_cast<std::size_t>(needed)];
      value = std::max(value, 1);
    }
    for (const std::int32_t excluded : setting.excludes) values[static_cast<std::size_t>(excluded)] = 0;
    return values;
  }

  /// Of one rank, or of all (-1).
  [[nodiscard]] Score score_of(const SettingValues& values, std::int32_t group, Bytes shrink) {
    const std::vector<PlacedAction> rules = rules_of(search_.settings, values);
    std::vector<Score> scores(cases_.size());
    threads::parallel_for_each(0, cases_.size(), [&](std::size_t i) {
      RankCase& c = *cases_[i];
      if (group < 0 || c.rank == group) scores[i] = score_of(c, rules, shrink);
    });
    Score sum{.set = std::accumulate(values.begin(), values.end(), std::int64_t{0})};
    for (const Score& score : scores) {
      sum.over += score.over;
      sum.added_ns += score.added_ns;
    }
    return sum;
  }

  [[nodiscard]] Score score_of(RankCase& c, const std::vector<PlacedAction>& rules, Bytes shrink) const {
    const plan::PlanRequest& request = search_.request;
    const Bytes budget = request.budget_bytes.value_or(machine_.visible_bytes) -
                         graph_build::reserve_memory(machine_, request.job.parallel).total();
    const Bytes keep_all = *std::ranges::max_element(c.problem.base_bytes);
    const Bytes packing = keep_all <= budget ? 0 : std::max<Bytes>(0, budget - c.problem.static_bytes) / kPackingShare;
    const Bytes host = request.host_budget_bytes.value_or(machine_.host_bytes_per_device);
    const decide::sites::Evaluation e = c.evaluator->evaluate(choose_placed(c.problem, rules));
    return {.over = std::max<Bytes>(0, e.peak_bytes - (budget - packing - shrink)) +
                    std::max<Bytes>(0, e.host_peak_bytes - host),
            .added_ns = e.added_ns()};
  }

  const SettingSearch& search_;
  const Machine& machine_;
  std::vector<std::unique_ptr<RankCase>> cases_;
};

/// The most that a rank is above its budget once packed.
Bytes worst_overflow(const plan::PlanOutcome& outcome) {
  Bytes worst = 0;
  for (const plan::RankPlan& rank : outcome.ranks)
    worst = std::max(worst, rank.figures.peak_bytes - rank.figures.budget_bytes);
  return worst;
}

bool better(const plan::PlanOutcome& now, const plan::PlanOutcome& best) {
  if (now.fits() != best.fits()) return now.fits();
  return now.fits() ? now.step.step_ns < best.step.step_ns : worst_overflow(now) < worst_overflow(best);
}

}  // namespace

std::vector<PlacedAction> rules_of(const std::vector<Setting>& settings, const SettingValues& values) {
  std::vector<PlacedAction> rules;
  for (std::size_t s = 0; s < settings.size(); ++s) {
    const auto& added = settings[s].rules[static_cast<std::size_t>(values[s])];
    rules.insert(rules.end(), added.begin(), added.end());
  }
  return rules;
}

bool are_consistent(const std::vector<Setting>& settings, const SettingValues& values) {
  const auto is_on = [&](std::int32_t s) { return values[static_cast<std::size_t>(s)] > 0; };
  for (std::size_t s = 0; s < settings.size(); ++s) {
    if (values[s] == 0) continue;
    if (!std::ranges::all_of(settings[s].needs, is_on) || std::ranges::any_of(settings[s].excludes, is_on))
      return false;
  }
  return true;
}

Result<SettingOutcome> search_settings(const SettingSearch& search) {
  std::optional<tbb::global_control> limit;
  if (search.request.threads > 0)
    limit.emplace(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(search.request.threads));
  Searcher searcher(search, search.request.machine);
  if (Status status = searcher.prepare(); !status) return status.error();
  std::optional<SettingOutcome> best;
  std::optional<SettingValues> last;
  Bytes shrink = 0;
  for (int attempt = 0; attempt <= kMostRetries; ++attempt) {
    SettingValues values = searcher.find(shrink);
    if (values == last) break;
    last = values;
    const std::vector<PlacedAction> rules = rules_of(search.settings, values);
    const plan::Policy policy = policy_of("settings", rules);
    plan::PlanRequest request = search.request;
    request.policy = &policy;
    Result<plan::PlanOutcome> outcome = plan::plan_step(request);
    if (!outcome) return outcome.error();
    const Bytes over = worst_overflow(outcome.value());
    if (!best || better(outcome.value(), best->outcome)) best = {std::move(values), std::move(outcome).value()};
    if (over <= 0) break;
    shrink += over + over / 4;
  }
  return std::move(*best);
}

}  // namespace tidemark::search
