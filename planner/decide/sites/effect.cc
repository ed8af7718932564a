#include "planner/decide/sites/effect.h"

#include <algorithm>
#include <array>

namespace tidemark::decide::sites {
namespace {

/// Communication of one recipe run.
struct Communication {
  std::array<std::int64_t, kLaneCount> lane_ns{};
  std::int64_t total_ns = 0;
};

Communication communication_of(const DecisionProblem& p, const Recipe& recipe) {
  Communication c;
  for (const Recipe::Step& step : recipe.steps) {
    const Lane lane = p.graph->op_templates[row(step.op)].lane;
    if (lane == Lane::compute) continue;
    c.lane_ns[static_cast<std::size_t>(lane)] += p.template_ns[row(step.op)];
    c.total_ns += p.template_ns[row(step.op)];
  }
  return c;
}

/// First site-local position a run may start at: after its outputs were dropped, within the pass that needs them.
std::int32_t earliest_start(const DecisionProblem& p, const SiteClass& c, const SiteClass::Unit& unit,
                            std::int32_t need_pos) {
  std::int32_t limit = 0;
  for (const std::int32_t slot : unit.slots)
    limit = std::max(limit, c.slots[static_cast<std::size_t>(slot)].before_pos + 1);
  return pass_begin(p, c.representative, limit, need_pos);
}

/// Where the run starts so that its communication has time to finish, as late as possible.
std::int32_t choose_start(const DecisionProblem& p, const SiteClass& c, const SiteClass::Unit& unit,
                          std::int32_t need_pos, const Communication& communication) {
  if (communication.total_ns == 0) return need_pos;
  const auto ops = p.ops_of(c.representative);
  const auto start_of = [&](std::int32_t pos) { return p.nominal->start_ns[row(ops[static_cast<std::size_t>(pos)])]; };
  const std::int32_t limit = earliest_start(p, c, unit, need_pos);
  // Twice the transfer time: the lanes are shared with the pass itself.
  const std::int64_t lead = 2 * communication.total_ns;
  std::int32_t pos = need_pos;
  while (pos > limit && start_of(need_pos) - start_of(pos) < lead) --pos;
  return pos;
}

/// Communication that does not fit the idle time of its lanes between the two positions.
std::int64_t exposed(const DecisionProblem& p, const SiteClass& c, std::int32_t start_pos, std::int32_t need_pos,
                     const Communication& communication) {
  if (communication.total_ns == 0) return 0;
  const auto ops = p.ops_of(c.representative);
  const std::size_t first = row(ops[static_cast<std::size_t>(start_pos)]);
  const std::size_t last = row(ops[static_cast<std::size_t>(need_pos)]);
  const std::int64_t window = p.nominal->start_ns[last] - p.nominal->start_ns[first];
  std::array<std::int64_t, kLaneCount> busy{};
  for (std::size_t i = first; i < last; ++i)
    busy[static_cast<std::size_t>(p.graph->template_of(id_of<OpId>(i)).lane)] += p.op_ns[i];
  std::int64_t worst = std::max<std::int64_t>(0, communication.total_ns - window);
  for (const Lane lane : {Lane::intra_comm, Lane::inter_comm, Lane::send}) {
    const auto l = static_cast<std::size_t>(lane);
    if (communication.lane_ns[l] == 0) continue;
    const std::int64_t idle = std::max<std::int64_t>(0, window - busy[l]);
    worst = std::max(worst, communication.lane_ns[l] - idle);
  }
  return std::min(worst, communication.total_ns);
}

}  // namespace

SiteEffect work_out_effect(const DecisionProblem& problem, const SiteClass& c, const std::vector<Action>& actions) {
  SiteEffect effect;
  effect.back_pos.resize(c.slots.size());
  std::vector<std::int32_t> back_of_local;  // earliest position at which a local storage must be in memory again
  const auto storages = static_cast<std::size_t>(problem.graph->blocks[row(c.block)].storage_count);
  back_of_local.assign(storages, -1);
  std::vector<std::int32_t> gone_after(storages, -1);  // site-local op after which a slot's storage is out of memory
  for (const auto& slot : c.slots) {
    back_of_local[static_cast<std::size_t>(slot.local)] = slot.after_pos;
    gone_after[static_cast<std::size_t>(slot.local)] = slot.before_pos;
  }

  // Dependents first: a rebuilt storage must be back before whatever is rebuilt from it starts.
  for (auto it = c.unit_order.rbegin(); it != c.unit_order.rend(); ++it) {
    const SiteClass::Unit& unit = c.units[static_cast<std::size_t>(*it)];
    if (actions[static_cast<std::size_t>(unit.slots.front())] != Action::recompute) continue;
    const Recipe& recipe = problem.graph->recipes[row(unit.recipe)];
    std::int32_t need = unit.latest_pos;
    for (const std::int32_t local : recipe.outputs)
      need = std::min(need, back_of_local[static_cast<std::size_t>(local)]);
    const Communication communication = communication_of(problem, recipe);
    const std::int32_t start = choose_start(problem, c, unit, need, communication);
    effect.runs.push_back({.unit = *it, .start_pos = start, .need_pos = need});
    effect.compute_ns += unit.compute_ns;
    effect.exposed_communication_ns += exposed(problem, c, start, need, communication);
    for (const std::int32_t local : recipe.outputs) back_of_local[static_cast<std::size_t>(local)] = start;
    for (const std::int32_t local : recipe.sources) {
      // A source whose own gap begins later is still there.
      std::int32_t& back = back_of_local[static_cast<std::size_t>(local)];
      if (back >= 0 && start > gone_after[static_cast<std::size_t>(local)]) back = std::min(back, start);
    }
  }
  std::reverse(effect.runs.begin(), effect.runs.end());
  std::stable_sort(effect.runs.begin(), effect.runs.end(),
                   [](const auto& a, const auto& b) { return a.start_pos < b.start_pos; });
  for (std::size_t k = 0; k < c.slots.size(); ++k)
    effect.back_pos[k] = back_of_local[static_cast<std::size_t>(c.slots[k].local)];
  return effect;
}

const SiteEffect& EffectCache::get(std::int32_t site_class, const gaps::Choice& choice, std::int32_t first_gap) {
  const SiteClass& c = problem_.classes[static_cast<std::size_t>(site_class)];
  Known& known = known_[static_cast<std::size_t>(site_class)];
  const auto begin = choice.begin() + first_gap;
  const auto end = begin + static_cast<std::ptrdiff_t>(c.slots.size());
  const auto find_or_add = [&](auto& effects, auto key) -> const SiteEffect& {
    const auto it = effects.find(key);
    if (it != effects.end()) return it->second;
    return effects.emplace(std::move(key), work_out_effect(problem_, c, {begin, end})).first->second;
  };
  if (c.slots.size() > 32) return find_or_add(known.wide, std::vector<Action>(begin, end));
  std::uint64_t key = 0;
  for (auto it = begin; it != end; ++it) key = key << 2 | static_cast<std::uint64_t>(*it);
  return find_or_add(known.narrow, key);
}

}  // namespace tidemark::decide::sites
