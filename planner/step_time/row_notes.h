#pragma once
// What a row says, or leaves out, that changes time and is not priced. Beside row_run.h, which is the one to use.

#include <string>
#include <vector>

#include "planner/step_time/row_words.h"

namespace tidemark::step_time {

/// A line each, in a fixed order. `run`: as run_of made it of `row`.
[[nodiscard]] std::vector<std::string> notes_of(const RowWords& row, const TimedRun& run, const Software& software);

}  // namespace tidemark::step_time
