#include "planner/decide/flat/seeds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "planner/decide/flat/list_length.h"
#include "planner/decide/flat/recompute.h"
#include "planner/decide/flat/treeverse.h"
#include "planner/threads/parallel.h"

namespace tidemark::decide::flat {
namespace {

constexpr int kSizes = 22;
constexpr int kMostInVain = 2;  // sizes of segments that take as much as keeping everything, with any number of levels
constexpr std::int32_t kMostStored = 24;
constexpr std::size_t kMostCuts = 1500;

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

/// How many states to hold so that no segment runs more than twice again: C(s + 2, 2) reaches the number of segments
/// (Griewank and Walther 2000). From there on holding one more saves one run, which local search finds.
std::int32_t held_for_two_runs(std::int32_t segments) {
  std::int64_t held = 1;
  while ((held + 2) * (held + 1) / 2 < segments) ++held;
  return static_cast<std::int32_t>(held);
}

/// A storage that idles over the peak.
struct Idle {
  std::int32_t storage = 0;
  std::int32_t made = 0;  ///< op
  std::int32_t near = 0;  ///< the last op before the peak that touches it
  std::int32_t back = 0;  ///< the first op behind the peak that does
};

std::vector<Idle> idle_over(const State& state, Key peak) {
  const Problem& p = state.problem();
  std::vector<Idle> idle;
  for (std::int32_t s = 0; s < p.storage_count; ++s) {
    const std::int32_t v = p.producer[at(s)];
    if (v < 0 || p.bytes[at(s)] == 0 || key_of(v, v) >= peak) continue;
    const State::Gap gap = state.gap_around(s, peak);
    if (gap.until == 0 || gap.until == peak || !p.may_recompute(v, stage_of(gap.until))) continue;
    idle.push_back({.storage = s, .made = v, .near = stage_of(gap.from), .back = stage_of(gap.until)});
  }
  // The last to come back first: what is dropped for it is then gone where those before it need it, and comes back
  // there.
  std::ranges::stable_sort(idle, std::greater<>(), &Idle::back);
  return idle;
}

class Cuts {
 public:
  Cuts(const Problem& p, const std::vector<Idle>& idle, std::int32_t end) : idle_(idle), p_(p) {
    // A cut behind op c holds what is made up to c and needed soon after.
    std::vector<Bytes> held(at(end) + 2), made(at(end) + 2);
    for (const Idle& i : idle) {
      made[at(i.made) + 1] += p.bytes[at(i.storage)];
      held[at(i.made)] += p.bytes[at(i.storage)];
      held[at(i.near)] -= p.bytes[at(i.storage)];
    }
    for (std::int32_t c = 0; c <= end; ++c) {
      if (c > 0) held[at(c)] += held[at(c - 1)];
      made[at(c) + 1] += made[at(c)];
    }
    total_ = made[at(end) + 1];
    choose(held, made, end);
  }

  [[nodiscard]] Bytes total() const { return total_; }

  /// Cuts (ops behind which to cut) with at most `most` bytes made between two of them, holding least.
  [[nodiscard]] std::vector<std::int32_t> within(Bytes most) const {
    const std::size_t count = op_.size();
    std::vector<Bytes> best(count + 1, std::numeric_limits<Bytes>::max());
    std::vector<std::size_t> from(count + 1, 0);
    best[0] = 0;  // the beginning; cut i is entry i + 1
    for (std::size_t i = 1; i <= count; ++i) {
      for (std::size_t j = i; j-- > 0;) {
        const Bytes before = j == 0 ? 0 : made_[j - 1];
        if (made_[i - 1] - before > most && j + 1 < i) break;
        if (best[j] == std::numeric_limits<Bytes>::max() || best[j] + held_[i - 1] >= best[i]) continue;
        best[i] = best[j] + held_[i - 1];
        from[i] = j;
      }
    }
    std::size_t last = count;
    for (std::size_t i = count; i > 0 && total_ - made_[i - 1] <= most; --i)
      if (best[i] < best[last]) last = i;
    std::vector<std::int32_t> cuts;
    for (std::size_t i = last; i > 0; i = from[i]) cuts.push_back(op_[i - 1]);
    std::ranges::reverse(cuts);
    return cuts;
  }

