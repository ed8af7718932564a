#include "planner/budget/growth.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace tidemark::budget {
namespace {

using StorageTable = std::map<std::string, StorageGrowth>;

void add_before(StorageTable& table, const HeldStorage& storage) {
  StorageGrowth& growth = table[storage.name];
  growth.category = storage.category;
  growth.count_before += storage.count;
  growth.before_bytes += storage.bytes;
  growth.controls = storage.controls;
}

void add_after(StorageTable& table, const HeldStorage& storage) {
  StorageGrowth& growth = table[storage.name];
  growth.category = storage.category;
  growth.count_after += storage.count;
  growth.after_bytes += storage.bytes;
  growth.controls = storage.controls;
}

StorageGrowth::Kind kind_of(const StorageGrowth& growth) {
  if (growth.count_before == 0) return StorageGrowth::Kind::added;
  if (growth.count_after == 0) return StorageGrowth::Kind::removed;
  return growth.delta_bytes() >= 0 ? StorageGrowth::Kind::grown : StorageGrowth::Kind::shrunk;
}

std::vector<StorageGrowth> changes_of(const StorageTable& table) {
  std::vector<StorageGrowth> changes;
  for (const auto& [name, growth] : table) {
    if (growth.delta_bytes() == 0 && (growth.count_before == 0) == (growth.count_after == 0)) continue;
    changes.push_back(growth);
    changes.back().name = name;
    changes.back().kind = kind_of(growth);
  }
  std::ranges::stable_sort(changes, std::ranges::greater{}, [](const StorageGrowth& growth) {
    return growth.delta_bytes() < 0 ? -growth.delta_bytes() : growth.delta_bytes();
  });
  return changes;
}

/// A rank on both sides; nullptr: it is not there on that side.
struct RankPair {
  const RankHoldings* before = nullptr;
  const RankHoldings* after = nullptr;
  [[nodiscard]] std::int64_t rank() const { return after != nullptr ? after->rank : before->rank; }
};

std::vector<RankPair> paired_by_number(const Holdings& before, const Holdings& after) {
  std::map<std::int64_t, RankPair> pairs;
  for (const RankHoldings& rank : before.ranks) pairs[rank.rank].before = &rank;
  for (const RankHoldings& rank : after.ranks) pairs[rank.rank].after = &rank;
  std::vector<RankPair> list;
  for (const auto& [number, pair] : pairs) list.push_back(pair);
  return list;
}

std::vector<RankPair> paired_by_place(const Holdings& before, const Holdings& after) {
  std::map<std::string_view, RankPair> pairs;
  for (const RankHoldings& rank : before.ranks) pairs[rank.place].before = &rank;
  for (const RankHoldings& rank : after.ranks) pairs[rank.place].after = &rank;
  std::vector<RankPair> list;
  for (const auto& [place, pair] : pairs) list.push_back(pair);
  std::ranges::sort(list, {}, [](const RankPair& pair) { return std::pair(pair.rank(), pair.after == nullptr); });
  return list;
}

std::vector<RankPair> paired_in_order(const Holdings& before, const Holdings& after) {
  std::vector<RankPair> list;
  for (std::size_t row = 0; row < after.ranks.size(); ++row)
    list.push_back({.before = &before.ranks[row], .after = &after.ranks[row]});
  return list;
}

/// Every row has a place, and no two the same.
bool has_places(const Holdings& holdings) {
  std::set<std::string_view> places;
  for (const RankHoldings& rank : holdings.ranks) places.insert(rank.place);
  return places.size() == holdings.ranks.size() && !places.contains("");
}

std::vector<RankPair> pairs_of(const Holdings& before, const Holdings& after) {
  // A row of an estimate stands for a stage, by a rank whose number is another where the job has more devices.
  const bool is_by_stage = before.basis == Basis::estimated && after.basis == Basis::estimated;
  if (is_by_stage && has_places(before) && has_places(after)) return paired_by_place(before, after);
  if (is_by_stage && before.ranks.size() == after.ranks.size()) return paired_in_order(before, after);
  return paired_by_number(before, after);
}

RankGrowth growth_of_pair(const RankPair& pair, StorageTable& total) {
  const auto& [before, after] = pair;
  RankGrowth growth;
  growth.rank = pair.rank();
  StorageTable table;
  if (before != nullptr) {
    growth.before_bytes = before->peak_bytes;
    growth.host_before_bytes = before->host_bytes;
    growth.category_before = before->by_category;
    for (const HeldStorage& storage : before->storages) add_before(table, storage), add_before(total, storage);
  }
  if (after != nullptr) {
    growth.after_bytes = after->peak_bytes;
    growth.host_after_bytes = after->host_bytes;
    growth.category_after = after->by_category;
    for (const HeldStorage& storage : after->storages) add_after(table, storage), add_after(total, storage);
  }
  growth.storages = changes_of(table);
  return growth;
}

}  // namespace

std::string_view word_of(StorageGrowth::Kind kind) {
  constexpr std::array<std::string_view, 4> words = {"added", "removed", "grown", "shrunk"};
  return words[static_cast<std::size_t>(kind)];
}

Growth growth_of(const Holdings& before, const Holdings& after) {
  Growth growth;
  StorageTable total;
  for (const RankPair& pair : pairs_of(before, after)) {
    RankGrowth row = growth_of_pair(pair, total);
    growth.before_bytes += row.before_bytes.value_or(0);
    growth.after_bytes += row.after_bytes.value_or(0);
    growth.highest_before_bytes = std::max(growth.highest_before_bytes, row.before_bytes.value_or(0));
    growth.highest_after_bytes = std::max(growth.highest_after_bytes, row.after_bytes.value_or(0));
    growth.ranks.push_back(std::move(row));
  }
  growth.storages = changes_of(total);
  return growth;
}

double percent_above(Bytes before, Bytes after) {
  if (before == after) return 0;
  if (before == 0) return std::numeric_limits<double>::infinity();
  return 100 * static_cast<double>(after - before) / static_cast<double>(before);
}

}  // namespace tidemark::budget
