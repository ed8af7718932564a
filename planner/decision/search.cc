#include "planner/decision/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "planner/decision/bound.h"
#include "planner/decision/load_tree.h"
#include "planner/decision/moves.h"
#include "planner/decision/uniform.h"

namespace tidemark {
namespace {

constexpr int kAscentSteps = 120;
constexpr int kWarmSteps = 40;
constexpr double kFarFromBound = 1.1;   ///< this far from it, rounding by class is tried as well
constexpr double kCloseToBound = 1.04;  ///< no second pricing this close to the bound
constexpr int kRounds = 12;
constexpr std::size_t kStretch = 512;
constexpr std::size_t kSmallProblem = 1000;  ///< gaps; up to here extra starts and refinement are tried
constexpr std::size_t kMostRefinements = 300;
constexpr std::size_t kRefinementWork = 1'500'000;  ///< gaps and half-steps looked at
constexpr double kEnumerationLimit = 20000;

/// A choice that fits beats one that does not, then less added time; among those that do not fit, less host memory over
/// the budget, then the lower device peak.
bool better(const SearchResult& a, const SearchResult& b, Bytes host_budget) {
  if (a.fits != b.fits) return a.fits;
  if (a.fits) return a.evaluation.added_ns() < b.evaluation.added_ns();
  const Bytes host_a = std::max(a.evaluation.host_peak_bytes, host_budget);
  const Bytes host_b = std::max(b.evaluation.host_peak_bytes, host_budget);
  return std::pair(host_a, a.evaluation.peak_bytes) < std::pair(host_b, b.evaluation.peak_bytes);
}

/// One search over one problem and budget.
class Solver {
 public:
  Solver(const DecisionProblem& problem, Bytes device_budget, Bytes host_budget)
      : p_(problem),
        budget_(device_budget),
        host_budget_(host_budget),
        evaluator_(problem),
        moves_(list_moves(problem)),
        device_(problem.base_bytes),
        host_(std::vector<Bytes>(problem.base_bytes.size(), 0)) {
    reduced_.resize(moves_.size());
    for (std::size_t m = 0; m < moves_.size(); ++m) reduced_[m] = moves_[m].cost_ns;
    index_moves();
  }

  SearchResult run_from(Choice start);
  SearchResult optimal();

 private:
  [[nodiscard]] SearchResult price(Choice choice);
  [[nodiscard]] bool applicable(const Move& move) const;
  void apply(const Move& move);
  void synchronise() {
    device_.reset(evaluator_.profile());
    host_.reset(evaluator_.host_profile());
  }
  bool repair();
  void index_moves();
  void vacate_host();
  void undo_unneeded();
  void exchange();
  bool try_keep(const std::vector<std::int32_t>& gaps);
  void use_prices(const Prices& prices, double link_price);
  void refine(SearchResult& best);
  [[nodiscard]] Choice rounded(const Prices& prices) const;
  [[nodiscard]] Choice rounded_by_class(const Prices& prices, float threshold) const;

