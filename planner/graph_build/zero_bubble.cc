#include "planner/graph_build/zero_bubble.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/graph_build/gap_filler.h"

namespace tidemark::graph_build {
namespace {

constexpr std::size_t kForwardWay = 0, kInputGradWay = 1;  // of kStraightWays

/// 1F1B with `warm_up` forwards before the first dX, and `put_off` weight gradients behind at any time.
std::vector<SplitPass> put_off_passes(std::int32_t micro_batches, std::int32_t warm_up, std::int32_t put_off) {
  std::vector<SplitPass> passes;
  std::int32_t forwards = 0, weights = 0;
  const auto add = [&](PassKind kind, std::int32_t n) { passes.push_back({.kind = kind, .micro_batch = n}); };
  while (forwards < std::min(warm_up, micro_batches)) add(PassKind::forward, forwards++);
  for (std::int32_t n = 0; n < micro_batches; ++n) {
    add(PassKind::input_grad, n);
    if (n - weights >= put_off) add(PassKind::weight_grad, weights++);
    if (forwards < micro_batches) add(PassKind::forward, forwards++);
  }
  while (weights < micro_batches) add(PassKind::weight_grad, weights++);
  return passes;
}

/// A rank `behind` ranks before the last runs behind * slope + 1 forwards first, and puts off as many weight gradients
/// as it has fewer forwards than rank 0: all ranks hold the same.
Result<SplitSchedule> by_hand(std::int32_t ranks, std::int32_t micro_batches, std::int32_t slope) {
  if (const Status status = check_split_counts(ranks, micro_batches); !status) return status.error();
  SplitSchedule schedule{.ranks = ranks, .micro_batches = micro_batches};
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    schedule.passes.push_back(put_off_passes(micro_batches, (ranks - 1 - rank) * slope + 1, rank * slope));
  }
  return schedule;
}

struct StraightChoice {
  bool one_more_forward = false;  ///< in warm-up, though it holds up the first dX
  bool delay_forward = true;      ///< weight gradients may hold up forwards
  bool delay_input_grad = true;
};

std::vector<StraightChoice> straight_choices() {
  std::vector<StraightChoice> choices;
  for (const bool more : {false, true}) {
    for (const bool forward : {true, false}) {
      for (const bool input_grad : {true, false}) choices.push_back({more, forward, input_grad});
    }
  }
  return choices;
}

/// Forwards of every rank before its first dX: as many as fit before that can start, at least one more than the rank
/// after has and no more than leaves every rank before it one more within the limit.
std::vector<std::int32_t> warm_up_counts(const GapFiller::Setting& setting, bool one_more) {
  const SplitTimeTable& times = *setting.times;
  std::vector<std::int64_t> start_ns(times.chunks.size(), 0);
  for (std::size_t rank = 1; rank < start_ns.size(); ++rank) {
    start_ns[rank] = start_ns[rank - 1] + times.chunks[rank - 1][0].forward_ns + times.hop_ns;
  }
  std::vector<std::int32_t> counts(start_ns.size(), 1);
  std::int64_t back_ns = start_ns.back() + times.chunks.back()[0].forward_ns;  // dX of micro-batch 0 can start
  for (std::size_t rank = start_ns.size(); rank-- > 0;) {
    const SplitTimes& time = times.chunks[rank][0];
    const std::int64_t free_ns = back_ns - start_ns[rank];
    const std::int64_t limit = setting.held_limit - static_cast<std::int32_t>(rank);
    std::int64_t fit = time.forward_ns == 0 ? limit : free_ns / time.forward_ns;
    if (one_more && fit * time.forward_ns < free_ns) ++fit;
    const std::int64_t least = rank + 1 < counts.size() ? counts[rank + 1] + 1 : 1;
    const std::int64_t count = std::clamp(fit, std::min(least, limit), limit);
    counts[rank] = static_cast<std::int32_t>(std::min<std::int64_t>(count, setting.micro_batches));
    back_ns = std::max(back_ns, start_ns[rank] + counts[rank] * time.forward_ns) + time.input_grad_ns + times.hop_ns;
  }
  return counts;
}

GapFiller build_greedily(const GapFiller::Setting& setting, const StraightChoice& choice,
                         std::vector<std::int64_t> earlier_idle_ns) {
  GapFiller filler(setting, std::move(earlier_idle_ns));
  const auto counts = warm_up_counts(setting, choice.one_more_forward);
  for (std::int32_t rank = 0; rank < setting.ranks; ++rank) {
    while (filler.done(rank, kForwardWay) < counts[static_cast<std::size_t>(rank)]) filler.run(rank, kForwardWay);
  }
  for (std::int32_t n = 0; n < setting.micro_batches; ++n) {
    for (std::int32_t rank = setting.ranks - 1; rank >= 0; --rank) {
      filler.fill_gap(rank, kInputGradWay, choice.delay_input_grad);
      filler.run(rank, kInputGradWay);
    }
    for (std::int32_t rank = 0; rank < setting.ranks; ++rank) {
      if (filler.is_complete(rank, kForwardWay)) continue;
      filler.make_room(rank);
      filler.fill_gap(rank, kForwardWay, choice.delay_forward);
      filler.run(rank, kForwardWay);
    }
  }
  filler.finish();
  return filler;
}

/// The shortest of the builds it is shown, the first of equals.
class ShortestBuild {
 public:
  void consider(GapFiller next) {
    if (!best_ || rank_of(next) < rank_of(*best_)) best_ = std::move(next);
  }
  [[nodiscard]] std::vector<std::vector<SplitPass>> take_passes() && { return std::move(*best_).take_passes(); }

