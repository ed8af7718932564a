#include "planner/layout/order.h"

#include <algorithm>

#include "planner/layout/time_tree.h"

namespace tidemark {

void sort_keys(std::vector<SortKey>& keys) {
  std::sort(keys.begin(), keys.end());
}

Packing place_in_order(std::span<const PackItem> items, std::span<const SortKey> order, Bytes alignment) {
  Packing packing;
  packing.offsets.assign(items.size(), 0);
  TimeTree tree(items);
  for (const SortKey& key : order) {
    PackItem item = items[key.row];
    item.bytes = round_up(item.bytes, alignment);
    const Bytes offset = tree.lowest_fit(item);
    tree.place(item, offset);
    packing.offsets[key.row] = offset;
    packing.height_bytes = std::max(packing.height_bytes, offset + item.bytes);
  }
  return packing;
}

}  // namespace tidemark
