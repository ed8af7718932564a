#include "integrations/ci/rank_presence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "integrations/ci/rank_choice_text.h"

namespace tidemark::ci {
namespace {

using Kind = budget::RankChoice::Kind;

/// The first rank of a list that no row is of or stands for.
std::optional<std::int64_t> first_absent(const budget::Holdings& holdings, const budget::RankChoice& choice) {
  const auto absent = std::ranges::find_if(
      choice.listed, [&](std::int64_t rank) { return !budget::row_for(holdings, rank).has_value(); });
  return absent == choice.listed.end() ? std::nullopt : std::optional(*absent);
}

std::string ranks_there(const budget::Holdings& holdings) {
  const bool is_planned = holdings.basis == budget::Basis::planned;
  return fmt::format("the job has {}{}",
                     holdings.rank_count == 1 ? "rank 0 alone" : fmt::format("ranks 0 to {}", holdings.rank_count - 1),
                     is_planned ? ", one a pipeline stage" : "");
}

}  // namespace

std::optional<std::string> absent_ranks(const budget::Holdings& holdings, const budget::RankChoice& choice) {
  if (holdings.rank_count == 0) return std::nullopt;
  if (choice.kind == Kind::middle && holdings.ranks.size() < 3 && holdings.rank_count <= 2)
    return fmt::format("there is no rank between the first and the last; {}", ranks_there(holdings));
  if (choice.kind == Kind::middle && holdings.ranks.size() < 3 && holdings.stage_stride > 0)
    return fmt::format("there is no pipeline stage between the first and the last of {}", holdings.ranks.size());
  if (choice.kind != Kind::listed || choice.listed.back() < holdings.rank_count) return std::nullopt;
  const auto beyond = std::ranges::lower_bound(choice.listed, holdings.rank_count);
  return fmt::format("rank {} is not there; {}", *beyond, ranks_there(holdings));
}

std::string why_not_held(const budget::Holdings& holdings, const budget::Limit& limit) {
  const std::string_view basis = budget::word_of(holdings.basis);
  if (limit.ranks.kind == Kind::middle && holdings.ranks.size() < 3)
    return fmt::format("no rank between the first and the last was {}", basis);
  if (limit.ranks.kind == Kind::listed)
    if (const std::optional<std::int64_t> rank = first_absent(holdings, limit.ranks))
      return fmt::format("rank {} was not {}", *rank, basis);
  return fmt::format("the {} figures do not tell it", basis);
}

}  // namespace tidemark::ci
