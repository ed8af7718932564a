#pragma once
// What the worst routing there is would make of a planned step: every layer and micro-batch at the highest loads, every
// section in chunks. Modelled; `run --load` plays it.

#include <cstdint>
#include <optional>
#include <string>

#include "core/machine.h"
#include "core/result.h"
#include "planner/graph_build/load_shape.h"
#include "planner/planner.h"

namespace tidemark::run {

struct WorstStep {
  double load_f = 1;            ///< rows on the fullest device over the mean
  std::int64_t chunked_ns = 0;  ///< the step, every section in chunks
  std::int64_t whole_ns = 0;    ///< the same, did all rows find room
};

/// Nothing: a rank does not promise any load, or no rank routes. Errors (internal): the programs deadlock. REQUIRES:
/// the plan's estimates are charged (charge_copies), and the shape is of its job.
[[nodiscard]] Result<std::optional<WorstStep>> worst_step(const plan::PlanOutcome& plan, const Machine& machine,
                                                          const graph_build::LoadShape& shape);

[[nodiscard]] std::string worst_step_text(const WorstStep& worst);
/// `json`, an object, with a member `worst_step`.
[[nodiscard]] std::string with_worst_step(const std::string& json, const WorstStep& worst);

}  // namespace tidemark::run
