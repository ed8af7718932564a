#pragma once
// When which units of an arena stand empty by the plan: between one residency and the next, and behind the last.
//
//   unit        A gap is [release of the last before, acquire of the next) on the compute clock; who has part of a
//    2 |aaaa|.........|bbbbbb|...        unit has it.
//    1 |aaaa|....|cccc|..........
//        0            compute clock
//
// Pure. Cost: O((r + g) log r) for r residencies and g gaps.

#include <cstdint>
#include <vector>

#include "core/bytes.h"
#include "core/dynamic_region.h"
#include "core/program.h"

namespace tidemark::swap {

struct PlanGap {
  GranuleRange units;
  std::int32_t from = 0;
  std::int32_t until = 0;  ///< GranulePool::kToTheEnd: no residency follows
  friend bool operator==(const PlanGap&, const PlanGap&) = default;
};

/// Below the arena's height, ascending `from`. Units: unit n is [n * unit, (n + 1) * unit) from the arena's base.
[[nodiscard]] std::vector<PlanGap> plan_gaps(const Program& program, ArenaId arena, Bytes unit);

}  // namespace tidemark::swap
