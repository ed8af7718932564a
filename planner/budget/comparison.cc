#include "planner/budget/comparison.h"

#include <cassert>
#include <cstddef>

namespace tidemark::budget {
namespace {

Bytes of_category(const RankHoldings& rank, Category category) {
  return rank.by_category[static_cast<std::size_t>(category)];
}

/// Of a peak or the figure of a phase: what the framework asked for.
Bytes asked_of(const RankHoldings& rank, Bytes bytes) {
  return bytes - of_category(rank, Category::cached) - of_category(rank, Category::reserve);
}

std::optional<Bytes> asked_between_steps(const RankHoldings& rank) {
  const std::optional<Bytes>& steady = rank.by_phase[static_cast<std::size_t>(Phase::between_steps)];
  return steady ? std::optional(asked_of(rank, *steady)) : std::nullopt;
}

std::optional<ComparedBytes> where_both_tell(const std::optional<Bytes>& predicted,
                                             const std::optional<Bytes>& measured) {
  if (!predicted || !measured) return std::nullopt;
  return ComparedBytes{.predicted_bytes = *predicted, .measured_bytes = *measured};
}

bool is_within(const RankComparison& rank, Basis basis) {
  const Bytes delta = rank.asked.delta_bytes();
  return delta <= rank.band_bytes && (basis == Basis::planned || -delta <= rank.band_bytes);
}

RankComparison compare_rank(const RankHoldings& predicted, const RankHoldings& measured, const Holdings& source) {
  RankComparison rank;
  rank.rank = measured.rank;
  rank.place = measured.place;
  rank.peak = {.predicted_bytes = predicted.peak_bytes, .measured_bytes = measured.peak_bytes};
  rank.asked = {.predicted_bytes = asked_of(predicted, predicted.peak_bytes),
                .measured_bytes = asked_of(measured, measured.peak_bytes)};
  for (std::size_t c = 0; c < kCategoryCount; ++c)
    rank.by_category[c] = {.predicted_bytes = predicted.by_category[c], .measured_bytes = measured.by_category[c]};
  rank.steady = where_both_tell(asked_between_steps(predicted), asked_between_steps(measured));
  rank.host = where_both_tell(predicted.host_bytes, measured.host_bytes);
  rank.band_bytes = band_bytes(source, predicted.peak_bytes);
  rank.is_within_band = is_within(rank, source.basis);
  return rank;
}

}  // namespace

Comparison compare(const Holdings& predicted, const Holdings& measured) {
  assert(predicted.basis != Basis::measured && measured.basis == Basis::measured);
  Comparison comparison;
  auto p = predicted.ranks.begin();
  auto m = measured.ranks.begin();
  while (p != predicted.ranks.end() || m != measured.ranks.end()) {
    if (m == measured.ranks.end() || (p != predicted.ranks.end() && p->rank < m->rank)) {
      comparison.only_predicted.push_back((p++)->rank);
    } else if (p == predicted.ranks.end() || m->rank < p->rank) {
      comparison.only_measured.push_back((m++)->rank);
    } else {
      comparison.ranks.push_back(compare_rank(*p++, *m++, predicted));
    }
  }
  return comparison;
}

}  // namespace tidemark::budget
