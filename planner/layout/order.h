#pragma once
// Orders of items: what packers share.

#include <cstdint>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "planner/layout/pack_problem.h"

namespace tidemark::layout {

/// A row of items and what it is sorted by: ascending `first`, then `second`, then row.
struct SortKey {
  std::int64_t first = 0;
  std::int64_t second = 0;
  std::uint32_t row = 0;
};

/// Rows with bytes and a life, ascending by `key(item, row)`. The other rows take part in no packing: they stand at 0.
template <class Key>
[[nodiscard]] std::vector<SortKey> sorted_rows(std::span<const PackItem> items, Key key);

/// By birth, the longest life first.
[[nodiscard]] std::vector<SortKey> rows_by_birth(std::span<const PackItem> items);

/// 0 where there are none.
[[nodiscard]] double mean_life(std::span<const PackItem> items);

/// Radix sort: O(n) for each byte in which the keys differ. REQUIRES: ascending rows.
void sort_keys(std::vector<SortKey>& keys);

template <class Key>
std::vector<SortKey> sorted_rows(std::span<const PackItem> items, Key key) {
  std::vector<SortKey> keys(items.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].takes_part()) continue;
    keys[count] = key(items[i]);
    keys[count++].row = static_cast<std::uint32_t>(i);
  }
  keys.resize(count);
  sort_keys(keys);
  return keys;
}

}  // namespace tidemark::layout
