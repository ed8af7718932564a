#include "integrations/formats/memory_series.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>
#include <tuple>

#include "planner/held_span.h"

namespace tidemark::formats {
namespace {

bool is_static(StorageRole role) {
  return role < StorageRole::activation;
}

/// A residency's bytes coming or going.
struct Change {
  std::int32_t clock = 0;
  std::int32_t holder = 0;
  std::int32_t count = 0;  ///< +1 or -1
  Bytes bytes = 0;
};

class HolderSweep {
 public:
  explicit HolderSweep(const plan::RankPlan& rank) : graph_(rank.graph) {
    for (const Residency& residency : rank.program.schedule.residencies) {
      const plan::HeldSpan span = plan::held_span(residency, rank.program.schedule.compute_tasks);
      if (residency.space != MemorySpace::device || span.begin >= span.end) continue;
      if (is_static(graph_.template_of(residency.storage).role)) continue;
      const std::int32_t holder = holder_of(residency.storage);
      changes_.push_back({span.begin, holder, 1, residency.bytes});
      changes_.push_back({span.end, holder, -1, -residency.bytes});
    }
    std::stable_sort(changes_.begin(), changes_.end(),
                     [](const Change& a, const Change& b) { return a.clock < b.clock; });
    held_.resize(series_.holders.size());
  }

  HolderSeries run(const std::vector<MemorySample>& samples, std::size_t most) && {
    std::size_t next = 0;
    for (const MemorySample& sample : samples) {
      for (; next < changes_.size() && changes_[next].clock <= sample.clock; ++next) {
        HolderSeries::Share& share = held_[static_cast<std::size_t>(changes_[next].holder)];
        share.count += changes_[next].count;
        share.bytes += changes_[next].bytes;
      }
      series_.shares.push_back(largest(most));
    }
    return std::move(series_);
  }

 private:
  std::int32_t holder_of(StorageId storage) {
    const Site& site = graph_.site_of(storage);
    const StorageTemplateId id = graph_.storages[row(storage)].storage_template;
    const auto [it, is_new] = rows_.try_emplace({id, site.chunk, site.layer}, static_cast<std::int32_t>(rows_.size()));
    if (is_new) series_.holders.push_back({.storage_template = id, .chunk = site.chunk, .layer = site.layer});
    return it->second;
  }

  [[nodiscard]] std::vector<HolderSeries::Share> largest(std::size_t most) const {
    std::vector<HolderSeries::Share> shares;
    for (std::size_t h = 0; h < held_.size(); ++h) {
      if (held_[h].bytes <= 0) continue;
      shares.push_back(held_[h]);
      shares.back().holder = static_cast<std::int32_t>(h);
    }
    const std::size_t kept = std::min(most, shares.size());
    std::partial_sort(
        shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(kept), shares.end(),
        [](const auto& a, const auto& b) { return std::tie(b.bytes, a.holder) < std::tie(a.bytes, b.holder); });
    shares.resize(kept);
    return shares;
  }

  const Graph& graph_;
  std::map<std::tuple<StorageTemplateId, std::int32_t, std::int32_t>, std::int32_t> rows_;
  std::vector<Change> changes_;
  std::vector<HolderSeries::Share> held_;  ///< per holder
  HolderSeries series_;
};

}  // namespace

Bytes MemorySample::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), Bytes{0});
}

std::vector<TaskId> compute_tasks_of(const Schedule& schedule) {
  std::vector<TaskId> tasks;
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    if (schedule.tasks[t].lane == Lane::compute) tasks.push_back(id_of<TaskId>(t));
  }
  return tasks;
}

std::int64_t time_of(const plan::RankPlan& rank, const std::vector<TaskId>& compute_tasks, std::int32_t clock) {
  if (clock == 0) return 0;  // held since before the first task
  const auto task = static_cast<std::size_t>(clock / 2);
  if (task >= compute_tasks.size()) return rank.timeline.finish_ns;
  const std::size_t t = row(compute_tasks[task]);
  return clock % 2 == 0 ? rank.timeline.start_ns[t] : rank.timeline.end_ns[t];
}

std::vector<MemorySample> memory_samples(const plan::RankPlan& rank, std::int64_t step_ns, std::int32_t points) {
  assert(points >= 2);
  const plan::MemoryProfile profile = plan::memory_profile(rank.graph, rank.program.schedule);
  const std::vector<TaskId> compute_tasks = compute_tasks_of(rank.program.schedule);
  std::vector<MemorySample> all;
  for (std::size_t i = 0; i < profile.clock.size(); ++i) {
    all.push_back({.clock = profile.clock[i],
                   .time_ns = time_of(rank, compute_tasks, profile.clock[i]),
                   .bytes = profile.bytes[i]});
  }
  const double slice_ns = static_cast<double>(std::max<std::int64_t>(step_ns, 1)) / (points / 2);
  std::vector<MemorySample> kept;
  for (std::size_t begin = 0; begin < all.size();) {
    const auto slice_of = [&](std::size_t i) {  // the end of the step belongs to the last slice
      return std::min(static_cast<std::int64_t>(static_cast<double>(all[i].time_ns) / slice_ns),
                      std::int64_t{points / 2 - 1});
    };
    std::size_t highest = begin, last = begin;
    for (std::size_t i = begin; i < all.size() && slice_of(i) == slice_of(begin); last = i++) {
      if (all[i].total() > all[highest].total()) highest = i;
    }
    kept.push_back(all[highest]);
    if (last != highest) kept.push_back(all[last]);
    begin = last + 1;
  }
  return kept;
}

HolderSeries largest_holders(const plan::RankPlan& rank, const std::vector<MemorySample>& samples, std::size_t most) {
  return HolderSweep(rank).run(samples, most);
}

}  // namespace tidemark::formats
