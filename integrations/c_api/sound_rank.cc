#include "integrations/c_api/sound_rank.h"

#include <string>
#include <utility>

#include "integrations/formats/plan_restore.h"

namespace tidemark::c_api {

Outcome rank_at(const tidemark_plan* plan, std::int32_t position, const formats::PlanFile::Rank*& rank) {
  if (plan == nullptr) return invalid("plan is NULL");
  if (position < 0 || static_cast<std::size_t>(position) >= plan->file.ranks.size())
    return invalid("position " + std::to_string(position) + ": the plan has " +
                   std::to_string(plan->file.ranks.size()) + " ranks");
  rank = &plan->file.ranks[static_cast<std::size_t>(position)];
  return {};
}

Result<std::unique_ptr<plan::RankPlan>> sound_rank(const tidemark_plan& plan, const formats::PlanFile::Rank& rank) {
  Result<plan::PlanOutcome> restored = formats::restore_outcome(plan.file, {rank.figures.rank}, plan.name);
  if (!restored) return restored.error();
  auto sound = std::make_unique<plan::RankPlan>(std::move(restored.value().ranks.front()));
  if (const auto fault = formats::find_fault(formats::request_of(plan.file), *sound))
    return bad_input(plan.name + ": rank " + std::to_string(rank.figures.rank) +
                     ": the program is not sound: " + *fault);
  return sound;
}

}  // namespace tidemark::c_api