  /// What checkpoints at these cuts keep.
  [[nodiscard]] std::vector<std::uint8_t> kept(const std::vector<std::int32_t>& cuts) const {
    std::vector<std::uint8_t> kept(at(p_.storage_count));
    for (const Idle& i : idle_) {
      const auto cut = std::ranges::lower_bound(cuts, i.made);
      if (cut != cuts.end() && *cut < i.near) kept[at(i.storage)] = 1;
    }
    return kept;
  }

 private:
  /// Places where little is held: of long lists the best of every stretch.
  void choose(const std::vector<Bytes>& held, const std::vector<Bytes>& made, std::int32_t end) {
    const std::size_t stretch = at(end) / kMostCuts + 1;
    for (std::size_t begin = 0; begin < at(end); begin += stretch) {
      std::size_t best = begin;
      for (std::size_t c = begin; c < std::min(begin + stretch, at(end)); ++c)
        if (held[c] < held[best]) best = c;
      op_.push_back(static_cast<std::int32_t>(best));
      held_.push_back(held[best]);
      made_.push_back(made[best + 1]);
    }
  }

  const std::vector<Idle>& idle_;
  const Problem& p_;
  std::vector<std::int32_t> op_;
  std::vector<Bytes> held_, made_;  ///< per cut; made up to and with its op
  Bytes total_ = 0;
};

/// Schedules for one choice of cuts.
class Segments {
 public:
  Segments(const Problem& p, const std::vector<Idle>& idle, Key peak, const Cuts& cuts,
           std::vector<std::int32_t> chosen)
      : p_(p), kept_(cuts.kept(chosen)), ends_(std::move(chosen)) {
    if (const std::int32_t end = stage_of(peak) - 1; ends_.empty() || ends_.back() < end) ends_.push_back(end);
    need_.assign(ends_.size(), -1);
    for (const Idle& i : idle) {
      const auto segment = std::ranges::lower_bound(ends_, i.made) - ends_.begin();
      if (segment >= std::ssize(ends_)) continue;
      std::int32_t& need = need_[static_cast<std::size_t>(segment)];
      need = need < 0 ? i.back : std::min(need, i.back);
    }
  }
  [[nodiscard]] std::int32_t count() const { return static_cast<std::int32_t>(ends_.size()); }

  /// Every segment runs again once, but for what is held.
  [[nodiscard]] Solution one_level() const {
    std::vector<Key> keys;
    std::int32_t begin = 0;
    for (std::size_t segment = 0; segment < ends_.size(); ++segment) {
      for (std::int32_t v = begin; need_[segment] >= 0 && v <= ends_[segment]; ++v) {
        const bool held = std::ranges::all_of(p_.writes[v], [&](std::int32_t s) { return kept_[at(s)] != 0; });
        if (!held && p_.may_recompute(v, need_[segment])) keys.push_back(key_of(need_[segment], v));
      }
      begin = ends_[segment] + 1;
    }
    return without_useless(p_, {.reruns = std::move(keys), .swaps = {}});
  }

  /// Empty: it would take more than `most` reruns. `first_again`: the first segment runs again too, not held.
  [[nodiscard]] std::optional<Solution> several_levels(std::int32_t stored, bool first_again, std::int64_t most) const {
    std::vector<Key> keys;
    bool over = false;
    Treeverse(count(), stored).for_each_advance([&](std::int32_t begin, std::int32_t end, std::int32_t state) {
      const std::int32_t stage = need_[at(state)];
      if (stage < 0 || over) return;
      const std::int32_t from = begin == 0 && first_again ? 0 : ends_[at(begin)] + 1;
      for (std::int32_t v = from; v <= ends_[at(end)]; ++v)
        if (p_.may_recompute(v, stage)) keys.push_back(key_of(stage, v));
      over = std::ssize(keys) > most;
    });
    if (over) return std::nullopt;
    for (std::int32_t v = 0; first_again && need_[0] >= 0 && v <= ends_[0]; ++v)
      if (p_.may_recompute(v, need_[0])) keys.push_back(key_of(need_[0], v));
    return without_useless(p_, {.reruns = std::move(keys), .swaps = {}});
  }

