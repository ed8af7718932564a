#include "integrations/cli/plan_input.h"

#include <fmt/format.h>

#include <string>

#include "integrations/formats/file.h"
#include "integrations/formats/file_kind.h"
#include "integrations/formats/plan_restore.h"

namespace tidemark::cli {

Result<formats::PlanFile> read_plan(const std::filesystem::path& path) {
  const Result<std::string> text = formats::read_file(path, formats::kMostPlanFileBytes);
  if (!text) return text.error();
  Result<formats::PlanFile> file = formats::read_plan_file(text.value(), path.string());
  if (!file) return formats::explain_kind(file.error(), path, formats::FileKind::plan);
  return file;
}

std::optional<Error> not_runnable(const plan::PlanRequest& request, const plan::PlanOutcome& plan) {
  for (const plan::RankPlan& rank : plan.ranks) {
    if (!rank.figures.fits)
      return infeasible(fmt::format("rank {} does not fit its budget, so its plan cannot run: {}", rank.figures.rank,
                                    rank.figures.reason));
    if (const std::optional<std::string> fault = formats::find_fault(request, rank))
      return infeasible(
          fmt::format("rank {}: the program breaks a rule and would not run safely: {}", rank.figures.rank, *fault));
  }
  return std::nullopt;
}

}  // namespace tidemark::cli
