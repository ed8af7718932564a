#include "planner/layout/order.h"

#include <array>

namespace tidemark::layout {

namespace {

// One stable pass for every byte of `key` that is not the same everywhere, lowest first.
template <class Key>
void radix_sort(std::vector<SortKey>& rows, std::vector<SortKey>& scratch, Key key) {
  std::uint64_t differ = 0;
  for (const SortKey& row : rows) differ |= key(row) ^ key(rows.front());
  for (int shift = 0; shift < 64; shift += 8) {
    if ((differ >> shift & 0xFF) == 0) continue;
    std::array<std::uint32_t, 257> first{};
    for (const SortKey& row : rows) ++first[(key(row) >> shift & 0xFF) + 1];
    for (std::size_t b = 1; b < first.size(); ++b) first[b] += first[b - 1];
    for (const SortKey& row : rows) scratch[first[key(row) >> shift & 0xFF]++] = row;
    rows.swap(scratch);
  }
}

// Signed order as unsigned order.
std::uint64_t unsigned_key(std::int64_t value) {
  return static_cast<std::uint64_t>(value) ^ (std::uint64_t{1} << 63);
}

}  // namespace

std::vector<SortKey> rows_by_birth(std::span<const PackItem> items) {
  return sorted_rows(
      items, [](const PackItem& item) { return SortKey{.first = item.begin, .second = -std::int64_t{item.end}}; });
}

double mean_life(std::span<const PackItem> items) {
  double sum = 0;
  for (const PackItem& item : items) sum += static_cast<double>(item.life());
  return items.empty() ? 0 : sum / static_cast<double>(items.size());
}

void sort_keys(std::vector<SortKey>& keys) {
  std::vector<SortKey> scratch(keys.size());
  radix_sort(keys, scratch, [](const SortKey& row) { return unsigned_key(row.second); });
  radix_sort(keys, scratch, [](const SortKey& row) { return unsigned_key(row.first); });
}

}  // namespace tidemark::layout
