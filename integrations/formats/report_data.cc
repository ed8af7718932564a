#include "integrations/formats/report_data.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "integrations/formats/memory_series.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;

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

/// The op whose start or end a sample is: [template, chunk, layer, micro-batch].
Json moment_of(const plan::RankPlan& rank, const std::vector<TaskId>& compute_tasks, std::int32_t clock) {
  if (compute_tasks.empty()) return nullptr;
  const std::size_t index = std::min(static_cast<std::size_t>(clock / 2), compute_tasks.size() - 1);
  const Task& task = rank.program.schedule.tasks[row(compute_tasks[index])];
  const Site& site = rank.graph.sites[row(task.site)];
  return {static_cast<std::int32_t>(task.op_template), site.chunk, site.layer, site.micro_batch,
          task.kind == TaskKind::recompute ? 1 : 0};
}

Json holders_of(const plan::RankPlan& rank, const HolderSeries& series) {
  Json names = Json::array();
  for (const Holder& holder : series.holders) {
    names.push_back({name_of(rank.graph.storage_templates[row(holder.storage_template)]), holder.chunk, holder.layer});
  }
  return names;
}

Json shares_of(const HolderSeries& series) {
  Json all = Json::array();
  for (const auto& shares : series.shares) {
    Json row_of_shares = Json::array();
    for (const HolderSeries::Share& share : shares)
      row_of_shares.push_back({share.holder, share.count, to_mib(share.bytes)});
    all.push_back(std::move(row_of_shares));
  }
  return all;
}

Json rank_data(const plan::RankPlan& rank, std::int64_t step_ns, const ReportDataOptions& options) {
  const std::vector<MemorySample> samples = memory_samples(rank, step_ns, options.points);
  const std::vector<TaskId> compute_tasks = compute_tasks_of(rank.program.schedule);
  const HolderSeries holders = largest_holders(rank, samples, options.holders);
  Json times = Json::array(), moments = Json::array(), series = Json::array(), ops = Json::array();
  for (const MemorySample& sample : samples) {
    times.push_back(to_ms(sample.time_ns));
    moments.push_back(moment_of(rank, compute_tasks, sample.clock));
  }
  for (std::size_t role = 0; role < kStorageRoleCount; ++role) series.push_back(series_of(samples, role));
  for (const OpTemplate& op : rank.graph.op_templates) ops.push_back(op.name);
  return {{"rank", rank.figures.rank},
          {"budget", to_mib(rank.figures.budget_bytes)},
          {"reserve", to_mib(rank.figures.reserve_bytes)},
          {"peak", to_mib(rank.figures.peak_bytes)},
          {"fits", rank.figures.fits},
          {"t", std::move(times)},
          {"b", std::move(series)},
          {"m", std::move(moments)},
          {"ops", std::move(ops)},
          {"holders", holders_of(rank, holders)},
          {"h", shares_of(holders)}};
}

}  // namespace

std::string report_data(const plan::PlanOutcome& outcome, const ReportDataOptions& options) {
  std::int64_t step_ns = outcome.step.step_ns;
  for (const plan::RankPlan& rank : outcome.ranks) step_ns = std::max(step_ns, rank.timeline.finish_ns);
  Json roles = Json::array();
  for (std::size_t role = 0; role < kStorageRoleCount; ++role) {
    roles.push_back(std::string(role_text(static_cast<StorageRole>(role))));
  }
  Json data = {{"step_ms", to_ms(step_ns)}, {"roles", std::move(roles)}, {"ranks", Json::array()}};
  for (const plan::RankPlan& rank : outcome.ranks) data["ranks"].push_back(rank_data(rank, step_ns, options));
  return data.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tidemark::formats