  const DecisionProblem& p_;
  Bytes budget_, host_budget_;
  Evaluator evaluator_;
  std::vector<Move> moves_;
  std::vector<double> reduced_;  ///< cost of each move less the value of what it frees elsewhere
  LoadTree device_, host_;
  Choice choice_;
  std::vector<std::vector<std::int32_t>> moves_in_;  ///< per kStretch half-steps
};

SearchResult Solver::price(Choice choice) {
  SearchResult result;
  result.evaluation = evaluator_.evaluate(choice);
  result.fits = result.evaluation.peak_bytes <= budget_ && result.evaluation.host_peak_bytes <= host_budget_;
  result.choice = std::move(choice);
  return result;
}

bool Solver::applicable(const Move& move) const {
  for (const std::int32_t gap : gaps_of(p_, move))
    if (choice_[static_cast<std::size_t>(gap)] != Action::keep) return false;
  if (move.action == Action::recompute) return true;
  const GapRow& gap = p_.gaps[static_cast<std::size_t>(move.first_gap + move.slot)];
  return host_.max(gap.free_from, gap.taken_from + 1) + move.bytes <= host_budget_;
}

void Solver::apply(const Move& move) {
  for (const std::int32_t g : gaps_of(p_, move)) {
    const GapRow& gap = p_.gaps[static_cast<std::size_t>(g)];
    choice_[static_cast<std::size_t>(g)] = move.action;
    const std::int32_t from = move.action == Action::swap ? move.from : gap.free_from;
    device_.add(from, move.until, -gap.bytes);
    if (move.action == Action::swap) host_.add(gap.free_from, gap.taken_from + 1, gap.bytes);
  }
  if (move.action == Action::recompute) device_.add(move.until, move.back_clock + 1, move.transient_bytes);
}

/// Lists, per stretch of the clock, the moves that free bytes anywhere in it, so that a repair looks at what is in
/// flight only.
void Solver::index_moves() {
  const std::size_t stretches = p_.base_bytes.size() / kStretch + 1;
  moves_in_.assign(stretches, {});
  for (std::size_t m = 0; m < moves_.size(); ++m) {
    if (moves_[m].from >= moves_[m].until) continue;
    const std::size_t last = std::min(stretches - 1, static_cast<std::size_t>(moves_[m].until - 1) / kStretch);
    for (std::size_t b = static_cast<std::size_t>(moves_[m].from) / kStretch; b <= last; ++b)
      moves_in_[b].push_back(static_cast<std::int32_t>(m));
  }
}

/// Takes moves until no position overflows. False: some position cannot be helped.
bool Solver::repair() {
  std::vector<std::pair<double, std::size_t>> candidates;
  for (;;) {
    const Bytes top = device_.max();
    if (top <= budget_) return true;
    const std::int32_t at = device_.argmax();
    candidates.clear();
    for (const std::int32_t index : moves_in_[static_cast<std::size_t>(at) / kStretch]) {
      const auto m = static_cast<std::size_t>(index);
      const Move& move = moves_[m];
      if (move.from > at || move.until <= at || !applicable(move)) continue;
      candidates.emplace_back((reduced_[m] + 1e-3 * move.cost_ns) / static_cast<double>(move.bytes), m);
    }
    if (candidates.empty()) return false;
    std::sort(candidates.begin(), candidates.end());
    Bytes over = top - budget_;
    for (const auto& [score, m] : candidates) {
      if (over <= 0) break;
      if (!applicable(moves_[m]))
        continue;  // an earlier candidate took the same storage or the last of the host memory
      apply(moves_[m]);
      over -= moves_[m].bytes;
    }
  }
}

/// Gives up swaps until the host budget holds: first those the prices want least.
void Solver::vacate_host() {
  std::vector<std::pair<double, std::size_t>> candidates;
  while (host_.max() > host_budget_) {
    const std::int32_t at = host_.argmax();
    candidates.clear();
    for (std::size_t m = 0; m < moves_.size(); ++m) {
      const Move& move = moves_[m];
      const auto g = static_cast<std::size_t>(move.first_gap + move.slot);
      if (move.action != Action::swap || choice_[g] != Action::swap) continue;
      if (p_.gaps[g].free_from > at || p_.gaps[g].taken_from < at) continue;
      candidates.emplace_back(-reduced_[m] / static_cast<double>(move.bytes), m);
    }
    if (candidates.empty()) return;
    std::sort(candidates.begin(), candidates.end());
    Bytes over = host_.max() - host_budget_;
    for (const auto& [score, m] : candidates) {
      if (over <= 0) break;
      const auto g = static_cast<std::size_t>(moves_[m].first_gap + moves_[m].slot);
      choice_[g] = Action::keep;
      device_.add(evaluator_.freed_from()[g], evaluator_.freed_until()[g], p_.gaps[g].bytes);
      host_.add(p_.gaps[g].free_from, p_.gaps[g].taken_from + 1, -p_.gaps[g].bytes);
      over -= p_.gaps[g].bytes;
    }
  }
}

/// Puts gaps back to keep if every position they cover has room.
bool Solver::try_keep(const std::vector<std::int32_t>& gaps) {
  const auto& from = evaluator_.freed_from();
  const auto& until = evaluator_.freed_until();
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    const auto g = static_cast<std::size_t>(gaps[i]);
    device_.add(from[g], until[g], p_.gaps[g].bytes);
    if (device_.max(from[g], until[g]) <= budget_) continue;
    for (std::size_t j = 0; j <= i; ++j) {
      const auto back = static_cast<std::size_t>(gaps[j]);
      device_.add(from[back], until[back], -p_.gaps[back].bytes);
    }
    return false;
  }
  for (const std::int32_t g : gaps) choice_[static_cast<std::size_t>(g)] = Action::keep;
  return true;
}

/// REQUIRES: the trees hold the exact profile of choice_.
void Solver::undo_unneeded() {
  std::vector<std::pair<double, std::size_t>> taken;
  for (std::size_t m = 0; m < moves_.size(); ++m) {
    const Move& move = moves_[m];
    const std::int32_t gap = gaps_of(p_, move).front();
    if (choice_[static_cast<std::size_t>(gap)] != move.action) continue;
    taken.emplace_back(-(reduced_[m] + 1e-3 * move.cost_ns) / static_cast<double>(move.bytes), m);
  }
  std::sort(taken.begin(), taken.end());
  for (const auto& [score, m] : taken) try_keep(gaps_of(p_, moves_[m]));
}

/// Turns recomputes into cheaper swaps where the host and both ends of the gap have room.
void Solver::exchange() {
  for (std::size_t m = 0; m < moves_.size(); ++m) {
    const Move& swap = moves_[m];
    if (swap.action != Action::swap) continue;
    const auto g = static_cast<std::size_t>(swap.first_gap + swap.slot);
    if (choice_[g] != Action::recompute) continue;
    const SiteClass& c = p_.classes[static_cast<std::size_t>(swap.site_class)];
    const SiteClass::Unit& unit = c.units[static_cast<std::size_t>(swap.unit)];
    if (unit.slots.size() != 1 || swap.cost_ns >= static_cast<double>(unit.compute_ns)) continue;
    const Bytes bytes = p_.gaps[g].bytes;
    const std::int32_t from = evaluator_.freed_from()[g], until = evaluator_.freed_until()[g];
    if (host_.max(p_.gaps[g].free_from, p_.gaps[g].taken_from + 1) + bytes > host_budget_) continue;
    if (device_.max(from, swap.from) + bytes > budget_ || device_.max(swap.until, until) + bytes > budget_) continue;
    device_.add(from, swap.from, bytes);
    device_.add(swap.until, until, bytes);
    host_.add(p_.gaps[g].free_from, p_.gaps[g].taken_from + 1, bytes);
    choice_[g] = Action::swap;
  }
}

/// Repairs and improves from a start until nothing changes; the best exact result on the way.
SearchResult Solver::run_from(Choice start) {
  SearchResult best = price(std::move(start));
  choice_ = best.choice;
  for (int round = 0; round < kRounds; ++round) {
    SearchResult now = price(choice_);
    if (better(now, best, host_budget_)) best = now;
    synchronise();
    const Choice before = choice_;
    if (!now.fits) {
      vacate_host();
      const bool repaired = repair();
      if (choice_ == before) break;
      if (!repaired) {
        now = price(choice_);
        if (better(now, best, host_budget_)) best = now;
        if (now.evaluation.peak_bytes >= best.evaluation.peak_bytes && round > 2) break;
      }
      continue;
    }
    exchange();
    undo_unneeded();
    if (choice_ == before) break;
  }
  const SearchResult last = price(choice_);
  return better(last, best, host_budget_) ? last : best;
}

void Solver::use_prices(const Prices& prices, double link_price) {
  std::vector<double> sum(prices.clock.size() + 1, 0), host_sum(prices.clock.size() + 1, 0);
  for (std::size_t t = 0; t < prices.clock.size(); ++t) {
    sum[t + 1] = sum[t] + prices.device[t];
    host_sum[t + 1] = host_sum[t] + prices.host[t];
  }
  const auto index = [&](std::int32_t clock) {
    return static_cast<std::size_t>(std::lower_bound(prices.clock.begin(), prices.clock.end(), clock) -
                                    prices.clock.begin());
  };
  for (std::size_t m = 0; m < moves_.size(); ++m) {
    const Move& move = moves_[m];
    const std::size_t lo = index(move.from), hi = std::max(lo, index(move.until));
    reduced_[m] = move.cost_ns + link_price * move.link_ns - (sum[hi] - sum[lo]) * static_cast<double>(move.bytes);
    if (move.action != Action::swap) continue;
    const GapRow& gap = p_.gaps[static_cast<std::size_t>(move.first_gap + move.slot)];
    const std::size_t held_from = index(gap.free_from), held_until = std::max(held_from, index(gap.host_until));
    reduced_[m] += (host_sum[held_until] - host_sum[held_from]) * static_cast<double>(move.bytes);
  }
}

/// Rounds the fractional plan: what it takes for the most part is taken.
Choice Solver::rounded(const Prices& prices) const {
  Choice choice(p_.gaps.size(), Action::keep);
  for (std::size_t g = 0; g < choice.size(); ++g) {
    if (prices.swap_share[g] >= 0.5F) choice[g] = Action::swap;
    if (prices.recompute_share[g] >= 0.5F) choice[g] = Action::recompute;
  }
  return choice;
}

/// Rounds the fractional plan by classes: every micro-batch does what most of them do.
Choice Solver::rounded_by_class(const Prices& prices, float threshold) const {
  Choice choice(p_.gaps.size(), Action::keep);
  for (const SiteClass& c : p_.classes)
    for (const SiteClass::Unit& unit : c.units) {
      std::vector<float> recompute(unit.slots.size(), 0), swap(unit.slots.size(), 0);
      for (std::size_t i = 0; i < unit.slots.size(); ++i)
        for (const std::int32_t first : c.first_gap) {
          recompute[i] += prices.recompute_share[static_cast<std::size_t>(first + unit.slots[i])];
          swap[i] += prices.swap_share[static_cast<std::size_t>(first + unit.slots[i])];
        }
      const float enough = threshold * static_cast<float>(c.sites.size());
      const bool rebuild = recompute.front() + swap.front() >= enough && recompute.front() >= swap.front();
      for (std::size_t i = 0; i < unit.slots.size(); ++i) {
        const Action action = rebuild ? Action::recompute : swap[i] >= enough ? Action::swap : Action::keep;
        for (const std::int32_t first : c.first_gap) choice[static_cast<std::size_t>(first + unit.slots[i])] = action;
      }
    }
  return choice;
}

/// Ruin and recreate: forget a few moves, repair, keep what is better. Seeded, so the same every time.
void Solver::refine(SearchResult& best) {
  std::uint64_t state = 1;
  const auto below = [&](std::size_t n) {
    state = state * std::uint64_t{6364136223846793005} + std::uint64_t{1442695040888963407};
    return static_cast<std::size_t>(state >> 33) % n;
  };
  const std::size_t rounds = std::min(kMostRefinements, kRefinementWork / (p_.gaps.size() + p_.base_bytes.size() + 1));
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<std::size_t> taken;
    for (std::size_t m = 0; m < moves_.size(); ++m)
      if (best.choice[static_cast<std::size_t>(gaps_of(p_, moves_[m]).front())] == moves_[m].action) taken.push_back(m);
    if (taken.empty()) return;
    Choice start = best.choice;
    for (std::size_t k = 0, n = 1 + below(3); k < n; ++k)
      for (const std::int32_t g : gaps_of(p_, moves_[taken[below(taken.size())]]))
        start[static_cast<std::size_t>(g)] = Action::keep;
    // Sometimes take a move at random, so that the repair starts from elsewhere.
    const Move& extra = moves_[below(moves_.size())];
    const auto gaps = gaps_of(p_, extra);
    const bool free = std::all_of(gaps.begin(), gaps.end(),
                                  [&](std::int32_t g) { return start[static_cast<std::size_t>(g)] == Action::keep; });
    if (free && below(2) == 0)
      for (const std::int32_t g : gaps) start[static_cast<std::size_t>(g)] = extra.action;
    SearchResult candidate = run_from(std::move(start));
    if (better(candidate, best, host_budget_)) best = std::move(candidate);
  }
}

