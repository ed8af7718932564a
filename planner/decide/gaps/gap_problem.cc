#include "planner/decide/gaps/gap_problem.h"

namespace tidemark::decide::gaps {

Choice recompute_all(const GapProblem& problem) {
  Choice choice(problem.gaps.size(), Action::keep);
  for (const GapProblem::Unit& unit : problem.units) {
    if (unit.recompute_cost < 0) continue;
    for (const std::int32_t gap : problem.gaps_of(unit)) choice[static_cast<std::size_t>(gap)] = Action::recompute;
  }
  return choice;
}

}  // namespace tidemark::decide::gaps
