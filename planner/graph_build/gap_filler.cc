#include "planner/graph_build/gap_filler.h"

#include <algorithm>
#include <cassert>

namespace tidemark::graph_build {

GapFiller::GapFiller(const Setting& setting, std::vector<std::int64_t> earlier_idle_ns)
    : setting_(setting), earlier_idle_ns_(std::move(earlier_idle_ns)), ranks_(static_cast<std::size_t>(setting.ranks)) {
  for (Rank& rank : ranks_) {
    rank.done.assign(setting.ways.size(), 0);
    rank.end.resize(setting.ways.size());
  }
}

bool GapFiller::has_input(std::int32_t rank, std::size_t way) const {
  const std::int32_t n = done(rank, way);
  if (way > 0 && done(rank, way - 1) <= n) return false;
  const auto from = source_rank(setting_.ways[way], rank, setting_.ranks);
  return !from || done(*from, way) > n;
}

std::int64_t GapFiller::arrival_ns(std::int32_t rank, std::size_t way, std::int32_t n) const {
  const auto from = source_rank(setting_.ways[way], rank, setting_.ranks);
  return from ? at(*from).end[way][static_cast<std::size_t>(n)] + setting_.times->hop_ns : 0;
}

void GapFiller::run(std::int32_t rank, std::size_t way) {
  assert(has_input(rank, way) && !is_complete(rank, way));
  Rank& r = at(rank);
  const PassWay& pass = setting_.ways[way];
  const SplitTimes& time = times(rank, pass.chunk);
  const std::int32_t n = r.done[way];
  const std::int64_t start_ns = std::max(r.clock_ns, arrival_ns(rank, way, n));
  if (!r.passes.empty()) r.idle_ns += start_ns - r.clock_ns;
  const bool is_forward = pass.kind == PassKind::forward;
  r.clock_ns = start_ns + (is_forward ? time.forward_ns : time.input_grad_ns);
  r.end[way].push_back(r.clock_ns);
  ++r.done[way];
  r.passes.push_back({pass.kind, pass.chunk, n});
  if (is_forward) {
    ++r.held;
    assert(r.held <= setting_.held_limit);
  } else {
    r.weights.push_back({PassKind::weight_grad, pass.chunk, n});
  }
}

void GapFiller::run_weight(std::int32_t rank) {
  Rank& r = at(rank);
  assert(r.weights_done < r.weights.size());
  r.passes.push_back(r.weights[r.weights_done++]);
  r.clock_ns += times(rank, r.passes.back().chunk).weight_grad_ns;
  --r.held;
}

void GapFiller::make_room(std::int32_t rank) {
  while (held(rank) >= setting_.held_limit) run_weight(rank);
}

std::int64_t GapFiller::idle_left_ns(std::int32_t rank) const {
  std::int64_t longest = longest_idle_ns();
  if (!earlier_idle_ns_.empty()) {
    const std::int64_t earlier = *std::max_element(earlier_idle_ns_.begin(), earlier_idle_ns_.end());
    longest = std::max(longest, earlier - earlier_idle_ns_[static_cast<std::size_t>(rank)]);
  }
  return longest - at(rank).idle_ns;
}

void GapFiller::fill_gap(std::int32_t rank, std::size_t way, bool may_delay) {
  if (!source_rank(setting_.ways[way], rank, setting_.ranks)) return;
  const Rank& r = at(rank);
  const std::int64_t arrival = arrival_ns(rank, way, done(rank, way));
  const auto waiting = [&] { return r.weights_done < r.weights.size(); };
  while (waiting() && arrival - r.clock_ns >= times(rank, r.weights[r.weights_done].chunk).weight_grad_ns) {
    run_weight(rank);
  }
  if (waiting() && may_delay && arrival - r.clock_ns > idle_left_ns(rank)) run_weight(rank);
}

void GapFiller::finish() {
  for (std::int32_t rank = 0; rank < setting_.ranks; ++rank) {
    while (at(rank).weights_done < at(rank).weights.size()) run_weight(rank);
  }
}

bool GapFiller::replay_next(std::int32_t rank, const SplitPass& pass) {
  if (pass.kind == PassKind::weight_grad) {
    run_weight(rank);
    return true;
  }
  for (std::size_t way = 0; way < setting_.ways.size(); ++way) {
    if (setting_.ways[way].kind != pass.kind || setting_.ways[way].chunk != pass.chunk) continue;
    if (!has_input(rank, way)) return false;
    run(rank, way);
    return true;
  }
  assert(false && "a pass of no way");
  return false;
}

void GapFiller::replay(const SplitSchedule& order) {
  std::vector<std::size_t> next(ranks_.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::int32_t rank = 0; rank < setting_.ranks; ++rank) {
      std::size_t& i = next[static_cast<std::size_t>(rank)];
      const auto& passes = order.passes[static_cast<std::size_t>(rank)];
      while (i < passes.size() && replay_next(rank, passes[i])) {
        ++i;
        moved = true;
      }
    }
  }
}

std::vector<std::int64_t> GapFiller::idle_ns() const {
  std::vector<std::int64_t> idle;
  for (const Rank& rank : ranks_) idle.push_back(rank.idle_ns);
  return idle;
}

std::int64_t GapFiller::longest_idle_ns() const {
  std::int64_t longest = 0;
  for (const Rank& rank : ranks_) longest = std::max(longest, rank.idle_ns);
  return longest;
}

std::int64_t GapFiller::finish_ns() const {
  std::int64_t last = 0;
  for (const Rank& rank : ranks_) last = std::max(last, rank.clock_ns);
  return last;
}

std::vector<std::vector<SplitPass>> GapFiller::take_passes() && {
  std::vector<std::vector<SplitPass>> lists;
  for (Rank& rank : ranks_) lists.push_back(std::move(rank.passes));
  return lists;
}

}  // namespace tidemark::graph_build
