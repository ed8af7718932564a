#include "planner/decide/flat/aimed.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "planner/decide/flat/core_choices.h"
#include "planner/decide/flat/known_repeats.h"
#include "planner/decide/flat/list_length.h"
#include "planner/decide/flat/recompute.h"
#include "planner/decide/flat/repeats.h"
#include "planner/decide/flat/seeds.h"
#include "planner/decide/flat/state.h"
#include "planner/decide/flat/ways.h"
#include "planner/threads/parallel.h"

namespace tidemark::decide::flat {
namespace {

constexpr double kBelow[] = {0.985, 0.96, 0.92};  // shares of the lowest budget that passes are made for as well
constexpr double kHeats[] = {0.03, 0.1, 0.3, 1};  // of the searches of a round
constexpr unsigned kRounds = 4;                   // each with twice the work of the one before
constexpr int kPatience = 2;                      // rounds without gain
constexpr double kGain = 1e-3;                    // of the cost, that counts
constexpr std::int64_t kPassWork = 3000;          // per op, of a pass, at most
constexpr double kSeedShare = 0.05;               // of the work, on recomputations of seeds: see checkpoint_seeds
constexpr unsigned kFoldedRounds = 3;             // after each, decisions of layers are replicated
constexpr std::int32_t kMostSources = 24, kFewSources = 8;  // layers; of one budget, and of several that share the work
constexpr double kFoldShare = 0.1;                          // of the work, of each
constexpr std::int32_t kMostRepriced = 20'000;              // ops, up to which whole schedules are made over and over
constexpr double kStartShare = 0.1;                         // of the progress, once starts are there
constexpr std::uint64_t kSeed = 1;

class AimedSearch {
 public:
  AimedSearch(const Problem& problem, const Aim& aim, const SearchLimits& limits, Archive& archive)
      : p_(problem), own_repeats_(problem), aim_(aim), limits_(limits), archive_(archive) {}

  void run() {
    if (best_cost(aim_.budgets.back()) < 0) find_starts();
    tell(kStartShare);
    tell_best();
    int idle = 0;
    for (unsigned round = 0; round < kRounds && idle < kPatience && !is_done(); ++round) {
      const std::vector<std::int64_t> before = best_costs();
      search_round(round);
      if (round < (aim_.budgets.size() == 1 ? kFoldedRounds : 1)) replicate_layers(round);
      tell_best();
      const std::vector<std::int64_t> now = best_costs();
      bool gain = false;
      for (std::size_t i = 0; i < now.size(); ++i) gain |= gained(before[i], now[i]);
      idle = gain ? 0 : idle + 1;
    }
    tell(1);
  }

 private:
  [[nodiscard]] bool stopped() const { return limits_.should_stop && limits_.should_stop(); }
  void tell(double share) const {
    if (limits_.on_progress) limits_.on_progress(share);
  }
  void tell_best() const {
    const std::int64_t cost = best_cost(aim_.budgets.front());
    if (limits_.on_better && cost >= 0) limits_.on_better(cost);
  }
  /// -1: nothing fits.
  [[nodiscard]] std::int64_t best_cost(Bytes budget) const {
    const Solution* best = archive_.best_within(budget);
    return best == nullptr ? -1 : best->added_cost;
  }
  [[nodiscard]] std::vector<std::int64_t> best_costs() const {
    std::vector<std::int64_t> costs;
    for (const Bytes budget : aim_.budgets) costs.push_back(best_cost(budget));
    return costs;
  }
  [[nodiscard]] bool is_done() const {
    const std::int64_t cost = best_cost(aim_.budgets.front());
    if (stopped()) return true;
    return aim_.budgets.size() == 1 && cost >= 0 && cost <= aim_.enough_cost;
  }
  static bool gained(std::int64_t before, std::int64_t now) {
    if (before < 0 || now < 0) return before != now;
    return static_cast<double>(now) < static_cast<double>(before) * (1 - kGain);
  }

  /// The first pass is made whatever happens; whatever else is under way when told to stop ends with what it has.
  void find_starts() {
    std::vector<std::function<void(Archive&)>> starts;
    const auto add_passes = [&](Bytes budget) {
      starts.emplace_back([this, budget](Archive& found) {
        try_common_ways(p_, budget, kPassWork * p_.op_count, found, limits_.should_stop);
      });
    };
    starts.emplace_back([this](Archive& found) {
      try_common_ways(p_, aim_.budgets.front(), kPassWork * p_.op_count, found,
                      [&] { return !found.all().empty() && stopped(); });
    });
    for (std::size_t i = 1; i < aim_.budgets.size(); ++i) add_passes(aim_.budgets[i]);
    for (const double share : kBelow) add_passes(static_cast<Bytes>(static_cast<double>(aim_.budgets.back()) * share));
    if (p_.op_count <= kMostRepriced)
      starts.emplace_back([this](Archive& found) {
        CoreChoices core(p_);
        for (const Bytes budget : aim_.budgets)
          if (!stopped()) found.add(core.within(budget, limits_.should_stop));
      });
    starts.emplace_back([this](Archive& found) {
      const auto reruns = static_cast<std::int64_t>(kSeedShare * aim_.work / p_.op_count);
      for (Solution& seed : checkpoint_seeds(p_, reruns, limits_.should_stop)) found.add(std::move(seed));
    });
    std::vector<Archive> found(starts.size());
    threads::parallel_for_each(0, starts.size(), [&](std::size_t i) {
      if (i == 0 || !stopped()) starts[i](found[i]);
    });
    archive_.add(State(p_, 0).solution());
    for (const Archive& one : found) archive_.add_all(one);
  }

