#include "planner/decide/gaps/period.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <span>
#include <utility>

namespace tidemark::decide::gaps {
namespace {

constexpr std::size_t kFewestUnits = 96;  // of a kind: a step of fewer micro-batches is not long
/// Bytes are free once other lanes are done with them, a few ops sooner or later from period to period. Positions, and
/// at most this share of a period.
constexpr std::int32_t kTolerance = 8;
constexpr std::int32_t kToleranceShare = 256;

}  // namespace

std::int32_t Period::start_of(std::int32_t unit) const {
  const auto gaps = p_->gaps_of(p_->units[static_cast<std::size_t>(unit)]);
  return p_->gaps[static_cast<std::size_t>(gaps.front())].free_from;
}

std::int32_t Period::end_of(std::int32_t unit) const {
  const auto gaps = p_->gaps_of(p_->units[static_cast<std::size_t>(unit)]);
  return p_->gaps[static_cast<std::size_t>(gaps.front())].taken_from;
}

/// Each kind may have units at places of its own within a period, as many in every one.
bool Period::find_length() {
  std::vector<Row> rows(static_cast<std::size_t>(p_->kinds));
  for (std::size_t u = 0; u < p_->units.size(); ++u)
    rows[static_cast<std::size_t>(p_->units[u].kind)].units.push_back(static_cast<std::int32_t>(u));
  std::erase_if(rows, [](const Row& row) { return row.units.empty(); });
  for (Row& row : rows)
    std::ranges::sort(row.units, {}, [&](std::int32_t unit) { return std::pair(end_of(unit), unit); });
  const auto largest = std::ranges::max_element(rows, {}, [](const Row& row) { return row.units.size(); });
  if (largest == rows.end() || largest->units.size() < kFewestUnits) return false;
  rows_ = std::move(rows);
  const Row& longest = *std::ranges::max_element(rows_, {}, [](const Row& row) { return row.units.size(); });
  const std::size_t middle = longest.units.size() / 2;
  for (std::size_t units = 1; units <= longest.units.size() / 8; ++units) {
    length_ = end_of(longest.units[middle + units]) - end_of(longest.units[middle]);
    if (length_ > 0 && repeats_from(end_of(longest.units[middle])) && choose_part()) return true;
  }
  return false;
}

/// Whether the step repeats itself around a position; then also from where to where.
bool Period::repeats_from(std::int32_t position) {
  const auto first_at = [&](const Row& row, std::int32_t at) {
    return static_cast<std::size_t>(
        std::ranges::lower_bound(row.units, at, {}, [&](std::int32_t unit) { return end_of(unit); }) -
        row.units.begin());
  };
  const auto repeats = [&](const Row& row, std::size_t k) {
    if (k + row.in_period >= row.units.size()) return false;
    const std::int32_t one = row.units[k], next = row.units[k + row.in_period];
    return end_of(next) - end_of(one) == length_ &&
           std::abs(start_of(next) - start_of(one) - length_) <= std::min(kTolerance, length_ / kToleranceShare);
  };
  for (Row& row : rows_) {
    row.middle = first_at(row, position);
    row.in_period = first_at(row, position + length_) - row.middle;
    for (std::size_t k = row.middle; k < row.middle + row.in_period; ++k)
      if (!repeats(row, k)) return false;
  }
  steady_from_ = 0;
  steady_to_ = std::numeric_limits<std::int32_t>::max();
  for (const Row& row : rows_) {
    std::size_t low = row.middle, high = row.middle;
    if (row.in_period > 0) {
      while (low > 0 && repeats(row, low - 1)) --low;
      while (repeats(row, high)) ++high;
      high += row.in_period;
    }
    if (low > 0) steady_from_ = std::max(steady_from_, end_of(row.units[low - 1]) + 1);
    if (high < row.units.size()) steady_to_ = std::min(steady_to_, end_of(row.units[high]));
  }
  return true;
}

/// Units that end in a part of the row are left out. What lives across its end must be as what lives across its
/// beginning.
bool Period::choose_part() {
  std::int32_t longest = 0;
  for (const Row& row : rows_)
    for (const std::int32_t unit : row.units) longest = std::max(longest, end_of(unit) - start_of(unit));
  // So many of what repeats that what is in flight at one moment is within one period: it is repeated as a whole.
  const std::int32_t repeat = length_;
  const std::int32_t count = (longest + repeat - 1) / repeat;
  length_ *= count;
  for (Row& row : rows_) row.in_period *= static_cast<std::size_t>(count);
  const auto length = static_cast<std::int32_t>(p_->base_bytes.size());
  cut_ = std::max(steady_from_, longest) + length_ + repeat;
  left_out_ = (std::min(steady_to_, length) - longest - cut_) / length_;
  return left_out_ > 0 && 2 * left_out_ * std::int64_t{length_} >= length;
}

void Period::map_units() {
  const std::int32_t gone = left_out_ * length_;
  std::vector<std::int32_t> in_place_of(p_->units.size(), -1);
  for (const Row& row : rows_)
    for (std::size_t k = 0; k < row.units.size(); ++k) {
      const std::int32_t end = end_of(row.units[k]);
      if (end < cut_ || end >= cut_ + gone) continue;
      const auto periods = static_cast<std::size_t>((end - cut_) / length_ + 1);
      in_place_of[static_cast<std::size_t>(row.units[k])] = row.units[k - periods * row.in_period];
    }
  folded_unit_.assign(p_->units.size(), -1);
  for (std::size_t u = 0; u < p_->units.size(); ++u) {
    if (in_place_of[u] >= 0) continue;
    const auto unit = static_cast<std::int32_t>(u);
    folded_unit_[u] = static_cast<std::int32_t>(representative_.size());
    representative_.push_back(unit);
    shift_.push_back(end_of(unit) < cut_ ? 0 : gone);
  }
  for (std::size_t u = 0; u < p_->units.size(); ++u)
    if (in_place_of[u] >= 0) folded_unit_[u] = folded_unit_[static_cast<std::size_t>(in_place_of[u])];
  stands_for_.assign(representative_.size(), 0);
  for (const std::int32_t folded : folded_unit_) ++stands_for_[static_cast<std::size_t>(folded)];
}

void Period::fold_base() {
  const auto& base = p_->base_bytes;
  const auto at = [](std::int32_t position) { return static_cast<std::size_t>(position); };
  folded_.base_bytes.assign(base.begin(), base.end() - left_out_ * length_);
  for (std::int32_t t = cut_; t < std::ssize(folded_.base_bytes); ++t)
    folded_.base_bytes[at(t)] = base[at(t + left_out_ * length_)];
  for (std::int32_t t = cut_ - length_; t < cut_; ++t) {
    Bytes sum = 0;
    for (std::int32_t j = 0; j <= left_out_; ++j) sum += base[at(t + j * length_)];
    folded_.base_bytes[at(t)] = sum / (left_out_ + 1);
  }
}

void Period::fold_units() {
  std::vector<std::int32_t> gap_at(p_->gaps.size(), -1);
  folded_gap_.assign(p_->gaps.size(), -1);
  // Rows of gaps stay in order.
  std::vector<std::int32_t> unit_of(p_->gaps.size(), 0);
  for (std::size_t u = 0; u < p_->units.size(); ++u)
    for (const std::int32_t g : p_->gaps_of(p_->units[u])) unit_of[static_cast<std::size_t>(g)] = static_cast<int>(u);
  for (std::size_t g = 0; g < p_->gaps.size(); ++g) {
    const std::int32_t u = unit_of[g], f = folded_unit_[static_cast<std::size_t>(u)];
    if (representative_[static_cast<std::size_t>(f)] != u) continue;
    folded_gap_[g] = static_cast<std::int32_t>(folded_.gaps.size());
    GapProblem::Gap gap = p_->gaps[g];
    const std::int32_t shift = shift_[static_cast<std::size_t>(f)];
    gap.free_from -= shift;
    gap.taken_from -= shift;
    gap.host_until -= shift;
    gap.bytes = 0;
    if (gap.swap_cost >= 0) gap.swap_cost = 0;
    folded_.gaps.push_back(gap);
  }
  for (std::size_t f = 0; f < representative_.size(); ++f) {
    const GapProblem::Unit& from = p_->units[static_cast<std::size_t>(representative_[f])];
    GapProblem::Unit unit{.first = static_cast<std::int32_t>(folded_.unit_gaps.size()),
                          .count = from.count,
                          .recompute_cost = from.recompute_cost < 0 ? -1.0 : 0.0,
                          .kind = from.kind};
    for (const std::int32_t g : p_->gaps_of(from))
      folded_.unit_gaps.push_back(folded_gap_[static_cast<std::size_t>(g)]);
    folded_.units.push_back(unit);
  }
  // Bytes and costs are the means of all that a unit stands for.
  for (std::size_t u = 0; u < p_->units.size(); ++u) {
    const auto f = static_cast<std::size_t>(folded_unit_[u]);
    const double share = 1.0 / stands_for_[f];
    GapProblem::Unit& unit = folded_.units[f];
    if (unit.recompute_cost >= 0) unit.recompute_cost += share * p_->units[u].recompute_cost;
    const auto from = p_->gaps_of(p_->units[u]);
    const auto to = folded_.gaps_of(unit);
    for (std::size_t i = 0; i < from.size(); ++i) {
      folded_gap_[static_cast<std::size_t>(from[i])] = to[i];
      GapProblem::Gap& gap = folded_.gaps[static_cast<std::size_t>(to[i])];
      gap.bytes += p_->gaps[static_cast<std::size_t>(from[i])].bytes;  // summed up
      if (gap.swap_cost >= 0) gap.swap_cost += share * p_->gaps[static_cast<std::size_t>(from[i])].swap_cost;
    }
  }
  for (std::size_t f = 0; f < folded_.units.size(); ++f)
    for (const std::int32_t g : folded_.gaps_of(folded_.units[f])) {
      Bytes& bytes = folded_.gaps[static_cast<std::size_t>(g)].bytes;
      bytes = (bytes + stands_for_[f] - 1) / stands_for_[f];
    }
}

void Period::fold_moves() {
  std::vector<std::vector<std::int32_t>> of_unit(folded_.units.size());
  for (const Move& move : p_->moves) {
    const std::int32_t f = folded_unit_[static_cast<std::size_t>(move.unit)];
    if (representative_[static_cast<std::size_t>(f)] != move.unit) continue;
    Move folded = move;
    const std::int32_t shift = shift_[static_cast<std::size_t>(f)];
    folded.unit = f;
    folded.gap = folded_gap_[static_cast<std::size_t>(move.gap)];
    folded.from -= shift;
    folded.until -= shift;
    folded.run_at -= shift;
    folded.bytes = 0;
    for (const std::int32_t g : folded_.gaps_of(folded))
      folded.bytes += folded_.gaps[static_cast<std::size_t>(g)].bytes;
    folded.cost = folded.full_cost = 0;
    of_unit[static_cast<std::size_t>(f)].push_back(static_cast<std::int32_t>(folded_.moves.size()));
    folded_.moves.push_back(folded);
  }
  for (const Move& move : p_->moves) {
    const auto f = static_cast<std::size_t>(folded_unit_[static_cast<std::size_t>(move.unit)]);
    for (const std::int32_t m : of_unit[f]) {
      Move& folded = folded_.moves[static_cast<std::size_t>(m)];
      if (folded.action != move.action || folded.gap != folded_gap_[static_cast<std::size_t>(move.gap)]) continue;
      folded.cost += move.cost / stands_for_[f];
      folded.full_cost += move.full_cost / stands_for_[f];
    }
  }
}

std::optional<Period> Period::find(const GapProblem& problem) {
  Period period(problem);
  if (!period.find_length()) return std::nullopt;
  period.map_units();
  period.folded_.base_host_bytes = problem.base_host_bytes;
  period.folded_.kinds = problem.kinds;
  period.folded_.least_worth = problem.least_worth;
  period.folded_.most_worth = problem.most_worth;
  period.fold_base();
  period.fold_units();
  period.fold_moves();
  return period;
}

Choice Period::unfold(const Choice& choice) const {
  Choice whole(p_->gaps.size(), Action::keep);
  for (std::size_t g = 0; g < whole.size(); ++g) whole[g] = choice[static_cast<std::size_t>(folded_gap_[g])];
  return whole;
}

Prices Period::unfold(const Prices& prices, Bytes device_budget, Bytes host_budget) const {
  Prices whole;
  const auto add = [&](std::size_t i, std::int32_t position) {
    whole.clock.push_back(position);
    whole.device.push_back(prices.device[i]);
    whole.host.push_back(prices.host[i]);
  };
  const auto begin = prices.clock.begin();
  const auto index = [&](std::int32_t position) {
    return static_cast<std::size_t>(std::lower_bound(begin, prices.clock.end(), position) - begin);
  };
  const std::size_t first = index(cut_ - length_), last = index(cut_);
  for (std::size_t i = 0; i < first; ++i) add(i, prices.clock[i]);
  for (std::int32_t j = 0; j <= left_out_; ++j)
    for (std::size_t i = first; i < last; ++i) add(i, prices.clock[i] + j * length_);
  for (std::size_t i = last; i < prices.clock.size(); ++i) add(i, prices.clock[i] + left_out_ * length_);
  whole.recompute_share.assign(p_->gaps.size(), 0);
  whole.swap_share.assign(p_->gaps.size(), 0);
  for (std::size_t g = 0; g < p_->gaps.size(); ++g) {
    whole.recompute_share[g] = prices.recompute_share[static_cast<std::size_t>(folded_gap_[g])];
    whole.swap_share[g] = prices.swap_share[static_cast<std::size_t>(folded_gap_[g])];
  }
  whole.bound = bound_of(*p_, device_budget, host_budget, whole);
  return whole;
}

}  // namespace tidemark::decide::gaps
