#include "integrations/ci/waiver_match.h"

#include <fmt/format.h>

namespace tidemark::ci {
namespace {

WaiverEffect effect_of(const Waiver& waiver, Bytes bytes, Date today) {
  if (waiver.is_expired(today)) return WaiverEffect::expired;
  return bytes <= waiver.at_most_bytes ? WaiverEffect::waived : WaiverEffect::exceeded;
}

/// The larger counts.
int rank_of(WaiverEffect effect) {
  switch (effect) {
    case WaiverEffect::waived:
      return 3;
    case WaiverEffect::exceeded:
      return 2;
    case WaiverEffect::expired:
      return 1;
    case WaiverEffect::none:
      break;
  }
  return 0;
}

}  // namespace

WaiverMatch match_waiver(const BudgetJob& job, const WaiverScope& scope, const budget::Holdings& holdings,
                         std::size_t row, Bytes bytes, Date today) {
  WaiverMatch match;
  for (std::size_t i = 0; i < job.waivers.size(); ++i) {
    const Waiver& waiver = job.waivers[i];
    if (!(waiver.scope == scope) || !waiver.ranks.covers(holdings, row)) continue;
    const WaiverEffect effect = effect_of(waiver, bytes, today);
    if (rank_of(effect) > rank_of(match.effect)) match = {.effect = effect, .waiver = i};
  }
  return match;
}

std::string unneeded_text(const Waiver& waiver, const budget::Holdings& holdings, Date today) {
  if (waiver.is_expired(today))
    return fmt::format("the waiver of {} expired on {} and is not needed; remove it", waiver.owner,
                       date_text(waiver.expires));
  bool is_for_some = false;
  for (std::size_t row = 0; row < holdings.ranks.size(); ++row) {
    is_for_some = is_for_some || waiver.ranks.covers(holdings, row);
    if (waiver.ranks.holds(holdings, row) && !waiver.ranks.covers(holdings, row))
      return fmt::format(
          "the waiver of {} lists some ranks of a pipeline stage (that of rank {}) and waives nothing "
          "there; list every rank of the stage",
          waiver.owner, holdings.ranks[row].rank);
  }
  if (!is_for_some)
    return fmt::format("the waiver of {} is for no rank that was {}", waiver.owner, budget::word_of(holdings.basis));
  return fmt::format("the waiver of {} is not needed: nothing exceeds what it allows", waiver.owner);
}

}  // namespace tidemark::ci
