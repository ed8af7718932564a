#include "planner/decide/sites/problem.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "planner/graph_build/liveness.h"
#include "planner/schedule/scheduler.h"

namespace tidemark::decide::sites {
namespace {

/// Of its cost, for what the plan of all ranks gives up as well: near it their step is short.
constexpr double kPlannedPart = 0.3;

/// Device bytes per half-step of a schedule, by sweeping the residencies.
std::vector<Bytes> device_profile(const Schedule& schedule) {
  std::vector<Bytes> delta(static_cast<std::size_t>(schedule.compute_tasks) * 2 + 2, 0);
  for (const Residency& r : schedule.residencies) {
    if (r.space != MemorySpace::device) continue;
    delta[static_cast<std::size_t>(r.acquire)] += r.bytes;
    delta[static_cast<std::size_t>(r.release)] -= r.bytes;
  }
  Bytes live = 0;
  for (Bytes& d : delta) {
    live += d;
    d = live;
  }
  delta.resize(static_cast<std::size_t>(schedule.compute_tasks) * 2 + 1);
  return delta;
}

void index_site_ops(DecisionProblem& p) {
  const Graph& g = *p.graph;
  p.first_site_op.assign(g.sites.size() + 1, 0);
  for (const Op& op : g.ops) ++p.first_site_op[row(op.site) + 1];
  for (std::size_t s = 0; s < g.sites.size(); ++s) p.first_site_op[s + 1] += p.first_site_op[s];
  std::vector<std::int32_t> cursor(p.first_site_op.begin(), p.first_site_op.end() - 1);
  p.site_ops.resize(g.ops.size());
  for (std::size_t i = 0; i < g.ops.size(); ++i)
    p.site_ops[static_cast<std::size_t>(cursor[row(g.ops[i].site)]++)] = id_of<OpId>(i);
}

void index_clock(DecisionProblem& p) {
  const Graph& g = *p.graph;
  p.clock_of.resize(g.ops.size());
  for (std::size_t i = 0; i < g.ops.size(); ++i) {
    p.clock_of[i] = static_cast<std::int32_t>(p.compute_op.size());
    if (g.template_of(id_of<OpId>(i)).lane != Lane::compute) continue;
    p.compute_op.push_back(id_of<OpId>(i));
    p.clock_start_ns.push_back(p.nominal->start_ns[i]);
  }
}

/// What ends an idle time is told by what ends with it.
void find_lane_idle(DecisionProblem& p) {
  const simulate::Timeline& t = *p.nominal;
  p.lane_idle_ns.assign(p.compute_op.size(), 0);
  std::array<std::vector<std::size_t>, kLaneCount> issued;
  std::int64_t free_ns = 0;
  std::size_t clock = 0;
  for (std::size_t op = 0; op < p.graph->ops.size(); ++op) {
    const Lane lane = p.graph->template_of(id_of<OpId>(op)).lane;
    issued[static_cast<std::size_t>(lane)].push_back(op);
    if (lane != Lane::compute) continue;
    const std::int64_t idle_ns = t.start_ns[op] - free_ns;
    for (const Lane waited : {Lane::intra_comm, Lane::inter_comm}) {
      if (idle_ns <= 0) break;
      const auto& ops = issued[static_cast<std::size_t>(waited)];
      const auto cause = std::ranges::find_if(ops.rbegin(), ops.rend(),
                                              [&](std::size_t other) { return t.end_ns[other] <= t.start_ns[op]; });
      if (cause != ops.rend() && t.end_ns[*cause] == t.start_ns[op])
        p.lane_idle_ns[clock] =
            std::max(p.lane_idle_ns[clock], std::min(idle_ns, t.end_ns[*cause] - t.start_ns[*cause]));
    }
    free_ns = t.end_ns[op];
    ++clock;
  }
}

/// The site-local position of the first own op at or after `op`.
std::int32_t local_position(std::span<const OpId> site_ops, OpId op) {
  return static_cast<std::int32_t>(std::lower_bound(site_ops.begin(), site_ops.end(), op) - site_ops.begin());
}

/// The longest gap of each storage, at most one per storage, in storage order.
std::vector<Gap> longest_gaps(const Graph& graph, const Liveness& liveness, std::int32_t min_gap_ops) {
  std::vector<Gap> longest;
  const auto length = [](const Gap& gap) {
    return static_cast<std::int64_t>(gap.after) - static_cast<std::int64_t>(gap.before);
  };
  for (const Gap& gap : graph_build::find_gaps(graph, liveness, min_gap_ops)) {
    if (!longest.empty() && longest.back().storage == gap.storage) {
      if (length(gap) > length(longest.back())) longest.back() = gap;
    } else {
      longest.push_back(gap);
    }
  }
  return longest;
}

/// What makes two sites interchangeable: block, chunk, layer, and the shape of their gaps.
struct ClassKey {
  BlockId block;
  std::int32_t chunk, layer;
  std::vector<std::array<std::int32_t, 4>> slots;  // local, ordinal, before, after
  auto operator<=>(const ClassKey&) const = default;
};

bool writes(const Graph& graph, OpId op, StorageId storage) {
  return std::ranges::any_of(graph.accesses_of(op), [&](const Access& access) {
    return access.storage == storage && access.kind == AccessKind::write;
  });
}

/// Where a class runs each op template for the first time; kNone<OpId>: nowhere.
std::vector<OpId> first_runs(const DecisionProblem& p, const SiteClass& c) {
  std::vector<OpId> runs(p.graph->op_templates.size(), kNone<OpId>);
  for (const OpId op : p.ops_of(c.representative)) {
    OpId& first = runs[row(p.graph->ops[row(op)].op_template)];
    if (first == kNone<OpId>) first = op;
  }
  return runs;
}

/// The last site-local position before which the recipe's sources are all still alive, and hold what the ops that it
/// runs again have read; at most `need_pos`.
std::int32_t latest_run(const DecisionProblem& p, const SiteClass& c, const Recipe& recipe,
                        const std::vector<OpId>& first_run, std::int32_t need_pos) {
  const auto ops = p.ops_of(c.representative);
  const auto no_later_than = [&](OpId op) { need_pos = std::min(need_pos, local_position(ops, op)); };
  for (const std::int32_t local : recipe.sources) {
    const StorageId source = p.graph->storage_at(c.representative, local);
    no_later_than(id_of<OpId>(static_cast<std::size_t>(std::max(0, p.liveness->ranges[row(source)].end - 1))));
    for (const Recipe::Step& step : recipe.steps) {
      const OpId original = first_run[row(step.op)];
      if (original == kNone<OpId> || std::ranges::find(step.reads, local) == step.reads.end()) continue;
      const auto touches = p.liveness->touches_of(source);
      const auto changed = std::find_if(std::ranges::upper_bound(touches, original), touches.end(),
                                        [&](OpId op) { return writes(*p.graph, op, source); });
      if (changed != touches.end()) no_later_than(*changed);
    }
  }
  return need_pos;
}

/// Groups the slots of a class into units. A storage belongs to the first usable recipe that restores it; a recipe is
/// usable if it is pure, all its outputs are open slots not yet taken, and its sources are alive when its outputs are
/// needed.
void form_units(const DecisionProblem& p, SiteClass& c) {
  const Block& block = p.graph->blocks[row(c.block)];
  std::vector<std::int32_t> slot_of_local(static_cast<std::size_t>(block.storage_count), -1);
  for (std::size_t s = 0; s < c.slots.size(); ++s)
    slot_of_local[static_cast<std::size_t>(c.slots[s].local)] = static_cast<std::int32_t>(s);

  const std::vector<OpId> first_run = first_runs(p, c);
  for (std::int32_t r = 0; r < block.recipe_count; ++r) {
    const RecipeId id = id_of<RecipeId>(row(block.first_recipe) + static_cast<std::size_t>(r));
    const Recipe& recipe = p.graph->recipes[row(id)];
    if (!recipe.pure || recipe.needs_random_state || recipe.outputs.empty()) continue;
    SiteClass::Unit unit{.recipe = id};
    std::int32_t need = std::numeric_limits<std::int32_t>::max(), begin = 0;
    bool usable = true;
    for (const std::int32_t local : recipe.outputs) {
      const std::int32_t slot = slot_of_local[static_cast<std::size_t>(local)];
      if (slot < 0 || c.slots[static_cast<std::size_t>(slot)].unit >= 0) {
        usable = false;
        break;
      }
      unit.slots.push_back(slot);
      need = std::min(need, c.slots[static_cast<std::size_t>(slot)].after_pos);
      begin = std::max(begin, c.slots[static_cast<std::size_t>(slot)].pass_pos);
    }
    if (!usable || need >= static_cast<std::int32_t>(p.ops_of(c.representative).size())) continue;
    unit.latest_pos = latest_run(p, c, recipe, first_run, need);
    if (unit.latest_pos < begin) continue;
    for (const Recipe::Step& step : recipe.steps)
      if (p.graph->op_templates[row(step.op)].lane == Lane::compute) unit.compute_ns += p.template_ns[row(step.op)];
    for (const std::int32_t slot : unit.slots)
      c.slots[static_cast<std::size_t>(slot)].unit = static_cast<std::int32_t>(c.units.size());
    c.units.push_back(std::move(unit));
  }
  for (std::size_t s = 0; s < c.slots.size(); ++s) {
    if (c.slots[s].unit >= 0) continue;
    c.slots[s].unit = static_cast<std::int32_t>(c.units.size());
    c.units.push_back({.slots = {static_cast<std::int32_t>(s)}});
  }
}

/// Sources before dependents, by depth-first search in unit order.
void order_units(const DecisionProblem& p, SiteClass& c) {
  std::map<std::int32_t, std::int32_t> unit_of_local;
  for (const auto& slot : c.slots) unit_of_local[slot.local] = slot.unit;
  std::vector<char> done(c.units.size(), 0);
  const auto visit = [&](auto&& self, std::size_t u) -> void {
    if (done[u] != 0) return;
    done[u] = 1;
    if (c.units[u].recipe == kNone<RecipeId>) return;
    for (const std::int32_t local : p.graph->recipes[row(c.units[u].recipe)].sources) {
      const auto it = unit_of_local.find(local);
      if (it != unit_of_local.end()) self(self, static_cast<std::size_t>(it->second));
    }
    c.unit_order.push_back(static_cast<std::int32_t>(u));
  };
  for (std::size_t u = 0; u < c.units.size(); ++u) visit(visit, u);
}

void form_classes(DecisionProblem& p, const std::vector<Gap>& gaps) {
  const Graph& g = *p.graph;
  std::vector<std::vector<Gap>> of_site(g.sites.size());
  for (const Gap& gap : gaps) of_site[row(g.storages[row(gap.storage)].site)].push_back(gap);

  std::map<ClassKey, std::vector<SiteId>> folded;
  for (std::size_t s = 0; s < g.sites.size(); ++s) {
    if (of_site[s].empty()) continue;
    const Site& site = g.sites[s];
    const auto ops = p.ops_of(id_of<SiteId>(s));
    ClassKey key{site.block, site.chunk, site.layer, {}};
    for (const Gap& gap : of_site[s])
      key.slots.push_back({g.local_of(gap.storage), gap.ordinal, local_position(ops, next(gap.before)) - 1,
                           local_position(ops, gap.after)});
    folded[std::move(key)].push_back(id_of<SiteId>(s));
  }

  for (auto& [key, sites] : folded) {
    SiteClass c{.block = key.block, .chunk = key.chunk, .layer = key.layer, .sites = std::move(sites)};
    std::stable_sort(c.sites.begin(), c.sites.end(),
                     [&](SiteId a, SiteId b) { return g.sites[row(a)].micro_batch < g.sites[row(b)].micro_batch; });
    c.representative = c.sites[c.sites.size() / 2];
    for (const auto& s : key.slots)
      c.slots.push_back({.local = s[0],
                         .ordinal = s[1],
                         .before_pos = s[2],
                         .after_pos = s[3],
                         .pass_pos = pass_begin(p, c.representative, s[2] + 1, s[3])});
    form_units(p, c);
    order_units(p, c);
    for (const SiteId site : c.sites) {
      c.first_gap.push_back(static_cast<std::int32_t>(p.gaps.size()));
      for (std::size_t k = 0; k < c.slots.size(); ++k) {
        const Gap& gap = of_site[row(site)][k];
        const Bytes bytes = g.storages[row(gap.storage)].bytes;
        p.gaps.push_back({.gap = gap,
                          .site_class = static_cast<std::int32_t>(p.classes.size()),
                          .slot = static_cast<std::int32_t>(k),
                          .bytes = bytes,
                          .copy_out = cost::copy_out_cost(*p.graph, gap.storage, *p.machine),
                          .copy_in = cost::copy_in_cost(*p.graph, gap.storage, *p.machine)});
      }
    }
    p.classes.push_back(std::move(c));
  }
}

/// free_from and taken_from of every gap. After a touch by a compute op the bytes are free once it has completed; after
/// a touch on another lane, once the first compute op that nominally starts after it has waited for it.
void place_gaps_on_clock(DecisionProblem& p) {
  for (GapRow& gap : p.gaps) {
    const std::size_t before = row(gap.gap.before);
    if (p.graph->template_of(gap.gap.before).lane == Lane::compute) {
      gap.free_from = 2 * p.clock_of[before] + 1;
    } else {
      const auto it = std::lower_bound(p.clock_start_ns.begin() + p.clock_of[before], p.clock_start_ns.end(),
                                       schedule::release_ns(*p.graph, *p.nominal, gap.gap.before));
      gap.free_from = 2 * static_cast<std::int32_t>(it - p.clock_start_ns.begin());
    }
    gap.taken_from = std::max(gap.free_from, 2 * p.clock_of[row(gap.gap.after)]);
    const SiteClass& c = p.classes[static_cast<std::size_t>(gap.site_class)];
    const auto ops = p.ops_of(p.graph->storages[row(gap.gap.storage)].site);
    const auto pass = static_cast<std::size_t>(c.slots[static_cast<std::size_t>(gap.slot)].pass_pos);
    const OpId first = pass < ops.size() ? std::min(ops[pass], gap.gap.after) : gap.gap.after;
    gap.host_until = std::clamp(2 * p.clock_of[row(first)], gap.free_from, gap.taken_from);
  }
}

OffloadInput offload_input(const DecisionProblem& p) {
  return {.graph = *p.graph,
          .liveness = *p.liveness,
          .machine = *p.machine,
          .nominal = *p.nominal,
          .op_ns = p.op_ns,
          .template_ns = p.template_ns,
          .compute_ops = p.compute_op,
          .keep_all_bytes = p.base_bytes};
}

/// What the device holds with nothing decided but the state that is offloaded, and what that adds to the step.
Status find_base(DecisionProblem& p, const OffloadChoice& offload) {
  const auto schedule_of = [&](const Plan& plan) {
    return schedule::build_schedule({.graph = *p.graph, .liveness = *p.liveness, .nominal = *p.nominal, .plan = plan});
  };
  const Plan nothing;
  Result<Schedule> kept = schedule_of(nothing);
  if (!kept) return kept.error();
  p.base_bytes = device_profile(kept.value());
  p.kept_ns = finish_alone_ns(offload_input(p), kept.value());
  if (offload.storages.empty()) return {};
  p.state = offload_state(offload_input(p), offload);
  Result<Schedule> offloaded = schedule_of(p.state.plan);
  if (!offloaded) return offloaded.error();
  p.base_bytes = device_profile(offloaded.value());
  const std::int64_t added = added_alone_ns(p, offloaded.value());
  p.state.overhead_ns = std::min(p.state.overhead_ns, added);
  p.state.exposed_ns = added - p.state.overhead_ns;
  return {};
}

}  // namespace

void weigh(DecisionProblem& p, std::span<const float> weights, std::span<const Action> plan) {
  p.is_weighted = !weights.empty();
  if (!p.is_weighted) return;
  const auto at = [&](std::int32_t clock) {
    return static_cast<double>(weights[std::min(weights.size() - 1, static_cast<std::size_t>(std::max(0, clock)))]);
  };
  for (std::size_t g = 0; g < p.gaps.size(); ++g) {
    GapRow& gap = p.gaps[g];
    const double part = !plan.empty() && plan[g] != Action::keep ? kPlannedPart : 1.0;
    gap.weight = {.out = part * at(p.clock_of[row(gap.gap.before)]),
                  .in = part * at(copy_in_clock(p, gap)),
                  .run = part * at(p.clock_of[row(gap.gap.after)])};
  }
}

std::int32_t copy_in_clock(const DecisionProblem& p, const GapRow& gap) {
  const std::int64_t begin_ns = p.nominal->start_ns[row(gap.gap.after)] - gap.copy_in.link_ns;
  const auto begin =
      static_cast<std::int32_t>(std::ranges::lower_bound(p.clock_start_ns, begin_ns) - p.clock_start_ns.begin());
  const std::int32_t before = p.clock_of[row(gap.gap.before)], after = p.clock_of[row(gap.gap.after)];
  return std::clamp(begin - 1, before, std::max(before, after));
}

std::int32_t pass_begin(const DecisionProblem& problem, SiteId site, std::int32_t limit, std::int32_t position) {
  const auto ops = problem.ops_of(site);
  const auto is_forward = [&](std::int32_t pos) {
    return problem.graph->template_of(ops[static_cast<std::size_t>(pos)]).phase == OpPhase::forward;
  };
  if (position >= static_cast<std::int32_t>(ops.size())) return position;
  const bool forward = is_forward(position);
  while (position > limit && (forward || !is_forward(position - 1))) --position;
  return position;
}

Result<DecisionProblem> build_problem(const Graph& graph, const Liveness& liveness, const Machine& machine,
                                      const simulate::Timeline& nominal, std::vector<std::int64_t> op_ns,
                                      const ProblemOptions& options) {
  DecisionProblem p{
      .graph = &graph, .liveness = &liveness, .machine = &machine, .nominal = &nominal, .op_ns = std::move(op_ns)};
  p.template_ns.assign(graph.op_templates.size(), 0);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) p.template_ns[row(graph.ops[i].op_template)] = p.op_ns[i];
  index_site_ops(p);
  index_clock(p);
  find_lane_idle(p);
  p.runs_early = options.run_time == RunTime::hidden &&
                 std::ranges::any_of(p.lane_idle_ns, [](std::int64_t ns) { return ns > 0; });

