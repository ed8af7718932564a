#include "planner/decide/flat/gap_pricer.h"

#include <algorithm>
#include <utility>

namespace tidemark::decide::flat {
namespace {

constexpr std::int64_t kMostBrought = 10'000'000;  // runs of dead inputs; beyond, inputs live on instead

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

GapPricer::GapPricer(const Problem& problem, const ListGaps& gaps)
    : problem_(problem),
      gaps_(gaps),
      state_(problem, 0),
      wanted_(at(problem.op_count)),
      back_(gaps.places.size()),
      freed_from_(gaps.places.size()),
      freed_until_(gaps.places.size()),
      profile_(at(problem.op_count)),
      host_profile_(at(problem.op_count), 0) {}

/// -1: the storage is not in one of its gaps while that op runs.
std::int32_t GapPricer::gap_over(std::int32_t storage, std::int32_t stage) const {
  const auto begin = gaps_.places.begin() + gaps_.first_of[at(storage)];
  const auto end = gaps_.places.begin() + gaps_.first_of[at(storage) + 1];
  const auto gap = std::lower_bound(begin, end, stage,
                                    [](const ListGaps::Place& p, std::int32_t t) { return stage_of(p.until) < t; });
  if (gap == end || stage_of(gap->from) >= stage) return -1;
  return static_cast<std::int32_t>(gap - gaps_.places.begin());
}

/// What a run of `op` in `stage` reads has to be back by then. Writers come before `op` in the list, so their own runs
/// are settled later.
void GapPricer::bring_inputs(std::int32_t op, std::int32_t stage, const gaps::Choice& choice) {
  const Key run = key_of(stage, op);
  for (const std::int32_t s : problem_.reads[op]) {
    const std::int32_t gap = gap_over(s, stage), writer = problem_.producer[at(s)];
    if (gap < 0) {
      const bool dead = problem_.uses[at(s)].empty() || stage_of(problem_.uses[at(s)].back()) < stage;
      if (dead && writer >= 0 && problem_.may_recompute(writer, stage) && brought_ < kMostBrought) {
        ++brought_;
        wanted_[at(writer)].push_back(stage);
      }
      continue;
    }
    Key& back = back_[at(gap)];
    if (choice[at(gap)] == Action::recompute && problem_.may_recompute(writer, stage))
      back = std::min(back, key_of(stage, writer));
    if (choice[at(gap)] == Action::swap) back = std::min(back, run);
  }
}

Solution GapPricer::schedule(const gaps::Choice& choice) {
  for (auto& stages : wanted_) stages.clear();
  brought_ = 0;
  for (std::size_t g = 0; g < choice.size(); ++g) {
    const ListGaps::Place& place = gaps_.places[g];
    back_[g] =
        choice[g] == Action::recompute ? key_of(place.rerun_by, problem_.producer[at(place.storage)]) : place.until;
  }
  Solution solution;
  for (std::int32_t v = problem_.op_count; v-- > 0;) {
    std::vector<std::int32_t>& stages = wanted_[at(v)];
    for (const std::int32_t s : problem_.writes[v]) {
      if (problem_.producer[at(s)] != v) continue;
      for (std::int32_t g = gaps_.first_of[at(s)]; g < gaps_.first_of[at(s) + 1]; ++g)
        if (choice[at(g)] == Action::recompute) stages.push_back(stage_of(back_[at(g)]));
    }
    std::ranges::sort(stages);
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
    for (const std::int32_t stage : stages) {
      solution.reruns.push_back(key_of(stage, v));
      bring_inputs(v, stage, choice);
    }
  }
  std::ranges::sort(solution.reruns);
  for (std::size_t g = 0; g < choice.size(); ++g)
    if (choice[g] == Action::swap) solution.swaps.push_back({.storage = gaps_.places[g].storage, .use = back_[g]});
  return solution;
}

gaps::Pricing GapPricer::price(const gaps::Choice& choice) {
  state_.load(schedule(choice));
  for (std::size_t g = 0; g < choice.size(); ++g) {
    const gaps::GapProblem::Gap& gap = gaps_.problem.gaps[g];
    freed_from_[g] = gap.free_from;
    freed_until_[g] = std::max(gap.free_from, stage_of(back_[g]));
    if (choice[g] != Action::swap || !problem_.has_windows()) continue;
    const std::int32_t storage = gaps_.places[g].storage;
    freed_from_[g] = std::max(gap.free_from, stage_of(problem_.gone_from(storage, gaps_.places[g].from)));
    freed_until_[g] = std::max(freed_from_[g], stage_of(problem_.back_from(storage, back_[g])));
  }
  gaps::Pricing pricing{.peak_bytes = state_.profile().peak(), .added_cost = state_.added_cost()};
  auto rerun = state_.reruns().begin();
  for (std::int32_t v = 0; v < problem_.op_count; ++v) {
    Bytes most = state_.profile().at(key_of(v, v));
    for (; rerun != state_.reruns().end() && stage_of(*rerun) == v; ++rerun)
      most = std::max(most, state_.profile().at(*rerun));
    profile_[at(v)] = most;
  }
  return pricing;
}

}  // namespace tidemark::decide::flat
