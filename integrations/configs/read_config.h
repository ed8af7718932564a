#pragma once
// Any of the training frameworks' configuration files as the one thing that an estimate takes.

#include <string_view>

#include "core/result.h"
#include "integrations/configs/config_kind.h"
#include "planner/estimate/argument_table.h"

namespace tidemark::configs {

/// `kind`: what the text is (kind_of tells). Every key is judged: used, without effect on memory, or not understood,
/// with `place` (file:line) and `key` (model.num_layers) of each. Errors (bad_input): one line `file:line: what, and
/// what would be right`; a kind of ConfigKind::other. Pure, thread-safe.
[[nodiscard]] Result<estimate::ImportedRun> read_config(std::string_view text, std::string_view file_name,
                                                        ConfigKind kind, const estimate::RunHints& hints);

/// Of the kind that kind_of finds.
[[nodiscard]] Result<estimate::ImportedRun> read_config(std::string_view text, std::string_view file_name,
                                                        const estimate::RunHints& hints);

}  // namespace tidemark::configs
