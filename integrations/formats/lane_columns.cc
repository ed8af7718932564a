#include "integrations/formats/lane_columns.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "integrations/formats/packed_column.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;
using Column = std::vector<std::int64_t>;

std::string full_name_of(const StorageTemplate& storage) {
  return storage.module_path.empty() ? storage.name : storage.module_path + "." + storage.name;
}

struct LaneRows {
  Column gap, ns, what, site, again;
  std::int64_t free_ns = 0;  ///< end of the last task
};

bool is_copy(const Task& task) {
  return task.kind == TaskKind::swap_out || task.kind == TaskKind::swap_in;
}

void add_task(const plan::RankPlan& rank, std::size_t t, LaneRows& rows) {
  const Task& task = rank.program.schedule.tasks[t];
  const std::int64_t start = rank.timeline.start_ns[t], end = rank.timeline.end_ns[t];
  if (task.lane != Lane::compute && end <= start) return;
  const SiteId site = is_copy(task) ? rank.graph.storages[row(task.storage)].site : task.site;
  const std::int64_t what = is_copy(task)
                                ? static_cast<std::int64_t>(rank.graph.storages[row(task.storage)].storage_template)
                                : static_cast<std::int64_t>(task.op_template);
  rows.gap.push_back(start - rows.free_ns);
  rows.ns.push_back(end - start);
  rows.what.push_back(what);
  rows.site.push_back(static_cast<std::int64_t>(site));
  rows.again.push_back(task.kind == TaskKind::recompute ? 1 : 0);
  rows.free_ns = end;
}

Json lane_json(std::size_t lane, const LaneRows& rows) {
  return {{"lane", lane},
          {"count", rows.ns.size()},
          {"gap", packed_column(rows.gap, Packing::plain)},
          {"ns", packed_column(rows.ns, Packing::plain)},
          {"what", packed_column(rows.what, Packing::plain)},
          {"site", packed_column(rows.site, Packing::delta)},
          {"again", packed_column(rows.again, Packing::plain)}};
}

Json sites_json(const Graph& graph) {
  Column chunk, layer, batch;
  for (const Site& site : graph.sites) {
    chunk.push_back(site.chunk);
    layer.push_back(site.layer);
    batch.push_back(site.micro_batch);
  }
  return {{"chunk", packed_column(chunk, Packing::delta)},
          {"layer", packed_column(layer, Packing::delta)},
          {"batch", packed_column(batch, Packing::delta)}};
}

}  // namespace

Json lane_columns(const plan::RankPlan& rank) {
  const std::vector<Task>& tasks = rank.program.schedule.tasks;
  if (tasks.empty() || rank.timeline.start_ns.size() != tasks.size()) return nullptr;
  std::array<LaneRows, kLaneCount> lanes;
  for (std::size_t t = 0; t < tasks.size(); ++t) add_task(rank, t, lanes[static_cast<std::size_t>(tasks[t].lane)]);
  Json json = {{"sites", sites_json(rank.graph)},
               {"phases", Json::array()},
               {"storages", Json::array()},
               {"finish", rank.timeline.finish_ns}};
  for (const OpTemplate& op : rank.graph.op_templates) json["phases"].push_back(static_cast<int>(op.phase));
  for (const StorageTemplate& storage : rank.graph.storage_templates)
    json["storages"].push_back({full_name_of(storage), static_cast<int>(storage.role)});
  json["lanes"] = Json::array();
  for (std::size_t lane = 0; lane < kLaneCount; ++lane)
    if (!lanes[lane].ns.empty()) json["lanes"].push_back(lane_json(lane, lanes[lane]));
  return json;
}

}  // namespace tidemark::formats
