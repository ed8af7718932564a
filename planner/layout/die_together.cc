// The clock walked backward: long lives beside those that begin when they do (clock_walk.h). Storages of one layer and
// micro-batch come and go together, so what they leave is one gap.

#include <utility>

#include "planner/layout/clock_walk.h"
#include "planner/layout/section_walk.h"

namespace tidemark::layout {
namespace {

// Further above the load than this share of it the other direction does not come down to a height either.
constexpr Bytes kFarShare = 35;

// Where there is a height to keep to, section by section, and where that nearly succeeds in both directions.
std::vector<Bytes> walk(const Blocks& blocks, Bytes load, const PackLimits& limits) {
  if (load <= 0) return {};
  if (limits.enough_bytes < load) return walk_clock(blocks, {}, load, limits.should_stop);
  std::vector<Bytes> lowest;
  for (const bool backward : {true, false}) {
    std::vector<Bytes> addresses = walk_in_sections(blocks, backward, load, limits.enough_bytes, limits.should_stop);
    if (lowest.empty() || blocks.height(addresses) < blocks.height(lowest)) lowest = std::move(addresses);
    const Bytes height = blocks.height(lowest);
    if (height <= limits.enough_bytes || height > load + load / kFarShare) break;
  }
  if (blocks.height(lowest) <= limits.enough_bytes) return lowest;
  // Never higher than without one.
  std::vector<Bytes> plain = walk_clock(blocks, {}, load, limits.should_stop);
  return blocks.height(plain) < blocks.height(lowest) ? plain : lowest;
}

PackAnswer pack(const PackProblem& problem, const PackLimits& limits) {
  const Blocks blocks(problem);
  // With addresses given, or several parts to a block, a gap of one moment says little: the same lives, by first fit.
  if (!blocks.plain()) {
    PackAnswer answer = find_packer("long_lives_first")->pack(problem, limits);
    answer.packer = "die_together";
    return answer;
  }
  const Bytes load = packing_load(problem);
  return answer_of(load, blocks.packing(walk(blocks, load, limits)), "die_together");
}

}  // namespace

extern const Packer kDieTogether;
const Packer kDieTogether = {.name = "die_together",
                             .help = "long lives beside neighbours that come and go with them, then the rest by size",
                             .is_order = true,
                             .pack = pack};

}  // namespace tidemark::layout
