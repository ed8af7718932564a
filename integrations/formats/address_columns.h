#pragma once
// Every residency of a rank's device memory as a rectangle of time x address, as columns for the report's address view.
//
//   arenas   per device arena `base`, `height`, `capacity` (bytes): they stand on one another in the picture
//   peak     {"clock", "bytes"}: the position of the compute clock with most bytes held
//   count    rows; ascending first position:
//            `from` (delta) and `span`: positions of the compute clock, ends of the step included
//            (planner/held_span.h), `bytes`, `at` (delta; address in the picture), `what` (storage template), `site`
//            (delta)
//
// Times of positions are those of the compute lane in lane_columns.h. Every column is packed_column.h text.

#include <nlohmann/json_fwd.hpp>

#include "planner/planner.h"

namespace tidemark::formats {

/// Deterministic; O(residencies log residencies). `null` where the plan has no addresses.
[[nodiscard]] nlohmann::ordered_json address_columns(const plan::RankPlan& rank);

}  // namespace tidemark::formats
