#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "planner/decide/gaps/search.h"

namespace tidemark::decide::gaps {
namespace {

/// The moves of alike units, all together.
struct Group {
  double bytes = 0, cost = 0;
  std::vector<std::int32_t> moves;
};

std::vector<Group> group_by_kind(const GapProblem& problem) {
  std::vector<std::pair<std::array<std::int32_t, 3>, std::int32_t>> keyed;
  for (std::size_t m = 0; m < problem.moves.size(); ++m) {
    const Move& move = problem.moves[m];
    const std::int32_t kind = problem.units[static_cast<std::size_t>(move.unit)].kind;
    keyed.push_back({{kind, move.action == Action::swap ? move.slot : -1, static_cast<std::int32_t>(move.action)},
                     static_cast<std::int32_t>(m)});
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<Group> groups;
  for (std::size_t i = 0; i < keyed.size(); ++i) {
    if (i == 0 || keyed[i].first != keyed[i - 1].first) groups.emplace_back();
    const Move& move = problem.moves[static_cast<std::size_t>(keyed[i].second)];
    groups.back().bytes += static_cast<double>(move.bytes);
    groups.back().cost += move.full_cost;
    groups.back().moves.push_back(keyed[i].second);
  }
  return groups;
}

/// Takes every move of the group whose gaps are all kept. False: there was none.
bool take(const GapProblem& problem, const Group& group, Choice& choice) {
  bool changed = false;
  for (const std::int32_t m : group.moves) {
    const Move& move = problem.moves[static_cast<std::size_t>(m)];
    const auto gaps = problem.gaps_of(move);
    if (std::any_of(gaps.begin(), gaps.end(),
                    [&](std::int32_t gap) { return choice[static_cast<std::size_t>(gap)] != Action::keep; }))
      continue;
    for (const std::int32_t gap : gaps) choice[static_cast<std::size_t>(gap)] = move.action;
    changed = true;
  }
  return changed;
}

}  // namespace

SearchResult search_greedy(const GapProblem& problem, Pricer& pricer, Bytes device_budget, Bytes host_budget,
                           const std::function<void()>& taken) {
  SearchResult now = priced(Choice(problem.gaps.size(), Action::keep), pricer, device_budget, host_budget);
  std::vector<Group> groups = group_by_kind(problem);
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.bytes * b.cost > b.bytes * a.cost; });
  for (const Group& group : groups) {
    if (now.fits) break;
    Choice choice = now.choice;
    if (!take(problem, group, choice)) continue;
    SearchResult next = priced(std::move(choice), pricer, device_budget, host_budget);
    if (next.pricing.host_peak_bytes > host_budget || next.pricing.peak_bytes > now.pricing.peak_bytes) continue;
    now = std::move(next);
    if (taken) taken();
  }
  return now;
}

}  // namespace tidemark::decide::gaps
