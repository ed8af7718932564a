#include "planner/decide/sites/effect.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tidemark::decide::sites {
namespace {

/// Earlier runs take memory for longer: they must hide at least this part of what they compute.
constexpr double kWorthEarly = 0.5;

/// Where a run starts, and how long something waits for its communication then.
struct Start {
  std::int32_t pos = 0;
  std::int64_t exposed_ns = 0;
};

/// What is left of the time that the lane waits for collectives, around the ops of a class.
class LaneIdle {
 public:
  LaneIdle(const DecisionProblem& problem, const SiteClass& site_class) {
    for (const OpId op : problem.ops_of(site_class.representative))
      left_ns_.push_back(problem.graph->template_of(op).lane == Lane::compute
                             ? problem.lane_idle_ns[static_cast<std::size_t>(problem.clock_of[row(op)])]
                             : 0);
  }

  [[nodiscard]] std::int64_t at(std::int32_t pos) const {
    return static_cast<std::size_t>(pos) < left_ns_.size() ? left_ns_[static_cast<std::size_t>(pos)] : 0;
  }
  void take(std::int32_t pos, std::int64_t ns) {
    if (ns > 0) left_ns_[static_cast<std::size_t>(pos)] -= ns;
  }

 private:
  std::vector<std::int64_t> left_ns_;  ///< per site-local op
};

/// When the lanes of a rank are taken around a position, with everything kept: by ops up to where the search begins.
/// What is behind that, and what other runs of the site issue, is not seen.
class LaneTimes {
 public:
  LaneTimes(const DecisionProblem& problem, std::size_t op) : p_(problem), at_(op) { next_start_ns_.fill(kNever); }

  /// To the position ahead of an op that is not behind it.
  void move_to(std::size_t op) {
    while (at_ > op) {
      --at_;
      next_start_ns_[lane(at_)] = p_.nominal->start_ns[at_];
    }
  }

  /// The end of what a lane runs last before the position.
  [[nodiscard]] std::int64_t free_from(Lane lane_wanted) const {
    for (std::size_t op = at_; op-- > 0;)
      if (lane(op) == static_cast<std::size_t>(lane_wanted)) return p_.nominal->end_ns[op];
    return 0;
  }
  /// The start of what it runs next, up to where this began.
  [[nodiscard]] std::int64_t taken_from(Lane lane_wanted) const {
    return next_start_ns_[static_cast<std::size_t>(lane_wanted)];
  }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  [[nodiscard]] std::size_t lane(std::size_t op) const {
    return static_cast<std::size_t>(p_.graph->template_of(id_of<OpId>(op)).lane);
  }

