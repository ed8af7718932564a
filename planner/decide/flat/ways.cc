#include "planner/decide/flat/ways.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "planner/decide/flat/list_length.h"
#include "planner/decide/flat/random.h"

namespace tidemark::decide::flat {
namespace {

constexpr EvictionWay kCommon[] = {
    {.hold = 0.5, .distance = 1}, {.hold = 1, .distance = 1}, {.hold = 0.5, .distance = 1.4}};
/// Of lists whose passes are indexed, and cost little.
constexpr EvictionWay kCommonOfMany[] = {{.hold = 0.75, .distance = 1.4, .slack = 0.05, .deep = true},
                                         {.hold = 1, .distance = 1, .slack = 0.3, .deep = true},
                                         {.hold = 0.5, .distance = 1}};

std::span<const EvictionWay> common_ways(const Problem& problem) {
  if (problem.op_count <= kLongOps) return kCommon;
  return std::span(kCommonOfMany).first(problem.op_count > kManyOps ? 1 : std::size(kCommonOfMany));
}

void stretch(double& weight, Random& random, double most) {
  weight *= std::exp(most * (2 * random.unit() - 1));
}

/// A neighbour: other weights of a few storages, of a run of them, or of all a little; or other terms.
Attempt varied(Attempt attempt, Random& random) {
  std::vector<double>& weight = attempt.weight;
  const auto count = std::ssize(weight);
  const auto any = [&] { return static_cast<std::size_t>(random.below(count)); };
  switch (random.below(4)) {
    case 0:
      attempt.way.hold = 2 * random.unit();
      if (random.below(2) == 0) attempt.way.distance = 0.3 + 1.2 * random.unit();
      if (random.below(2) == 0) attempt.share = 1 + 0.1 * random.unit();
      break;
    case 1:
      for (std::int64_t left = 1 + random.below(3); left > 0; --left) stretch(weight[any()], random, 3);
      break;
    case 2: {
      const std::size_t first = any(),
                        end = std::min(first + 1 + static_cast<std::size_t>(random.below(30)), weight.size());
      for (std::size_t s = first; s < end; ++s) stretch(weight[s], random, 3);
      break;
    }
    default: {
      const double most = random.unit() / 2;
      for (double& w : weight) stretch(w, random, most);
    }
  }
  return attempt;
}

std::optional<Solution> pass_of(const Problem& problem, Bytes budget, const Attempt& attempt, std::int64_t most_work,
                                std::int64_t& work, const std::function<bool()>& should_stop) {
  EvictionWay way = attempt.way;
  way.weight = &attempt.weight;
  const auto room = static_cast<Bytes>(static_cast<double>(budget) * attempt.share);
  return evict_on_the_way(problem, room, way, most_work, work, should_stop);
}

}  // namespace

CommonWays try_common_ways(const Problem& problem, Bytes budget, std::int64_t most_work, Archive& archive,
                           const std::function<bool()>& should_stop) {
  constexpr double kAlmost = 1.03;
  constexpr std::int64_t kEasy = 3;  // where one takes more than that part, the others take too long
  CommonWays tried;
  for (const EvictionWay& way : common_ways(problem)) {
    std::int64_t work = 0;
    std::optional<Solution> solution = evict_on_the_way(problem, budget, way, most_work, work, should_stop);
    tried.work += work;
    if (!solution) continue;
    tried.close |= static_cast<double>(solution->peak_bytes) <= kAlmost * static_cast<double>(budget);
    archive.add(*std::move(solution));
    if (work > most_work / kEasy) break;
  }
  return tried;
}

std::optional<Attempt> search_ways(const Problem& problem, Bytes budget, std::span<const Attempt* const> starts,
                                   std::int64_t work, std::uint64_t seed, const std::function<bool()>& should_stop,
                                   Archive& archive) {
  constexpr double kOverflowCost = 20;    // of being above the budget by all of it, in costs of the whole step
  constexpr double kHeat = 0.02;          // of the best cost, at first
  constexpr std::int64_t kLoadWork = 60;  // per op, of telling what a pass came to: most of the time on short lists
  const double total = std::max(1.0, static_cast<double>(problem.total_cost()));
  Random random(seed);
  std::int64_t spent = 0;
  const auto value_of = [&](const Attempt& attempt, std::int64_t most_work) {
    std::optional<Solution> solution = pass_of(problem, budget, attempt, most_work, spent, should_stop);
    spent += kLoadWork * problem.op_count;
    if (!solution) return static_cast<double>(INFINITY);
    const double above =
        static_cast<double>(solution->peak_bytes) / static_cast<double>(std::max<Bytes>(budget, 1)) - 1;
    const double value = static_cast<double>(solution->added_cost) / total + kOverflowCost * std::max(0.0, above);
    archive.add(*std::move(solution));
    return value;
  };
  Attempt present{.way = common_ways(problem)[0],
                  .weight = std::vector<double>(static_cast<std::size_t>(problem.storage_count), 1)};
  double present_value = INFINITY;
  for (const Attempt* start : starts)
    if (const double value = value_of(*start, work); value < present_value) {
      present = *start;
      present_value = value;
    }
  for (const EvictionWay& way : common_ways(problem)) {
    if (!starts.empty()) break;
    Attempt common = present;
    common.way = way;
    if (const double value = value_of(common, work); value < present_value) {
      present = std::move(common);
      present_value = value;
    }
  }
  Attempt best = present;
  double best_value = present_value;
  while (spent < work) {
    if (should_stop && should_stop()) break;
    const double done = static_cast<double>(spent) / static_cast<double>(work);
    Attempt next = varied(present, random);
    const double value = value_of(next, work / 8);
    const double heat = kHeat * std::pow(kHeat, done) * std::min(best_value, 10.0);
    if (value > present_value - heat * std::log(1 - random.unit())) continue;
    present = std::move(next);
    present_value = value;
    if (value >= best_value) continue;
    best = present;
    best_value = value;
  }
  if (!std::isfinite(best_value)) return std::nullopt;
  return best;
}

}  // namespace tidemark::decide::flat
