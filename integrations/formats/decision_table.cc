#include "integrations/formats/decision_table.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "planner/cost/copy_cost.h"
#include "planner/cost/op_prices.h"

namespace tidemark::formats {
namespace {

/// Sites that differ only in micro-batch.
using ClassKey = std::tuple<BlockId, std::int32_t, std::int32_t>;  // block, chunk, layer

class RankReader {
 public:
  RankReader(const plan::PlanRequest& request, const plan::RankPlan& rank)
      : request_(request), rank_(rank), graph_(rank.graph), prices_(rank.graph, request.machine) {
    for (std::size_t s = 0; s < graph_.sites.size(); ++s) {
      const Site& site = graph_.sites[s];
      classes_[{site.block, site.chunk, site.layer}].push_back(id_of<SiteId>(s));
    }
  }

  /// Appends the rank's cells to `rows`, new names at the end.
  void read(std::vector<DecisionRow>& rows) const {
    for (std::size_t b = 0; b < graph_.blocks.size(); ++b) {
      for (std::int32_t local = 0; local < graph_.blocks[b].storage_count; ++local) {
        read_storage(id_of<BlockId>(b), local, rows);
      }
    }
  }

 private:
  void read_storage(BlockId block, std::int32_t local, std::vector<DecisionRow>& rows) const {
    const auto id = static_cast<StorageTemplateId>(
        static_cast<std::int32_t>(graph_.blocks[row(block)].first_storage_template) + local);
    const StorageTemplate& storage = graph_.storage_templates[row(id)];
    for (const auto& [key, sites] : classes_) {
      if (std::get<0>(key) != block) continue;
      const std::vector<const Decision*> decisions = find_decisions(id, std::get<1>(key), std::get<2>(key));
      if (decisions.empty() && !storage.saved_for_backward) continue;
      DecisionRow& result = row_named(rows, contributor_name(storage));
      result.cells.push_back(read_cell(key, sites, local, decisions));
      for (const Decision* d : decisions) {
        if (d->key.gap < 0) result.offloads = true;
        if (d->recipe != kNone<RecipeId> && result.cells.back().recomputed > 0) {
          result.recipe = graph_.recipes[row(d->recipe)].name;
        }
      }
    }
  }

  [[nodiscard]] static std::string contributor_name(const StorageTemplate& storage) {
    return storage.module_path.empty() ? storage.name : storage.module_path + "." + storage.name;
  }

  static DecisionRow& row_named(std::vector<DecisionRow>& rows, const std::string& name) {
    const auto it = std::find_if(rows.begin(), rows.end(), [&](const DecisionRow& r) { return r.storage == name; });
    if (it != rows.end()) return *it;
    rows.push_back({.storage = name});
    return rows.back();
  }

  /// Decisions of all gaps of a storage class; decisions are sorted by key, so they stand together.
  [[nodiscard]] std::vector<const Decision*> find_decisions(StorageTemplateId id, std::int32_t chunk,
                                                            std::int32_t layer) const {
    const GapKey first{.storage_template = id, .chunk = chunk, .layer = layer, .gap = -1};
    const auto& all = rank_.decisions.rows;
    auto it =
        std::lower_bound(all.begin(), all.end(), first, [](const Decision& d, const GapKey& k) { return d.key < k; });
    std::vector<const Decision*> found;
    for (; it != all.end(); ++it) {
      GapKey key = it->key;
      key.gap = first.gap;
      if (key != first) break;
      found.push_back(&*it);
    }
    return found;
  }

  [[nodiscard]] DecisionCell read_cell(const ClassKey& key, const std::vector<SiteId>& sites, std::int32_t local,
                                       const std::vector<const Decision*>& decisions) const {
    DecisionCell cell{.rank = rank_.graph.rank,
                      .chunk = std::get<1>(key),
                      .layer = std::get<2>(key),
                      .block = graph_.blocks[row(std::get<0>(key))].name};
    for (const SiteId site : sites) {
      const StorageId storage = graph_.storage_at(site, local);
      cell.instance_bytes = std::max(cell.instance_bytes, graph_.storages[row(storage)].bytes);
      bool swapped = false, recomputed = false;
      for (const Decision* d : decisions) {
        const Action here = rank_.decisions.action_of(d->key, graph_.sites[row(site)].micro_batch);
        if (here == Action::keep) continue;
        (here == Action::swap ? swapped : recomputed) = true;
        add_effect(cell, storage, *d, here);
      }
      ++cell.instances;
      cell.kept += swapped || recomputed ? 0 : 1;
      cell.swapped += swapped ? 1 : 0;
      cell.recomputed += recomputed ? 1 : 0;
    }
    return cell;
  }

