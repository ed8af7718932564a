#pragma once
// Does a plan stay below a budget, and is it close?

#include <cstdint>
#include <optional>
#include <span>

#include "core/bytes.h"
#include "planner/planner.h"

namespace tidemark::plan {

enum class BudgetVerdict : std::uint8_t {
  pass,
  near,  ///< within the margin below the budget
  fail,  ///< above the budget
};

/// How much memory there is, and how near to it is near.
struct BudgetLimit {
  Bytes budget_bytes = 0;
  Bytes margin_bytes = 0;
};

struct BudgetCheck {
  BudgetVerdict verdict = BudgetVerdict::pass;
  Bytes budget_bytes = 0;  ///< of the device, or of the host where that failed
  Bytes margin_bytes = 0;  ///< of the same
  std::size_t worst = 0;   ///< row of the rank with the highest peak; ties: the first
  bool host = false;       ///< failed on pinned host memory; `worst` is then the rank with the most of it
};

[[nodiscard]] BudgetVerdict judge(Bytes peak_bytes, Bytes budget_bytes, Bytes margin_bytes);

/// `host`: nothing: pinned host memory is not looked at. It fails alone: plans fill it on purpose, so that none is
/// near. REQUIRES: at least one rank, budgets and margins >= 0.
[[nodiscard]] BudgetCheck check_budget(std::span<const RankFigures> ranks, BudgetLimit device,
                                       std::optional<BudgetLimit> host = {});

}  // namespace tidemark::plan
