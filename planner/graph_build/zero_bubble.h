#pragma once
// Zero-bubble schedules of one chunk a rank: the order of 1F1B, with weight gradients put off so that they stand where
// 1F1B is idle. Source: Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241. Its bounds, for T_F, T_B and
// T_W of forward, dX and dW, hold where T_W <= T_F, T_W <= T_B and messages take no time:
//
//             idle between a rank's first and last pass     micro-batches held at most
//   1F1B      (p - 1) (T_F + T_B + T_W)                     p
//   ZB-H1     (p - 1) (T_F + T_B - T_W)                     p, on every rank
//   ZB-H2     (p - 1) (T_F + T_B - 2 T_W)                   2 p - 1, on every rank
//
// The step takes at least (p - 1) T_F longer than the work in any of them, since the last rank starts that late. With
// equal times ZB-H1 does, and ZB-H2 is a gain over it only where ranks start the next step before the others have ended
// this one. O(p·m). Any thread.

#include <cstdint>

#include "core/result.h"
#include "planner/graph_build/split_schedule.h"
#include "planner/graph_build/split_times.h"

namespace tidemark::graph_build {

/// Errors: counts below 1 (bad_input).
[[nodiscard]] Result<SplitSchedule> zero_bubble_h1(std::int32_t ranks, std::int32_t micro_batches);
[[nodiscard]] Result<SplitSchedule> zero_bubble_h2(std::int32_t ranks, std::int32_t micro_batches);

/// The shortest step found with at most `held_limit` micro-batches on any rank, of those the one whose longest idle
/// time is shortest: built greedily for these times (ZB-1p with a limit of p, ZB-2p with 2p), or by hand as above if
/// that is shorter. REQUIRES: times.chunks is [ranks][1]. Errors (bad_input): counts below 1; a limit below `ranks`,
/// with which no order keeps all ranks at work.
[[nodiscard]] Result<SplitSchedule> zero_bubble(std::int32_t ranks, std::int32_t micro_batches, std::int32_t held_limit,
                                                const SplitTimeTable& times);

}  // namespace tidemark::graph_build
