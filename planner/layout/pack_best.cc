#include <tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <cassert>

#include "planner/layout/order.h"
#include "planner/layout/packer.h"

namespace tidemark {

Bytes packing_load(std::span<const PackItem> items, Bytes alignment) {
  const auto starts = sorted_rows(items, [](const PackItem& item) { return SortKey{.first = item.begin}; });
  const auto ends = sorted_rows(items, [](const PackItem& item) { return SortKey{.first = item.end}; });
  Bytes load = 0;
  Bytes live = 0;
  auto ended = ends.begin();
  for (const SortKey& start : starts) {
    for (; ended->first <= start.first; ++ended) live -= round_up(items[ended->row].bytes, alignment);
    live += round_up(items[start.row].bytes, alignment);
    load = std::max(load, live);
  }
  return load;
}

BestPacking pack_best(std::span<const PackItem> items, Bytes alignment) {
  const std::span<const Packer> all = packers();
  assert(!all.empty());
  const Bytes load = packing_load(items, alignment);
  std::vector<Packing> results(all.size());
  // A packer need not run once one before it has reached the load: it could only tie, and ties go to the first.
  std::atomic<std::size_t> perfect{all.size()};
  tbb::parallel_for(std::size_t{0}, all.size(), [&](std::size_t p) {
    if (perfect.load() < p) return;
    results[p] = all[p].pack(items, alignment);
    if (results[p].height_bytes > load) return;
    for (std::size_t seen = perfect.load(); p < seen && !perfect.compare_exchange_weak(seen, p);) {
    }
  });
  std::size_t best = perfect.load();
  if (best == all.size()) {
    const auto lowest = std::min_element(results.begin(), results.end(), [](const Packing& a, const Packing& b) {
      return a.height_bytes < b.height_bytes;
    });
    best = static_cast<std::size_t>(lowest - results.begin());
  }
  return {std::move(results[best]), all[best].name};
}

}  // namespace tidemark
