#pragma once
// What the files of a job say about its memory, line by line.

#include <string>
#include <vector>

#include "planner/budget/control.h"
#include "planner/budget/holdings.h"

namespace tidemark::ci {

/// A file and a line.
[[nodiscard]] bool is_placed(const budget::Control& control);

/// Texts of all placed controls and settings, ascending, each once; as UTF-8. What a job's own files said.
[[nodiscard]] std::vector<std::string> control_texts(const budget::Holdings& holdings);

}  // namespace tidemark::ci
