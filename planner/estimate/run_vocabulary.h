#pragma once
// The size of a vocabulary that no argument states: most runs name a tokenizer only.

#include "planner/estimate/argument_draft.h"
#include "planner/estimate/run_problem.h"

namespace tidemark::estimate {

/// Fills Vocabulary::padded: as given, or the vocabulary with its extra ids, rounded up for the tensor ranks. What had
/// to be looked up is noted with its source. REQUIRES: model.kind and parallel.tensor are set.
[[nodiscard]] Problem settle_vocabulary(Draft& draft, Notes& notes);

}  // namespace tidemark::estimate
