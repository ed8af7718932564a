#include "planner/remat/improve.h"

#include <algorithm>
#include <cmath>

#include "planner/remat/rerun.h"

namespace tidemark::remat {
namespace {

constexpr std::int64_t kRoundWork = 300;  // of a round, besides what profiles count

constexpr int kSamples = 24;       // storages looked at for a candidate
constexpr int kCandidates = 5;     // of which that many are tried
constexpr int kMostDepth = 64;     // of dead inputs brought back for one rerun
constexpr int kMostRepairs = 400;  // per round

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

bool Archive::wants(Bytes peak, std::int64_t cost) const {
  const auto after = std::ranges::upper_bound(solutions_, peak, {}, &Solution::peak_bytes);
  return after == solutions_.begin() || (after - 1)->added_cost > cost;
}

void Archive::add(Solution solution) {
  if (!wants(solution.peak_bytes, solution.added_cost)) return;
  const auto begin = std::ranges::lower_bound(solutions_, solution.peak_bytes, {}, &Solution::peak_bytes);
  auto end = begin;
  while (end != solutions_.end() && end->added_cost >= solution.added_cost) ++end;
  if (begin == end) {
    solutions_.insert(begin, std::move(solution));
    return;
  }
  *begin = std::move(solution);
  solutions_.erase(begin + 1, end);
}

const Solution* Archive::best_within(Bytes budget) const {
  const auto after = std::ranges::upper_bound(solutions_, budget, {}, &Solution::peak_bytes);
  return after == solutions_.begin() ? nullptr : &*(after - 1);
}

void Improver::record() {
  constexpr std::size_t kMostOnTheWay = 2000;  // larger schedules are kept at the end of a search only
  if (state_.reruns().size() <= kMostOnTheWay) keep();
}

void Improver::keep() {
  const Bytes peak = state_.profile().peak();
  if (archive_.wants(peak, state_.added_cost())) archive_.add(state_.solution());
}

/// A storage that idles over a position, and what its absence there would cost at least.
bool Improver::find_candidate(Key position, Candidate& candidate) {
  const Problem& p = state_.problem();
  bool found = false;
  for (int i = 0; i < kSamples; ++i) {
    const auto s = static_cast<std::int32_t>(random_.below(p.storage_count));
    const Bytes bytes = p.bytes[at(s)];
    if (bytes == 0 || p.begin[at(s)] >= position || state_.uses(s).empty() || state_.uses(s).back() <= position)
      continue;
    const State::Gap gap = state_.gap_around(s, position);
    if (gap.until == 0 || gap.until <= position || gap.from >= position) continue;
    const std::int32_t v = p.producer[at(s)];
    const bool reruns = v >= 0 && p.may_rerun(v, stage_of(gap.until)) && op_of(gap.until) > v &&
                        key_of(stage_of(gap.until), v) > position && gap.from > p.hold_until[at(s)] &&
                        !(gap.from == p.hold_until[at(s)]);
    const bool swaps = state_.may_swap({.storage = s, .use = gap.until});
    if (!reruns && !swaps) continue;
    const bool swap = swaps && (!reruns || random_.below(2) == 0);
    const double cost = static_cast<double>(swap ? p.page_in[at(s)] + p.page_out[at(s)] : p.cost[at(v)]);
    const double length = static_cast<double>(stage_of(gap.until) - stage_of(gap.from) + 1);
    const double score = (static_cast<double>(bytes) * std::sqrt(length)) / (cost + 1) * (0.25 + random_.unit());
    if (found && score <= candidate.score) continue;
    candidate = {.storage = s, .until = gap.until, .swap = swap, .score = score};
    found = true;
    if (i > kSamples / 2) break;
  }
  return found;
}

bool Improver::apply(const Candidate& candidate, const Way& way) {
  if (candidate.swap) {
    const Swap swap{.storage = candidate.storage, .use = candidate.until};
    if (!state_.may_swap(swap)) return false;
    state_.insert_swap(swap);
    return true;
  }
  const std::int32_t op = state_.problem().producer[at(candidate.storage)];
  int inputs = 0;
  return rerun_with_inputs(
      state_, op, stage_of(candidate.until),
      [&] { return random_.unit() < way.recreate && ++inputs <= way.most_inputs; },
      [&] { return random_.unit() < way.drop_later; });
}

Improver::Way Improver::random_way() {
  constexpr Way kWays[] = {{.recreate = 0, .drop_later = 0.8}, {.recreate = 0.5, .drop_later = 0.8},
                           {.recreate = 1, .drop_later = 1},   {.recreate = 1, .drop_later = 0},
                           {.recreate = 1, .drop_later = 0.8}, {.recreate = 0.5, .drop_later = 0}};
  constexpr int kMost[] = {4, 32, 256, 1024};
  Way way = kWays[random_.below(std::ssize(kWays))];
  way.most_inputs = kMost[random_.below(std::ssize(kMost))];
  return way;
}

/// One move at a run above the budget, whatever it does to the rest.
void Improver::kick() {
  const Key position = state_.profile().at_overflow(random_.below(state_.profile().overflow()));
  Candidate candidate;
  if (find_candidate(position, candidate)) static_cast<void>(apply(candidate, random_way()));
}

/// Of a few moves at a run above the budget the one that takes off most for its cost.
bool Improver::repair_step() {
  const Key position = state_.profile().at_overflow(random_.below(state_.profile().overflow()));
  const std::size_t mark = state_.changes();
  const Bytes overflow = state_.profile().overflow();
  const std::int64_t cost = state_.added_cost();
  double best = 0;
  Candidate chosen;
  Way chosen_way;
  Random before = random_;
  for (int i = 0; i < kCandidates; ++i) {
    Candidate candidate;
    if (!find_candidate(position, candidate)) continue;
    const Way way = random_way();
    const Random here = random_;
    if (apply(candidate, way) && state_.profile().overflow() < overflow) {
      const auto less = static_cast<double>(overflow - state_.profile().overflow());
      const auto more = static_cast<double>(state_.added_cost() - cost);
      const double gain = more <= 0 ? less * 1e6 : less / more;
      if (gain > best) {
        best = gain;
        chosen = candidate;
        chosen_way = way;
        before = here;
      }
    }
    state_.roll_back(mark);
  }
  if (best == 0) return false;
  const Random after = random_;
  random_ = before;  // the same choices of inputs once more
  static_cast<void>(apply(chosen, chosen_way));
  random_ = after;
  return true;
}

bool Improver::repair_to_fit(int most_steps) {
  int failures = 0;
  for (int step = 0; state_.profile().overflow() > 0; ++step) {
    if (step >= most_steps) return false;
    if (repair_step()) {
      failures = 0;
    } else if (++failures > 6) {
      return false;
    }
  }
  return true;
}

/// Takes back some reruns that lie together in one sense or another.
void Improver::ruin() {
  const auto& reruns = state_.reruns();
  const auto& swaps = state_.swaps();
  const auto total = std::ssize(reruns) + std::ssize(swaps);
  if (total == 0) return;
  const std::int64_t pick = random_.below(total);
  if (pick >= std::ssize(reruns)) {
    const std::int64_t count = 1 + random_.below(3);
    for (std::int64_t i = 0; i < count && !state_.swaps().empty(); ++i) {
      const Swap swap = state_.swaps()[static_cast<std::size_t>(random_.below(std::ssize(state_.swaps())))];
      state_.erase_swap(swap);
    }
    return;
  }
  const Key seed = reruns[static_cast<std::size_t>(pick)];
  const std::int64_t kind = random_.below(4);
  const auto width = static_cast<std::int32_t>(1 + random_.below(8));
  std::int64_t count = 1 + random_.below(kind == 0 ? 3 : 8);
  std::vector<Key> chosen;
  if (kind == 0) {
    chosen.push_back(seed);
    for (; count > 1; --count) chosen.push_back(reruns[static_cast<std::size_t>(random_.below(std::ssize(reruns)))]);
  } else if (kind == 1) {  // a run of neighbours in execution order
    for (std::int64_t i = pick; i < std::ssize(reruns) && count > 0; ++i, --count)
      chosen.push_back(reruns[static_cast<std::size_t>(i)]);
  } else if (kind == 2) {  // a stage
    for (std::int64_t i = std::ranges::lower_bound(reruns, key_of(stage_of(seed), 0)) - reruns.begin();
         i < std::ssize(reruns) && stage_of(reruns[static_cast<std::size_t>(i)]) == stage_of(seed); ++i)
      chosen.push_back(reruns[static_cast<std::size_t>(i)]);
  } else {  // neighbours in the list, whatever the stage
    for (const Key key : reruns)
      if (std::abs(op_of(key) - op_of(seed)) < width) chosen.push_back(key);
  }
  std::ranges::sort(chosen, std::greater<>());
  for (const Key key : chosen)
    if (state_.runs_at(key) && !is_first_run(key)) erase_with_idle(state_, key);
}

bool Improver::repair(std::int64_t work) {
  state_.mark();
  const Solution start = state_.solution();
  const std::int64_t begin = state_.profile().work();
  Solution lowest = start;
  Bytes least = state_.profile().overflow();
  // First straight down, then by changes that may make it a little worse.
  static_cast<void>(repair_to_fit(kMostRepairs));
  state_.mark();
  while (state_.profile().overflow() > 0 && state_.profile().work() < begin + work) {
    const Bytes overflow = state_.profile().overflow();
    if (overflow < least) {
      least = overflow;
      lowest = state_.solution();
    }
    const double done = static_cast<double>(state_.profile().work() - begin) / static_cast<double>(work);
    if (random_.below(2) == 0)
      ruin();
    else
      kick();
    static_cast<void>(repair_to_fit(60));
    const double heat = 0.1 * std::pow(0.05, done);
    const double allowed = static_cast<double>(overflow) * (1 - heat * std::log(1 - random_.unit()));
    if (static_cast<double>(state_.profile().overflow()) > allowed) state_.roll_back();
    state_.mark();
  }
  if (state_.profile().overflow() > 0) {
    state_.load(start);
    return false;
  }
  keep();
  return true;
}

void Improver::improve(std::int64_t work, const std::function<bool()>& should_stop) {
  state_.mark();
  const std::int64_t begin = state_.profile().work();
  Solution best = state_.solution();
  record();
  const auto spent = [&](int round) { return state_.profile().work() - begin + kRoundWork * round; };
  for (int round = 0; spent(round) < work && best.added_cost > 0; ++round) {
    if (round % 64 == 0 && should_stop && should_stop()) break;
    const double done = static_cast<double>(spent(round)) / static_cast<double>(work);
    const double heat = 0.02 * std::pow(0.01, done) * static_cast<double>(best.added_cost);
    const std::int64_t cost = state_.added_cost();
    ruin();
    const bool fits = repair_to_fit(40);
    const double allowed = static_cast<double>(cost) - heat * std::log(1 - random_.unit());
    if (!fits || static_cast<double>(state_.added_cost()) > allowed) {
      state_.roll_back();
      continue;
    }
    state_.mark();
    record();
    if (state_.added_cost() < best.added_cost) best = state_.solution();
  }
  if (state_.added_cost() != best.added_cost) state_.load(best);
  keep();
  state_.mark();
}

}  // namespace tidemark::remat
