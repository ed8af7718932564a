#include "planner/target_loop.h"

#include <algorithm>
#include <utility>

#include "planner/decide/flat/bound.h"
#include "planner/planned_load.h"

namespace tidemark::plan {
namespace {

constexpr int kMaxAttempts = 6;
/// A brief search has room for one layout or two: it asks for less than a whole one at once.
constexpr int kMaxBriefAttempts = 2;
constexpr Bytes kBriefPackingShare = 22;  ///< of either memory
/// Of a flat step, which takes back half of what is missing at a time: its search has an answer for every byte.
constexpr int kMaxFlatAttempts = 16;
constexpr int kBisections = 3;
constexpr Bytes kHostPackingShare = 128;
constexpr Bytes kStrideShare = 400;
constexpr Bytes kRoomyShare = 80;
/// Of the best so far: at load 2 the greedy rule came to 2 % less on one rank of the reference job, from a first answer
/// that was 0.2 % above (PlanStep.All16Ranks...).
constexpr double kAsCheap = 1.02;
constexpr std::size_t kSmallProblem = 1000;  ///< gaps; up to here more targets are tried
constexpr int kBoundSteps = 160;
constexpr int kFullCostSteps = 25;

/// What no plan within the budgets adds less than, where the answers proved nothing.
double lower_bound(decide::RankProblem& problem, const Budgets& budgets, const PlanRequest& request) {
  if (problem.is_flat())
    return static_cast<double>(
        decide::flat::least_added_cost(problem.flat_problem(), budgets.device, stop_question(request)));
  const decide::gaps::GapProblem& gaps = problem.gaps();
  return decide::gaps::find_prices(gaps, decide::gaps::critical_positions(gaps, budgets.device), budgets.device,
                                   budgets.host, kBoundSteps)
      .bound;
}

/// Asks the policy, carries the answer to addresses, and where the packing needs more than the bytes alive asks again
/// for less. The best try is kept: one that fits, then the one of least weighted cost, then the lowest.
class TargetLoop {
 public:
  TargetLoop(const RankRequest& in, decide::RankProblem& problem, const Budgets& budgets, RankPlan& plan)
      : in_(in), problem_(problem), budgets_(budgets), plan_(plan) {}

  Status run() {
    const Policy& policy = *in_.request.policy;
    if (in_.rule != nullptr) return search_with(*in_.rule);
    const Rule own{.name = policy.name, .decide = policy.decide};
    if (Status s = search_with(own); !s) return s;
    if (fits(*best_, budgets_) && best_->cost.added_ns() == 0) return {};
    if (problem_.is_flat() || is_brief()) return {};  // a flat search holds what simpler rules come to
    for (const Rule& rule : policy.fallbacks)
      if (Status s = search_with(rule); !s) return s;
    return {};
  }

  [[nodiscard]] TargetResult result() && {
    const double weighted_ns = bound_ns_          ? *bound_ns_
                               : needs_no_bound() ? 0
                                                  : lower_bound(problem_, budgets_, in_.request);
    const double bound_ns = full_bound(weighted_ns);
    return {.best = *std::move(best_),
            .bound_ns = bound_ns,
            .weighted_bound_ns = weighted_ns,
            .prices = std::move(prices_)};
  }

 private:
  /// What one rule has come to so far.
  struct Progress {
    const Rule& rule;
    int attempts = 0;
    Plan last_plan;
    Bytes last_over = 0, last_host_over = 0, last_peak = 0;  ///< of the last attempt
    Bytes failing = 0, failing_host = 0;                     ///< lowest targets that overflowed
    Bytes room = 0, host_room = 0;                           ///< left by the last attempt
    bool last_fits = false, exhausted = false, fixed_rule = false;
    bool dearer = false;  ///< what it offers costs more than what another rule already has
  };

