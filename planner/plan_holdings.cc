#include "planner/plan_holdings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/schedule/peak.h"
#include "planner/step_phases.h"
#include "planner/storage_controls.h"
#include "planner/storage_names.h"

namespace tidemark::plan {
namespace {

using budget::Category;
using budget::Phase;

/// By StorageRole.
constexpr std::array<Category, kStorageRoleCount> kCategoryOfRole = {
    Category::parameters,  Category::gradients,   Category::optimizer_state,
    Category::activations, Category::temporaries, Category::communication};

/// Rows by name and category, with the layers of their instances.
class StorageRows {
 public:
  StorageRows(const PlanRequest& request, const Graph& graph) : request_(request), graph_(graph) {}

  void add(StorageId storage, Bytes bytes) {
    Row& row = row_of(graph_.storages[tidemark::row(storage)].storage_template);
    row.held.bytes += bytes;
    ++row.held.count;
    const std::int32_t layer = graph_.site_of(storage).layer;
    if (layer >= 0) row.layers.insert(layer);
  }

  [[nodiscard]] std::vector<budget::HeldStorage> list() && {
    std::vector<budget::HeldStorage> result;
    std::string_view last;
    for (auto& [key, row] : rows_) {
      row.held.layers = ranges_text(row.layers);
      // One name, two categories: of a captured step, whose names are not ours.
      if (key.first == last) row.held.name += fmt::format(" ({})", budget::word_of(key.second));
      last = key.first;
      result.push_back(std::move(row.held));
    }
    return result;
  }

 private:
  struct Row {
    budget::HeldStorage held;
    std::set<std::int32_t> layers;
  };

  Row& row_of(StorageTemplateId id) {
    const auto known = of_template_.find(id);
    Row& row = known != of_template_.end() ? *known->second : *(of_template_[id] = &make_row(id));
    return row;
  }

  Row& make_row(StorageTemplateId id) {
    const StorageTemplate& storage = graph_.storage_templates[tidemark::row(id)];
    StorageName named = storage_name(storage);
    const Category category = kCategoryOfRole[static_cast<std::size_t>(storage.role)];
    const auto [place, is_new] = rows_.try_emplace({named.name, category});
    Row& row = place->second;
    if (named.layer >= 0) row.layers.insert(named.layer);
    if (!is_new) return row;
    row.held = {.name = std::move(named.name), .module = std::move(named.module), .category = category, .count = 0};
    if (request_.step) return row;
    for (const std::string_view key : control_keys(storage, request_.job))
      row.held.controls.push_back({.text = std::string(key)});
    return row;
  }

  const PlanRequest& request_;
  const Graph& graph_;
  std::map<std::pair<std::string, Category>, Row> rows_;
  std::map<StorageTemplateId, Row*> of_template_;
};

std::vector<budget::HeldStorage> reserve_rows(const PlanRequest& request) {
  const graph_build::ReserveMemory reserve = reserve_of(request);
  struct Part {
    ReservePart part;
    std::string_view name;
    Bytes bytes;
  };
  std::vector<budget::HeldStorage> rows;
  for (const Part& part : {Part{ReservePart::context, "reserve.context", reserve.context_bytes},
                           Part{ReservePart::workspace, "reserve.workspace", reserve.workspace_bytes},
                           Part{ReservePart::collectives, "reserve.collectives", reserve.collective_bytes},
                           Part{ReservePart::framework, "reserve.framework", reserve.framework_bytes}}) {
    if (part.bytes == 0) continue;
    budget::HeldStorage held{.name = std::string(part.name), .category = Category::reserve, .bytes = part.bytes};
    if (part.part == ReservePart::collectives && !request.step) held.count = request.job.parallel.communicators;
    for (const std::string_view key : control_keys(part.part)) held.controls.push_back({.text = std::string(key)});
    rows.push_back(std::move(held));
  }
  return rows;
}

std::string place_of(const PlanRequest& request, std::int32_t rank) {
  return request.step || request.job.parallel.pipeline == 1 ? std::string() : fmt::format("pp{}", rank);
}

std::string load_note(const PlanOutcome& outcome) {
  const auto [low, high] =
      std::ranges::minmax_element(outcome.ranks, {}, [](const RankPlan& rank) { return rank.figures.load; });
  return low->figures.load == high->figures.load
             ? fmt::format("expert load planned for: {:.3f} of the mean", low->figures.load)
             : fmt::format("expert load planned for: {:.3f} to {:.3f} of the mean, by rank", low->figures.load,
                           high->figures.load);
}

}  // namespace

budget::RankHoldings rank_holdings(const PlanRequest& request, const RankPlan& plan) {
  const Schedule& schedule = plan.program.schedule;
  const StepPhases phases(plan.graph, schedule);
  const std::int32_t peak = schedule::peak_clock(schedule);
  StorageRows rows(request, plan.graph);
  Bytes alive = 0;
  for (const Residency& residency : schedule.residencies) {
    if (residency.space != MemorySpace::device || peak < residency.acquire || residency.release <= peak) continue;
    rows.add(residency.storage, residency.bytes);
    alive += residency.bytes;
  }
  const RankFigures& f = plan.figures;
  budget::RankHoldings rank{.rank = f.rank,
                            .place = place_of(request, f.rank),
                            .peak_bytes = f.peak_bytes,
                            .peak_phase = phases.phase_at(peak),
                            .peak_at = phases.name_of(peak),
                            .host_bytes = f.host_bytes,
                            .storages = std::move(rows).list()};
  for (budget::HeldStorage& held : reserve_rows(request)) rank.storages.push_back(std::move(held));
  const Bytes above = f.peak_bytes - f.reserve_bytes - alive;
  if (above != 0)
    rank.storages.push_back({.name = std::string(kFragmentation), .category = Category::cached, .bytes = above});
  for (std::size_t p = 0; p < budget::kPhaseCount; ++p)
    if (const std::optional<Bytes> most = phases.most_bytes(static_cast<Phase>(p)))
      rank.by_phase[p] = *most + f.reserve_bytes + above;
  budget::settle(rank, Category::other);
  return rank;
}

budget::Holdings holdings_of(const PlanRequest& request, const PlanOutcome& outcome, std::string source) {
  budget::Holdings holdings{.basis = budget::Basis::planned, .source = std::move(source)};
  for (const RankPlan& plan : outcome.ranks) holdings.ranks.push_back(rank_holdings(request, plan));
  std::ranges::sort(holdings.ranks, {}, &budget::RankHoldings::rank);
  if (!request.step) holdings.rank_count = request.job.parallel.pipeline;
  const bool is_routed = std::ranges::any_of(outcome.ranks, [](const RankPlan& r) {
    return std::ranges::any_of(r.graph.storage_templates, [](const StorageTemplate& s) { return s.routed_rows > 0; });
  });
  if (is_routed) holdings.notes.push_back(load_note(outcome));
  return holdings;
}

}  // namespace tidemark::plan
