#include "integrations/formats/report_data.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "integrations/formats/address_columns.h"
#include "integrations/formats/lane_columns.h"
#include "integrations/formats/memory_series.h"
#include "integrations/formats/packed_column.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;
using Column = std::vector<std::int64_t>;

std::string plain_column(const Column& values) {
  return packed_column(values, Packing::plain);
}

std::int64_t to_mib(Bytes bytes) {
  return std::llround(static_cast<double>(bytes) / static_cast<double>(kMiB));
}

double to_ms(std::int64_t ns) {
  return std::round(static_cast<double>(ns) / 1e5) / 10;
}

std::string name_of(const StorageTemplate& storage) {
  return storage.module_path.empty() ? storage.name : storage.module_path + "." + storage.name;
}

/// Bytes of one category at every sample, or one number where it never changes.
Json series_of(const std::vector<MemorySample>& samples, std::size_t role) {
  Json series = Json::array();
  for (const MemorySample& sample : samples) series.push_back(to_mib(sample.bytes[role]));
  const bool constant = std::all_of(series.begin(), series.end(), [&](const Json& v) { return v == series.front(); });
  if (constant && !series.empty()) return Json::array({series.front()});
  return series;
}

/// The op whose start or end each sample is, a column each. `null` where no task computes.
Json moments_of(const plan::RankPlan& rank, const std::vector<MemorySample>& samples) {
  const std::vector<TaskId> compute_tasks = compute_tasks_of(rank.program.schedule);
  if (compute_tasks.empty()) return nullptr;
  Column op, chunk, layer, batch, again;
  for (const MemorySample& sample : samples) {
    const std::size_t index = std::min(static_cast<std::size_t>(sample.clock / 2), compute_tasks.size() - 1);
    const Task& task = rank.program.schedule.tasks[row(compute_tasks[index])];
    const Site& site = rank.graph.sites[row(task.site)];
    op.push_back(static_cast<std::int64_t>(task.op_template));
    chunk.push_back(site.chunk);
    layer.push_back(site.layer);
    batch.push_back(site.micro_batch);
    again.push_back(task.kind == TaskKind::recompute ? 1 : 0);
  }
  return {{"op", plain_column(op)},
          {"chunk", plain_column(chunk)},
          {"layer", plain_column(layer)},
          {"batch", plain_column(batch)},
          {"again", plain_column(again)}};
}

Json holders_of(const plan::RankPlan& rank, const HolderSeries& series) {
  Json names = Json::array();
  for (const Holder& holder : series.holders) {
    names.push_back({name_of(rank.graph.storage_templates[row(holder.storage_template)]), holder.chunk, holder.layer});
  }
  return names;
}

/// What the largest holders hold: how many of them each sample names, then their rows one sample after another.
Json shares_of(const HolderSeries& series) {
  Column named, holder, count, mib;
  for (const auto& shares : series.shares) {
    named.push_back(std::ssize(shares));
    for (const HolderSeries::Share& share : shares) {
      holder.push_back(share.holder);
      count.push_back(share.count);
      mib.push_back(to_mib(share.bytes));
    }
  }
  return {{"named", plain_column(named)},
          {"holder", plain_column(holder)},
          {"count", plain_column(count)},
          {"mib", plain_column(mib)}};
}

Json rank_data(const plan::RankPlan& rank, std::int64_t step_ns, const ReportDataOptions& options) {
  const std::vector<MemorySample> samples = memory_samples(rank, step_ns, options.points);
  const HolderSeries holders = largest_holders(rank, samples, options.holders);
  Json times = Json::array(), series = Json::array(), ops = Json::array();
  for (const MemorySample& sample : samples) times.push_back(to_ms(sample.time_ns));
  for (std::size_t role = 0; role < kStorageRoleCount; ++role) series.push_back(series_of(samples, role));
  for (const OpTemplate& op : rank.graph.op_templates) ops.push_back(op.name);
  return {{"rank", rank.figures.rank},
          {"budget", to_mib(rank.figures.budget_bytes)},
          {"reserve", to_mib(rank.figures.reserve_bytes)},
          {"peak", to_mib(rank.figures.peak_bytes)},
          {"fits", rank.figures.fits},
          {"t", std::move(times)},
          {"b", std::move(series)},
          {"m", moments_of(rank, samples)},
          {"ops", std::move(ops)},
          {"holders", holders_of(rank, holders)},
          {"h", shares_of(holders)},
          {"lanes", lane_columns(rank)},
          {"addresses", address_columns(rank)}};
}

}  // namespace

std::string report_data(const plan::PlanOutcome& outcome, const ReportDataOptions& options) {
  std::int64_t step_ns = outcome.step.step_ns;
  for (const plan::RankPlan& rank : outcome.ranks) step_ns = std::max(step_ns, rank.timeline.finish_ns);
  Json roles = Json::array();
  for (std::size_t role = 0; role < kStorageRoleCount; ++role) {
    roles.push_back(std::string(role_text(static_cast<StorageRole>(role))));
  }
  Json data = {
      {"step_ms", to_ms(step_ns)}, {"step_ns", step_ns}, {"roles", std::move(roles)}, {"ranks", Json::array()}};
  for (const plan::RankPlan& rank : outcome.ranks) data["ranks"].push_back(rank_data(rank, step_ns, options));
  return data.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tidemark::formats
