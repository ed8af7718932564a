#include <algorithm>
#include <atomic>
#include <cassert>

#include "planner/layout/order.h"
#include "planner/layout/packer.h"
#include "planner/parallel.h"

namespace tidemark {
namespace {

// Shares of the load above it.
constexpr Bytes kPerfect = 1024;
constexpr Bytes kGoodWhereItFits = 64;

}  // namespace

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

BestPacking pack_best(std::span<const PackItem> items, Bytes alignment, Bytes room_bytes) {
  const std::span<const Packer> all = packers();
  assert(!all.empty());
  const Bytes load = packing_load(items, alignment);
  const Bytes close_enough = std::max(load + load / kPerfect, std::min(room_bytes, load + load / kGoodWhereItFits));
  std::vector<Packing> results(all.size());
  // The first packer that comes close wins, so whatever stands behind it in the table need not run. The first one runs
  // alone: where it comes close, as it mostly does, nobody else's time is spent.
  std::atomic<std::size_t> winner{all.size()};
  const auto run = [&](std::size_t p) {
    if (winner.load() < p) return;
    results[p] = all[p].pack(items, alignment);
    if (results[p].height_bytes > close_enough) return;
    for (std::size_t seen = winner.load(); p < seen && !winner.compare_exchange_weak(seen, p);) {
    }
  };
  run(0);
  parallel_for_each(1, all.size(), run);
  std::size_t best = winner.load();
  if (best == all.size()) {
    const auto lowest = std::min_element(results.begin(), results.end(), [](const Packing& a, const Packing& b) {
      return a.height_bytes < b.height_bytes;
    });
    best = static_cast<std::size_t>(lowest - results.begin());
  }
  return {std::move(results[best]), all[best].name, load};
}

}  // namespace tidemark
