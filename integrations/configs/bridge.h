#pragma once
// A configuration dump of Megatron-Bridge (ConfigContainer.to_yaml) as a run of Megatron-LM.

#include <string_view>

#include "core/result.h"
#include "planner/estimate/argument_table.h"

namespace tidemark::configs {

/// `hints`: the number of devices, which no dump states, and the accelerator. Errors (bad_input): one line
/// `file:line: key: what, and what would be right`. Pure, thread-safe.
[[nodiscard]] Result<estimate::ImportedRun> read_bridge(std::string_view text, std::string_view file_name,
                                                        const estimate::RunHints& hints);

}  // namespace tidemark::configs
