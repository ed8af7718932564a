#pragma once
// Does a plan stay below a budget, and is it close?

#include <cstdint>
#include <span>

#include "core/bytes.h"
#include "planner/planner.h"

namespace tidemark::plan {

enum class BudgetVerdict : std::uint8_t {
  pass,
  near,  ///< within the margin below the budget
  fail,  ///< above the budget
};

struct BudgetCheck {
  BudgetVerdict verdict = BudgetVerdict::pass;
  Bytes budget_bytes = 0;
  Bytes margin_bytes = 0;
  std::size_t worst = 0;  ///< row of the rank with the highest peak; ties: the first
  bool host = false;      ///< failed on pinned host memory; `worst` is then the rank with the most of it
};

[[nodiscard]] BudgetVerdict judge(Bytes peak_bytes, Bytes budget_bytes, Bytes margin_bytes);

/// `host_budget_bytes` < 0: host memory is not looked at. REQUIRES: at least one rank, budget and margin >= 0.
[[nodiscard]] BudgetCheck check_budget(std::span<const RankFigures> ranks, Bytes budget_bytes, Bytes margin_bytes,
                                       Bytes host_budget_bytes = -1);

}  // namespace tidemark::plan
