#include "planner/offload_loop.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "planner/decide/gaps/give_up.h"
#include "planner/decide/gaps/prices.h"
#include "planner/decide/sites/state_offload.h"
#include "planner/target_loop.h"

namespace tidemark::plan {
namespace {

/// Plans with all state on the device where that may fit, and looks at how much to offload where what that comes to
/// adds more than the copies would, by prices of what is left to decide.
class OffloadLoop {
 public:
  OffloadLoop(const RankRequest& in, const Budgets& budgets, RankPlan& plan)
      : in_(in), budgets_(budgets), plan_(plan) {}

  /// Recomputation that is hidden takes memory for longer: where nothing fits so, or nothing near what it would add by
  /// the bound, it runs late as well.
  Status run() {
    using decide::sites::RunTime;
    if (Status s = run(first_run_time(*in_.request.policy)); !s) return s;
    if (whole_->is_flat() || !whole_->sites().runs_early) return {};
    const bool is_found = best_.problem != nullptr && fits(best_.best, budgets_);
    const double bound_ns = best_.weighted_bound_ns;
    const bool is_near = in_.request.is_brief || bound_ns <= 0 || has_plan_within(kFarAbove / kDoubt * bound_ns);
    return is_found && is_near ? Status{} : run(RunTime::late);
  }

  [[nodiscard]] OffloadResult result() && { return std::move(best_); }

 private:
  Status run(decide::sites::RunTime run_time) {
    run_time_ = run_time;
    prices_.reset();
    const bool is_made = in_.problem != nullptr && run_time == first_run_time(*in_.request.policy);
    whole_ = is_made ? in_.problem : make_problem(in_, budgets_, plan_, {}, run_time_);
    if (Status s = weigh(*whole_); !s) return s;
    // A simpler rule was chosen for its plan with all state on the device.
    const bool offloads = in_.request.policy->offloads_state && in_.rule == nullptr && !whole_->is_flat();
    if (offloads && in_.request.is_brief) return run_briefly();
    if (!offloads || whole_->persistent_bytes() <= budgets_.device)
      if (Status s = search(whole_); !s) return s;
    if (offloads && !has_plan_within(0))
      if (Status s = search_shares(shares_of_state()); !s) return s;
    return best_.problem == nullptr ? search(whole_) : Status{};
  }

  /// Whatever state is offloaded: plans are compared by what they add at the same weights.
  Status weigh(decide::RankProblem& problem) {
    if (Status s = problem.check(); !s) return s;
    if (in_.start != nullptr && in_.start->choice.size() == problem.size()) problem.weigh(in_.weights, *in_.start);
    return {};
  }

  static constexpr int kSqueezes = 5;
  static constexpr std::size_t kParts = 4;
  static constexpr Bytes kSqueezeShare = 80;  ///< of the budget, where nothing is missing
  static constexpr int kPriceSteps = 20;
  /// A search takes as long as all before it: state is offloaded, or more or less of it, where that promises to add
  /// less by a tenth and by a thousandth of the step.
  static constexpr double kDoubt = 1.1;
  static constexpr double kFarAbove = 1.5;  ///< times the bound
  static constexpr std::int64_t kWorthShare = 1000;

  /// A share of the state, what its copies add and a bound of what is left to decide.
  struct Share {
    decide::sites::OffloadChoice choice;
    Bytes bytes = 0;
    std::int64_t copies_ns = 0;
    double bound_ns = 0;
    bool is_priced = false;
  };

  /// Searches only where about the least that can be held fits: with all state on the device, or else with the share
  /// of it that promises most. None: nothing was searched.
  Status run_briefly() {
    if (plan_.liveness.working_set_bytes > budgets_.device) return {};  // nothing fits
    const decide::gaps::Choice all = decide::gaps::give_up_all(whole_->gaps(), budgets_.host);
    const Bytes least = whole_->evaluator().price(all).peak_bytes;
    if (least <= budgets_.device) {
      if (Status s = search(whole_); !s || fits(best_.best, budgets_)) return s;
    }
    std::vector<Share> shares = shares_of_state();
    std::erase_if(shares, [&](const Share& share) { return least - share.bytes > budgets_.device; });
    if (shares.empty()) return {};
    for (Share& share : shares) price(share);
    const auto next = std::ranges::min_element(shares, {}, [&](const Share& s) { return estimate_ns(s); });
    const std::shared_ptr<decide::RankProblem> problem = make_problem(in_, budgets_, plan_, next->choice, run_time_);
    if (Status s = weigh(*problem); !s) return s;
    return search(problem);
  }

  /// Plans are taken to be as far above their bounds as the one that offloads nothing.
  [[nodiscard]] double estimate_ns(const Share& share) const {
    return static_cast<double>(share.copies_ns) + share.bound_ns * above_bound_;
  }

  [[nodiscard]] bool has_plan_within(double added_ns) const {
    return best_.problem != nullptr && fits(best_.best, budgets_) &&
           static_cast<double>(best_.best.cost.weighted_ns() - in_.nominal.finish_ns / kWorthShare) <=
               kDoubt * added_ns;
  }

