#include <cmath>
#include <utility>

#include "planner/decide/gaps/search.h"

namespace tidemark::decide::gaps {
namespace {

/// Depth-first over units; costs only grow, so a branch dearer than the best is cut.
class Enumerator {
 public:
  Enumerator(const GapProblem& problem, Pricer& pricer, Bytes device_budget, Bytes host_budget)
      : p_(problem),
        pricer_(pricer),
        budget_(device_budget),
        host_budget_(host_budget),
        choice_(problem.gaps.size(), Action::keep) {}

  SearchResult run() {
    best_ = priced(choice_, pricer_, budget_, host_budget_);
    descend(0, 0);
    best_.proven_optimal = true;
    if (best_.fits) best_.lower_bound = static_cast<double>(best_.pricing.added_cost);
    return std::move(best_);
  }

 private:
  void descend(std::size_t unit, double cost) {
    if (best_.fits && cost >= static_cast<double>(best_.pricing.added_cost)) return;
    if (unit == p_.units.size()) {
      SearchResult now = priced(choice_, pricer_, budget_, host_budget_);
      if (is_better(now, best_, host_budget_)) best_ = std::move(now);
      return;
    }
    const GapProblem::Unit& u = p_.units[unit];
    assign(unit, 0, cost);
    if (u.recompute_cost < 0) return;
    for (const std::int32_t gap : p_.gaps_of(u)) choice_[static_cast<std::size_t>(gap)] = Action::recompute;
    descend(unit + 1, cost + u.recompute_cost);
    for (const std::int32_t gap : p_.gaps_of(u)) choice_[static_cast<std::size_t>(gap)] = Action::keep;
  }

  /// Keeps or swaps each gap of the unit by itself.
  void assign(std::size_t unit, std::size_t member, double cost) {
    const auto gaps = p_.gaps_of(p_.units[unit]);
    if (member == gaps.size()) return descend(unit + 1, cost);
    assign(unit, member + 1, cost);
    const auto g = static_cast<std::size_t>(gaps[member]);
    if (p_.gaps[g].swap_cost < 0) return;
    choice_[g] = Action::swap;
    assign(unit, member + 1, cost + p_.gaps[g].swap_cost);
    choice_[g] = Action::keep;
  }

  const GapProblem& p_;
  Pricer& pricer_;
  Bytes budget_, host_budget_;
  Choice choice_;
  SearchResult best_;
};

}  // namespace

double count_choices(const GapProblem& problem) {
  double count = 1;
  for (const GapProblem::Unit& unit : problem.units)
    count *= std::pow(2.0, static_cast<double>(unit.count)) + (unit.recompute_cost < 0 ? 0 : 1);
  return count;
}

SearchResult search_exhaustively(const GapProblem& problem, Pricer& pricer, Bytes device_budget, Bytes host_budget) {
  return Enumerator(problem, pricer, device_budget, host_budget).run();
}

}  // namespace tidemark::decide::gaps
