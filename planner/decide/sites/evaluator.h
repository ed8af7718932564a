#pragma once
// Prices a choice exactly: where everything is in memory at every half-step, what it adds to the step, what the links
// and the host carry. The one definition of "fits" and of `added` that every rule, bound and report of transformer
// steps uses. Positions are half-steps.

#include <cstdint>
#include <vector>

#include "core/plan.h"
#include "planner/decide/gaps/plan_cost.h"
#include "planner/decide/sites/effect.h"
#include "planner/decide/sites/problem.h"
#include "planner/schedule/link_window.h"

namespace tidemark::decide::sites {

struct Evaluation : gaps::PlanCost {
  std::int32_t peak_clock = 0;  ///< first half-step at the peak
};

/// Reusable buffers and cached effects for many evaluations of one problem. Not thread-safe.
class Evaluator final : public gaps::Pricer {
 public:
  explicit Evaluator(const DecisionProblem& problem) : problem_(problem), effects_(problem) {}

  /// REQUIRES: choice has one entry per gap; recompute only for gaps of units with a recipe, and then for the whole
  /// unit. The choice evaluated last costs nothing to evaluate again.
  Evaluation evaluate(const gaps::Choice& choice);
  /// The same for the decision core, in ns.
  gaps::Pricing price(const gaps::Choice& choice) override;

  /// Work that a choice adds, as it is placed.
  struct Placed {
    std::int32_t unit = 0;   ///< of the class's site, counted over all sites as GapProblem::units are
    std::int32_t clock = 0;  ///< compute ops before it
    std::int64_t ns = 0;     ///< not hidden
  };
  /// Every recomputation of a choice.
  [[nodiscard]] std::vector<Placed> recomputations(const gaps::Choice& choice);

  /// To be called where weights of the problem have changed.
  void forget() { last_.clear(); }

  /// A choice in program order, with what evaluate() says of it.
  [[nodiscard]] Plan plan(const gaps::Choice& choice, gaps::PlanCost& cost);

  [[nodiscard]] const std::vector<std::int32_t>& freed_from() const override { return freed_from_; }
  [[nodiscard]] const std::vector<std::int32_t>& freed_until() const override { return freed_until_; }
  [[nodiscard]] const std::vector<Bytes>& profile() const override { return profile_; }
  [[nodiscard]] const std::vector<Bytes>& host_profile() const override { return host_profile_; }
  [[nodiscard]] const DecisionProblem& problem() const { return problem_; }

 private:
  /// What copies of a gap are worked out from, close together: a GapRow has more and lies elsewhere.
  struct CopyRow {
    std::int32_t gap = 0;
    std::int32_t after_ready = 0;  ///< compute ops up to the last touch before the gap
    std::int32_t free_from = 0;
    std::int64_t ready_ns = 0, out_ns = 0, in_ns = 0;
    Bytes bytes = 0;
  };
  struct SwappedGap {
    std::int32_t gap = 0;
    std::int32_t row = 0;  ///< of copy_rows_
    OpId needed = kNone<OpId>;
    std::size_t released_at = 0;  ///< compute ops before `released`
    OpId released = kNone<OpId>;
    OpId prefetch = kNone<OpId>;
    std::int64_t in_start_ns = 0;
  };
  void work_out(const gaps::Choice& choice, Evaluation& result);
  void apply_sites(const gaps::Choice& choice, Evaluation& result);
  double apply_site(const gaps::Choice& choice, std::int32_t site_class, std::size_t site, Evaluation& result);
  void add_transients(const SiteClass& site_class, SiteId site, const SiteEffect& effect);
  void apply_copies(const gaps::Choice& choice, Evaluation& result);
  void list_copy_rows();
  [[nodiscard]] schedule::LinkPlan queue_copies(const gaps::Choice& choice);
  void release(const schedule::LinkPlan& link);
  void prefetch(const schedule::LinkPlan& link);
  void sum_up(Evaluation& result);
  void add_swaps(Plan& plan) const;

  const DecisionProblem& problem_;
  EffectCache effects_;
  gaps::Choice last_;  ///< evaluated last; empty: none was
  Evaluation of_last_;
  std::vector<Bytes> delta_, host_delta_, profile_, host_profile_;
  std::vector<std::int32_t> freed_from_, freed_until_;
  std::vector<CopyRow> copy_rows_;   ///< of all gaps in the order of the D2H lane; empty: no choice has swapped yet
  std::vector<OpId> needed_;         ///< of the gaps that are swapped: the first op that must find the storage
  std::vector<SwappedGap> swapped_;  ///< in the order of the D2H lane
};

}  // namespace tidemark::decide::sites