  Status search_with(const Rule& rule) {
    Progress p{.rule = rule};
    if (in_.request.policy->is_fixed) return attempt(p, budgets_.device, budgets_.host);
    Bytes device = first_target(), host = first_host_target();
    while (p.attempts < most_attempts()) {
      if (Status s = attempt(p, device, host); !s) return s;
      if (p.last_fits || p.exhausted || p.dearer) break;
      if (problem_.is_flat()) {
        device = std::min(device, p.last_peak) - std::max<Bytes>(1, p.last_over / 2);
        if (device <= 0 || p.last_over == 0) break;
        continue;
      }
      // A quarter more than what was missing, and on large problems a stride that outgrows the packers' scatter.
      if (p.last_over > 0)
        device = std::min(device, p.last_peak) - p.last_over - p.last_over / 4 - stride(budgets_.device);
      if (p.last_host_over > 0) host -= p.last_host_over + p.last_host_over / 4 + stride(budgets_.host);
      if (device <= 0 || host < 0) break;
    }
    if (p.dearer || is_brief()) return {};
    const bool in_doubt = !p.last_fits && !p.fixed_rule;
    if (in_doubt) {
      // Nothing in between worked: the lowest peak the rule can reach is the likeliest to have addresses.
      if (Status s = attempt(p, 0, budgets_.host); !s) return s;
      device = p.last_peak;
      host = budgets_.host;
    }
    if (Status s = refine_targets(p, device, host, in_doubt); !s) return s;
    // Swaps in the way of copies of state: once more without any.
    const bool in_the_way = fits(*best_, budgets_) && best_->cost.added_ns() > best_->policy_added_ns;
    return in_the_way ? attempt(p, device, problem_.state_offload().bytes) : Status{};
  }

  [[nodiscard]] bool is_brief() const { return in_.request.is_brief && !problem_.is_flat(); }

  [[nodiscard]] int most_attempts() const {
    if (problem_.is_flat()) return kMaxFlatAttempts;
    return is_brief() ? kMaxBriefAttempts : kMaxAttempts;
  }

  /// Of all that is added: from the prices of its weighted sum, whatever they were found for.
  [[nodiscard]] double full_bound(double weighted_ns) {
    if (problem_.is_flat() || !problem_.sites().is_weighted) return weighted_ns;
    if (needs_no_bound() || !fits(*best_, budgets_)) return weighted_ns;
    const decide::gaps::GapProblem gaps = decide::sites::at_full_cost(problem_.gaps());
    std::optional<decide::gaps::Prices> start = prices_;
    if (problem_.start() != nullptr) {
      start = problem_.start()->full_prices;
    } else if (start && best_->cost.weighted_ns() > 0) {
      const double scale = static_cast<double>(best_->cost.added_ns()) / static_cast<double>(best_->cost.weighted_ns());
      for (double& price : start->device) price *= scale;
      for (double& price : start->host) price *= scale;
    }
    const decide::gaps::Prices prices = decide::gaps::find_prices(
        gaps, start ? start->clock : decide::gaps::critical_positions(gaps, budgets_.device), budgets_.device,
        budgets_.host, start ? kFullCostSteps : kBoundSteps, start ? &*start : nullptr);
    return std::max(weighted_ns, prices.bound);
  }

  /// Nothing is below what adds nothing, and of what does not fit no bound is told.
  [[nodiscard]] bool needs_no_bound() const {
    if (in_.request.figures_only && is_load_asked_for(in_.request)) return true;
    return in_.request.policy->is_fixed && (!fits(*best_, budgets_) || best_->cost.added_ns() == 0);
  }

  /// Between a target that fits and one that did not there may be a cheaper plan: tried where it is cheap, was in
  /// doubt, or left much room.
  Status refine_targets(Progress& p, Bytes device, Bytes host, bool in_doubt) {
    const bool roomy_host = p.failing_host > host && p.host_room > 2 * budgets_.host / kRoomyShare;
    const bool roomy = p.room > budgets_.device / kRoomyShare || roomy_host;
    const bool small = problem_.size() <= kSmallProblem;
    if (!p.last_fits || p.attempts == 1 || problem_.is_flat() || !(in_doubt || small || roomy)) return {};
    if (roomy_host) host += (p.failing_host - host) / 2;
    Bytes fails = p.failing, works = device;
    for (int i = 0; i < (in_doubt || small ? kBisections : 1) && !p.dearer; ++i) {
      const Bytes middle = works < fails ? works + (fails - works) / 2 : works;
      if (Status s = attempt(p, middle, host); !s) return s;
      (p.last_fits ? works : fails) = middle;
    }
    return {};
  }

  /// Large problems pack to within one to two percent of the bytes alive: asking for that much less at once saves a
  /// round.
  [[nodiscard]] Bytes first_target() const {
    const bool packs_well = problem_.is_flat() || problem_.size() <= kSmallProblem;
    if (problem_.keep_all_peak_bytes() <= budgets_.device || packs_well) return budgets_.device;
    const Bytes share = is_brief() ? kBriefPackingShare : kPackingShare;
    return budgets_.device - std::max<Bytes>(0, budgets_.device - problem_.persistent_bytes()) / share;
  }

  [[nodiscard]] Bytes stride(Bytes budget) const { return problem_.size() > kSmallProblem ? budget / kStrideShare : 0; }

