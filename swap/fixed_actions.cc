#include "swap/fixed_actions.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <span>
#include <tuple>
#include <utility>

namespace tidemark::swap {
namespace {

/// A place in time: ticks count boundaries (even) and pieces (odd) of this step; those of the step before are negative.
/// Copies of one boundary are submitted by range.
struct When {
  std::int64_t tick = INT64_MIN;
  std::int32_t range = -1;  ///< -1: a piece
  friend auto operator<=>(const When&, const When&) = default;
};

/// The last use of a range that is out of use.
struct LastUse {
  FixedPoint point;
  When when;
};

/// What a lane comes behind, by lane: everything there up to a place in time.
using Known = std::array<When, kFixedLaneCount>;

constexpr std::size_t number(FixedLane lane) {
  return static_cast<std::size_t>(lane);
}

FixedLane lane_of(FixedPoint::What what) {
  switch (what) {
    case FixedPoint::What::copy_out:
      return FixedLane::d2h;
    case FixedPoint::What::copy_in:
      return FixedLane::h2d;
    case FixedPoint::What::piece:
      break;
  }
  return FixedLane::pieces;
}

/// One step, played from the granules that are mapped when it begins.
class StepPlay {
 public:
  StepPlay(const FixedLayout& layout, std::vector<bool> mapped) : layout_(layout), mapped_(std::move(mapped)) {
    before_.resize(static_cast<std::size_t>(layout.pieces) + 1);
  }

  void play() {
    for (boundary_ = 0; boundary_ <= layout_.pieces; ++boundary_) {
      copy_out();
      if (boundary_ == layout_.pieces) break;
      bring_memory();
      copy_in();
      wait_for_content();
    }
  }

  [[nodiscard]] const std::vector<bool>& mapped() const { return mapped_; }
  [[nodiscard]] std::vector<std::vector<FixedAction>> take_actions() { return std::move(before_); }

 private:
  [[nodiscard]] std::vector<FixedAction>& actions() { return before_[static_cast<std::size_t>(boundary_)]; }
  [[nodiscard]] PieceId piece() const { return PieceId{boundary_}; }
  [[nodiscard]] static std::int64_t tick_of_boundary(std::int32_t boundary) { return std::int64_t{2} * boundary; }
  [[nodiscard]] static std::int64_t tick_of_piece(PieceId piece) { return 2 * static_cast<std::int64_t>(piece) + 1; }
  [[nodiscard]] std::int64_t ticks_a_step() const { return tick_of_boundary(layout_.pieces) + 2; }

  /// Out of use here, or from here on.
  [[nodiscard]] bool in_use(const FixedRange& range) const {
    if (boundary_ == layout_.pieces) return range.between == BetweenSteps::on_device;
    return std::ranges::any_of(range.spans, [this](const RangeSpan& span) {
      return span.pieces.first <= piece() && piece() <= span.pieces.last;
    });
  }
  [[nodiscard]] static bool goes_on(const FixedRange& range, const RangeSpan& span) {
    return range.between == BetweenSteps::on_device && span.pieces.first == PieceId{0};
  }
  /// The span that begins at this boundary.
  [[nodiscard]] const RangeSpan* find_begun(const FixedRange& range) const {
    const auto found = std::ranges::find_if(
        range.spans, [&](const RangeSpan& span) { return span.pieces.first == piece() && !goes_on(range, span); });
    return found == range.spans.end() ? nullptr : &*found;
  }

  /// Of the span that ended last before this boundary, in this step or the one before.
  [[nodiscard]] LastUse last_use(RangeId id) const {
    const FixedRange& range = layout_.ranges[row(id)];
    const RangeSpan* last = &range.spans.back();
    std::int64_t earlier = ticks_a_step();
    for (const RangeSpan& span : range.spans)
      if (span.pieces.last < piece()) {
        last = &span;
        earlier = 0;
      }
    if (!last->copied_out)
      return {.point = {FixedPoint::What::piece, static_cast<std::int32_t>(last->touched.last)},
              .when = {.tick = tick_of_piece(last->touched.last) - earlier}};
    return {.point = {FixedPoint::What::copy_out, static_cast<std::int32_t>(id)},
            .when = {.tick = tick_of_piece(last->touched.last) + 1 - earlier, .range = static_cast<std::int32_t>(id)}};
  }

