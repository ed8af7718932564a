#include "integrations/ci/grown_rank.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tidemark::ci {
namespace {

budget::Verdict verdict_of(const GrownRank& rank) {
  if (rank.after_bytes <= rank.allowed_bytes) return budget::Verdict::pass;
  const bool is_in_spread = rank.spread && rank.after_bytes <= rank.spread->most_bytes + rank.spread->width_bytes();
  return is_in_spread ? budget::Verdict::near : budget::Verdict::fail;
}

}  // namespace

std::vector<GrownRank> grown_ranks(const budget::Growth& growth, const budget::Tolerance& allowed,
                                   const BaselineJob* baseline) {
  std::vector<GrownRank> ranks;
  for (const budget::RankGrowth& row : growth.ranks) {
    if (!row.after_bytes) continue;
    GrownRank rank{.rank = row.rank, .after_bytes = *row.after_bytes};
    if (baseline != nullptr) rank.spread = spread_of(*baseline, row.rank);
    rank.before_bytes = rank.spread ? rank.spread->most_bytes : row.before_bytes.value_or(growth.highest_before_bytes);
    rank.allowed_bytes = rank.before_bytes + allowed.of(rank.before_bytes);
    rank.verdict = verdict_of(rank);
    ranks.push_back(rank);
  }
  return ranks;
}

const GrownRank& worst_of(const std::vector<GrownRank>& ranks) {
  assert(!ranks.empty());
  return *std::ranges::max_element(ranks, {},
                                   [](const GrownRank& rank) { return std::pair(rank.verdict, rank.excess_bytes()); });
}

}  // namespace tidemark::ci
