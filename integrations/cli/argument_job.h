#pragma once
// What estimate and check make of --megatron-args: the run, and the knobs that --calibration corrects.

#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "integrations/cli/job_request.h"
#include "planner/estimate/argument_table.h"
#include "planner/estimate/calibration.h"
#include "planner/estimate/rank_memory.h"

namespace tidemark::cli {

struct ArgumentJob {
  estimate::ImportedRun imported;
  estimate::MemoryKnobs knobs;
  std::vector<std::string> notes;  ///< one line each: what a calibration corrects, or why it does not
};

/// Errors: those of read_training_run and of the calibration file.
[[nodiscard]] Result<ArgumentJob> read_argument_job(const JobOptions& options);

/// Memory a framework's allocator may fill: --budget, or what --device shows less what it keeps for context,
/// workspaces and collective buffers. Errors (bad_input): neither is given, the device cannot be read.
[[nodiscard]] Result<Bytes> allocator_budget(const JobOptions& options);

}  // namespace tidemark::cli
