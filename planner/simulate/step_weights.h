#pragma once
// By how much a step gets longer for a little more work on each rank's compute lane: what a rank adds in a pass for
// which others wait anyway is free, and on the longest path it counts in full.
//
// The step of a simulation is reduced to what holds up what. Nodes are the points of a rank's compute lane at which a
// message goes out or is waited for; work that is added between two of them delays all that follows on the lane, and a
// message delays its receiver where it comes later than the lane is ready for it. Communication of the rank itself
// moves along with its lane. Of the delays of all nodes the end of the step takes the largest; a little less than that
// counts as well, the less the softer, so that near ties share the weight and no single path takes all of it.

#include <cstdint>
#include <span>
#include <vector>

#include "planner/simulate/simulator.h"

namespace tidemark::simulate {

/// Per rank and compute task in order: in [0, 1], how much longer the step is for each ns that the task takes longer.
/// At any one time the ranks' weights sum up to 1 at most.
using StepWeights = std::vector<std::vector<float>>;

/// REQUIRES: `timing` is simulate_step(works); softness_ns > 0: paths shorter than the longest by that have a part of
/// 1/e of its weight. O(tasks + waits + messages log messages). Any thread.
[[nodiscard]] StepWeights step_weights(std::span<const RankWork> works, const StepTiming& timing, double softness_ns);

}  // namespace tidemark::simulate
