#pragma once
// What a rank holds at the peak of its schedule, by category: the figures behind `tidemark estimate`.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/graph.h"
#include "planner/planner.h"

namespace tidemark::formats {

struct RankEstimate {
  std::int32_t rank = 0;
  double load = 1;
  std::array<Bytes, kStorageRoleCount> bytes{};  ///< held at the peak op, by role
  graph_build::ReserveMemory reserve;
  Bytes unused_bytes = 0;  ///< gaps of the layout below the arena height, alignment included
  Bytes peak_bytes = 0;    ///< everything above together
  Bytes budget_bytes = 0;
  bool fits = false;
  std::string peak_op;
  std::int64_t passes_in_flight = 0;            ///< (chunk, micro-batch) pairs that hold something saved at the peak
  std::vector<plan::Contributor> contributors;  ///< largest first, static storages left out
};

[[nodiscard]] std::vector<RankEstimate> estimate_ranks(const plan::PlanRequest& request,
                                                       const plan::PlanOutcome& outcome);

}  // namespace tidemark::formats
