#include "planner/decide/flat/greedy.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "planner/decide/flat/gap_pricer.h"
#include "planner/decide/flat/gaps.h"
#include "planner/decide/gaps/search.h"

namespace tidemark::decide::flat {
namespace {

constexpr std::size_t kWork =
    20'000'000;  // entries looked at: a pricing looks at every op and gap, and at what runs again
constexpr std::size_t kFewestSteps = 40;

/// Cheapest per byte first, gaps in as many kinds as there may be steps: those of a kind are given up together.
void form_kinds(gaps::GapProblem& gaps) {
  std::vector<double> price(gaps.gaps.size(), std::numeric_limits<double>::infinity());
  for (const gaps::Move& move : gaps.moves) {
    double& least = price[static_cast<std::size_t>(move.gap)];
    least = std::min(least, move.cost / static_cast<double>(std::max<Bytes>(1, move.bytes)));
  }
  std::vector<std::size_t> order(price.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t gap) { return price[gap]; });
  const std::size_t steps = std::max(kFewestSteps, kWork / (price.size() + gaps.base_bytes.size() + 1));
  const std::size_t together = (order.size() + steps - 1) / steps;
  for (std::size_t i = 0; i < order.size(); ++i) gaps.units[order[i]].kind = static_cast<std::int32_t>(i / together);
}

}  // namespace

Archive greedy_schedules(const Problem& problem) {
  ListGaps gaps = list_gaps(problem, GapUse::choice);
  add_moves(problem, gaps);
  form_kinds(gaps.problem);
  GapPricer pricer(problem, gaps);
  Archive archive;
  const auto keep = [&] { archive.add(pricer.solution()); };
  pricer.price(gaps::Choice(gaps.places.size(), Action::keep));
  keep();
  constexpr Bytes kNoLimit = std::numeric_limits<Bytes>::max() / 4;
  (void)gaps::search_greedy(gaps.problem, pricer, 0, kNoLimit, keep);
  return archive;
}

}  // namespace tidemark::decide::flat
