#include "core/decision.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace tidemark {
namespace {

/// A storage back in device memory behind a gap.
struct Return {
  StorageId storage = kNone<StorageId>;
  Action action = Action::keep;
  RecipeId recipe = kNone<RecipeId>;
  std::int32_t gap = 0;
};

class Returns {
 public:
  Returns(const Graph& graph, const Schedule& schedule)
      : graph_(graph),
        schedule_(schedule),
        op_touches_(graph.storages.size(), 0),
        left_(graph.storages.size(), 0),
        residency_(graph.storages.size(), kNone<ResidencyId>) {}

  std::vector<Return> list() {
    for (std::size_t t = 0; t < schedule_.tasks.size(); ++t) {
      const Task& task = schedule_.tasks[t];
      for (const Schedule::Touch& touch : schedule_.touches_of(id_of<TaskId>(t))) look_at(task, touch);
      if (task.kind == TaskKind::op) count(task.op);
    }
    return std::move(returns_);
  }

 private:
  void look_at(const Task& task, const Schedule::Touch& touch) {
    const Residency& residency = schedule_.residencies[row(touch.residency)];
    if (residency.space != MemorySpace::device) return;
    const std::size_t s = row(residency.storage);
    if (residency_[s] == touch.residency) return;
    const bool was_there = residency_[s] != kNone<ResidencyId> || op_touches_[s] > 0;
    residency_[s] = touch.residency;
    const bool swap = task.kind == TaskKind::swap_in;  // also of what rests in host memory before the step
    if (!swap && (!was_there || task.kind != TaskKind::recompute)) return;
    const RecipeId recipe = swap ? kNone<RecipeId> : recipe_of(residency.storage, task.op_template);
    if (!swap && (recipe == kNone<RecipeId> || lives_within(task, recipe, residency))) return;
    returns_.push_back({.storage = residency.storage,
                        .action = swap ? Action::swap : Action::recompute,
                        .recipe = recipe,
                        .gap = op_touches_[s] - 1});
  }

  /// A transient of the recipe that the task is a step of: nothing else touches it.
  [[nodiscard]] bool lives_within(const Task& task, RecipeId recipe, const Residency& residency) const {
    const Task& last = schedule_.tasks[row(residency.last_task)];
    if (last.kind != TaskKind::recompute || last.site != task.site || last.op != task.op) return false;
    return std::ranges::any_of(graph_.recipes[row(recipe)].steps,
                               [&](const Recipe::Step& step) { return step.op == last.op_template; });
  }

  /// Touches of one op count once, whether it reads, writes or does both.
  void count(OpId op) {
    for (const Access& access : graph_.accesses_of(op)) {
      std::int32_t& last = left_[row(access.storage)];
      if (last == static_cast<std::int32_t>(op) + 1) continue;
      last = static_cast<std::int32_t>(op) + 1;
      ++op_touches_[row(access.storage)];
    }
  }

  /// The first pure recipe of the storage's block that restores it by this op.
  [[nodiscard]] RecipeId recipe_of(StorageId storage, OpTemplateId op) {
    const StorageTemplateId of = graph_.storages[row(storage)].storage_template;
    const auto [place, fresh] = recipes_.try_emplace({of, op}, kNone<RecipeId>);
    if (!fresh) return place->second;
    const Block& block = graph_.block_of(graph_.storages[row(storage)].site);
    const std::int32_t local = graph_.local_of(storage);
    for (std::int32_t r = 0; r < block.recipe_count; ++r) {
      const auto id = static_cast<RecipeId>(static_cast<std::int32_t>(block.first_recipe) + r);
      const Recipe& recipe = graph_.recipes[row(id)];
      if (!recipe.pure || std::ranges::find(recipe.outputs, local) == recipe.outputs.end()) continue;
      const bool by_this = std::ranges::any_of(recipe.steps, [&](const Recipe::Step& step) {
        return step.op == op && std::ranges::find(step.writes, local) != step.writes.end();
      });
      if (by_this) return place->second = id;
    }
    return kNone<RecipeId>;
  }

