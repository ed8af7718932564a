#pragma once
// What is wrong with a run, and the argument to blame: import_run adds the place it was given at.

#include <optional>
#include <string>
#include <vector>

namespace tidemark::estimate {

struct RunProblem {
  std::string argument;     ///< without dashes; empty: none in particular
  std::string message;      ///< what, and what would be right
  bool is_missing = false;  ///< the argument is not there, perhaps for a misspelt name
};

using Problem = std::optional<RunProblem>;
using Notes = std::vector<std::string>;

}  // namespace tidemark::estimate
