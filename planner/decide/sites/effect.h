#pragma once
// What a set of actions does inside one site: when dropped storages are rebuilt, when swapped ones must be back, what
// the recipes cost and how much of their communication stays exposed. Worked out once per (site class, actions) on the
// representative site and valid for all sites of the class.

#include <cstdint>
#include <map>
#include <vector>

#include "planner/decide/sites/problem.h"

namespace tidemark::decide::sites {

struct SiteEffect {
  struct Run {
    std::int32_t unit = 0;
    std::int32_t start_pos = 0;  ///< site-local op before which the first steps run
    std::int32_t need_pos = 0;   ///< site-local op before which the last steps run
    std::int64_t paid_ns = 0;    ///< what is computed and not hidden, and communication that is exposed
  };
  std::vector<Run> runs;               ///< ascending start, sources first
  std::vector<std::int32_t> back_pos;  ///< per slot: site-local op before which it must be (or is being put) back
  std::int64_t compute_ns = 0;
  std::int64_t hidden_ns = 0;  ///< of that, while the lane would wait
  std::int64_t exposed_communication_ns = 0;
};

/// No place of a unit's recomputation hides more of it, ns.
[[nodiscard]] std::int64_t most_hidden_ns(const DecisionProblem& problem, const SiteClass& site_class,
                                          const SiteClass::Unit& unit);

/// REQUIRES: actions has one entry per slot of the class; the slots of one unit are all recompute or none is.
[[nodiscard]] SiteEffect work_out_effect(const DecisionProblem& problem, const SiteClass& site_class,
                                         const std::vector<Action>& actions);

/// Effects already worked out, per class. Not thread-safe: one per solver.
class EffectCache {
 public:
  explicit EffectCache(const DecisionProblem& problem) : problem_(problem), known_(problem.classes.size()) {}
  /// The effect of the actions of one site (`first_gap` is its first row in `choice`). Valid until the cache dies.
  const SiteEffect& get(std::int32_t site_class, const gaps::Choice& choice, std::int32_t first_gap);

 private:
  const DecisionProblem& problem_;
  struct Known {
    std::map<std::uint64_t, SiteEffect> narrow;  ///< up to 32 slots: two bits each
    std::map<std::vector<Action>, SiteEffect> wide;
  };
  std::vector<Known> known_;
};

}  // namespace tidemark::decide::sites