SearchResult Solver::optimal() {
  const Choice keep(p_.gaps.size(), Action::keep);
  SearchResult best = price(keep);
  if (best.fits) {
    best.proven_optimal = true;
    return best;
  }
  const Prices prices = find_prices(p_, budget_, host_budget_, kAscentSteps);
  use_prices(prices, 0);
  const Choice fractional = rounded(prices);
  const auto try_from = [&](Choice start) {
    SearchResult candidate = run_from(std::move(start));
    if (better(candidate, best, host_budget_)) best = std::move(candidate);
  };
  try_from(fractional);

  // Copies in flight and transients take room the relaxation does not see: price again with that room taken off.
  const SearchResult unrepaired = price(fractional);
  const Bytes device_room = std::max<Bytes>(0, unrepaired.evaluation.peak_bytes - budget_);
  const Bytes host_room = std::max<Bytes>(0, unrepaired.evaluation.host_peak_bytes - host_budget_);
  const bool close = best.fits && static_cast<double>(best.evaluation.added_ns()) <= kCloseToBound * prices.bound_ns;
  if (device_room + host_room > 0 && !close) {
    const Prices tighter = find_prices(p_, std::max<Bytes>(0, budget_ - device_room),
                                       std::max<Bytes>(0, host_budget_ - host_room), kWarmSteps, &prices);
    use_prices(tighter, 0);
    try_from(rounded(tighter));
  }
  for (const double link_price : {0.02, 0.2, 1.0}) {
    if (best.fits && best.evaluation.exposed_copy_ns == 0) break;
    use_prices(prices, link_price);
    try_from(fractional);
  }
  // Rounding is weak where few storages are large against the budget: there other starts and many small repairs are
  // cheap.
  const bool far = best.fits && static_cast<double>(best.evaluation.added_ns()) > kFarFromBound * prices.bound_ns;
  use_prices(prices, 0);
  const bool small = p_.gaps.size() <= kSmallProblem;
  if (!best.fits || far || small)
    for (const float threshold : {0.3F, 0.5F, 0.7F}) try_from(rounded_by_class(prices, threshold));
  if (!best.fits || small) {
    try_from(keep);
    try_from(choose_full_recompute(p_));
    try_from(search_greedy(p_, budget_, host_budget_).choice);
  }
  if (small) refine(best);
  best.lower_bound_ns = prices.bound_ns;
  best.prices = prices;
  return best;
}

