#pragma once
// Why a row of measured step times has no run that is priced. Beside row_run.h, which is the one to use.

#include <string>

#include "planner/step_time/row_words.h"

namespace tidemark::step_time {

/// The first reason; empty: none. `software`: nullptr where the source is not known. REQUIRES: as run_of.
[[nodiscard]] std::string refusal_of(const RowWords& row, const Software* software);

}  // namespace tidemark::step_time
