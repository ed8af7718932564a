#pragma once
// SARIF 2.1.0: a result for what does not PASS, at the line that controls it, and a note for each notice.
// Private to ci.

#include <string>

#include "integrations/ci/report.h"

namespace tidemark::ci {

[[nodiscard]] std::string sarif_report(const Report& report);

}  // namespace tidemark::ci
