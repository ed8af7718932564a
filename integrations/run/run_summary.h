#pragma once
// What a run did, for people and for programs. Every time says whether it is simulated, measured or modelled.

#include <string>

#include "integrations/run/run_plan.h"

namespace tidemark::run {

[[nodiscard]] std::string run_text(const RunOutcome& run);
/// One JSON object, documented in docs/cli.md; ends with a newline.
[[nodiscard]] std::string run_json(const RunOutcome& run);

}  // namespace tidemark::run
