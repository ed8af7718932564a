#include "integrations/ci/lowered_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "integrations/ci/missing_rank.h"
#include "integrations/ci/verdict_line.h"

namespace tidemark::ci {
namespace {

/// The highest rank of the baseline; of several runs the lowest that it came to.
Bytes lowest_before(const BaselineJob& baseline) {
  Bytes bytes = 0;
  for (const BaselineRank& rank : baseline.ranks) {
    const std::optional<Spread> spread = spread_of(baseline, rank.rank);
    bytes = std::max(bytes, spread ? spread->least_bytes : rank.peak_bytes);
  }
  return bytes;
}

const budget::Limit* device_limit_in(const std::vector<budget::Limit>& limits) {
  const auto found = std::ranges::find_if(limits, [](const budget::Limit& limit) {
    return !limit.is_host && !limit.phase && !limit.category && limit.ranks.kind == budget::RankChoice::Kind::all;
  });
  return found == limits.end() ? nullptr : &*found;
}

/// More than any device has, and far from what an integer holds.
constexpr double kMostLimit = 1e18;

}  // namespace

Bytes least_passing_limit(Bytes bytes, Bytes band_bytes, const budget::Tolerance& near) {
  Bytes limit = bytes + std::max(band_bytes, near.bytes);
  if (near.percent < 100)
    limit = std::max(limit, static_cast<Bytes>(std::min(
                                std::ceil(static_cast<double>(bytes) / (1 - near.percent / 100)), kMostLimit)));
  // The tolerance is rounded down to whole bytes of the limit, which floating point may do a byte off.
  for (int i = 0; i < 4 && bytes > limit - near.of(limit) && near.percent < 100; ++i) ++limit;
  return limit;
}

std::optional<std::string> lowered_budget_notice(const JobInput& input, const budget::Growth& growth) {
  const Bytes before = lowest_before(*input.baseline), after = growth.highest_after_bytes;
  if (!missing_ranks(input.holdings, &growth).empty()) return std::nullopt;  // one of them may be the highest
  if (!input.holdings.is_understood || after >= before - input.job.growth.of(before)) return std::nullopt;
  const std::string fell = fmt::format("the highest peak fell from {} to {} ({})", format_bytes(before),
                                       format_bytes(after), change_text(before, after));
  const std::string update = "`tidemark baseline update` holds on to it";
  const std::vector<budget::Limit> limits = limits_of(input);
  const budget::Limit* device = device_limit_in(limits);
  const budget::RankHoldings& highest = input.holdings.ranks[budget::highest_rank(input.holdings)];
  const Bytes band = budget::band_bytes(input.holdings, highest.peak_bytes);
  const Bytes least = least_passing_limit(highest.peak_bytes, band, device == nullptr ? input.job.near : device->near);
  if (device == nullptr || least >= device->most_bytes) return fmt::format("{}; {}", fell, update);
  // In the words of the budget file: the limit is its capacity less a reserve.
  return fmt::format("the budget can be lowered to {}: {}; {}", format_bytes_up(least + kept_of_capacity(input)), fell,
                     update);
}

}  // namespace tidemark::ci
