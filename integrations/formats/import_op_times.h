#pragma once
// Compute time of a step from the CSV files of the torch_npu profiler.
//
//   kernel_details.csv    one kernel a row: `Duration(us)`, and if they are there `Step Id` and `Accelerator Core`
//                         (rows of communication tasks are left out)
//   step_trace_time.csv   one step (and device) a row: `Computing`, in us

#include <cstdint>
#include <string_view>

#include "core/result.h"

namespace tidemark::formats {

struct ComputeTime {
  double step_ns = 0;      ///< compute time of one step, on average over the steps
  std::int64_t steps = 0;  ///< recorded; 1 where the file does not tell
  std::int64_t rows = 0;   ///< used
};

/// Sum of the durations of all kernels but communication, by step. Errors (bad_input): `file:line: what`.
[[nodiscard]] Result<ComputeTime> read_kernel_details(std::string_view text, std::string_view file_name);

/// Mean of `Computing`: kernels that overlap count once. Errors (bad_input): `file:line: what`.
[[nodiscard]] Result<ComputeTime> read_step_trace_time(std::string_view text, std::string_view file_name);

}  // namespace tidemark::formats
