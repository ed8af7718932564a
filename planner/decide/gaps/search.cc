#include "planner/decide/gaps/search.h"

#include <algorithm>
#include <utility>

#include "planner/decide/gaps/load_tree.h"
#include "planner/decide/gaps/move_pricer.h"
#include "planner/decide/gaps/period.h"

namespace tidemark::decide::gaps {
namespace {

constexpr int kAscentSteps = 120;
constexpr int kWarmSteps = 40;
constexpr int kUnfoldedSteps = 25;      ///< on the whole, from prices of a short step
constexpr double kFarFromBound = 1.1;   ///< this far from it, rounding by kind is tried as well
constexpr double kCloseToBound = 1.04;  ///< no second pricing this close to the bound
constexpr int kRounds = 12;
constexpr std::size_t kStretch = 512;
constexpr std::size_t kSmallProblem = 1000;  ///< gaps; up to here extra starts and refinement are tried
/// Gaps; beyond it a search of the whole from a start takes longer than its plan is worth.
constexpr std::size_t kLongProblem = 20'000;
constexpr std::size_t kMostRefinements = 300;
constexpr std::size_t kRefinementWork = 1'500'000;  ///< gaps and half-steps looked at
constexpr double kEnumerationLimit = 20000;

/// One search over one problem and budget.
class Solver {
 public:
  Solver(const GapProblem& problem, Pricer& pricer, Bytes device_budget, Bytes host_budget,
         const std::function<bool()>& should_stop)
      : p_(problem),
        pricer_(pricer),
        budget_(device_budget),
        host_budget_(host_budget),
        should_stop_(should_stop),
        moves_(problem.moves),
        device_(problem.base_bytes),
        host_(std::vector<Bytes>(problem.base_bytes.size(), problem.base_host_bytes)) {
    for (const Move& move : moves_) reduced_.push_back(move.cost);
    index_moves();
  }

  SearchResult run_from(Choice start);
  SearchResult optimal(SearchDepth depth, const SearchStart* from);
  SearchResult by_period(const Period& period, SearchDepth depth);

 private:
  [[nodiscard]] bool stopped() const { return should_stop_ && should_stop_(); }
  [[nodiscard]] SearchResult price(Choice choice) { return priced(std::move(choice), pricer_, budget_, host_budget_); }
  [[nodiscard]] bool applicable(const Move& move) const;
  void apply(const Move& move);
  void synchronise() {
    device_.reset(pricer_.profile());
    host_.reset(pricer_.host_profile());
  }
  bool repair();
  void index_moves();
  void vacate_host();
  void undo_unneeded();
  void exchange();
  bool try_keep(std::span<const std::int32_t> gaps);
  void use_prices(const Prices& prices, double link_price);
  void refine(SearchResult& best);
  [[nodiscard]] Choice rounded(const Prices& prices) const;
  [[nodiscard]] Choice rounded_by_kind(const Prices& prices, float threshold) const;