  /// Equal parts of what host memory holds.
  [[nodiscard]] std::vector<Share> shares_of_state() const {
    std::vector<Share> shares;
    const std::vector<StorageId> state = offloadable_within(in_, budgets_.host, plan_);
    for (std::size_t part = 1; part <= kParts; ++part) {
      const std::size_t count = state.size() * part / kParts;
      if (count == state.size() * (part - 1) / kParts) continue;
      decide::sites::OffloadChoice choice{
          .storages = {state.begin(), state.begin() + static_cast<std::ptrdiff_t>(count)},
          .device_budget = budgets_.device - budgets_.device / kPackingShare};
      const decide::sites::StateOffload offload = whole_->offload_of(choice);
      Share share{.choice = std::move(choice), .bytes = offload.bytes, .copies_ns = offload.added_ns()};
      // Prices with nothing offloaded bound what is left at any budget.
      if (prices_)
        share.bound_ns = std::max(0.0, decide::gaps::bound_of(whole_->gaps(), budgets_.device + share.bytes,
                                                              budgets_.host - share.bytes, *prices_));
      shares.push_back(std::move(share));
    }
    return shares;
  }

  /// The least estimate first, and on while one promises to add less than what was found.
  Status search_shares(std::vector<Share> shares) {
    std::size_t least = 0;  // storages: with fewer the device was too small
    while (!shares.empty()) {
      const auto next = std::ranges::min_element(shares, {}, [&](const Share& s) { return estimate_ns(s); });
      if (has_plan_within(estimate_ns(*next))) break;
      if (!next->is_priced) {
        price(*next);
        continue;
      }
      const Share share = std::move(*next);
      shares.erase(next);
      const std::size_t count = share.choice.storages.size();
      if (count < least) continue;
      if (Status s = squeeze(share.choice); !s) return s;
      if (over_bytes_ > 0 && !short_of_host_) least = count + 1;
    }
    return {};
  }

  /// From the prices of the share before.
  void price(Share& share) {
    const decide::gaps::GapProblem& gaps = whole_->gaps();
    const Bytes device = budgets_.device + share.bytes;
    prices_ = decide::gaps::find_prices(gaps, decide::gaps::critical_positions(gaps, device), device,
                                        budgets_.host - share.bytes, kPriceSteps, prices_ ? &*prices_ : nullptr);
    share.bound_ns = prices_->bound;
    share.is_priced = true;
  }

  /// Where addresses take more than the budget, or what made them fit was misjudged, state is given less room to come
  /// and go in, at last as little as can be.
  Status squeeze(decide::sites::OffloadChoice choice) {
    Plan last;
    for (int i = 0; i < kSqueezes; ++i) {
      const std::shared_ptr<decide::RankProblem> problem = make_problem(in_, budgets_, plan_, choice, run_time_);
      if (Status s = weigh(*problem); !s) return s;
      if (problem->state_offload().plan == last) return {};  // it cannot be squeezed further
      last = problem->state_offload().plan;
      if (Status s = search(problem); !s) return s;
      if (over_bytes_ <= 0 && !is_misjudged_) return {};
      const Bytes over = std::max(over_bytes_, budgets_.device / kSqueezeShare);
      choice.device_budget = i + 2 < kSqueezes ? choice.device_budget - over - over / 4 : 0;
    }
    return {};
  }

  Status search(const std::shared_ptr<decide::RankProblem>& problem) {
    if (in_.request.step && in_.request.step->frontier && problem->is_flat())
      plan_.frontier = problem->flat(decide::flat::StepRule::optimal).frontier();
    Result<TargetResult> searched = search_targets(in_, *problem, budgets_, plan_);
    if (!searched) return searched.error();
    TargetResult& found = searched.value();
    short_of_host_ = found.best.host_height() > budgets_.host;
    over_bytes_ = found.best.height() - budgets_.device;
    is_misjudged_ = found.best.is_misjudged();
    const double ns_per_byte =
        found.prices ? std::accumulate(found.prices->device.begin(), found.prices->device.end(), 0.0) : 0.0;
    // Without prices a bound is only looked for where it is told.
    const double weighted_bound_ns = found.prices ? found.weighted_bound_ns : 0;
    if (problem == whole_) {
      prices_ = std::move(found.prices);
      if (found.weighted_bound_ns > 0 && fits(found.best, budgets_))
        above_bound_ = std::max(1.0, static_cast<double>(found.best.cost.weighted_ns()) / found.weighted_bound_ns);
    }
    if (best_.problem == nullptr || is_better(found.best, best_.best, budgets_))
      best_ = {.problem = problem,
               .best = std::move(found.best),
               .bound_ns = found.bound_ns,
               .weighted_bound_ns = weighted_bound_ns,
               .ns_per_byte = ns_per_byte};
    return {};
  }

  const RankRequest& in_;
  const Budgets& budgets_;
  RankPlan& plan_;
  decide::sites::RunTime run_time_ = decide::sites::RunTime::late;
  std::shared_ptr<decide::RankProblem> whole_;  ///< with all state on the device
  std::optional<decide::gaps::Prices> prices_;  ///< found last, or with nothing offloaded
  double above_bound_ = 1;
  OffloadResult best_;
  // Of the last search:
  bool short_of_host_ = false;  ///< its addresses took more host memory than there is
  Bytes over_bytes_ = 0;        ///< what was missing on the device; at most 0: nothing
  bool is_misjudged_ = false;
};

}  // namespace

std::vector<StorageId> offloadable_within(const RankRequest& request, Bytes host_budget, const RankPlan& plan) {
  std::vector<StorageId> state = decide::sites::offloadable_state(plan.graph, plan.liveness, request.nominal);
  Bytes bytes = 0;
  std::erase_if(state, [&](StorageId storage) {
    const Bytes more = plan.graph.storages[row(storage)].bytes;
    if (bytes + more > host_budget) return true;
    bytes += more;
    return false;
  });
  return state;
}

Result<OffloadResult> search_offload(const RankRequest& request, const Budgets& budgets, RankPlan& plan) {
  OffloadLoop loop(request, budgets, plan);
  if (Status s = loop.run(); !s) return s.error();
  return std::move(loop).result();
}

}  // namespace tidemark::plan
