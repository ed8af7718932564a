#pragma once
// What a term of an estimate is for, and the arguments that decide it, with the places where a job says them.

#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/budget/control.h"
#include "planner/budget/holdings.h"
#include "planner/estimate/argument_table.h"

namespace tidemark::estimate {

/// Where a job says its arguments: by the table's name of an argument (`num-layers`), by its own of an environment
/// variable (`CUBLAS_WORKSPACE_CONFIG`). A reader of other files than launch scripts fills it in their words.
using ArgumentPlaces = std::map<std::string, budget::Control, std::less<>>;

/// `--num-layers 61` with file and line out of `Argument::place`; of equal names the last, which counts. Long values
/// are cut.
[[nodiscard]] ArgumentPlaces places_of(const ArgumentSet& set);

/// All of them, each once, by file and line.
[[nodiscard]] std::vector<budget::Control> settings_of(const ArgumentPlaces& places);

/// Where one argument is said; of one that is not: no file, no line, `--recompute-granularity (not given)`.
[[nodiscard]] budget::Control place_of_argument(std::string_view name, const ArgumentPlaces& places);

/// One row a name that a Term of rank_memory.h may have.
struct TermRule {
  std::string_view term;
  budget::Category category = budget::Category::other;
  /// Lists of table names, blanks between them, what decides most first.
  std::array<std::string_view, 2> decided_by;
  std::string_view lowered_by;  ///< the same of arguments that are worth knowing where they are not given
};

[[nodiscard]] std::span<const TermRule> term_rules();
/// nullptr: no term has that name.
[[nodiscard]] const TermRule* find_term_rule(std::string_view term);

/// Most arguments of one term that are given.
inline constexpr std::size_t kMostControls = 20;

/// Of the arguments that decide a term those that are given, then those not given that would lower it in this run.
[[nodiscard]] std::vector<budget::Control> controls_of(const TermRule& rule, const TrainingRun& run,
                                                       const ArgumentPlaces& places);

}  // namespace tidemark::estimate
