#pragma once
// The cheapest change that clears a budget, or what is known where none does.

#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "planner/budget/control.h"

namespace tidemark::budget {

/// One thing to change.
struct Edit {
  std::string text;       ///< in the words of the job's own file: `recompute moe.permute on pp0-3`, `--recompute-...`
  Bytes saved_bytes = 0;  ///< of the rank that saves most by it; 0: not told apart from the other edits
  std::vector<std::string> flags;  ///< of a launch script: what to add or change, a flag with its values each
  Control where;
};

struct Remedy {
  /// True: with these edits every limit is kept, evaluated anew. False: no change that was looked at does it.
  bool clears = false;
  std::vector<Edit> edits;  ///< cheapest set found; empty where none clears
  Bytes peak_bytes = 0;     ///< of the highest rank with the edits, or the least that was reached
  /// What the edits add to the step, percent of it, modelled; nothing: not modelled for this kind of job.
  std::optional<double> step_percent;
  bool is_proven = false;  ///< of clears == false: no plan of the job as it is keeps the limits
  bool is_sought = true;   ///< false: no change was looked for; the reason says why
  std::string reason;      ///< one line: why none clears, what was looked at, how the cost is known
};

}  // namespace tidemark::budget
