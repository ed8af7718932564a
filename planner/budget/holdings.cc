#include "planner/budget/holdings.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

namespace tidemark::budget {
namespace {

void join(HeldStorage& into, const HeldStorage& from) {
  into.count += from.count;
  into.bytes += from.bytes;
  if (into.layers.empty()) into.layers = from.layers;
  for (const Control& control : from.controls)
    if (std::ranges::find(into.controls, control) == into.controls.end()) into.controls.push_back(control);
}

/// As they stand in RankHoldings: largest first, ties by name.
void sort_storages(std::vector<HeldStorage>& storages) {
  std::ranges::sort(storages, [](const HeldStorage& a, const HeldStorage& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
  });
}

void take_reserve(RankHoldings& rank, Bytes most_bytes) {
  Bytes& reserve = rank.by_category[static_cast<std::size_t>(Category::reserve)];
  const Bytes taken = std::min(reserve, most_bytes);
  if (taken <= 0) return;
  reserve -= taken;
  rank.reserve_left_out_bytes += taken;
  rank.peak_bytes -= taken;
  for (std::optional<Bytes>& phase : rank.by_phase)
    if (phase) *phase -= taken;
  Bytes left = taken;
  for (HeldStorage& storage : rank.storages) {
    if (storage.category != Category::reserve) continue;
    const Bytes part = std::clamp<Bytes>(storage.bytes, 0, left);
    storage.bytes -= part;
    left -= part;
  }
  std::erase_if(rank.storages, [](const HeldStorage& s) { return s.category == Category::reserve && s.bytes == 0; });
  sort_storages(rank.storages);
}

}  // namespace

std::string_view word_of(Basis basis) {
  return kBasisWords[static_cast<std::size_t>(basis)];
}
std::string_view word_of(Phase phase) {
  return kPhaseWords[static_cast<std::size_t>(phase)];
}
std::string_view word_of(Category category) {
  return kCategoryWords[static_cast<std::size_t>(category)];
}

std::optional<std::size_t> row_for(const Holdings& holdings, std::int64_t rank) {
  const auto stages = static_cast<std::int64_t>(holdings.ranks.size());
  const auto is_same = [&](const RankHoldings& row) {
    if (holdings.stage_stride == 0) return row.rank == rank;
    return rank / holdings.stage_stride % stages == row.rank / holdings.stage_stride % stages;
  };
  if (rank < 0 || (holdings.rank_count > 0 && rank >= holdings.rank_count)) return std::nullopt;
  const auto found = std::ranges::find_if(holdings.ranks, is_same);
  if (found == holdings.ranks.end()) return std::nullopt;
  return static_cast<std::size_t>(found - holdings.ranks.begin());
}

std::optional<std::size_t> find_row(const Holdings& holdings, std::int64_t rank) {
  const auto found = std::ranges::lower_bound(holdings.ranks, rank, {}, &RankHoldings::rank);
  if (found == holdings.ranks.end() || found->rank != rank) return std::nullopt;
  return static_cast<std::size_t>(found - holdings.ranks.begin());
}

Bytes band_bytes(const Holdings& holdings, Bytes peak_bytes) {
  return static_cast<Bytes>(std::ceil(static_cast<double>(peak_bytes) * holdings.band_percent / 100));
}

std::size_t highest_rank(const Holdings& holdings) {
  assert(!holdings.ranks.empty());
  const auto highest = std::ranges::max_element(holdings.ranks, {}, &RankHoldings::peak_bytes);
  return static_cast<std::size_t>(highest - holdings.ranks.begin());
}

std::optional<Bytes> most_of(const RankHoldings& rank, Category category) {
  const auto index = static_cast<std::size_t>(category);
  if (rank.is_untold[index]) return std::nullopt;
  const bool is_apart = category == Category::reserve || category == Category::cached || category == Category::other;
  return rank.by_category[index] + (is_apart ? 0 : rank.by_category[static_cast<std::size_t>(Category::other)]);
}

void settle(RankHoldings& rank, Category rest) {
  std::map<std::string, HeldStorage> by_name;
  for (HeldStorage& storage : rank.storages) {
    const auto [place, is_new] = by_name.try_emplace(storage.name, storage);
    if (!is_new) join(place->second, storage);
  }
  rank.storages.clear();
  Bytes told = 0;
  for (auto& [name, storage] : by_name) {
    rank.by_category[static_cast<std::size_t>(storage.category)] += storage.bytes;
    told += storage.bytes;
    rank.storages.push_back(std::move(storage));
  }
  rank.by_category[static_cast<std::size_t>(rest)] += rank.peak_bytes - told;
  sort_storages(rank.storages);
}

Holdings without_reserve(Holdings holdings, Bytes most_bytes) {
  for (RankHoldings& rank : holdings.ranks) take_reserve(rank, most_bytes);
  return holdings;
}

}  // namespace tidemark::budget
