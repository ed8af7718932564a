// First fit by decreasing size: large items see an empty arena, small ones fill what is left between them. Among equal
// sizes the longer life goes first, then the earlier start.

#include "planner/layout/order.h"

namespace tidemark {
namespace {

Packing pack(std::span<const PackItem> items, Bytes alignment) {
  const auto order = sorted_rows(items, [alignment](const PackItem& item) {
    return SortKey{.first = -round_up(item.bytes, alignment), .second = item.begin};
  });
  return place_in_order(items, order, alignment);
}

}  // namespace

extern const Packer kFirstFitBySize;
const Packer kFirstFitBySize = {.name = "first_fit_by_size",
                                .help = "largest first, each at the lowest offset that is free all its life",
                                .pack = pack};

}  // namespace tidemark
