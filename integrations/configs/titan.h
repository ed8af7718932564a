#pragma once
// A torchtitan configuration (train_configs/*.toml) as a run of Framework::torchtitan.

#include <string_view>

#include "core/result.h"
#include "planner/estimate/argument_table.h"

namespace tidemark::configs {

/// `hints.platform.devices`: the number of devices, needed where data_parallel_shard_degree is -1; otherwise it must
/// agree. A run that is read is never understood in full: how far the estimate lies from published figures is in
/// docs/ACCURACY.md. Errors (bad_input): one line `file:line: key: what, and what would be right`. Pure, thread-safe.
[[nodiscard]] Result<estimate::ImportedRun> read_titan(std::string_view text, std::string_view file_name,
                                                       const estimate::RunHints& hints);

}  // namespace tidemark::configs