 private:
  static std::pair<std::int64_t, std::int64_t> rank_of(const GapFiller& build) {
    return {build.finish_ns(), build.longest_idle_ns()};
  }
  std::optional<GapFiller> best_;
};

GapFiller replayed(const GapFiller::Setting& setting, const SplitSchedule& order) {
  GapFiller filler(setting, {});
  filler.replay(order);
  return filler;
}

}  // namespace

Result<SplitSchedule> zero_bubble_h1(std::int32_t ranks, std::int32_t micro_batches) {
  return by_hand(ranks, micro_batches, 1);
}

Result<SplitSchedule> zero_bubble_h2(std::int32_t ranks, std::int32_t micro_batches) {
  return by_hand(ranks, micro_batches, 2);
}

Result<SplitSchedule> zero_bubble(std::int32_t ranks, std::int32_t micro_batches, std::int32_t held_limit,
                                  const SplitTimeTable& times) {
  if (const Status status = check_split_counts(ranks, micro_batches); !status) return status.error();
  if (held_limit < ranks) {
    return bad_input(fmt::format("a pipeline of {} ranks needs room for {} micro-batches on each, not {}", ranks, ranks,
                                 held_limit));
  }
  assert(times.chunks.size() == static_cast<std::size_t>(ranks));
  const GapFiller::Setting setting{
      .ways = kStraightWays, .ranks = ranks, .micro_batches = micro_batches, .times = &times, .held_limit = held_limit};
  ShortestBuild best;
  for (const StraightChoice& choice : straight_choices()) {
    best.consider(shortest_idle([&](std::vector<std::int64_t> earlier_idle_ns) {
      return build_greedily(setting, choice, std::move(earlier_idle_ns));
    }));
  }
  best.consider(replayed(setting, by_hand(ranks, micro_batches, 1).value()));
  if (held_limit >= 2 * ranks - 1) best.consider(replayed(setting, by_hand(ranks, micro_batches, 2).value()));
  return SplitSchedule{.ranks = ranks, .micro_batches = micro_batches, .passes = std::move(best).take_passes()};
}

}  // namespace tidemark::graph_build
