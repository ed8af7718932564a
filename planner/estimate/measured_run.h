#pragma once
// A training run somebody made and whose memory was logged: what it was started with, and what its framework's
// allocator said. All bytes are "allocated" of one rank.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/estimate/argument_table.h"

namespace tidemark::estimate {

struct MeasuredRank {
  std::optional<std::int64_t> rank;  ///< global; none: the rank the framework logs (logged_rank)
  /// Between steps; none: not logged.
  std::optional<double> steady_bytes;
  /// Over the run (Ascend: after the first step); none: not logged.
  std::optional<double> peak_bytes;
  bool is_later_step = false;  ///< `peak_bytes` is of a step that began with the optimizer's moments in place
};

struct MeasuredRun {
  std::string suite;    ///< group it is summed up with; may be empty
  std::string name;     ///< for people and to find it again: nothing else may depend on it
  std::string variant;  ///< as the file says it: hardware and software line; may be empty
  ArgumentSet arguments;
  RunHints hints;
  std::vector<MeasuredRank> ranks;         ///< at least one
  std::optional<std::int64_t> iterations;  ///< of the run; none: not stated
  std::string unusable;                    ///< why nothing can be predicted for it, or empty
};

}  // namespace tidemark::estimate
