#include "planner/decide/sites/gaps.h"

#include <algorithm>

#include "planner/decide/sites/effect.h"

namespace tidemark::decide::sites {
namespace {

std::int32_t clock_at(const DecisionProblem& p, std::int64_t ns) {
  return static_cast<std::int32_t>(std::lower_bound(p.clock_start_ns.begin(), p.clock_start_ns.end(), ns) -
                                   p.clock_start_ns.begin());
}

struct UnitEffect {
  SiteEffect effect;
  double cost_ns = 0;
  double least_ns = 0;  ///< whatever else is decided
};

UnitEffect effect_alone(const DecisionProblem& p, const SiteClass& c, const SiteClass::Unit& unit) {
  std::vector<Action> actions(c.slots.size(), Action::keep);
  for (const std::int32_t slot : unit.slots) actions[static_cast<std::size_t>(slot)] = Action::recompute;
  UnitEffect u{.effect = work_out_effect(p, c, actions)};
  u.cost_ns = static_cast<double>(u.effect.compute_ns - u.effect.hidden_ns + u.effect.exposed_communication_ns);
  u.least_ns = static_cast<double>(unit.compute_ns - most_hidden_ns(p, c, unit));
  return u;
}

gaps::Move recompute_move(const DecisionProblem& p, const SiteClass& c, std::size_t site, const SiteClass::Unit& unit,
                          const UnitEffect& alone) {
  const std::int32_t first_gap = c.first_gap[site];
  gaps::Move move{.action = Action::recompute,
                  .gap = first_gap + unit.slots.front(),
                  .cost = alone.cost_ns,
                  .full_cost = alone.cost_ns};
  const auto ops = p.ops_of(c.sites[site]);
  const SiteEffect::Run& run = alone.effect.runs.front();
  move.run_at = 2 * p.clock_of[row(ops[static_cast<std::size_t>(run.need_pos)])];
  move.until = std::max(0, 2 * p.clock_of[row(ops[static_cast<std::size_t>(run.start_pos)])] - 1);
  for (const std::int32_t local : p.graph->recipes[row(unit.recipe)].transients)
    move.transient_bytes += p.graph->storages[row(p.graph->storage_at(c.sites[site], local))].bytes;
  for (const std::int32_t slot : unit.slots) move.bytes += p.gaps[static_cast<std::size_t>(first_gap + slot)].bytes;
  move.from = p.gaps[static_cast<std::size_t>(move.gap)].free_from;
  return move;
}

double full_swap_cost(const GapRow& gap) {
  return static_cast<double>(gap.copy_out.compute_ns + gap.copy_in.compute_ns);
}

double swap_cost(const GapRow& gap) {
  return gap.weight.out * static_cast<double>(gap.copy_out.compute_ns) +
         gap.weight.in * static_cast<double>(gap.copy_in.compute_ns);
}

/// A swap queues behind other copies: half as long again as the copy itself is allowed for each direction.
bool swap_move(const DecisionProblem& p, const SiteClass& c, std::size_t site, std::int32_t slot, gaps::Move& move) {
  const std::int32_t first_gap = c.first_gap[site];
  const GapRow& gap = p.gaps[static_cast<std::size_t>(first_gap + slot)];
  if (!p.graph->template_of(gap.gap.storage).swappable) return false;
  const std::int64_t out = gap.copy_out.link_ns + gap.copy_out.link_ns / 2;
  const std::int64_t in = gap.copy_in.link_ns + gap.copy_in.link_ns / 2;
  const std::int64_t free_ns = p.nominal->end_ns[row(gap.gap.before)] + out;
  const std::int64_t taken_ns = p.nominal->start_ns[row(gap.gap.after)] - in;
  move = {.action = Action::swap,
          .gap = first_gap + slot,
          .slot = slot,
          .cost = full_swap_cost(gap),
          .full_cost = full_swap_cost(gap),
          .link_time = static_cast<double>(gap.copy_out.link_ns + gap.copy_in.link_ns),
          .bytes = gap.bytes};
  move.from = std::max(gap.free_from, 2 * clock_at(p, free_ns));
  move.until = 2 * clock_at(p, taken_ns) - 3;
  return move.from < move.until;
}

std::vector<gaps::GapProblem::Gap> list_gaps(const DecisionProblem& p) {
  std::vector<gaps::GapProblem::Gap> gaps;
  gaps.reserve(p.gaps.size());
  for (const GapRow& gap : p.gaps) {
    const double cost = p.graph->template_of(gap.gap.storage).swappable ? full_swap_cost(gap) : -1.0;
    gaps.push_back({.bytes = gap.bytes,
                    .free_from = gap.free_from,
                    .taken_from = gap.taken_from,
                    .host_until = gap.host_until,
                    .swap_cost = cost,
                    .full_swap_cost = cost});
  }
  return gaps;
}

}  // namespace

gaps::GapProblem at_full_cost(const gaps::GapProblem& weighted) {
  gaps::GapProblem gaps{.base_bytes = weighted.base_bytes,
                        .base_host_bytes = weighted.base_host_bytes,
                        .gaps = weighted.gaps,
                        .units = weighted.units,
                        .unit_gaps = weighted.unit_gaps,
                        .kinds = weighted.kinds,
                        .least_worth = weighted.least_worth,
                        .most_worth = weighted.most_worth};
  for (gaps::GapProblem::Gap& gap : gaps.gaps) gap.swap_cost = gap.full_swap_cost;
  for (gaps::GapProblem::Unit& unit : gaps.units) unit.recompute_cost = unit.full_cost;
  return gaps;
}

void weigh_costs(const DecisionProblem& p, gaps::GapProblem& gaps) {
  for (std::size_t g = 0; g < gaps.gaps.size(); ++g)
    if (gaps.gaps[g].full_swap_cost >= 0) gaps.gaps[g].swap_cost = swap_cost(p.gaps[g]);
  const auto weight_of = [&](std::int32_t gap) { return p.gaps[static_cast<std::size_t>(gap)].weight.run; };
  for (gaps::GapProblem::Unit& unit : gaps.units)
    if (unit.full_cost >= 0) unit.recompute_cost = unit.full_cost * weight_of(gaps.gaps_of(unit).front());
  for (gaps::Move& move : gaps.moves)
    move.cost = move.action == Action::swap ? swap_cost(p.gaps[static_cast<std::size_t>(move.gap)])
                                            : move.full_cost * weight_of(move.gap);
}

gaps::GapProblem gap_problem_of(const DecisionProblem& problem) {
  gaps::GapProblem gaps{
      .base_bytes = problem.base_bytes, .base_host_bytes = problem.state.bytes, .gaps = list_gaps(problem)};
  for (const SiteClass& c : problem.classes) {
    std::vector<UnitEffect> alone(c.units.size());
    for (std::size_t u = 0; u < c.units.size(); ++u)
      if (c.units[u].recipe != kNone<RecipeId>) alone[u] = effect_alone(problem, c, c.units[u]);
    for (std::size_t s = 0; s < c.sites.size(); ++s)
      for (std::size_t u = 0; u < c.units.size(); ++u) {
        const SiteClass::Unit& unit = c.units[u];
        const auto add = [&](gaps::Move move) {
          move.unit = static_cast<std::int32_t>(gaps.units.size());
          gaps.moves.push_back(move);
        };
        const bool has_recipe = unit.recipe != kNone<RecipeId>;
        if (has_recipe) add(recompute_move(problem, c, s, unit, alone[u]));
        for (const std::int32_t slot : unit.slots) {
          gaps::Move move;
          if (swap_move(problem, c, s, slot, move)) add(move);
        }
        gaps.units.push_back({.first = static_cast<std::int32_t>(gaps.unit_gaps.size()),
                              .count = static_cast<std::int32_t>(unit.slots.size()),
                              .recompute_cost = -1,
                              .full_cost = has_recipe ? alone[u].least_ns : -1.0,
                              .kind = gaps.kinds + static_cast<std::int32_t>(u)});
        for (const std::int32_t slot : unit.slots) gaps.unit_gaps.push_back(c.first_gap[s] + slot);
      }
    gaps.kinds += static_cast<std::int32_t>(c.units.size());
  }
  weigh_costs(problem, gaps);
  return gaps;
}

}  // namespace tidemark::decide::sites