/// Depth-first over units; costs only grow, so a branch dearer than the best is cut.
class Enumerator {
 public:
  Enumerator(const DecisionProblem& problem, Bytes device_budget, Bytes host_budget)
      : p_(problem),
        budget_(device_budget),
        host_budget_(host_budget),
        evaluator_(problem),
        choice_(problem.gaps.size(), Action::keep) {
    for (const SiteClass& c : p_.classes)
      for (const std::int32_t first : c.first_gap)
        for (const SiteClass::Unit& unit : c.units) units_.push_back({&unit, first});
  }

  SearchResult run() {
    best_.choice = choice_;
    best_.evaluation = evaluator_.evaluate(choice_);
    best_.fits = fits(best_.evaluation);
    descend(0, 0);
    best_.proven_optimal = true;
    if (best_.fits) best_.lower_bound_ns = static_cast<double>(best_.evaluation.added_ns());
    return best_;
  }

 private:
  [[nodiscard]] bool fits(const Evaluation& e) const {
    return e.peak_bytes <= budget_ && e.host_peak_bytes <= host_budget_;
  }

  void descend(std::size_t unit, std::int64_t cost_ns) {
    if (best_.fits && cost_ns >= best_.evaluation.added_ns()) return;
    if (unit == units_.size()) {
      SearchResult now{.choice = choice_, .evaluation = evaluator_.evaluate(choice_)};
      now.fits = fits(now.evaluation);
      if (better(now, best_, host_budget_)) best_ = std::move(now);
      return;
    }
    const auto& [u, first] = units_[unit];
    assign(*u, first, 0, unit, cost_ns);
    if (u->recipe == kNone<RecipeId>) return;
    for (const std::int32_t slot : u->slots) choice_[static_cast<std::size_t>(first + slot)] = Action::recompute;
    descend(unit + 1, cost_ns + u->compute_ns);
    for (const std::int32_t slot : u->slots) choice_[static_cast<std::size_t>(first + slot)] = Action::keep;
  }

