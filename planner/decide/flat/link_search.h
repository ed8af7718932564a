#pragma once
// Schedules of a step whose swaps go over a link beside its ops, for the budgets that are asked for, one after the
// other. Every view of the link (link_views.h) is searched at the budget and at peaks that leave its swaps headroom
// (aimed.h); what is found is timed at the budget, and the cheapest are improved on what they really add
// (link_exchange.h).

#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "planner/decide/flat/known_repeats.h"
#include "planner/decide/flat/link_schedules.h"
#include "planner/decide/flat/problem.h"
#include "planner/decide/flat/search.h"
#include "planner/decide/flat/state.h"

namespace tidemark::decide::flat {

/// What is known of earlier budgets serves again where it fits, without another search of the views. Not to be shared
/// by threads.
class LinkSearch {
 public:
  /// The problem must outlive this. REQUIRES: problem.has_link.
  explicit LinkSearch(const Problem& problem) : problem_(problem) {}

  /// At least one; some may be above the budget. Of those that fit and add least the one that copies least is among
  /// them. `work`: entries of profiles looked at, about. Told to stop, it ends
  /// with what it has, which is one pass in one view at least.
  [[nodiscard]] std::vector<LinkSchedule> within(Bytes budget, double work, const SearchLimits& limits);

 private:
  /// What may be swapped, and the repeats that all views of it have.
  struct Offer {
    explicit Offer(Problem offered) : problem(std::move(offered)), repeats(problem) {}
    Problem problem;
    KnownRepeats repeats;
  };
  struct Timed {
    Solution solution;
    LinkSchedule linked;
  };
  void search_views(Bytes budget, double work, const SearchLimits& limits);
  [[nodiscard]] std::vector<Timed> timed_known(Bytes budget, const SearchLimits& limits) const;
  /// Less is better: what it adds, then bytes copied, then its peak.
  [[nodiscard]] std::tuple<std::int64_t, Bytes, Bytes> rank_of(const LinkSchedule& one) const;
  [[nodiscard]] const Timed* best_fitting(const std::vector<Timed>& timed, Bytes budget) const;
  void add_with_fewer_copies(Bytes budget, std::vector<Timed>& timed) const;
  [[nodiscard]] std::vector<Timed> exchanged(std::vector<Timed> starts, Bytes budget, double work,
                                             const SearchLimits& limits) const;

  const Problem& problem_;
  std::vector<std::unique_ptr<Offer>> offers_;  ///< made by the first search
  std::vector<Solution> known_;
};

}  // namespace tidemark::decide::flat
