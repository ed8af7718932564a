#include "planner/decide/gaps/give_up.h"

#include <algorithm>
#include <vector>

#include "planner/decide/gaps/load_tree.h"

namespace tidemark::decide::gaps {

Choice give_up_all(const GapProblem& problem, Bytes host_budget) {
  Choice choice = recompute_all(problem);
  LoadTree host(std::vector<Bytes>(problem.base_bytes.size(), problem.base_host_bytes));
  for (const Move& move : problem.moves) {
    const auto g = static_cast<std::size_t>(move.gap);
    if (move.action != Action::swap || choice[g] != Action::keep) continue;
    const GapProblem::Gap& gap = problem.gaps[g];
    const std::int32_t until = std::min(gap.taken_from + 1, static_cast<std::int32_t>(problem.base_bytes.size()));
    if (host.max(gap.free_from, until) + gap.bytes > host_budget) continue;
    host.add(gap.free_from, until, gap.bytes);
    choice[g] = Action::swap;
  }
  return choice;
}

}  // namespace tidemark::decide::gaps
