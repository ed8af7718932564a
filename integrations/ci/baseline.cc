#include "integrations/ci/baseline.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "integrations/ci/control_texts.h"
#include "integrations/ci/safe_text.h"

namespace tidemark::ci {
namespace {

auto order_of(const InputHash& input) {
  return std::tie(input.role, input.fnv1a64);
}

BaselineRank rank_of(const budget::RankHoldings& holdings) {
  BaselineRank rank{.rank = holdings.rank,
                    .peak_bytes = holdings.peak_bytes,
                    .host_bytes = holdings.host_bytes,
                    .by_category = holdings.by_category};
  // So that a reader can tell an edited file: categories always add up.
  const Bytes told = std::accumulate(rank.by_category.begin(), rank.by_category.end(), Bytes{0});
  rank.by_category[static_cast<std::size_t>(budget::Category::other)] += rank.peak_bytes - told;
  for (const budget::HeldStorage& storage : holdings.storages)
    rank.storages.push_back({.name = with_replacements(storage.name),
                             .category = storage.category,
                             .count = storage.count,
                             .bytes = storage.bytes});
  return rank;
}

BaselineRun run_of(const budget::Holdings& holdings) {
  BaselineRun run;
  for (const budget::RankHoldings& rank : holdings.ranks)
    run.push_back({.rank = rank.rank, .peak_bytes = rank.peak_bytes});
  return run;
}

/// A rank that a run lacks may have been the highest of it.
Status refuse_missing_rank(const BaselineJob& job, const budget::Holdings& run) {
  for (const BaselineRank& rank : job.ranks)
    if (!std::ranges::binary_search(run.ranks, rank.rank, {}, &budget::RankHoldings::rank))
      return bad_input("the run lacks rank " + std::to_string(rank.rank) +
                       " of the baseline; give a run of the same ranks, or begin the baseline anew");
  return {};
}

}  // namespace

BaselineJob baseline_of(std::string_view name, std::vector<InputHash> inputs, const budget::Holdings& holdings) {
  BaselineJob job{.name = with_replacements(name), .basis = holdings.basis, .inputs = std::move(inputs)};
  std::ranges::sort(job.inputs, {}, order_of);
  if (job.basis == budget::Basis::measured) job.runs.push_back(run_of(holdings));
  for (const budget::RankHoldings& rank : holdings.ranks) {
    job.ranks.push_back(rank_of(rank));
    if (job.basis == budget::Basis::estimated) job.ranks.back().place = with_replacements(rank.place);
  }
  job.controls = control_texts(holdings);
  return job;
}

bool has_run(const BaselineJob& job, const std::vector<InputHash>& inputs) {
  return !inputs.empty() && std::ranges::all_of(inputs, [&](const InputHash& input) {
    return std::ranges::find(job.inputs, input) != job.inputs.end();
  });
}

Status add_run(BaselineJob& job, std::vector<InputHash> inputs, const budget::Holdings& run) {
  if (job.basis != budget::Basis::measured || run.basis != budget::Basis::measured)
    return bad_input("only a measured job has runs; this one is " +
                     std::string(budget::word_of(job.basis == budget::Basis::measured ? run.basis : job.basis)));
  if (job.runs.size() >= kMostBaselineRuns)
    return bad_input("the baseline of this job has " + std::to_string(kMostBaselineRuns) +
                     " runs, as many as it holds; begin it anew");
  if (Status status = refuse_missing_rank(job, run); !status) return status;
  if (has_run(job, inputs)) return bad_input("this run is in the baseline already; measure another one");
  job.inputs.insert(job.inputs.end(), inputs.begin(), inputs.end());
  std::ranges::sort(job.inputs, {}, order_of);
  job.runs.push_back(run_of(run));
  for (const budget::RankHoldings& held : run.ranks) {
    const auto place = std::ranges::lower_bound(job.ranks, held.rank, {}, &BaselineRank::rank);
    if (place == job.ranks.end() || place->rank != held.rank)
      job.ranks.insert(place, rank_of(held));
    else if (held.peak_bytes > place->peak_bytes)
      *place = rank_of(held);
  }
  return {};
}

void put_job(Baseline& baseline, BaselineJob job) {
  const auto place = std::ranges::lower_bound(baseline.jobs, job.name, {}, &BaselineJob::name);
  if (place != baseline.jobs.end() && place->name == job.name)
    *place = std::move(job);
  else
    baseline.jobs.insert(place, std::move(job));
}

const BaselineJob* find_job(const Baseline& baseline, std::string_view name) {
  const std::string safe = with_replacements(name);
  const auto place = std::ranges::lower_bound(baseline.jobs, safe, {}, &BaselineJob::name);
  return place != baseline.jobs.end() && place->name == safe ? &*place : nullptr;
}

std::vector<std::string> names_beyond(const Baseline& baseline, const std::vector<std::string>& names) {
  std::vector<std::string> beyond;
  for (const BaselineJob& job : baseline.jobs)
    if (std::ranges::none_of(names, [&](const std::string& name) { return with_replacements(name) == job.name; }))
      beyond.push_back(job.name);
  return beyond;
}

void keep_jobs(Baseline& baseline, const std::vector<std::string>& names) {
  const std::vector<std::string> beyond = names_beyond(baseline, names);
  std::erase_if(baseline.jobs, [&](const BaselineJob& job) { return std::ranges::binary_search(beyond, job.name); });
}

budget::Holdings holdings_of(const BaselineJob& job) {
  budget::Holdings holdings{.basis = job.basis, .source = "baseline, " + job.name};
  for (const BaselineRank& rank : job.ranks) {
    budget::RankHoldings held{.rank = rank.rank,
                              .place = rank.place,
                              .peak_bytes = rank.peak_bytes,
                              .host_bytes = rank.host_bytes,
                              .by_category = rank.by_category};
    for (const BaselineStorage& storage : rank.storages)
      held.storages.push_back(
          {.name = storage.name, .category = storage.category, .count = storage.count, .bytes = storage.bytes});
    holdings.ranks.push_back(std::move(held));
  }
  return holdings;
}

BaselineJob lowered_to(const BaselineJob& job, const budget::Holdings& judged) {
  assert(job.ranks.size() == judged.ranks.size());
  BaselineJob lowered = job;
  for (std::size_t row = 0; row < job.ranks.size(); ++row) {
    lowered.ranks[row] = rank_of(judged.ranks[row]);
    lowered.ranks[row].place = job.ranks[row].place;
    const Bytes taken = job.ranks[row].peak_bytes - lowered.ranks[row].peak_bytes;
    for (BaselineRun& run : lowered.runs)
      for (RunPeak& peak : run)
        if (peak.rank == job.ranks[row].rank) peak.peak_bytes = std::max<Bytes>(peak.peak_bytes - taken, 0);
  }
  return lowered;
}

std::optional<Spread> spread_of(const BaselineJob& job, std::int64_t rank) {
  std::optional<Spread> spread;
  for (const BaselineRun& run : job.runs) {
    const auto place = std::ranges::lower_bound(run, rank, {}, &RunPeak::rank);
    if (place == run.end() || place->rank != rank) continue;
    if (!spread) spread = Spread{.least_bytes = place->peak_bytes, .most_bytes = place->peak_bytes};
    spread->least_bytes = std::min(spread->least_bytes, place->peak_bytes);
    spread->most_bytes = std::max(spread->most_bytes, place->peak_bytes);
  }
  return spread;
}

}  // namespace tidemark::ci