  const Graph& graph_;
  const Schedule& schedule_;
  std::vector<std::int32_t> op_touches_;  ///< per storage: ops so far that touch it
  std::vector<std::int32_t> left_;        ///< per storage: 1 + the last op that touched it
  std::vector<ResidencyId> residency_;    ///< per storage: the last in device memory
  std::map<std::pair<StorageTemplateId, OpTemplateId>, RecipeId> recipes_;
  std::vector<Return> returns_;
};

/// What one gap class does, by site.
struct Gathered {
  RecipeId recipe = kNone<RecipeId>;
  std::map<SiteId, Action> actions;
};

/// All sites of a block, chunk and layer.
using SitesOf = std::map<std::tuple<BlockId, std::int32_t, std::int32_t>, std::vector<SiteId>>;

std::optional<Decision> decision_of(const Graph& graph, const GapKey& key, const Gathered& gathered,
                                    const std::vector<SiteId>& sites) {
  std::array<std::size_t, 3> votes{};
  for (const auto& [site, action] : gathered.actions) ++votes[static_cast<std::size_t>(action)];
  votes[0] = sites.size() - gathered.actions.size();
  if (votes[0] == sites.size()) return {};
  Decision decision{.key = key,
                    .action = static_cast<Action>(std::ranges::max_element(votes) - votes.begin()),
                    .recipe = gathered.recipe,
                    .exceptions = {}};
  for (const SiteId site : sites) {
    const auto found = gathered.actions.find(site);
    const Action action = found == gathered.actions.end() ? Action::keep : found->second;
    if (action != decision.action)
      decision.exceptions.push_back({.micro_batch = graph.sites[row(site)].micro_batch, .action = action});
  }
  std::ranges::stable_sort(decision.exceptions, {}, &Decision::Exception::micro_batch);
  return decision;
}

}  // namespace

const Decision* Decisions::find(const GapKey& key) const {
  const auto it = std::ranges::lower_bound(rows, key, {}, &Decision::key);
  return it != rows.end() && it->key == key ? &*it : nullptr;
}

Action Decisions::action_of(const GapKey& key, std::int32_t micro_batch) const {
  const Decision* decision = find(key);
  if (decision == nullptr) return Action::keep;
  const auto& list = decision->exceptions;
  const auto it = std::ranges::lower_bound(list, micro_batch, {}, &Decision::Exception::micro_batch);
  return it != list.end() && it->micro_batch == micro_batch ? it->action : decision->action;
}

Decisions decisions_of(const Graph& graph, const Schedule& schedule) {
  std::map<GapKey, Gathered> gathered;
  for (const Return& one : Returns(graph, schedule).list()) {
    const Site& site = graph.site_of(one.storage);
    Gathered& of_class = gathered[{.storage_template = graph.storages[row(one.storage)].storage_template,
                                   .chunk = site.chunk,
                                   .layer = site.layer,
                                   .gap = one.gap}];
    of_class.actions[graph.storages[row(one.storage)].site] = one.action;
    if (one.recipe != kNone<RecipeId>) of_class.recipe = one.recipe;
  }
  SitesOf sites;
  for (std::size_t s = 0; s < graph.sites.size(); ++s) {
    const Site& site = graph.sites[s];
    sites[{site.block, site.chunk, site.layer}].push_back(id_of<SiteId>(s));
  }
  Decisions decisions;
  for (const auto& [key, of_class] : gathered) {
    const Site& site = graph.sites[row(of_class.actions.begin()->first)];
    if (auto decision = decision_of(graph, key, of_class, sites.at({site.block, site.chunk, site.layer})))
      decisions.rows.push_back(std::move(*decision));
  }
  return decisions;
}

}  // namespace tidemark
