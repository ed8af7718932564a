#pragma once
// Which decoder layers each pipeline chunk holds, and which of them have experts.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/estimate/argument_draft.h"
#include "planner/estimate/run_problem.h"

namespace tidemark::estimate {

/// Stages of a layout such as `Et*2|(tt|)*5t|tmL`: `|` ends a stage, `x*n` and `(..)*n` repeat, commas and blanks say
/// nothing. Nothing: parentheses or counts are broken, or the text grows beyond a million stages and layers.
[[nodiscard]] std::optional<std::vector<std::string>> expand_layout(std::string_view text);

/// A list such as `([0]*3+[1]*11)`, `[0,1]*4` or `0 1 1`; nothing: it is none, or it is longer than `most`.
[[nodiscard]] std::optional<std::vector<std::int64_t>> expand_pattern(std::string_view text, std::size_t most);

/// Fills Experts::is_moe. REQUIRES: model.layers is set.
[[nodiscard]] Problem mark_moe_layers(Draft& draft);

/// Fills Parallel::virtual_pipeline and ::chunks. REQUIRES: model.layers and parallel sizes are set.
[[nodiscard]] Problem place_layers(Draft& draft, Notes& notes);

/// Stages of a hybrid pattern fill the pipeline evenly; fills Model::layers and Parallel::virtual_pipeline.
[[nodiscard]] Problem place_hybrid(Draft& draft);

}  // namespace tidemark::estimate
