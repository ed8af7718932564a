#pragma once
// Small holdings for the tests of planner/budget.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planner/budget/holdings.h"

namespace tidemark::budget {

inline HeldStorage held(std::string name, Category category, Bytes bytes, std::int64_t count = 1) {
  HeldStorage storage;
  storage.name = std::move(name);
  storage.category = category;
  storage.bytes = bytes;
  storage.count = count;
  return storage;
}

/// A rank whose storages make up its peak.
inline RankHoldings rank_of(std::int64_t rank, std::vector<HeldStorage> storages) {
  RankHoldings holdings;
  holdings.rank = rank;
  for (const HeldStorage& storage : storages) holdings.peak_bytes += storage.bytes;
  holdings.storages = std::move(storages);
  settle(holdings, Category::other);
  return holdings;
}

inline Holdings holdings_of(std::vector<RankHoldings> ranks) {
  Holdings holdings;
  holdings.ranks = std::move(ranks);
  return holdings;
}

}  // namespace tidemark::budget