 private:
  const Problem& p_;
  std::vector<std::uint8_t> kept_;
  std::vector<std::int32_t> ends_;  ///< last op of each segment
  std::vector<std::int32_t> need_;  ///< the first op behind the peak that needs something of it; -1: none
};

/// Seeds for one choice of cuts after the other, while there are runs left to give to them.
class Seeding {
 public:
  Seeding(const Problem& problem, std::int64_t most_reruns, const std::function<bool()>& should_stop)
      : p_(problem),
        should_stop_(should_stop),
        keep_all_(problem, 0),
        peak_(keep_all_.profile().peak_key()),
        idle_(idle_over(keep_all_, peak_)),
        lowest_(keep_all_.profile().peak()),
        left_(most_reruns) {}

  [[nodiscard]] std::vector<Solution> seeds() {
    if (idle_.empty()) return {};
    const Cuts cuts(p_, idle_, stage_of(peak_));
    std::vector<std::int32_t> previous{-1};
    // Small segments first: they take most reruns.
    const int stride = p_.op_count > kManyOps ? 3 : 1;
    for (int i = kSizes - 1; i >= 0 && left_ > 0 && in_vain_ < kMostInVain && !stopped(); i -= stride) {
      const double share = std::pow(2.0, -static_cast<double>(i) / 2);
      std::vector<std::int32_t> chosen = cuts.within(static_cast<Bytes>(static_cast<double>(cuts.total()) * share));
      if (chosen == previous) continue;
      previous = chosen;
      try_cuts(Segments(p_, idle_, peak_, cuts, std::move(chosen)), i + 1 == kSizes);
    }
    return std::move(seeds_);
  }

 private:
  [[nodiscard]] bool stopped() const { return should_stop_ && should_stop_(); }

  void try_cuts(const Segments& segments, bool finest) {
    allowance_ = std::min(left_, left_ / 4 + 1000);
    const std::size_t known = seeds_.size();
    static_cast<void>(add(segments.one_level()));
    if (p_.op_count > kManyOps) return;  // of more than one level the reruns are too many
    const std::int32_t most_stored = std::max(kMostStored, held_for_two_runs(segments.count()));
    bool lower = true;  // the more is stored, the higher the peak
    for (std::int32_t stored = 1;
         lower && allowance_ > 0 && stored < segments.count() && stored <= most_stored && !stopped();
         stored += finest ? 1 : 1 + stored / 6) {
      std::array<std::optional<Solution>, 2> levels;
      threads::parallel_for_each(0, levels.size(), [&](std::size_t first_again) {
        levels[first_again] = segments.several_levels(stored, first_again != 0, allowance_ / 2);
      });
      lower = add(std::move(levels[0]));
      lower |= add(std::move(levels[1]));
      // A long chain, for which these are the answers.
      if (finest && most_stored > kMostStored && lowest_ < keep_all_.profile().peak() / 4)
        allowance_ = std::max(allowance_, left_ * 3 / 4);
    }
    in_vain_ += !lower && seeds_.size() == known ? 1 : 0;
  }

  /// False: it needs as much as keeping everything, which is cheaper.
  bool add(std::optional<Solution> seed) {
    if (!seed) return true;
    left_ -= std::ssize(seed->reruns);
    allowance_ -= std::ssize(seed->reruns);
    lowest_ = std::min(lowest_, seed->peak_bytes);
    const bool lower = seed->peak_bytes < keep_all_.profile().peak();
    if (lower) seeds_.push_back(*std::move(seed));
    return lower;
  }

  const Problem& p_;
  const std::function<bool()>& should_stop_;
  const State keep_all_;
  const Key peak_;
  const std::vector<Idle> idle_;
  Bytes lowest_;                       ///< peak of any
  std::int64_t left_, allowance_ = 0;  ///< reruns for all, and for one choice of cuts
  int in_vain_ = 0;                    ///< choices of cuts with no seed below keeping everything
  std::vector<Solution> seeds_;
};

}  // namespace

std::vector<Solution> checkpoint_seeds(const Problem& problem, std::int64_t most_reruns,
                                       const std::function<bool()>& should_stop) {
  return Seeding(problem, most_reruns, should_stop).seeds();
}

}  // namespace tidemark::decide::flat
