#pragma once
// Tolerances as a budget file and the command line write them.

#include <string>
#include <string_view>

#include "core/result.h"
#include "integrations/formats/yaml_fields.h"
#include "planner/budget/limit.h"

namespace tidemark::ci {

inline constexpr double kMostTolerancePercent = 1000;

/// `2%`, `2.5 %` or `512MiB`. Errors (bad_input, without a place): another form, no unit, above 1000 %.
[[nodiscard]] Result<budget::Tolerance> parse_tolerance(std::string_view text);
/// `2 %`, `512.00 MiB`, `2 % or 512.00 MiB`.
[[nodiscard]] std::string tolerance_text(const budget::Tolerance& tolerance);

/// The forms of parse_tolerance, or `{percent: 2, bytes: 512MiB}`, of which the larger counts.
void read_tolerance(formats::YamlMap& map, std::string_view key, budget::Tolerance& out);

}  // namespace tidemark::ci
