#include "planner/layout/exact_tree.h"

#include <algorithm>

namespace tidemark::layout {
namespace {

constexpr std::uint32_t kNobody = ExactSections::kNone;
constexpr std::int64_t kStepsBetweenQuestions = 50'000;

}  // namespace

FitStatus ExactTree::run(std::int64_t nodes, std::int64_t steps) {
  last_node_ = nodes;
  last_step_ = state_.steps() + steps;
  stopped_ = false;
  const ExactState::Mark mark = state_.mark();
  if (solve_parts({0, static_cast<std::uint32_t>(state_.sections().sections())})) return FitStatus::placed;
  state_.undo(mark);
  return stopped_ ? FitStatus::undecided : FitStatus::infeasible;
}

bool ExactTree::exhausted() {
  if (++nodes_ > last_node_ || state_.steps() >= last_step_) stopped_ = true;
  if (should_stop_ && state_.steps() >= next_question_) {
    next_question_ = state_.steps() + kStepsBetweenQuestions;
    stopped_ = stopped_ || should_stop_();
  }
  return stopped_;
}

// Leaves the state anyhow if it fails.
bool ExactTree::solve(Range range) {
  while (!exhausted()) {
    const std::uint32_t block = choose(range);
    if (block == kNobody) return false;
    const ExactState::Mark mark = state_.mark();
    if (state_.place(block) && solve_parts(range)) return true;
    state_.undo(mark);
    if (stopped_ || !state_.postpone(block)) return false;
  }
  return false;
}

// The shortest first: what cannot be packed shows there the soonest.
bool ExactTree::solve_parts(Range range) {
  const std::size_t base = parts_.size();
  for (std::uint32_t s = range.first; s < range.last;) {
    const std::uint32_t first = s++;
    if (state_.unplaced(first).empty()) continue;
    while (s < range.last && !state_.cut_before(s)) ++s;
    parts_.push_back({first, s});
  }
  std::stable_sort(parts_.begin() + static_cast<std::ptrdiff_t>(base), parts_.end(),
                   [](Range a, Range b) { return a.last - a.first < b.last - b.first; });
  bool fits = true;
  for (std::size_t p = base; fits && p < parts_.size(); ++p) fits = solve(parts_[p]);
  parts_.resize(base);
  return fits;
}

// Raises what nothing holds until all at the lowest floor are held.
bool ExactTree::lift(Range range, Bytes& lowest) {
  for (bool lifted = true; lifted;) {
    lifted = false;
    lowest = ExactState::kPlaced;
    for (std::uint32_t s = range.first; s < range.last; ++s) lowest = std::min(lowest, state_.floor(s));
    for (std::uint32_t s = range.first; s < range.last && !lifted; ++s) {
      if (state_.floor(s) != lowest) continue;
      for (const auto& member : state_.unplaced(s)) {
        if (state_.low(member.block) != lowest || state_.held(member.block)) continue;
        if (!state_.postpone(member.block)) return false;
        lifted = true;
        break;
      }
    }
  }
  return true;
}

ExactTree::AtFloor ExactTree::at_floor(std::uint32_t section, Bytes lowest) const {
  AtFloor found;
  Bytes next = ExactState::kPlaced;
  for (const auto& member : state_.unplaced(section)) {
    const Bytes low = state_.low(member.block);
    if (low != lowest) {
      next = std::min(next, low);
    } else if (comes_now(member.block)) {
      ++found.count;
      found.block = member.block;
    }
  }
  found.one_must = next - lowest > state_.slack(section);
  return found;
}

bool ExactTree::comes_now(std::uint32_t block) const {
  const std::uint32_t twin = state_.sections().twin_before(block);
  return twin == kNobody || state_.placed(twin);
}

std::uint32_t ExactTree::choose(Range range) {
  Bytes lowest = 0;
  if (!lift(range, lowest)) return kNobody;
  std::uint32_t best = kNobody;
  double best_score = -1.0;
  ++round_;
  for (std::uint32_t s = range.first; s < range.last; ++s) {
    if (state_.floor(s) != lowest) continue;
    const AtFloor here = at_floor(s, lowest);
    if (here.one_must && here.count == 1) return here.block;
    const double share = choice_.few_first && here.one_must ? 1.0 / here.count : 1.0;
    for (const auto& member : state_.unplaced(s)) {
      if (state_.low(member.block) != lowest || !comes_now(member.block)) continue;
      const double now = score(member.block) * share;
      if (now <= best_score) continue;
      best = member.block;
      best_score = now;
    }
  }
  return best;
}

double ExactTree::score(std::uint32_t block) {
  Score& known = scores_[block];
  if (known.round == round_) return known.score;
  double blame = state_.blame.blocks[block];
  Bytes slack = ExactState::kPlaced;
  for (const auto& run : state_.sections().runs(block)) {
    for (std::uint32_t s = run.first; s < run.last; ++s) {
      blame = std::max(blame, state_.blame.sections[s]);
      slack = std::min(slack, state_.slack(s));
    }
  }
  const double over = choice_.over_slack ? 1.0 + static_cast<double>(slack / state_.sections().unit()) : 1.0;
  known = {.round = round_, .score = choice_.worth[block] * blame / over};
  return known.score;
}

}  // namespace tidemark::layout
