#pragma once
// Frameworks that measured runs were made with, and what each launches, moves and hides.
//
// One value a framework and line of releases, none a model. They were set by hand from what the frameworks' sources and
// recipes do, while looking at measured rows; scripts/fit_device does not fit them, and cross-validation of the fitted
// constants does not cover them. A trait that a run states itself (TimedRun) comes before the one here.

#include <span>
#include <string_view>

#include "planner/step_time/timed_run.h"

namespace tidemark::step_time {

/// In byte order of the name. Any thread.
[[nodiscard]] std::span<const Software> all_software();

/// nullptr: none of that name.
[[nodiscard]] const Software* find_software(std::string_view name);

/// By where a measurement was published: a repository and path, or a paper, as "owner/name@commit:path" or "arXiv:id".
/// nullptr: not known.
[[nodiscard]] const Software* software_of(std::string_view source);

}  // namespace tidemark::step_time
