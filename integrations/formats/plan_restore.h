#pragma once
// From a plan file back to what it was written from: graphs are built again from its job and machine, so that summaries
// and checks need only one kind of input.

#include <string_view>
#include <vector>

#include "integrations/formats/program_file.h"
#include "planner/planner.h"

namespace tidemark::formats {

/// What the plan was asked for. `policy` is nullptr where the file names none that is known, which restore_outcome()
/// refuses.
[[nodiscard]] plan::PlanRequest request_of(const PlanFile& file);

/// Timelines stay empty: a plan file has estimates, no simulation. Errors (bad_input): a policy that is not known, a
/// rank that the file does not hold, or a program made for another graph than this version builds, which is named.
[[nodiscard]] Result<plan::PlanOutcome> restore_outcome(const PlanFile& file, const std::vector<std::int32_t>& ranks,
                                                        std::string_view file_name);

/// The first rule that the program of a restored rank breaks (verify_program), or a promise of its figures that it does
/// not keep (plan::any_load), in words: a file can have been edited.
[[nodiscard]] std::optional<std::string> find_fault(const plan::PlanRequest& request, const plan::RankPlan& rank);

}  // namespace tidemark::formats