  const GapProblem& p_;
  Pricer& pricer_;
  Bytes budget_, host_budget_;
  const std::function<bool()>& should_stop_;
  const std::vector<Move>& moves_;
  std::vector<double> reduced_;  ///< cost of each move less the value of what it frees elsewhere
  LoadTree device_, host_;
  Choice choice_;
  std::vector<std::vector<std::int32_t>> moves_in_;  ///< per kStretch half-steps
};

bool Solver::applicable(const Move& move) const {
  for (const std::int32_t gap : p_.gaps_of(move))
    if (choice_[static_cast<std::size_t>(gap)] != Action::keep) return false;
  if (move.action == Action::recompute) return true;
  const GapProblem::Gap& gap = p_.gaps[static_cast<std::size_t>(move.gap)];
  return host_.max(gap.free_from, gap.taken_from + 1) + move.bytes <= host_budget_;
}

void Solver::apply(const Move& move) {
  for (const std::int32_t g : p_.gaps_of(move)) {
    const GapProblem::Gap& gap = p_.gaps[static_cast<std::size_t>(g)];
    choice_[static_cast<std::size_t>(g)] = move.action;
    const std::int32_t from = move.action == Action::swap ? move.from : gap.free_from;
    device_.add(from, move.until, -gap.bytes);
    if (move.action == Action::swap) host_.add(gap.free_from, gap.taken_from + 1, gap.bytes);
  }
  if (move.action == Action::recompute) device_.add(move.until, move.run_at + 1, move.transient_bytes);
}

/// Lists, per stretch of the row, the moves that free bytes anywhere in it, so that a repair looks at what is in
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

/// Takes moves until no position overflows. False: some position cannot be helped, or it was told to stop.
bool Solver::repair() {
  std::vector<std::pair<double, std::size_t>> candidates;
  for (;;) {
    const Bytes top = device_.max();
    if (top <= budget_) return true;
    if (stopped()) return false;
    const std::int32_t at = device_.argmax();
    candidates.clear();
    for (const std::int32_t index : moves_in_[static_cast<std::size_t>(at) / kStretch]) {
      const auto m = static_cast<std::size_t>(index);
      const Move& move = moves_[m];
      if (move.from > at || move.until <= at || !applicable(move)) continue;
      candidates.emplace_back((reduced_[m] + 1e-3 * move.cost) / static_cast<double>(move.bytes), m);
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
      const auto g = static_cast<std::size_t>(move.gap);
      if (move.action != Action::swap || choice_[g] != Action::swap) continue;
      if (p_.gaps[g].free_from > at || p_.gaps[g].taken_from < at) continue;
      candidates.emplace_back(-reduced_[m] / static_cast<double>(move.bytes), m);
    }
    if (candidates.empty()) return;
    std::sort(candidates.begin(), candidates.end());
    Bytes over = host_.max() - host_budget_;
    for (const auto& [score, m] : candidates) {
      if (over <= 0) break;
      const auto g = static_cast<std::size_t>(moves_[m].gap);
      choice_[g] = Action::keep;
      device_.add(pricer_.freed_from()[g], pricer_.freed_until()[g], p_.gaps[g].bytes);
      host_.add(p_.gaps[g].free_from, p_.gaps[g].taken_from + 1, -p_.gaps[g].bytes);
      over -= p_.gaps[g].bytes;
    }
  }
}

/// Puts gaps back to keep if every position they cover has room.
bool Solver::try_keep(std::span<const std::int32_t> gaps) {
  const auto& from = pricer_.freed_from();
  const auto& until = pricer_.freed_until();
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
    if (choice_[static_cast<std::size_t>(move.gap)] != move.action) continue;
    taken.emplace_back(-(reduced_[m] + 1e-3 * move.cost) / static_cast<double>(move.bytes), m);
  }
  std::sort(taken.begin(), taken.end());
  for (const auto& [score, m] : taken) try_keep(p_.gaps_of(moves_[m]));
}

/// Turns recomputes into cheaper swaps where the host and both ends of the gap have room.
void Solver::exchange() {
  for (std::size_t m = 0; m < moves_.size(); ++m) {
    const Move& swap = moves_[m];
    if (swap.action != Action::swap) continue;
    const auto g = static_cast<std::size_t>(swap.gap);
    if (choice_[g] != Action::recompute) continue;
    const GapProblem::Unit& unit = p_.units[static_cast<std::size_t>(swap.unit)];
    if (unit.count != 1 || swap.cost >= unit.recompute_cost) continue;
    const Bytes bytes = p_.gaps[g].bytes;
    const std::int32_t from = pricer_.freed_from()[g], until = pricer_.freed_until()[g];
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
  for (int round = 0; round < kRounds && !stopped(); ++round) {
    SearchResult now = price(choice_);
    if (is_better(now, best, host_budget_)) best = now;
    synchronise();
    const Choice before = choice_;
    if (!now.fits) {
      vacate_host();
      const bool repaired = repair();
      if (choice_ == before) break;
      if (!repaired) {
        now = price(choice_);
        if (is_better(now, best, host_budget_)) best = now;
        if (now.pricing.peak_bytes >= best.pricing.peak_bytes && round > 2) break;
      }
      continue;
    }
    exchange();
    undo_unneeded();
    if (choice_ == before) break;
  }
  const SearchResult last = price(choice_);
  return is_better(last, best, host_budget_) ? last : best;
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
    reduced_[m] = move.cost + link_price * move.link_time - (sum[hi] - sum[lo]) * static_cast<double>(move.bytes);
    if (move.action != Action::swap) continue;
    const GapProblem::Gap& gap = p_.gaps[static_cast<std::size_t>(move.gap)];
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

/// Rounds the fractional plan by kinds: every unit does what most of its kind do.
Choice Solver::rounded_by_kind(const Prices& prices, float threshold) const {
  struct Share {
    float units = 0;
    std::vector<float> recompute, swap;  ///< per gap of a unit
  };
  std::vector<Share> of_kind(static_cast<std::size_t>(p_.kinds));
  for (const GapProblem::Unit& unit : p_.units) {
    Share& share = of_kind[static_cast<std::size_t>(unit.kind)];
    share.recompute.resize(static_cast<std::size_t>(unit.count), 0);
    share.swap.resize(static_cast<std::size_t>(unit.count), 0);
    share.units += 1;
    const auto gaps = p_.gaps_of(unit);
    for (std::size_t i = 0; i < gaps.size(); ++i) {
      share.recompute[i] += prices.recompute_share[static_cast<std::size_t>(gaps[i])];
      share.swap[i] += prices.swap_share[static_cast<std::size_t>(gaps[i])];
    }
  }
  Choice choice(p_.gaps.size(), Action::keep);
  for (const GapProblem::Unit& unit : p_.units) {
    const Share& share = of_kind[static_cast<std::size_t>(unit.kind)];
    const float enough = threshold * share.units;
    const bool rebuild =
        share.recompute.front() + share.swap.front() >= enough && share.recompute.front() >= share.swap.front();
    const auto gaps = p_.gaps_of(unit);
    for (std::size_t i = 0; i < gaps.size(); ++i) {
      const Action action = rebuild ? Action::recompute : share.swap[i] >= enough ? Action::swap : Action::keep;
      choice[static_cast<std::size_t>(gaps[i])] = action;
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
      if (best.choice[static_cast<std::size_t>(moves_[m].gap)] == moves_[m].action) taken.push_back(m);
    if (taken.empty()) return;
    Choice start = best.choice;
    for (std::size_t k = 0, n = 1 + below(3); k < n; ++k)
      for (const std::int32_t g : p_.gaps_of(moves_[taken[below(taken.size())]]))
        start[static_cast<std::size_t>(g)] = Action::keep;
    // Sometimes take a move at random, so that the repair starts from elsewhere.
    const Move& extra = moves_[below(moves_.size())];
    const auto gaps = p_.gaps_of(extra);
    const bool free = std::all_of(gaps.begin(), gaps.end(),
                                  [&](std::int32_t g) { return start[static_cast<std::size_t>(g)] == Action::keep; });
    if (free && below(2) == 0)
      for (const std::int32_t g : gaps) start[static_cast<std::size_t>(g)] = extra.action;
    SearchResult candidate = run_from(std::move(start));
    if (is_better(candidate, best, host_budget_)) best = std::move(candidate);
  }
}

SearchResult Solver::optimal(SearchDepth depth, const SearchStart* from) {
  const Choice keep(p_.gaps.size(), Action::keep);
  SearchResult best = price(keep);
  if (best.fits) {
    best.proven_optimal = true;
    return best;
  }
  const bool is_brief = depth == SearchDepth::brief && p_.gaps.size() > kSmallProblem;
  const Prices prices =
      find_prices(p_, critical_positions(p_, budget_), budget_, host_budget_,
                  from != nullptr ? kWarmSteps : kAscentSteps, from != nullptr ? &from->prices : nullptr, should_stop_);
  use_prices(prices, 0);
  const Choice fractional = from != nullptr ? from->choice : rounded(prices);
  const auto try_from = [&](Choice start) {
    if (stopped()) return;
    SearchResult candidate = run_from(std::move(start));
    if (is_better(candidate, best, host_budget_)) best = std::move(candidate);
  };
  try_from(fractional);
  // Copies in flight and transients take room the relaxation does not see: price again with that room taken off.
  const SearchResult unrepaired = price(fractional);
  const Bytes device_room = std::max<Bytes>(0, unrepaired.pricing.peak_bytes - budget_);
  const Bytes host_room = std::max<Bytes>(0, unrepaired.pricing.host_peak_bytes - host_budget_);
  const bool close = best.fits && static_cast<double>(best.pricing.added_cost) <= kCloseToBound * prices.bound;
  if (device_room + host_room > 0 && !close && !(is_brief && best.fits)) {
    const Bytes device = std::max<Bytes>(0, budget_ - device_room), host = std::max<Bytes>(0, host_budget_ - host_room);
    const Prices tighter =
        find_prices(p_, critical_positions(p_, device), device, host, kWarmSteps, &prices, should_stop_);
    use_prices(tighter, 0);
    try_from(rounded(tighter));
  }
  const bool linked = std::any_of(moves_.begin(), moves_.end(), [](const Move& move) { return move.link_time > 0; });
  for (const double link_price : {0.02, 0.2, 1.0}) {
    if (!linked) break;
    if (best.fits && (is_brief || best.pricing.exposed_copy_cost == 0)) break;
    use_prices(prices, link_price);
    try_from(fractional);
  }
  if (is_brief) {
    // Where prices do not come down to the budget, giving up all and taking back what has room mostly does.
    if (!best.fits) try_from(recompute_all(p_));
    best.lower_bound = prices.bound;
    best.prices = prices;
    return best;
  }
  // Rounding is weak where few storages are large against the budget: there other starts and many small repairs are
  // cheap.
  const bool far = best.fits && static_cast<double>(best.pricing.added_cost) > kFarFromBound * prices.bound;
  use_prices(prices, 0);
  const bool full = depth != SearchDepth::rounding, small = full && p_.gaps.size() <= kSmallProblem;
  if (!best.fits || far || small)
    for (const float threshold : {0.3F, 0.5F, 0.7F}) try_from(rounded_by_kind(prices, threshold));
  if ((full && !best.fits) || small) {
    try_from(keep);
    try_from(recompute_all(p_));
    try_from(search_greedy(p_, pricer_, budget_, host_budget_).choice);
  }
  if (small) refine(best);
  best.lower_bound = prices.bound;
  best.prices = prices;
  return best;
}

/// Decides a long step on a short one, and mends on the whole what does not fit there. Nothing that fits: neither the
/// short step has a choice that does, nor the whole.
SearchResult Solver::by_period(const Period& period, SearchDepth depth) {
  MovePricer short_pricer(period.folded());
  Solver folded(period.folded(), short_pricer, budget_, host_budget_, should_stop_);
  const SearchResult found = folded.optimal(depth, nullptr);
  if (!found.fits || !found.prices) return {};
  const Prices unfolded = period.unfold(*found.prices, budget_, host_budget_);
  Prices prices = find_prices(p_, unfolded.clock, budget_, host_budget_, kUnfoldedSteps, &unfolded, should_stop_);
  use_prices(prices, 0);
  SearchResult best = run_from(period.unfold(found.choice));
  const auto is_far = [&] { return static_cast<double>(best.pricing.added_cost) > kFarFromBound * prices.bound; };
  if (depth == SearchDepth::full && (!best.fits || is_far()) && !stopped()) {
    // Whole kinds at a time are nearer to what copies that queue leave room for.
    const SearchResult greedy = search_greedy(period.folded(), short_pricer, budget_, host_budget_);
    SearchResult other = run_from(period.unfold(folded.run_from(greedy.choice).choice));
    if (is_better(other, best, host_budget_)) best = std::move(other);
  }
  best.lower_bound = prices.bound;
  best.prices = std::move(prices);
  return best;
}

}  // namespace

bool is_better(const SearchResult& a, const SearchResult& b, Bytes host_budget) {
  if (a.fits != b.fits) return a.fits;
  if (a.fits) return a.pricing.added_cost < b.pricing.added_cost;
  const Bytes host_a = std::max(a.pricing.host_peak_bytes, host_budget);
  const Bytes host_b = std::max(b.pricing.host_peak_bytes, host_budget);
  return std::pair(host_a, a.pricing.peak_bytes) < std::pair(host_b, b.pricing.peak_bytes);
}

SearchResult priced(Choice choice, Pricer& pricer, Bytes device_budget, Bytes host_budget) {
  SearchResult result{.pricing = pricer.price(choice)};
  result.fits = result.pricing.peak_bytes <= device_budget && result.pricing.host_peak_bytes <= host_budget;
  result.choice = std::move(choice);
  return result;
}

SearchResult search_optimal(const GapProblem& problem, Pricer& pricer, Bytes device_budget, Bytes host_budget,
                            SearchDepth depth, const std::function<bool()>& should_stop, const SearchStart* start) {
  if (depth != SearchDepth::rounding && count_choices(problem) <= kEnumerationLimit)
    return search_exhaustively(problem, pricer, device_budget, host_budget);
  const std::size_t longest = start != nullptr ? kLongProblem : kSmallProblem;
  const bool is_long = depth != SearchDepth::rounding && problem.gaps.size() > longest;
  if (const std::optional<Period> period = is_long ? Period::find(problem) : std::nullopt) {
    SearchResult result = Solver(problem, pricer, device_budget, host_budget, should_stop).by_period(*period, depth);
    if (result.fits) return result;
  }
  return Solver(problem, pricer, device_budget, host_budget, should_stop).optimal(depth, start);
}

}  // namespace tidemark::decide::gaps