  /// Boundaries until the range comes into use again.
  [[nodiscard]] std::int64_t next_need(const FixedRange& range) const {
    for (const RangeSpan& span : range.spans)
      if (span.pieces.first > piece()) return static_cast<std::int64_t>(span.pieces.first) - boundary_;
    return layout_.pieces + static_cast<std::int64_t>(range.spans.front().pieces.first) - boundary_;
  }

  /// Unless the lane comes behind the point anyhow.
  void wait(FixedLane lane, FixedPoint point, When when) {
    Known& known = known_[number(lane)];
    const FixedLane on = lane_of(point.what);
    if (known[number(on)] >= when || known_[number(FixedLane::host)][number(on)] >= when) return;
    actions().emplace_back(LaneWait{lane, point});
    known[number(on)] = when;
    // A copy out comes behind the piece before its boundary.
    When& pieces = known[number(FixedLane::pieces)];
    if (on == FixedLane::d2h) pieces = std::max(pieces, When{.tick = when.tick - 1});
  }

  void copy_out() {
    if (boundary_ == 0) return;
    const auto touched = PieceId{boundary_ - 1};
    for (std::size_t r = 0; r < layout_.ranges.size(); ++r)
      for (const RangeSpan& span : layout_.ranges[r].spans) {
        if (!span.copied_out || span.touched.last != touched) continue;
        wait(FixedLane::d2h, {FixedPoint::What::piece, static_cast<std::int32_t>(touched)},
             {.tick = tick_of_piece(touched)});
        actions().emplace_back(RangeCopy{.range = id_of<RangeId>(r), .out = true});
      }
  }

  void bring_memory() {
    std::vector<std::int64_t> missing;
    for (const FixedRange& range : layout_.ranges)
      if (find_begun(range) != nullptr)
        for (std::int64_t at = range.first_granule; at < range.first_granule + range.granules; ++at)
          if (!mapped_[static_cast<std::size_t>(at)]) missing.push_back(at);
    if (!missing.empty()) move(missing, choose(missing.size()));
  }

  /// So many granules of ranges that are out of use, ascending: those longest out of use, then those that their own
  /// range wants latest.
  [[nodiscard]] std::vector<std::int64_t> choose(std::size_t count) const {
    struct Candidate {
      When when;
      std::int64_t earliness = 0;  ///< 0 - boundaries until it is wanted
      std::int64_t at = 0;
      auto key() const { return std::tie(when, earliness, at); }
    };
    std::vector<Candidate> candidates;
    for (std::size_t r = 0; r < layout_.ranges.size(); ++r) {
      const FixedRange& range = layout_.ranges[r];
      if (in_use(range)) continue;
      const When when = last_use(id_of<RangeId>(r)).when;
      for (std::int64_t at = range.first_granule; at < range.first_granule + range.granules; ++at)
        if (mapped_[static_cast<std::size_t>(at)]) candidates.push_back({when, -next_need(range), at});
    }
    assert(candidates.size() >= count && "the fullest piece has room for all its ranges");
    std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) { return a.key() < b.key(); });
    std::vector<std::int64_t> chosen;
    for (std::size_t i = 0; i < count; ++i) chosen.push_back(candidates[i].at);
    std::ranges::sort(chosen);
    return chosen;
  }

  [[nodiscard]] RangeId range_at(std::int64_t granule) const {
    const auto behind = std::ranges::upper_bound(layout_.ranges, granule, {}, &FixedRange::first_granule);
    return id_of<RangeId>(static_cast<std::size_t>(behind - layout_.ranges.begin()) - 1);
  }

