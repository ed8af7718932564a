// First fit in start order: walks the clock as an allocator would, gives back what has ended and takes the lowest gap
// that fits. Fast, and close to the load where lives nest as in a pipeline.

#include "planner/layout/placer.h"

namespace tidemark::layout {
namespace {

PackAnswer pack(const PackProblem& problem, const PackLimits& limits) {
  const Blocks blocks(problem);
  if (blocks.plain())
    return answer_of(problem, blocks.packing(first_fit_by_birth(blocks.hulls())), "first_fit_start_order");
  return answer_of(problem, place_in_order(blocks, rows_by_birth(blocks.hulls()), limits), "first_fit_start_order");
}

}  // namespace

extern const Packer kFirstFitStartOrder;
const Packer kFirstFitStartOrder = {.name = "first_fit_start_order",
                                    .help = "in order of birth, each at the lowest gap of that moment",
                                    .is_order = true,
                                    .pack = pack};

}  // namespace tidemark::layout
