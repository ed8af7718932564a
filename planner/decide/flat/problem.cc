#include "planner/decide/flat/problem.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "planner/cost/op_prices.h"
#include "planner/graph_build/liveness.h"

namespace tidemark::decide::flat {
namespace {

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

/// Writers of every storage in op order, and which op a transient belongs to (-1: none).
struct Touches {
  std::vector<std::vector<std::int32_t>> writers;
  std::vector<std::int32_t> transient_of;
};

/// Storages that some recipe restores.
std::vector<std::uint8_t> restored_storages(const Graph& graph) {
  std::vector<std::uint8_t> restored(graph.storages.size());
  for (const Recipe& recipe : graph.recipes)
    for (const std::int32_t s : recipe.outputs) restored[at(s)] = 1;
  return restored;
}

Touches touches_of(const Graph& graph) {
  const std::size_t count = graph.storages.size();
  Touches touches{.writers = std::vector<std::vector<std::int32_t>>(count),
                  .transient_of = std::vector<std::int32_t>(count, -1)};
  std::vector<std::uint8_t> read(count);
  for (std::size_t v = 0; v < graph.ops.size(); ++v)
    for (const Access& access : graph.accesses_of(id_of<OpId>(v))) {
      if (access.kind == AccessKind::read)
        read[row(access.storage)] = 1;
      else
        touches.writers[row(access.storage)].push_back(static_cast<std::int32_t>(v));
    }
  const std::vector<std::uint8_t> restored = restored_storages(graph);
  for (std::size_t s = 0; s < count; ++s) {
    const StorageTemplate& of = graph.template_of(id_of<StorageId>(s));
    const bool alone =
        restored[s] == 0 && of.role == StorageRole::temporary && !of.initial && !of.lasting && read[s] == 0;
    if (alone && touches.writers[s].size() == 1 && graph.storages[s].held_until == kNone<OpId>)
      touches.transient_of[s] = touches.writers[s].front();
  }
  return touches;
}

void add_use(std::vector<Key>& uses, Key key) {
  if (uses.empty() || uses.back() != key) uses.push_back(key);
}

simulate::Timeline one_after_another(const std::vector<std::int64_t>& cost) {
  simulate::Timeline timeline;
  timeline.start_ns.resize(cost.size());
  timeline.end_ns.resize(cost.size());
  std::exclusive_scan(cost.begin(), cost.end(), timeline.start_ns.begin(), std::int64_t{0});
  std::inclusive_scan(cost.begin(), cost.end(), timeline.end_ns.begin());
  if (!cost.empty()) timeline.finish_ns = timeline.end_ns.back();
  return timeline;
}

std::vector<RecipeId> recipes_of_ops(const Graph& graph, const RecomputeRules& rules) {
  std::vector<RecipeId> of_template(graph.op_templates.size(), kNone<RecipeId>), of_op;
  for (std::size_t r = 0; r < graph.recipes.size(); ++r)
    if (rules.allow(graph.recipes[r])) of_template[row(graph.recipes[r].steps.front().op)] = id_of<RecipeId>(r);
  for (const Op& op : graph.ops) of_op.push_back(of_template[row(op.op_template)]);
  return of_op;
}

}  // namespace

bool is_flat(const Graph& graph) {
  return graph.sites.size() == 1 &&
         std::ranges::all_of(graph.op_templates, [](const OpTemplate& t) { return t.lane == Lane::compute; }) &&
         std::ranges::all_of(graph.recipes, [](const Recipe& r) { return r.steps.size() == 1; });
}

Problem::Problem(const Graph& graph_, const Machine& machine_, RecomputeRules rules_, Bytes host_bytes_)
    : graph(&graph_),
      machine(&machine_),
      rules(rules_),
      host_bytes(host_bytes_),
      liveness(graph_build::analyse_liveness(graph_)),
      recipe_of(recipes_of_ops(graph_, rules_)),
      op_count(static_cast<std::int32_t>(graph_.ops.size())),
      cost(cost::op_durations(graph_, machine_)) {
  const Touches touches = touches_of(graph_);
  for (std::size_t s = 0; s < graph_.storages.size(); ++s)
    if (touches.transient_of[s] < 0) storage_count = static_cast<std::int32_t>(s) + 1;
  nominal = one_after_another(cost);
  const std::size_t count = graph_.storages.size();
  producer.assign(count, -1);
  begin.assign(count, kStart);
  uses.resize(count);
  hold_until.assign(count, 0);
  changed.assign(count, 0);
  transient.assign(graph_.ops.size(), 0);
  for (std::size_t s = 0; s < count; ++s) {
    const auto id = id_of<StorageId>(s);
    const StorageTemplate& of = graph_.template_of(id);
    const std::vector<std::int32_t>& writers = touches.writers[s];
    const bool counted = touches.transient_of[s] < 0 && liveness.ranges[s].begin < liveness.ranges[s].end;
    bytes.push_back(counted ? graph_.storages[s].bytes : 0);
    if (touches.transient_of[s] >= 0) transient[at(touches.transient_of[s])] += graph_.storages[s].bytes;
    swappable.push_back(of.swappable && counted ? 1 : 0);
    // What is never swapped asks nothing of the machine, which may have no links.
    copy_in.push_back(swappable.back() != 0 ? cost::copy_in_cost(graph_, id, machine_) : cost::CopyCost{});
    copy_out.push_back(swappable.back() != 0 ? cost::copy_out_cost(graph_, id, machine_) : cost::CopyCost{});
    page_in.push_back(copy_in.back().compute_ns);
    page_out.push_back(copy_out.back().compute_ns);
    if (swappable.back() != 0 && (copy_in.back().link_ns > 0 || copy_out.back().link_ns > 0)) has_link = true;
    changed[s] = writers.size() + (of.initial ? 1 : 0) > 1 ? 1 : 0;
    if (!of.initial && !writers.empty()) {
      begin[s] = key_of(writers.front(), writers.front());
      if (writers.size() == 1) producer[s] = writers.front();
    }
    const OpId held = graph_.storages[s].held_until;
    if (held != kNone<OpId>) hold_until[s] = key_of(static_cast<std::int32_t>(held), static_cast<std::int32_t>(held));
  }
  for (std::int32_t v = 0; v < op_count; ++v) {
    std::int32_t from = v + 1,
                 until = recipe_of[at(v)] == kNone<RecipeId> ? -1 : std::numeric_limits<std::int32_t>::max();
    std::vector<std::int32_t> reads_of, writes_of;
    for (const Access& access : graph_.accesses_of(static_cast<OpId>(v))) {
      const auto s = static_cast<std::int32_t>(access.storage);
      if (touches.transient_of[at(s)] >= 0) continue;
      (access.kind == AccessKind::read ? reads_of : writes_of).push_back(s);
    }
    std::ranges::sort(reads_of);
    std::ranges::sort(writes_of);
    reads.add(reads_of);
    writes.add(writes_of);
    for (const std::int32_t s : reads_of) add_use(uses[at(s)], key_of(v, v));
    for (const std::int32_t s : writes_of)
      if (producer[at(s)] < 0) add_use(uses[at(s)], key_of(v, v));
    for (const std::int32_t s : writes_of)
      if (hold_until[at(s)] > 0) from = std::max(from, op_of(hold_until[at(s)]) + 1);
    for (const std::int32_t s : reads_of) {
      const auto& writers = touches.writers[at(s)];
      const auto next = std::ranges::lower_bound(writers, v);
      if (next != writers.end()) until = std::min(until, *next);
    }
    rerun_from.push_back(from);
    rerun_until.push_back(until);
    const bool takes = graph_.template_of(static_cast<OpId>(v)).told;
    last_taking.push_back(takes ? v : last_taking.empty() ? -1 : last_taking.back());
  }
  const Key end = key_of(op_count - 1, op_count - 1);
  for (std::size_t s = 0; s < count; ++s) {
    const Key hold = graph_.template_of(id_of<StorageId>(s)).lasting ? end : hold_until[s];
    for (const Key held : {hold_until[s], hold}) {
      if (held <= begin[s]) continue;
      const auto place = std::ranges::lower_bound(uses[s], held);
      if (place == uses[s].end() || *place != held) uses[s].insert(place, held);
    }
  }
}

Key Problem::gone_from(std::int32_t storage, Key from) const {
  const std::int32_t stage = stage_of(from);
  std::int64_t over = stage_start[at(stage)] + out_time[at(storage)];
  if (is_first_run(from)) over += cost[at(stage)];
  const auto first = std::lower_bound(stage_start.begin() + stage + 1, stage_start.end(), over);
  return stage_begin(static_cast<std::int32_t>(first - stage_start.begin()));
}

Key Problem::back_from(std::int32_t storage, Key use) const {
  const std::int32_t stage = stage_of(use);
  const std::int64_t latest = stage_start[at(stage)] - in_time[at(storage)];
  const auto behind = std::upper_bound(stage_start.begin(), stage_start.begin() + stage + 1, latest);
  return stage_begin(std::max(static_cast<std::int32_t>(behind - stage_start.begin()) - 1, 0));
}

std::int64_t Problem::total_cost() const {
  return std::accumulate(cost.begin(), cost.end(), std::int64_t{0});
}

}  // namespace tidemark::decide::flat
