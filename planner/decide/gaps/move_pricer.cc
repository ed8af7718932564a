#include "planner/decide/gaps/move_pricer.h"

#include <algorithm>
#include <cmath>

namespace tidemark::decide::gaps {

MovePricer::MovePricer(const GapProblem& problem)
    : p_(problem),
      recompute_(problem.gaps.size(), -1),
      swap_(problem.gaps.size(), -1),
      from_(problem.gaps.size(), 0),
      until_(problem.gaps.size(), 0) {
  for (std::size_t m = 0; m < problem.moves.size(); ++m)
    for (const std::int32_t g : problem.gaps_of(problem.moves[m]))
      (problem.moves[m].action == Action::swap ? swap_ : recompute_)[static_cast<std::size_t>(g)] =
          static_cast<std::int32_t>(m);
}

Pricing MovePricer::price(const Choice& choice) {
  const std::size_t length = p_.base_bytes.size();
  profile_.assign(length + 1, 0);
  host_profile_.assign(length + 1, 0);
  const auto at = [&](std::int32_t position) {
    return std::min(length, static_cast<std::size_t>(std::max(position, 0)));
  };
  const auto add = [&](std::vector<Bytes>& to, std::int32_t begin, std::int32_t end, Bytes bytes) {
    if (begin >= end) return;
    to[at(begin)] += bytes;
    to[at(end)] -= bytes;
  };
  double cost = 0;
  for (std::size_t g = 0; g < choice.size(); ++g) {
    if (choice[g] == Action::keep) continue;
    const GapProblem::Gap& gap = p_.gaps[g];
    const bool swaps = choice[g] == Action::swap;
    const std::int32_t m = (swaps ? swap_ : recompute_)[g];
    // A swap that leaves no room for its copies frees nothing.
    const Move* move = m < 0 ? nullptr : &p_.moves[static_cast<std::size_t>(m)];
    from_[g] = move == nullptr || !swaps ? gap.free_from : move->from;
    until_[g] = move == nullptr ? from_[g] : std::max(from_[g], move->until);
    add(profile_, from_[g], until_[g], -gap.bytes);
    if (swaps) {
      add(host_profile_, gap.free_from, gap.taken_from + 1, gap.bytes);
      cost += move == nullptr ? gap.swap_cost : move->cost;
    } else if (move != nullptr && move->gap == static_cast<std::int32_t>(g)) {
      add(profile_, move->until, move->run_at + 1, move->transient_bytes);
      cost += move->cost;
    }
  }
  Pricing pricing{.added_cost = std::llround(cost)};
  Bytes change = 0, host = p_.base_host_bytes;
  for (std::size_t t = 0; t < length; ++t) {
    change += profile_[t];
    host += host_profile_[t];
    profile_[t] = p_.base_bytes[t] + change;
    host_profile_[t] = host;
    pricing.peak_bytes = std::max(pricing.peak_bytes, profile_[t]);
    pricing.host_peak_bytes = std::max(pricing.host_peak_bytes, host);
  }
  profile_.resize(length);
  host_profile_.resize(length);
  return pricing;
}

}  // namespace tidemark::decide::gaps
