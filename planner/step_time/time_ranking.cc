#include "planner/step_time/time_ranking.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "planner/step_time/quantile.h"

namespace tidemark::step_time {
namespace {

/// Closer than this, measured times of one job are not ranked: the same configuration in two releases of NVIDIA's DGX
/// Cloud recipes differs by 1.6 % (median of 72).
constexpr double kApart = 1.03;

using Group = std::vector<const TimedPair*>;

/// +1: ordered as measured, -1: the other way, 0: not a pair that counts.
int concordance(const TimedPair& a, const TimedPair& b) {
  const auto [least, most] = std::minmax(a.measured_s, b.measured_s);
  if (most / least < kApart || a.predicted_s == b.predicted_s) return 0;
  return (a.predicted_s < b.predicted_s) == (a.measured_s < b.measured_s) ? 1 : -1;
}

double regret_percent(const Group& group) {
  const TimedPair& picked = **std::ranges::min_element(group, {}, &TimedPair::predicted_s);
  const TimedPair& best = **std::ranges::min_element(group, {}, &TimedPair::measured_s);
  return 100 * (picked.measured_s / best.measured_s - 1);
}

std::map<std::string_view, Group> ranked_groups(std::span<const TimedPair> pairs) {
  std::map<std::string_view, Group> groups;
  for (const TimedPair& pair : pairs)
    if (!pair.group.empty()) groups[pair.group].push_back(&pair);
  std::erase_if(groups, [](const auto& named) { return named.second.size() < 2; });
  return groups;
}

}  // namespace

TrackRanking track_ranking(std::span<const TimedPair> pairs) {
  TrackRanking ranking;
  std::int64_t order = 0;
  std::vector<double> regrets;
  for (const auto& [name, group] : ranked_groups(pairs)) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const int sign = concordance(*group[i], *group[j]);
        order += sign;
        if (sign != 0) ++ranking.pairs;
      }
    }
    regrets.push_back(regret_percent(group));
  }
  ranking.groups = regrets.size();
  if (ranking.pairs > 0) ranking.kendall_tau = static_cast<double>(order) / static_cast<double>(ranking.pairs);
  if (regrets.empty()) return ranking;
  ranking.regret_worst_percent = std::ranges::max(regrets);
  ranking.regret_p90_percent = linear_quantile(regrets, 0.9);
  return ranking;
}

}  // namespace tidemark::step_time