  void assign(const SiteClass::Unit& u, std::int32_t first, std::size_t slot, std::size_t unit, std::int64_t cost_ns) {
    if (slot == u.slots.size()) return descend(unit + 1, cost_ns);
    assign(u, first, slot + 1, unit, cost_ns);
    const auto g = static_cast<std::size_t>(first + u.slots[slot]);
    const GapRow& gap = p_.gaps[g];
    if (!p_.graph->template_of(gap.gap.storage).swappable) return;
    choice_[g] = Action::swap;
    assign(u, first, slot + 1, unit, cost_ns + gap.copy_out.compute_ns + gap.copy_in.compute_ns);
    choice_[g] = Action::keep;
  }

  const DecisionProblem& p_;
  Bytes budget_, host_budget_;
  Evaluator evaluator_;
  Choice choice_;
  std::vector<std::pair<const SiteClass::Unit*, std::int32_t>> units_;
  SearchResult best_;
};

}  // namespace

double count_choices(const DecisionProblem& problem) {
  double count = 1;
  for (const SiteClass& c : problem.classes)
    for (std::size_t s = 0; s < c.sites.size(); ++s)
      for (const SiteClass::Unit& unit : c.units)
        count *= std::pow(2.0, static_cast<double>(unit.slots.size())) + (unit.recipe == kNone<RecipeId> ? 0 : 1);
  return count;
}

