// First fit in start order: walks the clock as an allocator would, gives back what has ended and takes the lowest gap
// that fits. Fast, and close to the load where lives nest as in a pipeline.

#include "planner/layout/free_list.h"
#include "planner/layout/placer.h"

namespace tidemark {
namespace {

std::vector<Bytes> walk_clock(std::span<const PackItem> items, std::span<const SortKey> starts) {
  const auto ends = sorted_rows(items, [](const PackItem& item) { return SortKey{.first = item.end}; });
  std::vector<Bytes> addresses(items.size(), 0);
  FreeList free;
  auto ended = ends.begin();
  for (const SortKey& start : starts) {
    for (; ended->first <= start.first; ++ended) free.give_back(addresses[ended->row], items[ended->row].bytes);
    addresses[start.row] = free.take_lowest(items[start.row].bytes);
  }
  return addresses;
}

PackAnswer pack(const PackProblem& problem, const PackLimits& /*limits*/) {
  const Blocks blocks(problem);
  const auto starts = sorted_rows(blocks.hulls(), [](const PackItem& block) {
    return SortKey{.first = block.begin, .second = -std::int64_t{block.end}};
  });
  Packing packing =
      blocks.plain() ? blocks.packing(walk_clock(blocks.hulls(), starts)) : place_in_order(blocks, starts);
  return answer_of(problem, std::move(packing), "first_fit_start_order");
}

}  // namespace

extern const Packer kFirstFitStartOrder;
const Packer kFirstFitStartOrder = {.name = "first_fit_start_order",
                                    .help = "in order of birth, each at the lowest gap of that moment",
                                    .is_order = true,
                                    .pack = pack};

}  // namespace tidemark