  [[nodiscard]] Bytes first_host_target() const {
    if (problem_.size() <= kSmallProblem) return budgets_.host;
    return budgets_.host - budgets_.host / (is_brief() ? kBriefPackingShare : kHostPackingShare);
  }

  void raise_bound(double ns) { bound_ns_ = std::max(bound_ns_.value_or(0.0), ns); }

  /// Asks a rule, carries its plan to addresses, and keeps it if it is the best so far.
  Status attempt(Progress& p, Bytes device, Bytes host) {
    ++p.attempts;
    PolicyAnswer answer = p.rule.decide({.problem = problem_,
                                         .device_budget_bytes = device,
                                         .host_budget_bytes = host,
                                         .is_brief = in_.request.is_brief,
                                         .start = problem_.start()});
    if (answer.prices)
      raise_bound(decide::gaps::bound_of(problem_.gaps(), budgets_.device, budgets_.host, *answer.prices));
    if (!prices_) prices_ = std::move(answer.prices);
    if (answer.least_added_ns && device >= budgets_.device) raise_bound(static_cast<double>(*answer.least_added_ns));
    // A lower target mostly costs more, so a large problem's time is not spent on what is dearer already, but for
    // answers nearly as cheap: what a rule asks for does not always cost more at a lower target.
    const bool is_fallback = in_.rule == nullptr && p.rule.name != in_.request.policy->name;
    p.dearer =
        problem_.size() > kSmallProblem && is_fallback && fits(*best_, budgets_) &&
        static_cast<double>(answer.cost.weighted_ns()) >= kAsCheap * static_cast<double>(best_->cost.weighted_ns());
    p.fixed_rule = p.attempts > 1 && answer.plan == p.last_plan && answer.cost.peak_bytes > device;
    p.exhausted = answer.cost.peak_bytes > device;  // the rule itself could not meet the target
    p.last_plan = answer.plan;
    if (p.dearer && answer.cost.peak_bytes <= budgets_.device) offer(p.rule, answer);
    if (p.dearer) return {};

    Result<BuiltPlan> built = build_plan(problem_, answer, budgets_, in_.request);
    if (!built) return built.error();
    BuiltPlan& now = built.value();
    now.rule = p.rule.name;
    plan_.attempts.push_back({.target_bytes = device,
                              .height_bytes = now.height(),
                              .load_bytes = now.layout.device_load_bytes,
                              .packer = now.layout.packer});
    p.last_fits = fits(now, budgets_);
    p.last_peak = now.cost.peak_bytes;
    p.last_over = std::max<Bytes>(0, now.height() - budgets_.device);
    p.last_host_over = std::max<Bytes>(0, now.host_height() - budgets_.host);
    p.room = budgets_.device - now.height();
    p.host_room = budgets_.host - now.host_height();
    if (p.last_over > 0 && device > 0) p.failing = device;
    if (p.last_host_over > 0) p.failing_host = host;
    if (is_fallback && p.last_fits) offer(p.rule, answer);
    if (best_ && !is_better(now, *best_, budgets_)) return {};
    best_ = std::move(now);
    return {};
  }

  /// The cheapest of a rule is kept. Other policies do not offload state, so what their rules come to beside it is
  /// nothing to compare with.
  void offer(const Rule& rule, PolicyAnswer& answer) {
    if (!in_.wants_offers || problem_.is_flat() || problem_.state_offload().bytes > 0) return;
    const std::int64_t added_ns = answer.cost.added_ns();
    const auto known = std::ranges::find(plan_.offers, &rule, &Offer::rule);
    if (known != plan_.offers.end() && known->added_ns <= added_ns) return;
    if (known != plan_.offers.end()) plan_.offers.erase(known);
    plan_.offers.push_back({.rule = &rule,
                            .plan = std::move(answer.plan),
                            .added_ns = added_ns,
                            .recompute_ns = answer.cost.recompute_ns + answer.cost.hidden_recompute_ns});
  }

  const RankRequest& in_;
  decide::RankProblem& problem_;
  const Budgets& budgets_;
  RankPlan& plan_;
  std::optional<BuiltPlan> best_;
  std::optional<double> bound_ns_;
  std::optional<decide::gaps::Prices> prices_;
};

}  // namespace

Result<TargetResult> search_targets(const RankRequest& request, decide::RankProblem& problem, const Budgets& budgets,
                                    RankPlan& plan) {
  TargetLoop loop(request, problem, budgets, plan);
  if (Status s = loop.run(); !s) return s.error();
  return std::move(loop).result();
}

}  // namespace tidemark::plan
