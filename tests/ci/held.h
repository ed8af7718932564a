#pragma once
// Small holdings for tests of the gate.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "integrations/ci/judgement.h"
#include "planner/budget/holdings.h"

namespace tidemark::testing {

inline budget::HeldStorage held(std::string name, budget::Category category, Bytes bytes,
                                std::vector<budget::Control> controls = {}) {
  return {.name = std::move(name), .category = category, .bytes = bytes, .controls = std::move(controls)};
}

/// A rank that holds these storages and nothing else.
inline budget::RankHoldings rank_of(std::int64_t rank, std::vector<budget::HeldStorage> storages) {
  budget::RankHoldings row{.rank = rank};
  for (const budget::HeldStorage& storage : storages) row.peak_bytes += storage.bytes;
  row.storages = std::move(storages);
  budget::settle(row, budget::Category::other);
  return row;
}

/// Ranks 0, 1, ... that hold this much of activations each.
inline budget::Holdings holding(const std::vector<Bytes>& peaks, budget::Basis basis = budget::Basis::planned) {
  budget::Holdings holdings{.basis = basis, .source = "models/small.yaml, policy optimal"};
  for (std::size_t i = 0; i < peaks.size(); ++i)
    holdings.ranks.push_back(
        rank_of(static_cast<std::int64_t>(i), {held("layers.mlp.out", budget::Category::activations, peaks[i])}));
  return holdings;
}

/// A job of 60 GiB without tolerance near the limit, on 2026-06-15.
inline ci::JobInput input_of(budget::Holdings holdings) {
  ci::JobInput input;
  input.job.name = "pangu";
  input.job.file = "models/pangu.yaml";
  input.job.capacity_bytes = 60 * kGiB;
  input.job.near = {};
  input.job.line = 7;
  input.job.at = {{"capacity", 2}};
  input.budget_file = "tidemark-budget.yaml";
  input.holdings = std::move(holdings);
  input.today = ci::Date{std::chrono::year(2026), std::chrono::June, std::chrono::day(15)};
  return input;
}

}  // namespace tidemark::testing