  void add_effect(DecisionCell& cell, StorageId storage, const Decision& decision, Action action) const {
    const Bytes bytes = graph_.storages[row(storage)].bytes;
    if (spans_peak(storage, decision.key.gap)) cell.freed_at_peak_bytes += bytes;
    if (action == Action::swap) {
      cell.added_ns += cost::copy_out_cost(graph_, storage, request_.machine).compute_ns +
                       cost::copy_in_cost(graph_, storage, request_.machine).compute_ns;
    } else if (decision.recipe != kNone<RecipeId>) {
      cell.added_ns += share_of_recipe(storage, graph_.recipes[row(decision.recipe)]);
    }
  }

  [[nodiscard]] bool spans_peak(StorageId storage, std::int32_t gap) const {
    const std::span<const OpId> touches = rank_.liveness.touches_of(storage);
    const OpId peak = rank_.liveness.peak_op;
    if (gap < 0) return !touches.empty() && (peak < touches.front() || peak > touches.back());
    const auto before = static_cast<std::size_t>(gap);
    if (before + 1 >= touches.size()) return false;
    return touches[before] < peak && peak < touches[before + 1];
  }

  /// Compute-lane time of one run of a recipe at a load.
  [[nodiscard]] std::int64_t recipe_ns(const Recipe& recipe, double load) const {
    std::int64_t sum = 0;
    for (const Recipe::Step& step : recipe.steps)
      if (graph_.op_templates[row(step.op)].lane == Lane::compute) sum += prices_.ns(step.op, load);
    return static_cast<std::int64_t>(static_cast<double>(sum) * request_.time_scale);
  }

  [[nodiscard]] std::int64_t share_of_recipe(StorageId storage, const Recipe& recipe) const {
    const SiteId site = graph_.storages[row(storage)].site;
    double together = 0;
    for (const std::int32_t output : recipe.outputs) {
      together += static_cast<double>(graph_.storages[row(graph_.storage_at(site, output))].bytes);
    }
    if (together <= 0) return 0;
    const auto ns = recipe_ns(recipe, static_cast<double>(graph_.sites[row(site)].fullest_load));
    return static_cast<std::int64_t>(static_cast<double>(ns) *
                                     static_cast<double>(graph_.storages[row(storage)].bytes) / together);
  }

  const plan::PlanRequest& request_;
  const plan::RankPlan& rank_;
  const Graph& graph_;
  const cost::OpPrices prices_;
  std::map<ClassKey, std::vector<SiteId>> classes_;
};

bool is_before(const DecisionCell& a, const DecisionCell& b) {
  return std::tie(a.rank, a.chunk, a.layer) < std::tie(b.rank, b.chunk, b.layer);
}

}  // namespace

bool DecisionRow::decided() const {
  return std::any_of(cells.begin(), cells.end(), [](const DecisionCell& c) { return c.moved() > 0; });
}

Bytes DecisionRow::freed_at_peak_bytes() const {
  Bytes sum = 0;
  for (const DecisionCell& cell : cells) sum += cell.freed_at_peak_bytes;
  return sum;
}

std::int64_t DecisionRow::added_ns() const {
  std::int64_t sum = 0;
  for (const DecisionCell& cell : cells) sum += cell.added_ns;
  return sum;
}

std::vector<DecisionRow> decision_rows(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  std::vector<DecisionRow> rows;
  for (const plan::RankPlan& rank : outcome.ranks) RankReader(request, rank).read(rows);
  for (DecisionRow& r : rows) std::stable_sort(r.cells.begin(), r.cells.end(), is_before);
  return rows;
}

}  // namespace tidemark::formats
