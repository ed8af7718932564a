#pragma once
// What the report's pictures are drawn from, as JSON: per rank a few hundred moments of the modelled step with bytes by
// category, the op that runs, and the largest holders; what each lane does when (lane_columns.h); every residency's
// address (address_columns.h).

#include <cstdint>
#include <string>

#include "planner/planner.h"

namespace tidemark::formats {

struct ReportDataOptions {
  std::int32_t points = 600;  ///< per rank, maxima kept
  std::size_t holders = 7;    ///< named at each moment
};

/// One JSON object; sizes in MiB, times in ms, but for the columns of the views: bytes and ns. Of a rank:
///   t        ms of its moments, ascending; b: per category the MiB at each, one number where it never changes
///   m        columns of what runs at each: `op` (row of `ops`), `chunk`, `layer`, `batch`, `again` (1: recomputed);
///            null where nothing computes
///   h        columns of the largest holders: `named`, how many each moment has; then, one moment after another,
///            `holder` (row of `holders`), `count` in flight and `mib` together
/// Columns are plain ones of packed_column.h. Deterministic.
[[nodiscard]] std::string report_data(const plan::PlanOutcome& outcome, const ReportDataOptions& options = {});

}  // namespace tidemark::formats
