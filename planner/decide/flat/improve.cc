#include "planner/decide/flat/improve.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "planner/decide/flat/list_length.h"
#include "planner/decide/flat/recompute.h"

namespace tidemark::decide::flat {
namespace {

constexpr int kAskEvery = 16;             // steps and rounds of a repair
constexpr std::int64_t kRoundWork = 300;  // of a round, besides what profiles count
constexpr std::int64_t kLookWork = 10;    // of an input looked at

constexpr int kSamples = 12;       // storages looked at for a candidate
constexpr int kCandidates = 18;    // of which that many are tried, ...
constexpr int kFewCandidates = 5;  // ... fewer where pages make repairs short, and where any repair will do
constexpr int kMostRepairs = 400;  // per round

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

bool Archive::wants(Bytes peak, std::int64_t cost) const {
  const auto after = std::ranges::upper_bound(solutions_, peak, {}, &Solution::peak_bytes);
  return (after == solutions_.begin() || (after - 1)->added_cost > cost) &&
         (base_ == nullptr || base_->wants(peak, cost));
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
  const Solution* own = after == solutions_.begin() ? nullptr : &*(after - 1);
  const Solution* other = base_ == nullptr ? nullptr : base_->best_within(budget);
  if (own == nullptr || other == nullptr) return own == nullptr ? other : own;
  return other->added_cost < own->added_cost ? other : own;
}

void Improver::record() {
  constexpr std::size_t kMostOnTheWay = 2000;  // larger schedules are kept at the end of a search only
  if (state_.reruns().size() <= kMostOnTheWay) keep();
}

void Improver::keep() {
  const Bytes peak = state_.profile().peak();
  if (archive_.wants(peak, state_.added_cost())) archive_.add(state_.solution());
}

Improver::Improver(State& state, Archive& archive, std::uint64_t seed)
    : state_(state), archive_(archive), random_(seed), inputs_(state) {
  const Problem& p = state.problem();
  for (std::int32_t s = 0; s < p.storage_count; ++s) {
    const std::int32_t v = p.producer[at(s)];
    const bool comes_back = p.swappable[at(s)] != 0 || (v >= 0 && p.rerun_until[at(v)] >= 0);
    if (p.bytes[at(s)] > 0 && comes_back) leaving_.push_back(s);
  }
  std::ranges::stable_sort(leaving_, {}, [&](std::int32_t s) { return p.begin[at(s)]; });
}

/// A storage that idles over a position, and what its absence there would cost at least.
bool Improver::find_candidate(Key position, Candidate& candidate) {
  const Problem& p = state_.problem();
  const auto begun = std::ranges::lower_bound(leaving_, position, {}, [&](std::int32_t s) { return p.begin[at(s)]; });
  const auto count = static_cast<std::int64_t>(begun - leaving_.begin());
  if (count == 0) return false;
  bool found = false;
  for (int i = 0; i < kSamples; ++i) {
    const std::int32_t s = leaving_[static_cast<std::size_t>(random_.below(count))];
    const Bytes bytes = p.bytes[at(s)];
    if (state_.uses(s).empty() || state_.uses(s).back() <= position) continue;
    const State::Gap gap = state_.gap_around(s, position);
    if (gap.until == 0 || gap.until <= position || gap.from >= position) continue;
    const Key rerun = rerun_for(s, position, gap.until);
    const bool swaps = state_.may_swap({.storage = s, .use = gap.until});
    const Key carrier = swaps ? 0 : carrier_for(s, position, gap.until);
    if (rerun == 0 && carrier == 0 && !swaps) continue;
    const bool page = (swaps || carrier != 0) && (rerun == 0 || random_.below(2) == 0);
    const Key run = page ? carrier : rerun;
    const std::int64_t pages = page ? p.page_in[at(s)] + p.page_out[at(s)] : 0;
    const auto cost = static_cast<double>(pages + (run != 0 ? p.cost[at(op_of(run))] : 0));
    const double length = static_cast<double>(stage_of(gap.until) - stage_of(gap.from) + 1);
    const double score = (static_cast<double>(bytes) * std::sqrt(length)) / (cost + 1) * (0.25 + random_.unit());
    if (found && score <= candidate.score) continue;
    candidate = {.storage = s, .until = gap.until, .rerun = run, .carried = page && carrier != 0, .score = score};
    found = true;
    if (i > kSamples / 2) break;
  }
  return found;
}

/// Where its writer may run behind `position` to serve a use: as a rule right before it, in the same round; now and
/// then in another round, at the last use of something it reads or right behind that, or anywhere between. 0: nowhere.
Key Improver::rerun_for(std::int32_t storage, Key position, Key until) {
  const Problem& p = state_.problem();
  const std::int32_t v = p.producer[at(storage)];
  if (v < 0) return 0;
  const auto usual_round = [](Key key) { return is_first_run(key) ? kUsualRound : round_of(key); };
  std::int32_t stage = stage_of(until), round = usual_round(until);
  const std::int64_t kind = random_.below(p.op_count <= kFewOps ? 8 : 16);
  if (kind == 0) {
    round = static_cast<std::int32_t>(random_.below(is_first_run(until) ? 2 * kUsualRound + 1 : round + 1));
  } else if (kind == 1) {
    stage -= static_cast<std::int32_t>(random_.below(stage - stage_of(position) + 1));
    if (stage < stage_of(until)) round = kUsualRound;
  } else if (kind <= 3 && !p.reads[v].empty()) {
    const std::int32_t input = p.reads[v][static_cast<std::size_t>(random_.below(std::ssize(p.reads[v])))];
    const std::vector<Key>& uses = state_.uses(input);
    const auto behind = std::ranges::lower_bound(uses, until);
    if (behind != uses.begin() && *(behind - 1) >= position + (kind == 3 ? 0 : 1)) {
      const Key use = *(behind - 1);
      stage = stage_of(use);
      round = usual_round(use);
      if (kind == 3 && is_first_run(use)) {
        ++stage;
        round = static_cast<std::int32_t>(random_.below(kUsualRound + 1));
      } else if (kind == 3)
        ++round;
    }
  }
  if (!p.takes_runs(stage)) {
    stage = p.last_taking[at(stage)];
    round = kUsualRound;
  }
  // Among other second runs of the stage: the first place behind the position.
  if (stage == stage_of(position) && !is_first_run(position) && key_of(stage, v, round) <= position)
    round = round_of(position) + (v > op_of(position) ? 0 : 1);
  const Key key = key_of(stage, v, std::min(round, kFirstRunRound - 1));
  return v < stage && p.may_recompute(v, stage) && position < key && key < until ? key : 0;
}

/// Nothing can be paged in for what must be there at the end: a second run of some op that reads it can bring it. 0:
/// none.
Key Improver::carrier_for(std::int32_t storage, Key position, Key until) {
  const Problem& p = state_.problem();
  const std::vector<Key>& uses = p.uses[at(storage)];
  if (p.swappable[at(storage)] == 0 || std::ranges::binary_search(p.reads[op_of(until)], storage)) return 0;
  const std::int32_t v = op_of(uses[static_cast<std::size_t>(random_.below(std::ssize(uses)))]);
  const std::int32_t stage = stage_of(until);
  if (v >= stage || !p.may_recompute(v, stage) || !std::ranges::binary_search(p.reads[v], storage)) return 0;
  const Key key = key_of(stage, v);
  return position < key && key < until && key > p.hold_until[at(storage)] ? key : 0;
}

bool Improver::apply(const Candidate& candidate, const Way& way) {
  if (candidate.rerun != 0 && !rerun(candidate.rerun, way)) return false;
  if (candidate.rerun != 0 && !candidate.carried) return true;
  const Swap swap{.storage = candidate.storage, .use = candidate.carried ? candidate.rerun : candidate.until};
  if (!state_.may_swap(swap)) return false;
  state_.insert_swap(swap);
  return true;
}

bool Improver::rerun(Key key, const Way& way) {
  const auto drops_later = [&] { return random_.unit() < way.drop_later; };
  if (way.price > 0) {
    inputs_.begin(key, way.price);
    const auto cheapest = [&](std::int32_t r, bool) { return too_dear() ? Input::lives_on : inputs_.choose(r).input; };
    return recompute_with_inputs(state_, key, cheapest, drops_later);
  }
  int inputs = 0;
  const auto choose = [&](std::int32_t, bool pageable) {
    if (too_dear()) return Input::lives_on;
    if (random_.unit() >= way.recreate || ++inputs > way.most_inputs) return Input::lives_on;
    return pageable && random_.below(2) == 0 ? Input::swapped_in : Input::recomputed;
  };
  return recompute_with_inputs(state_, key, choose, drops_later);
}

bool Improver::too_dear(std::int64_t more) const {
  return static_cast<double>(state_.added_cost() + more) > most_cost_;
}

std::int64_t Improver::work() const {
  return state_.profile().work() + kLookWork * inputs_.looked();
}

Improver::Way Improver::random_way() {
  constexpr Way kWays[] = {{.recreate = 0, .drop_later = 0.8}, {.recreate = 0.5, .drop_later = 0.8},
                           {.recreate = 1, .drop_later = 1},   {.recreate = 1, .drop_later = 0},
                           {.recreate = 1, .drop_later = 0.8}, {.recreate = 0.5, .drop_later = 0}};
  constexpr int kMost[] = {4, 32, 256, 1024};
  Way way = kWays[random_.below(std::ssize(kWays))];
  way.most_inputs = kMost[random_.below(std::ssize(kMost))];
  if (random_.below(2) == 0) {
    way.price = inputs_.draw_price(random_);
    way.drop_later = random_.below(3) == 0 ? 0 : 0.8;
  }
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
  int count = std::isfinite(most_cost_) && !inputs_.has_pages() ? kCandidates : kFewCandidates;
  // Of a short list the best of many would nearly always be the same.
  if (state_.problem().op_count <= kFewOps) count = 1 + static_cast<int>(random_.below(count));
  for (int i = 0; i < count; ++i) {
    Candidate candidate;
    if (!find_candidate(position, candidate)) continue;
    if (candidate.rerun != 0 && too_dear(state_.problem().cost[at(op_of(candidate.rerun))])) continue;
    const Way way = random_way();
    const Random here = random_;
    if (apply(candidate, way) && state_.profile().overflow() < overflow && !too_dear()) {
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

bool Improver::repair_to_fit(int most_steps, std::int64_t most_work, double most_cost,
                             const std::function<bool()>& should_stop) {
  const std::int64_t end = work() + most_work;
  most_cost_ = most_cost;
  int failures = 0;
  for (int step = 0; state_.profile().overflow() > 0; ++step) {
    if (step >= most_steps || work() > end || too_dear()) break;
    if (step % kAskEvery == 0 && should_stop && should_stop()) break;
    if (repair_step()) {
      failures = 0;
    } else if (++failures > 6) {
      break;
    }
  }
  most_cost_ = INFINITY;
  return state_.profile().overflow() == 0;
}

/// A page instead of a run, a run instead of a page, or the run elsewhere.
void Improver::exchange() {
  const Problem& p = state_.problem();
  const auto count = std::ssize(state_.reruns()), total = count + std::ssize(state_.swaps());
  if (total == 0) return;
  const std::int64_t pick = random_.below(total);
  if (pick >= count) {
    const Swap swap = state_.swaps()[static_cast<std::size_t>(pick - count)];
    const State::Gap gap = state_.gap_around(swap.storage, swap.use - 1);
    state_.erase_swap(swap);
    if (const Key key = rerun_for(swap.storage, gap.from, swap.use); key != 0)
      static_cast<void>(rerun(key, random_way()));
    return;
  }
  const Key key = state_.reruns()[static_cast<std::size_t>(pick)];
  const std::span<const std::int32_t> writes = p.writes[op_of(key)];
  const std::int32_t s = writes[static_cast<std::size_t>(random_.below(std::ssize(writes)))];
  const Key from = state_.gap_around(s, key - 1).from, until = state_.gap_around(s, key + 1).until;
  erase_with_idle(state_, key);
  if (until == 0) return;
  const Swap swap{.storage = s, .use = until};
  if (state_.may_swap(swap) && random_.below(3) > 0) {
    state_.insert_swap(swap);
  } else if (const Key other = rerun_for(s, from, until); other != 0) {
    static_cast<void>(rerun(other, random_way()));
  }
}

/// Some reruns of a stage go to another one, or to another round, just as they are.
void Improver::shift() {
  const Problem& p = state_.problem();
  const std::vector<Key>& reruns = state_.reruns();
  if (reruns.empty()) return;
  const std::int64_t pick = random_.below(std::ssize(reruns));
  const auto first = reruns.begin() + pick;
  auto last = first + 1;
  for (std::int64_t count = random_.below(2) * random_.below(8); count > 0; --count)
    if (last != reruns.end() && stage_of(*last) == stage_of(*first)) ++last;
  const std::vector<Key> chosen(first, last);
  const auto by = random_.below(2) == 0 ? 0 : static_cast<std::int32_t>(1 + random_.below(3));
  const std::int32_t stage = stage_of(chosen.front()) + (random_.below(2) == 0 ? by : -by);
  const auto round = static_cast<std::int32_t>(random_.below(2 * kUsualRound + 1));
  for (const Key key : chosen) state_.erase_rerun(key);
  for (const Key key : chosen) {
    const std::int32_t v = op_of(key);
    if (v >= stage || stage >= p.op_count || !p.may_recompute(v, stage)) continue;
    const Key moved = key_of(stage, v, by == 0 ? round : round_of(key));
    if (!state_.runs_at(moved)) state_.insert_rerun(moved);
  }
}

/// Of a short list, half of all or all: what little changes do not lead out of is made anew.
void Improver::ruin_most() {
  const std::int64_t of_four = 2 + 2 * random_.below(2);
  const std::vector<Swap> swaps = state_.swaps();
  for (const Swap& swap : swaps)
    if (random_.below(4) < of_four) state_.erase_swap(swap);
  const std::vector<Key> reruns = state_.reruns();
  for (auto key = reruns.rbegin(); key != reruns.rend(); ++key)
    if (random_.below(4) < of_four && state_.runs_at(*key)) erase_with_idle(state_, *key);
}

void Improver::change_some() {
  if (state_.problem().op_count <= kFewOps && random_.below(16) == 0) {
    ruin_most();
    return;
  }
  const std::int64_t kind = random_.below(24);  // shares by what they gained for their work
  if (kind < 5)
    exchange();
  else if (kind < 6)
    shift();
  else
    ruin();
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
  constexpr std::int64_t kKinds[] = {0, 0, 0, 1, 1, 2, 2, 3};
  const std::int64_t kind = kKinds[random_.below(std::ssize(kKinds))];
  const std::int64_t scale = random_.below(kind % 2 == 0 ? 4 : 16) == 0 ? 8 : 1;
  const auto width = static_cast<std::int32_t>(1 + random_.below(8 * scale));
  std::int64_t count = 1 + random_.below(kind == 0 ? 3 : 8 * scale);
  std::vector<Key> chosen;
  if (kind == 0) {
    chosen.push_back(seed);
    for (; count > 1; --count) chosen.push_back(reruns[static_cast<std::size_t>(random_.below(std::ssize(reruns)))]);
  } else if (kind == 1) {  // a run of neighbours in execution order
    for (std::int64_t i = pick; i < std::ssize(reruns) && count > 0; ++i, --count)
      chosen.push_back(reruns[static_cast<std::size_t>(i)]);
  } else if (kind == 2) {  // a stage
    for (std::int64_t i = std::ranges::lower_bound(reruns, stage_begin(stage_of(seed))) - reruns.begin();
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

bool Improver::repair(std::int64_t work, const std::function<bool()>& should_stop) {
  state_.mark();
  const Solution start = state_.solution();
  const std::int64_t begin = this->work();
  Solution lowest = start;
  Bytes least = state_.profile().overflow();
  constexpr std::int64_t kStraightWork = 8;  // times as much: what does not get there goes on from where it is
  // First straight down, then by changes that may make it a little worse.
  static_cast<void>(repair_to_fit(kMostRepairs, kStraightWork * work, INFINITY, should_stop));
  state_.mark();
  const auto spent = [&](int round) { return this->work() - begin + kRoundWork * round; };
  for (int round = 0; state_.profile().overflow() > 0 && spent(round) < work; ++round) {
    if (round % kAskEvery == 0 && should_stop && should_stop()) break;
    const Bytes overflow = state_.profile().overflow();
    if (overflow < least) {
      least = overflow;
      lowest = state_.solution();
    }
    const double done = static_cast<double>(spent(round)) / static_cast<double>(work);
    if (random_.below(2) == 0)
      ruin();
    else
      kick();
    static_cast<void>(repair_to_fit(60, work));
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

void Improver::improve(std::int64_t work, double heat_share, const std::function<bool()>& should_stop) {
  constexpr double kHeat = 0.02;  // at first, of the cost
  const double change_heat =
      state_.problem().op_count <= kFewOps ? 3 : 1;  // of what one decision costs: few decisions make for large steps
  const int cycles = state_.problem().op_count <= kFewOps ? 6 : 1;
  state_.mark();
  const std::int64_t begin = this->work();
  Solution best = state_.solution();
  record();
  const auto spent = [&](int round) { return this->work() - begin + kRoundWork * round; };
  for (int round = 0; spent(round) < work && best.added_cost > 0; ++round) {
    if (round % 64 == 0 && should_stop && should_stop()) break;
    const double done = static_cast<double>(spent(round)) / static_cast<double>(work) * cycles;
    const auto decisions = static_cast<double>(best.reruns.size() + best.swaps.size());
    const double heat = heat_share * std::max(kHeat, change_heat / decisions) *
                        std::pow(0.01, done - std::floor(done)) * static_cast<double>(best.added_cost);
    const std::int64_t cost = state_.added_cost();
    change_some();
    const double allowed = static_cast<double>(cost) - heat * std::log(1 - random_.unit());
    const bool fits = repair_to_fit(40, work, allowed);
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

}  // namespace tidemark::decide::flat