  const DecisionProblem& p_;
  std::size_t at_;
  std::array<std::int64_t, kLaneCount> next_start_ns_{};
};

bool communicates(const DecisionProblem& p, const Recipe& recipe) {
  return std::ranges::any_of(recipe.steps, [&](const Recipe::Step& step) {
    return p.graph->op_templates[row(step.op)].lane != Lane::compute;
  });
}

/// How long the op that waits for the run, or what its lanes run next, is held up where the steps up to the last
/// communication are issued ahead of the op at which `lanes` is. A lane is first come, first served, so what comes next
/// on it waits as well. What the lane is behind by is waited for once, not by every run of the site, so no run is
/// charged more than its own communication takes.
std::int64_t exposed_ns(const DecisionProblem& p, const Recipe& recipe, const LaneTimes& lanes, std::int64_t start_ns,
                        std::int64_t wait_ns) {
  std::int64_t now = start_ns, computed = 0, exposed = 0, communicated = start_ns, computed_then = 0, own = 0;
  for (const Recipe::Step& step : recipe.steps) {
    const Lane lane = p.graph->op_templates[row(step.op)].lane;
    const std::int64_t ns = p.template_ns[row(step.op)];
    if (lane == Lane::compute) {
      now += ns;
      computed += ns;
      continue;
    }
    now = std::max(now, lanes.free_from(lane)) + ns;
    own += ns;
    // Recomputed compute ops are charged by themselves: whatever follows them is later by as much.
    if (const std::int64_t next = lanes.taken_from(lane); next < now - computed)
      exposed = std::max(exposed, now - computed - next);
    communicated = now;
    computed_then = computed;
  }
  return std::min(own, std::max(exposed, communicated - computed_then - wait_ns));
}

/// First site-local position a run may start at: after its outputs were dropped, within the pass that needs them.
std::int32_t earliest_start(const DecisionProblem& p, const SiteClass& c, const SiteClass::Unit& unit,
                            std::int32_t need_pos) {
  std::int32_t limit = 0;
  for (const std::int32_t slot : unit.slots)
    limit = std::max(limit, c.slots[static_cast<std::size_t>(slot)].before_pos + 1);
  return pass_begin(p, c.representative, limit, need_pos);
}

/// Where the run's communication holds up least, as late as possible: up to `need_pos`, ahead of which it is issued at
/// the latest. The op at `wait_pos`, not before it, waits for what comes back.
Start choose_start(const DecisionProblem& p, const SiteClass& c, const SiteClass::Unit& unit, const Recipe& recipe,
                   std::int32_t need_pos, std::int32_t wait_pos) {
  const auto ops = p.ops_of(c.representative);
  const auto op_at = [&](std::int32_t pos) { return row(ops[static_cast<std::size_t>(pos)]); };
  const std::int64_t wait_ns = p.nominal->start_ns[op_at(wait_pos)];
  LaneTimes lanes(p, op_at(wait_pos));
  Start best{.pos = need_pos, .exposed_ns = std::numeric_limits<std::int64_t>::max()};
  const std::int32_t earliest = earliest_start(p, c, unit, need_pos);
  for (std::int32_t pos = need_pos; pos >= earliest && best.exposed_ns > 0; --pos) {
    lanes.move_to(op_at(pos));
    const std::int64_t exposed = exposed_ns(p, recipe, lanes, p.nominal->start_ns[op_at(pos)], wait_ns);
    if (exposed < best.exposed_ns) best = {.pos = pos, .exposed_ns = exposed};
  }
  return best;
}

/// Where a run without collectives hides most, as late as possible; what it hides there.
Start hide_run(const DecisionProblem& p, const SiteClass& c, const SiteClass::Unit& unit, std::int32_t need_pos,
               const LaneIdle& idle) {
  const auto hidden = [&](std::int32_t pos) { return std::min(idle.at(pos), unit.compute_ns); };
  Start best{.pos = need_pos, .exposed_ns = unit.compute_ns - hidden(need_pos)};
  if (!p.runs_early) return best;
  const std::int32_t earliest = earliest_start(p, c, unit, need_pos);
  for (std::int32_t pos = need_pos - 1; pos >= earliest && best.exposed_ns > 0; --pos) {
    const std::int64_t exposed = unit.compute_ns - hidden(pos);
    const bool is_worth = static_cast<double>(hidden(pos)) >= kWorthEarly * static_cast<double>(unit.compute_ns);
    if (is_worth && exposed < best.exposed_ns) best = {.pos = pos, .exposed_ns = exposed};
  }
  return best;
}

}  // namespace

std::int64_t most_hidden_ns(const DecisionProblem& p, const SiteClass& c, const SiteClass::Unit& unit) {
  if (communicates(p, p.graph->recipes[row(unit.recipe)])) return 0;
  const LaneIdle idle(p, c);
  std::int64_t most = 0;
  for (std::int32_t pos = earliest_start(p, c, unit, unit.latest_pos); pos <= unit.latest_pos; ++pos)
    most = std::max(most, idle.at(pos));
  return std::min(most, unit.compute_ns);
}

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

  LaneIdle idle(problem, c);
  // Dependents first: a rebuilt storage must be back before whatever is rebuilt from it starts.
  for (auto it = c.unit_order.rbegin(); it != c.unit_order.rend(); ++it) {
    const SiteClass::Unit& unit = c.units[static_cast<std::size_t>(*it)];
    if (actions[static_cast<std::size_t>(unit.slots.front())] != Action::recompute) continue;
    const Recipe& recipe = problem.graph->recipes[row(unit.recipe)];
    std::int32_t wait = std::numeric_limits<std::int32_t>::max();
    for (const std::int32_t local : recipe.outputs)
      wait = std::min(wait, back_of_local[static_cast<std::size_t>(local)]);
    const std::int32_t need = std::min(unit.latest_pos, wait);
    const bool has_collectives = communicates(problem, recipe);
    const auto [start, exposed] =
        has_collectives ? choose_start(problem, c, unit, recipe, need, wait) : hide_run(problem, c, unit, need, idle);
    effect.runs.push_back({.unit = *it,
                           .start_pos = start,
                           .need_pos = has_collectives ? need : start,
                           .paid_ns = has_collectives ? unit.compute_ns + exposed : exposed});
    effect.compute_ns += unit.compute_ns;
    if (has_collectives) {
      effect.exposed_communication_ns += exposed;
    } else {
      effect.hidden_ns += unit.compute_ns - exposed;
      idle.take(start, unit.compute_ns - exposed);
    }
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
