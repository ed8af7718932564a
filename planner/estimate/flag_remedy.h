#pragma once
// The cheapest flags with which a framework's run keeps its limits, each set of flags evaluated anew the whole way: the
// arguments a script would have, what the framework makes of them or refuses, and the estimate.

#include <vector>

#include "core/chip.h"
#include "core/result.h"
#include "planner/budget/limit.h"
#include "planner/budget/remedy.h"
#include "planner/estimate/argument_table.h"
#include "planner/estimate/rank_memory.h"
#include "planner/estimate/term_controls.h"

namespace tidemark::estimate {

struct RemedyRequest {
  const ArgumentSet& set;  ///< as import_run took it
  const RunHints& hints;
  MemoryKnobs knobs;                  ///< not yet cautious
  std::vector<budget::Limit> limits;  ///< those of host memory are left out: nothing here says what flags do to it
  const ArgumentPlaces& places;
  const Chip& chip;  ///< prices steps
};

/// Every candidate (flag_candidates.h) alone; pairs of sizes that share out everything; then the sets of two and three
/// that a forecast from these (flag_forecast.h) expects to keep every limit with the error band, cheapest first, until
/// what is left is expected to cost more than what was found; then, where none does, what saves most for its cost, one
/// after the other and less whatever is not needed, and the least that can be reached. Where nothing keeps the limits
/// with the band, the cheapest set that keeps them without it, and the reason says so. Cost: run_seconds.h, modelled; a
/// shorter step costs nothing, then fewer candidates, then fewer flags, then the shorter step. An argument that is not
/// understood, which forbids any PASS, does not stop the search; the reason says it.
///
/// How good: the cost of the cheapest of all sets of at most three candidates, and at most the least peak of any, in
/// every case of flag_remedy_test.cc, which looks at all of them; the forecast may be wrong elsewhere, so it is no
/// proof. How long: at most some 450 estimates.
///
/// Deterministic, pure, thread-safe. Errors (bad_input): the run itself is refused.
[[nodiscard]] Result<budget::Remedy> cheapest_flags(const RemedyRequest& request);

}  // namespace tidemark::estimate