SearchResult search_exhaustively(const DecisionProblem& problem, Bytes device_budget, Bytes host_budget) {
  return Enumerator(problem, device_budget, host_budget).run();
}

SearchResult search_optimal(const DecisionProblem& problem, Bytes device_budget, Bytes host_budget) {
  if (count_choices(problem) <= kEnumerationLimit) return search_exhaustively(problem, device_budget, host_budget);
  return Solver(problem, device_budget, host_budget).optimal();
}

SearchResult search_greedy(const DecisionProblem& problem, Bytes device_budget, Bytes host_budget) {
  const std::vector<Move> moves = list_moves(problem);
  Evaluator evaluator(problem);
  SearchResult now{.choice = Choice(problem.gaps.size(), Action::keep)};
  const auto price = [&] {
    now.evaluation = evaluator.evaluate(now.choice);
    now.fits = now.evaluation.peak_bytes <= device_budget && now.evaluation.host_peak_bytes <= host_budget;
  };
  price();

  // One entry per (class, unit or slot, action): all micro-batches together, bytes per added nanosecond.
  struct Group {
    double bytes = 0, cost_ns = 0;
    std::vector<std::size_t> moves;
  };
  std::vector<Group> groups;
  std::vector<std::array<std::int32_t, 4>> keys;
  std::vector<std::pair<std::array<std::int32_t, 4>, std::size_t>> keyed;
  for (std::size_t m = 0; m < moves.size(); ++m) {
    const Move& move = moves[m];
    keyed.push_back({{move.site_class, move.unit, move.action == Action::swap ? move.slot : -1,
                      static_cast<std::int32_t>(move.action)},
                     m});
  }
  std::sort(keyed.begin(), keyed.end());
  for (const auto& [key, m] : keyed) {
    if (keys.empty() || keys.back() != key) {
      keys.push_back(key);
      groups.emplace_back();
    }
    groups.back().bytes += static_cast<double>(moves[m].bytes);
    groups.back().cost_ns += moves[m].cost_ns;
    groups.back().moves.push_back(m);
  }
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return groups[a].bytes * groups[b].cost_ns > groups[b].bytes * groups[a].cost_ns;
  });
  for (const std::size_t g : order) {
    if (now.fits) break;
    const SearchResult before = now;
    bool changed = false;
    for (const std::size_t m : groups[g].moves) {
      const auto gaps = gaps_of(problem, moves[m]);
      if (std::any_of(gaps.begin(), gaps.end(),
                      [&](std::int32_t row) { return now.choice[static_cast<std::size_t>(row)] != Action::keep; }))
        continue;
      for (const std::int32_t row : gaps) now.choice[static_cast<std::size_t>(row)] = moves[m].action;
      changed = true;
    }
    if (!changed) continue;
    price();
    if (now.evaluation.host_peak_bytes > host_budget || now.evaluation.peak_bytes > before.evaluation.peak_bytes)
      now = before;
  }
  return now;
}

}  // namespace tidemark