  if (Status s = find_base(p, options.offload); !s) return s.error();
  for (const Storage& s : graph.storages)
    if (graph.storage_templates[row(s.storage_template)].persists()) p.static_bytes += s.bytes;
  p.static_bytes -= p.state.bytes;
  form_classes(p, longest_gaps(graph, liveness, options.min_gap_ops));
  place_gaps_on_clock(p);
  weigh(p, options.weights);
  return p;
}

StateOffload offload_beside(const DecisionProblem& problem, const OffloadChoice& choice) {
  return offload_state(offload_input(problem), choice);
}

std::int64_t added_alone_ns(const DecisionProblem& problem, const Schedule& schedule) {
  return std::max<std::int64_t>(0, finish_alone_ns(offload_input(problem), schedule) - problem.kept_ns);
}

gaps::Choice choice_of(const DecisionProblem& problem, const Plan& plan) {
  std::vector<std::int32_t> gap_of(problem.graph->storages.size(), -1);
  for (std::size_t g = 0; g < problem.gaps.size(); ++g)
    gap_of[row(problem.gaps[g].gap.storage)] = static_cast<std::int32_t>(g);
  gaps::Choice choice(problem.gaps.size(), Action::keep);
  const auto take = [&](StorageId storage, Action action) {
    const std::int32_t gap = gap_of[row(storage)];
    if (gap >= 0) choice[static_cast<std::size_t>(gap)] = action;
  };
  for (const Plan::Drop& drop : plan.drops) take(drop.storage, Action::recompute);
  for (const Plan::Swap& swap : plan.swaps) take(swap.storage, Action::swap);
  return choice;
}

}  // namespace tidemark::decide::sites
