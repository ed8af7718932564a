#pragma once
// JUnit XML: a suite a job, a case a limit. NEAR passes, unless it counts as FAIL.
// Private to ci.

#include <string>

#include "integrations/ci/report.h"

namespace tidemark::ci {

[[nodiscard]] std::string junit_report(const Report& report);

}  // namespace tidemark::ci
