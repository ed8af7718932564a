#pragma once
// What the report's memory picture is drawn from, as JSON: per rank a few hundred moments of the modelled step with
// bytes by category, the op that runs, and the largest holders.

#include <cstdint>
#include <string>

#include "planner/planner.h"

namespace tidemark::formats {

struct ReportDataOptions {
  std::int32_t points = 600;  ///< per rank, maxima kept
  std::size_t holders = 7;    ///< named at each moment
};

/// One JSON object; sizes in MiB, times in ms. Deterministic.
[[nodiscard]] std::string report_data(const plan::PlanOutcome& outcome, const ReportDataOptions& options = {});

}  // namespace tidemark::formats
