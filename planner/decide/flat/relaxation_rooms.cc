// Of the relaxation: prices of memory for each storage and stage, and the sets of whole storages that a room holds.

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "planner/decide/flat/relaxation.h"

namespace tidemark::decide::flat {
namespace {

constexpr std::int64_t kMostUnits = 1000;  // of a room, each of which a knapsack looks at for every storage

std::size_t of(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

/// The largest storages are multiples of it, of as many as a room of so few units allows.
Bytes unit_of(std::vector<Bytes> sizes, Bytes room) {
  std::ranges::sort(sizes, std::greater<>());
  Bytes unit = 0;
  for (const Bytes size : sizes) {
    const Bytes finer = std::gcd(unit, size);
    if (room / finer > kMostUnits) break;
    unit = finer;
  }
  return unit == 0 ? room / kMostUnits + 1 : unit;
}

}  // namespace

/// Stages in which what may be there does not all fit. Units of bytes: the room and storages are rounded down, so that
/// what fits in bytes fits in units.
void Relaxation::find_short_rooms() {
  short_rooms_.clear();
  for (std::int32_t t = 0; t < p_.op_count; ++t) {
    ShortRoom room{.stage = t};
    const auto bytes = static_cast<Bytes>(room_[of(t)]);
    std::vector<Bytes> sizes;
    for (std::int32_t s = 0; s < p_.storage_count; ++s) {
      const bool may_be_there = born_[of(s)] < t && useful_until_[of(s)] > t && is_touched_[cell(t, s)] == 0;
      if (!may_be_there || p_.bytes[of(s)] == 0) continue;
      room.storages.push_back(s);
      sizes.push_back(p_.bytes[of(s)]);
    }
    if (bytes < 0 || std::accumulate(sizes.begin(), sizes.end(), Bytes{0}) <= bytes) continue;
    const Bytes unit = unit_of(sizes, bytes);
    for (const Bytes size : sizes) room.units.push_back(size / unit);
    room.room = bytes / unit;
    pair_up(room);
    short_rooms_.push_back(std::move(room));
  }
}

/// Of each storage an input of its writer that no first run needs before it. No storage is in two pairs.
void Relaxation::pair_up(ShortRoom& room) const {
  const std::size_t count = room.storages.size();
  room.input.assign(count, kNoInput);
  room.until.assign(count, -1);
  const auto is_needed_by = [&](std::int32_t s, std::int32_t until) {
    for (std::int32_t t = room.stage + 1; t <= until; ++t)
      if (is_needed_[cell(t, s)] != 0) return true;
    return false;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t s = room.storages[i], v = p_.producer[of(s)];
    if (v < 0 || swaps(s) || room.input[i] != kNoInput) continue;
    std::int32_t until = room.stage + 1;
    while (until < p_.op_count && is_needed_[cell(until, s)] == 0) ++until;
    if (until == p_.op_count) continue;
    for (std::size_t j = 0; j < count && room.input[i] == kNoInput; ++j) {
      const std::int32_t r = room.storages[j];
      if (room.input[j] != kNoInput || swaps(r) || p_.producer[of(r)] < 0) continue;
      if (!std::ranges::binary_search(p_.reads[v], r) || is_needed_by(r, until)) continue;
      room.input[i] = static_cast<std::int32_t>(j);
      room.input[j] = kIsInput;
      room.until[i] = until;
    }
  }
}

/// Starts from prices per byte, or from what is priced by storage already; what cannot be there has no price.
void Relaxation::price_storages() {
  find_short_rooms();
  const bool first = best_prices_.held.empty();
  std::vector<double> held(of(p_.op_count) * storages_), pairs(held.size());
  for (const ShortRoom& room : short_rooms_)
    for (std::size_t i = 0; i < room.storages.size(); ++i) {
      const std::int32_t s = room.storages[i];
      const std::size_t at = cell(room.stage, s);
      held[at] =
          first ? best_prices_.memory[of(room.stage)] * static_cast<double>(p_.bytes[of(s)]) : best_prices_.held[at];
      if (!first && room.input[i] >= 0) pairs[at] = best_prices_.pairs[at];
    }
  best_prices_.held = std::move(held);
  best_prices_.pairs = std::move(pairs);
  std::ranges::fill(best_prices_.memory, 0);
}

/// The price of a pair is taken off each run of the input. Who starts at a later stage pays it where neither is there.
void Relaxation::sum_pairs(const Prices& prices) {
  pairs_.resize(of(p_.op_count) + 1);
  for (std::vector<Pair>& pairs : pairs_) pairs.clear();
  if (prices.held.empty()) return;
  for (const ShortRoom& room : short_rooms_)
    for (std::size_t i = 0; i < room.storages.size(); ++i) {
      if (room.input[i] < 0) continue;
      const std::int32_t s = room.storages[i], r = room.storages[of(room.input[i])];
      const double price = prices.pairs[cell(room.stage, s)];
      if (price == 0) continue;
      for (std::int32_t t = room.stage + 1; t <= room.until[i]; ++t) {
        sums_.remade[cell(t, r)] += price;
        pairs_[of(t)].push_back({.made = s, .input = r, .price = price});
        sums_.past[cell(t, s)] += price;
        sums_.past[cell(t, r)] += price;
      }
    }
}

/// The most worthy filling of every room, less what pairs of which neither is in it cost.
void Relaxation::fill_rooms(const Prices& prices) {
  if (prices.held.empty()) {
    for (std::int32_t t = 0; t < p_.op_count; ++t) stage_worth_[of(t)] = prices.memory[of(t)] * room_[of(t)];
    return;
  }
  std::ranges::fill(stage_worth_, 0);
  for (const ShortRoom& room : short_rooms_) {
    for (const std::int32_t s : room.storages) packed_[cell(room.stage, s)] = 0;
    stage_worth_[of(room.stage)] = fill_room(room, prices);
    unpack(room);
  }
}

double Relaxation::fill_room(const ShortRoom& room, const Prices& prices) {
  const std::size_t width = static_cast<std::size_t>(room.room) + 1, count = room.storages.size();
  fill_.assign(width, 0);  // the most that so many units are worth
  taken_.assign(width * count, 0);
  double none_of_any = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (room.input[i] == kIsInput) continue;
    const double worth = prices.held[cell(room.stage, room.storages[i])];
    const auto units = static_cast<std::size_t>(room.units[i]);
    std::uint8_t* taken = &taken_[width * i];
    if (room.input[i] == kNoInput) {
      for (std::size_t k = width; worth > 0 && k-- > units;) {
        const double with = fill_[k - units] + worth;
        if (with <= fill_[k]) continue;
        fill_[k] = with;
        taken[k] = kItself;
      }
      continue;
    }
    const std::size_t j = of(room.input[i]);
    const double other = prices.held[cell(room.stage, room.storages[j])];
    const double none = prices.pairs[cell(room.stage, room.storages[i])];
    if (worth <= 0 && other <= 0 && none <= 0) continue;
    none_of_any += none;
    const auto other_units = static_cast<std::size_t>(room.units[j]);
    for (std::size_t k = width; k-- > 0;) {
      double best = fill_[k];
      const auto look = [&](std::size_t more_units, double more, std::uint8_t which) {
        if (more_units > k || fill_[k - more_units] + more <= best) return;
        best = fill_[k - more_units] + more;
        taken[k] = which;
      };
      look(units, worth + none, kItself);
      look(other_units, other + none, kInput);
      look(units + other_units, worth + other + none, kItself | kInput);
      fill_[k] = best;
    }
  }
  return fill_[width - 1] - none_of_any;
}

void Relaxation::unpack(const ShortRoom& room) {
  const std::size_t width = static_cast<std::size_t>(room.room) + 1;
  std::size_t k = width - 1;
  for (std::size_t i = room.storages.size(); i-- > 0;) {
    const std::uint8_t taken = taken_[width * i + k];
    const auto pack = [&](std::size_t which) {
      packed_[cell(room.stage, room.storages[which])] = 1;
      k -= static_cast<std::size_t>(room.units[which]);
    };
    if ((taken & kItself) != 0) pack(i);
    if ((taken & kInput) != 0) pack(of(room.input[i]));
  }
}

/// What has no price goes along with the paths as far as there is room.
void Relaxation::find_room_slack(const Prices& prices, Prices& slack) {
  if (prices.held.empty()) return;
  std::ranges::fill(slack.held, 0);
  std::ranges::fill(slack.pairs, 0);
  for (const ShortRoom& room : short_rooms_) {
    std::int64_t left = room.room;
    for (std::size_t i = 0; i < room.storages.size(); ++i)
      if (packed_[cell(room.stage, room.storages[i])] != 0) left -= room.units[i];
    for (std::size_t i = 0; i < room.storages.size(); ++i) {
      const std::size_t at = cell(room.stage, room.storages[i]);
      if (prices.held[at] <= 0 && kept_[at] != 0 && packed_[at] == 0 && room.units[i] <= left) {
        packed_[at] = 1;
        left -= room.units[i];
      }
      slack.held[at] = static_cast<double>(kept_[at]) - static_cast<double>(packed_[at]);
    }
    for (std::size_t i = 0; i < room.storages.size(); ++i) {
      if (room.input[i] < 0) continue;
      const std::int32_t s = room.storages[i], r = room.storages[of(room.input[i])];
      double none = packed_[cell(room.stage, s)] == 0 && packed_[cell(room.stage, r)] == 0 ? 1 : 0;
      for (std::int32_t t = room.stage + 1; t <= room.until[i]; ++t) none -= made_[cell(t, r)];
      slack.pairs[cell(room.stage, s)] = none;
    }
  }
}

}  // namespace tidemark::decide::flat
