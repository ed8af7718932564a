// First fit by decreasing size: large items see an empty arena, small ones fill what is left between them. Among equal
// sizes the earlier start goes first.

#include "planner/layout/placer.h"

namespace tidemark::layout {
namespace {

PackAnswer pack(const PackProblem& problem, const PackLimits& limits) {
  const Blocks blocks(problem);
  const auto order = sorted_rows(
      blocks.hulls(), [](const PackItem& block) { return SortKey{.first = -block.bytes, .second = block.begin}; });
  return answer_of(problem, place_in_order(blocks, order, limits), "first_fit_by_size");
}

}  // namespace

extern const Packer kFirstFitBySize;
const Packer kFirstFitBySize = {.name = "first_fit_by_size",
                                .help = "largest first, each at the lowest offset that is free all its life",
                                .is_order = true,
                                .pack = pack};

}  // namespace tidemark::layout