  /// Both ascending and of one size; neighbours move together.
  void move(std::span<const std::int64_t> to, std::span<const std::int64_t> from) {
    wait_for_last_uses(from);
    GranuleMove run;
    const auto end_run = [&] {
      if (run.granules > 0) actions().emplace_back(run);
    };
    for (std::size_t i = 0; i < to.size(); ++i) {
      mapped_[static_cast<std::size_t>(from[i])] = false;
      mapped_[static_cast<std::size_t>(to[i])] = true;
      if (run.granules > 0 && to[i] == run.to + run.granules && from[i] == run.from + run.granules) {
        ++run.granules;
        continue;
      }
      end_run();
      run = {.to = to[i], .from = from[i], .granules = 1};
    }
    end_run();
  }

  /// The host comes behind all of them; of each lane, the latest is enough.
  void wait_for_last_uses(std::span<const std::int64_t> granules) {
    LastUse copy, touch;
    for (const std::int64_t granule : granules) {
      const LastUse use = last_use(range_at(granule));
      LastUse& latest = use.point.what == FixedPoint::What::copy_out ? copy : touch;
      if (use.when > latest.when) latest = use;
    }
    for (const LastUse& use : {copy, touch})
      if (use.when != When{}) wait(FixedLane::host, use.point, use.when);
  }

  void copy_in() {
    for (std::size_t r = 0; r < layout_.ranges.size(); ++r) {
      const RangeSpan* const span = find_begun(layout_.ranges[r]);
      if (span == nullptr || !span->copied_in) continue;
      // Granules that stayed may still be copied out, and so may the content that comes back.
      const LastUse use = last_use(id_of<RangeId>(r));
      wait(FixedLane::h2d, use.point, use.when);
      actions().emplace_back(RangeCopy{.range = id_of<RangeId>(r), .out = false});
    }
  }

  void wait_for_content() {
    When latest;
    for (std::size_t r = 0; r < layout_.ranges.size(); ++r)
      for (const RangeSpan& span : layout_.ranges[r].spans)
        if (span.copied_in && span.touched.first == piece())
          latest = std::max(latest, {.tick = tick_of_boundary(static_cast<std::int32_t>(span.pieces.first)),
                                     .range = static_cast<std::int32_t>(r)});
    if (latest != When{}) wait(FixedLane::pieces, {FixedPoint::What::copy_in, latest.range}, latest);
  }

  const FixedLayout& layout_;
  std::vector<bool> mapped_;
  std::vector<std::vector<FixedAction>> before_;
  std::int32_t boundary_ = 0;
  std::array<Known, kFixedLaneCount> known_{};  ///< by the lane that knows; nothing yet when a step begins
};

/// Ranges that are on the device between steps, and of the others the first ones, as far as the granules go.
std::vector<bool> first_opening(const FixedLayout& layout) {
  std::vector<bool> mapped(static_cast<std::size_t>(layout.space_granules));
  std::int64_t left = layout.peak_granules;
  for (const bool on_device : {true, false})
    for (const FixedRange& range : layout.ranges) {
      if ((range.between == BetweenSteps::on_device) != on_device) continue;
      for (std::int64_t at = range.first_granule; at < range.first_granule + range.granules && left > 0; ++at, --left)
        mapped[static_cast<std::size_t>(at)] = true;
    }
  return mapped;
}

}  // namespace

void add_actions(FixedLayout& layout) {
  StepPlay first(layout, first_opening(layout));
  first.play();
  // Granules are taken by age, and every range is used once a step or more: so the granules that are mapped after a
  // step are those used last, whichever were mapped before it, and all steps behind the first begin and end alike.
  StepPlay every(layout, first.mapped());
  every.play();
  assert(every.mapped() == first.mapped());
  layout.before = every.take_actions();
  for (std::size_t at = 0; at < first.mapped().size(); ++at)
    if (first.mapped()[at]) layout.opening.push_back(static_cast<std::int64_t>(at));
}

}  // namespace tidemark::swap
