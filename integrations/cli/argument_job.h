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
  TrainingJob training;
  estimate::MemoryKnobs knobs;
  std::vector<std::string> notes;  ///< one line each: what a calibration corrects, or why it does not
};

/// Errors: those of read_training_job and of the calibration file.
[[nodiscard]] Result<ArgumentJob> read_argument_job(const JobOptions& options);

/// What --device shows, and what of it is kept for context, workspaces and collective buffers.
struct DeviceRoom {
  Bytes visible_bytes = 0;
  Bytes reserve_bytes = 0;
};
/// Nothing: no device is named. Errors (bad_input): it cannot be read.
[[nodiscard]] Result<std::optional<DeviceRoom>> device_room(const JobOptions& options);

}  // namespace tidemark::cli
