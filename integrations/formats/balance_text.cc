#include "integrations/formats/balance_text.h"

#include <fmt/format.h>

#include <optional>

#include "planner/stage_balance.h"

namespace tidemark::formats {
namespace {

std::optional<plan::StageBalance> balance_of(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  if (request.step) return std::nullopt;
  return plan::stage_balance(outcome, request.job.parallel);
}

}  // namespace

std::string balance_text(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  const std::optional<plan::StageBalance> b = balance_of(request, outcome);
  if (!b) return {};
  const std::string text = fmt::format("busiest rank {}, {:.1f} % above the mean", b->busiest_rank, b->rank_percent);
  if (request.job.parallel.virtual_pipeline == 1) return text;
  return fmt::format("{}; busiest chunk {} of rank {}, {:.1f} % above the mean of chunks", text, b->busiest_chunk,
                     b->busiest_chunk_rank, b->chunk_percent);
}

nlohmann::ordered_json balance_json(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  const std::optional<plan::StageBalance> b = balance_of(request, outcome);
  if (!b) return nullptr;
  return {{"busiest_rank", b->busiest_rank},
          {"rank_percent", b->rank_percent},
          {"busiest_chunk", {{"rank", b->busiest_chunk_rank}, {"chunk", b->busiest_chunk}}},
          {"chunk_percent", b->chunk_percent}};
}

}  // namespace tidemark::formats
