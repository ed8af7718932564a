#pragma once
// Schedules for one budget, or a few: all work goes to that budget, where a search
// for all of them (search.h) has eighty to serve. Starts first, from the decision core, from eviction passes at the
// budget and a little below, and from cuts; then rounds of annealing from the best known, several at once and each from
// a seed of its own, until two rounds in a row gain less than a thousandth, the bound is met or four rounds are over,
// which is when the work is done. Deterministic: bounded by counted work.
//
// What it finds for a lower budget may be cheaper than what it finds for a higher one: budgets compare by a search for
// all of them.

#include <cstdint>
#include <vector>

#include "planner/decide/flat/improve.h"
#include "planner/decide/flat/known_repeats.h"
#include "planner/decide/flat/problem.h"
#include "planner/decide/flat/search.h"

namespace tidemark::decide::flat {

struct Aim {
  std::vector<Bytes> budgets;    ///< descending, at least one; the work is shared among them
  std::int64_t enough_cost = 0;  ///< a schedule within the first that adds no more is good enough
  double work = 0;               ///< entries of profiles looked at, about; > 0
  /// Of the problem, or of one that differs in what copies cost and how long they take; nullptr: the search finds them.
  const KnownRepeats* repeats = nullptr;
};

/// Adds the schedules it finds to the archive, from whose best it starts. Told to stop before it has a start, it makes
/// one pass at the first budget and keeps everything besides.
void search_within(const Problem& problem, const Aim& aim, const SearchLimits& limits, Archive& archive);

}  // namespace tidemark::decide::flat
