// First fit in start order: walks the clock as an allocator would, gives back what has ended and takes the lowest gap
// that fits. Fast, and close to the load where lives nest as in a pipeline.

#include "planner/layout/free_list.h"
#include "planner/layout/order.h"

namespace tidemark {
namespace {

Packing pack(std::span<const PackItem> items, Bytes alignment) {
  const auto starts = sorted_rows(
      items, [](const PackItem& item) { return SortKey{.first = item.begin, .second = -std::int64_t{item.end}}; });
  const auto ends = sorted_rows(items, [](const PackItem& item) { return SortKey{.first = item.end}; });
  Packing packing;
  packing.offsets.assign(items.size(), 0);
  FreeList free;
  auto ended = ends.begin();
  for (const SortKey& start : starts) {
    for (; ended->first <= start.first; ++ended) {
      free.give_back(packing.offsets[ended->row], round_up(items[ended->row].bytes, alignment));
    }
    packing.offsets[start.row] = free.take_lowest(round_up(items[start.row].bytes, alignment));
  }
  packing.height_bytes = free.height_bytes();
  return packing;
}

}  // namespace

extern const Packer kFirstFitStartOrder;
const Packer kFirstFitStartOrder = {
    .name = "first_fit_start_order", .help = "in order of birth, each at the lowest gap of that moment", .pack = pack};

}  // namespace tidemark
