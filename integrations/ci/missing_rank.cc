#include "integrations/ci/missing_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "integrations/formats/rank_words.h"

namespace tidemark::ci {
namespace {

std::string ranks_text(const std::vector<MissingRank>& missing) {
  std::vector<std::int64_t> ranks;
  for (const MissingRank& one : missing) ranks.push_back(one.rank);
  return formats::listed_ranks_text(ranks);
}

std::optional<Bytes> bytes_before(const budget::Growth* growth, std::int64_t rank) {
  if (growth == nullptr) return std::nullopt;
  const auto found = std::ranges::find(growth->ranks, rank, &budget::RankGrowth::rank);
  return found == growth->ranks.end() ? std::nullopt : found->before_bytes;
}

std::vector<MissingRank> not_planned(const budget::Holdings& after, const budget::Growth* growth) {
  std::vector<MissingRank> missing;
  for (std::int64_t rank = 0; rank < after.rank_count; ++rank)
    if (!std::ranges::binary_search(after.ranks, rank, {}, &budget::RankHoldings::rank))
      missing.push_back({.rank = rank, .before_bytes = bytes_before(growth, rank)});
  return missing;
}

std::vector<MissingRank> not_measured(const budget::Holdings& after, const budget::Growth* growth) {
  std::vector<MissingRank> missing;
  if (growth != nullptr)
    for (const budget::RankGrowth& rank : growth->ranks)
      if (!rank.after_bytes) missing.push_back({.rank = rank.rank, .before_bytes = rank.before_bytes});
  for (const std::int64_t rank : after.untold_ranks)
    if (std::ranges::find(missing, rank, &MissingRank::rank) == missing.end())
      missing.push_back({.rank = rank, .before_bytes = {}});
  std::ranges::sort(missing, {}, &MissingRank::rank);
  return missing;
}

}  // namespace

std::vector<MissingRank> missing_ranks(const budget::Holdings& after, const budget::Growth* growth) {
  switch (after.basis) {
    case budget::Basis::planned:
      return not_planned(after, growth);
    case budget::Basis::measured:
      return not_measured(after, growth);
    case budget::Basis::estimated:
      break;
  }
  return {};
}

std::string missing_text(const std::vector<MissingRank>& missing, budget::Basis basis, std::string_view before) {
  assert(!missing.empty());
  const MissingRank& highest = *std::ranges::max_element(missing, {}, &MissingRank::before_bytes);
  if (missing.size() == 1) {
    const std::string bytes =
        highest.before_bytes ? fmt::format(" ({} in the {})", format_bytes(*highest.before_bytes), before) : "";
    return fmt::format("rank {}{} was not {}", highest.rank, bytes, budget::word_of(basis));
  }
  const std::string bytes = highest.before_bytes ? fmt::format(", of them rank {} with {} in the {}", highest.rank,
                                                               format_bytes(*highest.before_bytes), before)
                                                 : "";
  return fmt::format("{} were not {}{}", ranks_text(missing), budget::word_of(basis), bytes);
}

std::string missing_advice(const std::vector<MissingRank>& missing, budget::Basis basis) {
  assert(!missing.empty());
  const std::string_view them = missing.size() == 1 ? "it" : "them";
  if (basis == budget::Basis::planned) return fmt::format("plan {} as well", them);
  const bool is_in_baseline =
      std::ranges::any_of(missing, [](const MissingRank& rank) { return rank.before_bytes.has_value(); });
  return fmt::format("measure {} again{}", them,
                     is_in_baseline ? ", or agree to the ranks there are with `tidemark baseline update`" : "");
}

}  // namespace tidemark::ci
