#pragma once
// A MindFormers configuration (YAML of its static-graph trainer) as a run on Ascend.

#include <string_view>

#include "core/result.h"
#include "planner/estimate/argument_table.h"

namespace tidemark::configs {

/// The rules of MindSpeed-LLM, PyTorch's on the same hardware, stand in for MindSpore's: no run is understood in full.
/// Devices are those of parallel_config; `hints.platform.devices` must agree. Errors (bad_input): one line
/// `file:line: key: what, and what would be right`. Pure, thread-safe.
[[nodiscard]] Result<estimate::ImportedRun> read_mindformers(std::string_view text, std::string_view file_name,
                                                             const estimate::RunHints& hints);

}  // namespace tidemark::configs
