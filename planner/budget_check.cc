#include "planner/budget_check.h"

#include <algorithm>
#include <cassert>

namespace tidemark::plan {

BudgetVerdict judge(Bytes peak_bytes, Bytes budget_bytes, Bytes margin_bytes) {
  if (peak_bytes > budget_bytes) return BudgetVerdict::fail;
  return peak_bytes > budget_bytes - margin_bytes ? BudgetVerdict::near : BudgetVerdict::pass;
}

BudgetCheck check_budget(std::span<const RankFigures> ranks, BudgetLimit device, std::optional<BudgetLimit> host) {
  assert(!ranks.empty());
  const auto highest = std::ranges::max_element(ranks, {}, &RankFigures::peak_bytes);
  const BudgetCheck check{.verdict = judge(highest->peak_bytes, device.budget_bytes, device.margin_bytes),
                          .budget_bytes = device.budget_bytes,
                          .margin_bytes = device.margin_bytes,
                          .worst = static_cast<std::size_t>(highest - ranks.begin())};
  if (check.verdict == BudgetVerdict::fail || !host) return check;
  const auto most = std::ranges::max_element(ranks, {}, &RankFigures::host_bytes);
  if (most->host_bytes <= host->budget_bytes) return check;
  return {.verdict = BudgetVerdict::fail,
          .budget_bytes = host->budget_bytes,
          .margin_bytes = host->margin_bytes,
          .worst = static_cast<std::size_t>(most - ranks.begin()),
          .host = true};
}

}  // namespace tidemark::plan
