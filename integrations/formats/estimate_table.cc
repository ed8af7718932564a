#include "integrations/formats/estimate_table.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "planner/schedule/peak.h"

namespace tidemark::formats {
namespace {

std::int64_t count_passes(const plan::RankPlan& rank, std::int32_t clock) {
  std::set<std::pair<std::int32_t, std::int32_t>> passes;
  for (const Residency& residency : rank.program.schedule.residencies) {
    if (residency.space != MemorySpace::device || clock < residency.acquire || residency.release <= clock) continue;
    const Site& site = rank.graph.site_of(residency.storage);
    if (site.micro_batch < 0 || !rank.graph.template_of(residency.storage).saved_for_backward) continue;
    passes.emplace(site.chunk, site.micro_batch);
  }
  return static_cast<std::int64_t>(passes.size());
}

RankEstimate estimate_rank(const plan::PlanRequest& request, const plan::RankPlan& rank) {
  const std::int32_t clock = schedule::peak_clock(rank.program.schedule);
  RankEstimate estimate{.rank = rank.figures.rank,
                        .load = rank.figures.load,
                        .reserve = plan::reserve_of(request),
                        .peak_bytes = rank.figures.peak_bytes,
                        .budget_bytes = rank.figures.budget_bytes,
                        .fits = rank.figures.fits,
                        .peak_op = rank.figures.peak_op,
                        .passes_in_flight = count_passes(rank, clock)};
  for (plan::Contributor& c : plan::contributors_at(rank.graph, rank.program.schedule, clock)) {
    estimate.bytes[static_cast<std::size_t>(c.role)] += c.bytes;
    if (c.role >= StorageRole::activation) estimate.contributors.push_back(std::move(c));
  }
  const Bytes held = std::accumulate(estimate.bytes.begin(), estimate.bytes.end(), Bytes{0});
  estimate.unused_bytes = estimate.peak_bytes - held - estimate.reserve.total();
  return estimate;
}

}  // namespace

std::vector<RankEstimate> estimate_ranks(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  std::vector<RankEstimate> estimates;
  for (const plan::RankPlan& rank : outcome.ranks) estimates.push_back(estimate_rank(request, rank));
  return estimates;
}

}  // namespace tidemark::formats
