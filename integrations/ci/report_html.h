#pragma once
// One page of HTML that needs no other file and no network.
// Private to ci.

#include <string>

#include "integrations/ci/report.h"

namespace tidemark::ci {

[[nodiscard]] std::string html_report(const Report& report);

}  // namespace tidemark::ci