  /// Every budget by itself; a single one by several searches, colder and hotter.
  void search_round(unsigned round) {
    const std::size_t budgets = aim_.budgets.size();
    const std::size_t local = budgets == 1 ? std::size(kHeats) : budgets, tasks = local + (passes_help_ ? 1 : 0);
    const double share = std::pow(2, round) / (std::pow(2, kRounds) - 1);
    const auto units = static_cast<std::int64_t>(aim_.work * share / static_cast<double>(tasks));
    std::vector<Archive> found(tasks, Archive(&archive_));
    const std::int64_t before = best_cost(aim_.budgets.front());
    threads::parallel_for_each(0, tasks, [&](std::size_t i) {
      if (i == local) {
        search_passes(units, kSeed + i + 100 * round, found[i]);
        return;
      }
      const double heat = kHeats[budgets == 1 ? i : round % std::size(kHeats)];
      search_from_best(aim_.budgets[budgets == 1 ? 0 : i], units, heat, kSeed + i + 100 * round, found[i]);
    });
    if (passes_help_) {
      const Solution* best = found.back().best_within(aim_.budgets.front());
      passes_help_ = gained(before, best == nullptr ? -1 : best->added_cost);
    }
    for (const Archive& one : found) archive_.add_all(one);
    tell(std::min(1.0, kStartShare + (1 - kStartShare) * 2 * share));
  }

  /// Anneals the weights by which eviction passes choose storages, on from where the round before ended.
  void search_passes(std::int64_t units, std::uint64_t seed, Archive& found) {
    if (stopped()) return;
    std::vector<const Attempt*> starts;
    if (attempt_) starts.push_back(&*attempt_);
    attempt_ = search_ways(p_, aim_.budgets.front(), starts, units, seed, limits_.should_stop, found);
  }

  /// Makes the best schedule's decisions in a layer in all of them, or in those before it or behind: where that is
  /// cheaper, the next round goes on from there and looks for the exceptions.
  void replicate_layers(unsigned round) {
    const Bytes budget = aim_.budgets.front();
    const Solution* best = archive_.best_within(budget);
    if (best == nullptr || best->added_cost == 0 || is_done()) return;
    const Repeats& repeats = (aim_.repeats != nullptr ? *aim_.repeats : own_repeats_).get();
    if (repeats.layers() < 2) return;
    const bool single = aim_.budgets.size() == 1;
    const std::int32_t layers = repeats.layers(), stride = (layers - 1) / (single ? kMostSources : kFewSources) + 1;
    struct Source {
      std::int32_t layer = 0, first = 0, last = 0;
    };
    std::vector<Source> sources;
    for (std::int32_t layer = 0; layer < layers; layer += stride) {
      sources.push_back({.layer = layer, .first = 0, .last = layers - 1});
      if (!single) continue;
      sources.push_back({.layer = layer, .first = 0, .last = layer});
      sources.push_back({.layer = layer, .first = layer, .last = layers - 1});
    }
    const auto work = static_cast<std::int64_t>(aim_.work * kFoldShare / static_cast<double>(sources.size()));
    std::vector<Archive> found(sources.size(), Archive(&archive_));
    threads::parallel_for_each(0, sources.size(), [&](std::size_t i) {
      if (stopped()) return;
      const Source& source = sources[i];
      State state(p_, budget);
      repeats.replicate(*best, source.layer, source.first, source.last, state);
      Improver improver(state, found[i], kSeed + i + 100 * round + 50'000);
      if (state.profile().overflow() > 0 && !improver.repair(work, limits_.should_stop)) return;
      undo_idle(state, work);
      found[i].add(state.solution());
    });
    for (const Archive& one : found) archive_.add_all(one);
  }

  void search_from_best(Bytes budget, std::int64_t units, double heat, std::uint64_t seed, Archive& found) const {
    if (stopped()) return;
    const Solution* start = archive_.best_within(budget);
    State state(p_, budget);
    state.load(Solution(start == nullptr ? archive_.all().front() : *start));
    Improver improver(state, found, seed);
    if (start != nullptr || improver.repair(units / 8, limits_.should_stop))
      improver.improve(units, heat, limits_.should_stop);
  }

  const Problem& p_;
  const KnownRepeats own_repeats_;  ///< where the aim names none
  const Aim& aim_;
  const SearchLimits& limits_;
  Archive& archive_;
  bool passes_help_ = p_.op_count <= kMostRepriced;  ///< beside local search
  std::optional<Attempt> attempt_;                   ///< the best that passes came to
};

}  // namespace

void search_within(const Problem& problem, const Aim& aim, const SearchLimits& limits, Archive& archive) {
  AimedSearch(problem, aim, limits, archive).run();
}

}  // namespace tidemark::decide::flat
