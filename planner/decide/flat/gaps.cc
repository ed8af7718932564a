#include "planner/decide/flat/gaps.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tidemark::decide::flat {
namespace {

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

Key last_touch(const Problem& p, std::int32_t s) {
  return p.uses[at(s)].empty() ? p.begin[at(s)] : std::max(p.begin[at(s)], p.uses[at(s)].back());
}

/// The gap between two touches, if anything brings it back.
void add_gap(const Problem& p, GapUse use, const ListGaps::Place& touches, std::size_t gaps_of_storage, ListGaps& out) {
  ListGaps::Place place = touches;
  const auto s = at(place.storage);
  const std::int32_t first = stage_of(place.from) + 1, until = stage_of(place.until);
  if (first >= until) return;
  gaps::GapProblem::Gap gap{.bytes = p.bytes[s], .free_from = first, .taken_from = first};
  gaps::GapProblem::Unit unit{
      .first = static_cast<std::int32_t>(out.problem.unit_gaps.size()), .count = 1, .kind = out.problem.kinds};
  const std::int32_t v = p.producer[s];
  if (v >= 0) {
    // A run in a stage from first + 1 to `until` brings it back for `until`.
    const std::int32_t latest =
        p.rerun_until[at(v)] < 0 ? -1 : p.last_taking[at(std::min(p.rerun_until[at(v)], until))];
    if (latest >= std::max(p.rerun_from[at(v)], first + 1)) {
      place.rerun_by = latest;
      gap.taken_from = latest;
      unit.recompute_cost = static_cast<double>(p.cost[at(v)]) / static_cast<double>(p.writes[v].size());
    }
  }
  const bool reads = std::ranges::binary_search(p.reads[op_of(place.until)], place.storage);
  if (p.swappable[s] != 0 && place.from >= p.hold_until[s] && (reads || use == GapUse::bound)) {
    gap.taken_from = until;
    gap.swap_cost =
        static_cast<double>(p.page_in[s]) + static_cast<double>(p.page_out[s]) / static_cast<double>(gaps_of_storage);
  }
  if (gap.taken_from == first) return;
  gap.host_until = gap.taken_from;
  out.problem.unit_gaps.push_back(static_cast<std::int32_t>(out.problem.gaps.size()));
  out.problem.gaps.push_back(gap);
  out.problem.units.push_back(unit);
  ++out.problem.kinds;
  out.places.push_back(place);
}

/// What a run of `op` in `stage` costs with those of all it needs that is dead by then.
class ChainCost {
 public:
  explicit ChainCost(const Problem& problem) : p_(problem), seen_(at(problem.op_count), -1) {}

  double of(std::int32_t op, std::int32_t stage) {
    ++round_;
    std::int64_t cost = 0;
    pending_.assign(1, op);
    for (std::size_t i = 0; i < pending_.size() && i < kLongest; ++i) {
      cost += p_.cost[at(pending_[i])];
      for (const std::int32_t s : p_.reads[pending_[i]]) {
        const std::int32_t writer = p_.producer[at(s)];
        if (writer < 0 || stage_of(last_touch(p_, s)) >= stage || !p_.may_recompute(writer, stage)) continue;
        if (std::exchange(seen_[at(writer)], round_) != round_) pending_.push_back(writer);
      }
    }
    return static_cast<double>(cost);
  }

 private:
  static constexpr std::size_t kLongest = 100;  // such a chain is no bargain, however long it is
  const Problem& p_;
  std::vector<std::int32_t> seen_, pending_;
  std::int32_t round_ = 0;
};

}  // namespace

std::vector<Bytes> kept_bytes(const Problem& p) {
  std::vector<Bytes> bytes(at(p.op_count) + 1);
  for (std::int32_t s = 0; s < p.storage_count; ++s) {
    bytes[at(stage_of(p.begin[at(s)]))] += p.bytes[at(s)];
    bytes[at(stage_of(last_touch(p, s))) + 1] -= p.bytes[at(s)];
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  bytes.pop_back();
  for (std::int32_t v = 0; v < p.op_count; ++v) bytes[at(v)] += p.transient[at(v)];
  return bytes;
}

ListGaps list_gaps(const Problem& p, GapUse use) {
  ListGaps gaps;
  gaps.problem.base_bytes = kept_bytes(p);
  for (std::int32_t s = 0; s < p.storage_count; ++s) {
    gaps.first_of.push_back(static_cast<std::int32_t>(gaps.places.size()));
    if (p.bytes[at(s)] == 0) continue;
    Key from = p.begin[at(s)];
    for (const Key touch : p.uses[at(s)]) {
      if (touch <= from) continue;
      add_gap(p, use, {.storage = s, .from = from, .until = touch}, p.uses[at(s)].size(), gaps);
      from = touch;
    }
  }
  gaps.first_of.push_back(static_cast<std::int32_t>(gaps.places.size()));
  double all = 1;  // what giving up every gap costs
  for (std::size_t g = 0; g < gaps.places.size(); ++g)
    all += std::max(gaps.problem.units[g].recompute_cost, gaps.problem.gaps[g].swap_cost);
  gaps.problem.least_worth = 1e-8 * all;
  gaps.problem.most_worth = 1e4 * all;
  return gaps;
}

void add_moves(const Problem& p, ListGaps& gaps) {
  ChainCost chain(p);
  for (std::size_t g = 0; g < gaps.places.size(); ++g) {
    const ListGaps::Place& place = gaps.places[g];
    gaps::GapProblem::Gap& gap = gaps.problem.gaps[g];
    gaps::Move move{.unit = static_cast<std::int32_t>(g),
                    .gap = static_cast<std::int32_t>(g),
                    .from = gap.free_from,
                    .bytes = gap.bytes};
    if (place.rerun_by >= 0) {
      move.cost = move.full_cost = chain.of(p.producer[at(place.storage)], place.rerun_by);
      move.until = move.run_at = place.rerun_by;
      gaps.problem.moves.push_back(move);
    }
    if (gap.swap_cost < 0) continue;
    move.action = Action::swap;
    move.cost = move.full_cost = gap.swap_cost;
    move.until = stage_of(place.until);
    if (p.has_windows()) {
      const Key gone = p.gone_from(place.storage, place.from), back = p.back_from(place.storage, place.until);
      move.from = std::max(move.from, stage_of(gone));
      move.until = std::min(move.until, stage_of(back));
    }
    if (move.from < move.until)
      gaps.problem.moves.push_back(move);
    else
      gap.swap_cost = -1;  // its copies take all the time there is
  }
}

}  // namespace tidemark::decide::flat
