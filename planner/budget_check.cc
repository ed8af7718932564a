#include "planner/budget_check.h"

#include <algorithm>
#include <cassert>

namespace tidemark::plan {

BudgetVerdict judge(Bytes peak_bytes, Bytes budget_bytes, Bytes margin_bytes) {
  if (peak_bytes > budget_bytes) return BudgetVerdict::fail;
  return peak_bytes > budget_bytes - margin_bytes ? BudgetVerdict::near : BudgetVerdict::pass;
}

BudgetCheck check_budget(std::span<const RankFigures> ranks, Bytes budget_bytes, Bytes margin_bytes,
                         Bytes host_budget_bytes) {
  assert(!ranks.empty());
  const auto highest = std::ranges::max_element(ranks, {}, &RankFigures::peak_bytes);
  BudgetCheck check{.verdict = judge(highest->peak_bytes, budget_bytes, margin_bytes),
                    .budget_bytes = budget_bytes,
                    .margin_bytes = margin_bytes,
                    .worst = static_cast<std::size_t>(highest - ranks.begin())};
  if (check.verdict == BudgetVerdict::fail || host_budget_bytes < 0) return check;
  const auto host = std::ranges::max_element(ranks, {}, &RankFigures::host_bytes);
  if (host->host_bytes <= host_budget_bytes) return check;
  check.verdict = BudgetVerdict::fail;
  check.host = true;
  check.budget_bytes = host_budget_bytes;
  check.worst = static_cast<std::size_t>(host - ranks.begin());
  return check;
}

}  // namespace tidemark::plan
