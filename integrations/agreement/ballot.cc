#include "integrations/agreement/ballot.h"

#include <algorithm>
#include <cassert>

namespace tidemark::agreement {
namespace {

constexpr std::int32_t kFewestChunks = 2;

}  // namespace

Loss Ballot::disagreement(LossCause cause, std::int32_t rank, const Place& place, std::int32_t with) const {
  return {.cause = cause, .rank = rank, .other_rank = with, .at = place, .other_at = last_of(with)};
}

std::optional<Loss> Ballot::cast(std::int32_t rank, const Ask& ask) {
  const auto at = static_cast<std::size_t>(rank);
  if (asked_[at] != 0) return Loss{.cause = LossCause::foreign, .rank = rank, .at = last_[at]};
  const Place& place = last_[at] = ask.place;
  if (place.plan != 0 && planned_ < 0) planned_ = rank;
  if (place.plan != 0 && place.plan != last_of(planned_).plan)
    return disagreement(LossCause::other_plan, rank, place, planned_);
  if (count_ == 0) first_ = rank;
  if (place.section != last_of(first_).section || place.group != last_of(first_).group)
    return disagreement(LossCause::out_of_step, rank, place, first_);
  asked_[at] = 1;
  ++count_;
  wanted_ |= ask.wanted != 0;
  cannot_ |= ask.chunks <= 0;
  most_ = std::max(most_, ask.chunks);
  return std::nullopt;
}

std::int32_t Ballot::close() {
  assert(is_complete());
  const std::int32_t answer = !wanted_ ? 1 : cannot_ ? 0 : std::max(most_, kFewestChunks);
  std::ranges::fill(asked_, char{0});
  count_ = 0;
  planned_ = -1;
  most_ = 0;
  wanted_ = cannot_ = false;
  return answer;
}

Loss Ballot::late(std::int64_t waited_ms) const {
  assert(is_open() && !is_complete());
  const auto first = std::ranges::find(asked_, char{0});
  const auto rank = static_cast<std::int32_t>(first - asked_.begin());
  return {.cause = LossCause::late,
          .rank = rank,
          .more = size() - count_ - 1,
          .waited_ms = waited_ms,
          .at = last_of(rank),
          .other_at = last_of(first_)};
}

}  // namespace tidemark::agreement
