// The clock walked backward: long lives beside those that begin when they do (clock_walk.h). Storages of one layer and
// micro-batch come and go together, so what they leave is one gap.

#include "planner/layout/clock_walk.h"

namespace tidemark::layout {
namespace {

PackAnswer pack(const PackProblem& problem, const PackLimits& limits) {
  const Blocks blocks(problem);
  // With addresses given, or several parts to a block, a gap of one moment says little: the same lives, by first fit.
  if (!blocks.plain()) {
    PackAnswer answer = find_packer("long_lives_first")->pack(problem, limits);
    answer.packer = "die_together";
    return answer;
  }
  const Bytes load = packing_load(problem);
  std::vector<Bytes> addresses;
  if (load > 0) addresses = walk_clock(blocks, {}, load, limits.should_stop);
  return answer_of(load, blocks.packing(addresses), "die_together");
}

}  // namespace

extern const Packer kDieTogether;
const Packer kDieTogether = {.name = "die_together",
                             .help = "long lives beside neighbours that come and go with them, then the rest by size",
                             .is_order = true,
                             .pack = pack};

}  // namespace tidemark::layout
