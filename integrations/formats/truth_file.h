#pragma once
// Measured memory of real training runs with their arguments, as JSON: {"rows": [...]}.
//
//   a row of Megatron-LM         suite, case, variant, gpus (null: 8) or gpus_inferred, env, args, iters,
//                                mem_allocated_end_bytes, mem_peak_bytes_final
//   a row of MindSpeed-LLM       case, npus, env, args, ranks: [{rank, allocated_mib, max_allocated_mib}]
//
// `variant` names hardware and software line, `..._2nd` a run resumed from a checkpoint. Members that are not named
// here are not read. A row that lacks what a prediction needs is kept and says so (MeasuredRun::unusable); one whose
// members have another type is a mistake of the file.

#include <string_view>
#include <vector>

#include "core/result.h"
#include "planner/estimate/measured_run.h"

namespace tidemark::formats {

/// In the order of the file. Errors (bad_input): `file:line:column: what` where it is no JSON, else
/// `file: /json/pointer: what, and what would be right`.
[[nodiscard]] Result<std::vector<estimate::MeasuredRun>> read_truth(std::string_view text, std::string_view file_name);

}  // namespace tidemark::formats
