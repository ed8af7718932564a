#include "swap/fixed_layout.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "swap/fixed_actions.h"

namespace tidemark::swap {
namespace {

/// Storages of one key leave and come back together.
struct RangeKey {
  BetweenSteps between;
  std::vector<PieceSpan> spans;
  friend bool operator==(const RangeKey&, const RangeKey&) = default;
};

RangeSpan span_of(PieceSpan pieces) {
  return {.pieces = pieces, .touched = {pieces.last, pieces.first}};
}

class Ranges {
 public:
  Ranges(const CapturedPieces& step, FixedLayout& layout) : step_(step), layout_(layout) {}

  void make() {
    for (const PieceStorage& storage : step_.storages) {
      const RangeId range = range_for(storage);
      layout_.range_of.push_back(range);
      layout_.offset_of.push_back(place_in(range, storage));
      add_touches(range, storage);
    }
    for (std::size_t r = 0; r < layout_.ranges.size(); ++r) finish(layout_.ranges[r], written_[r]);
    for (std::size_t s = 0; s < step_.storages.size(); ++s)
      layout_.offset_of[s] += layout_.ranges[row(layout_.range_of[s])].first_granule * layout_.units.granule_bytes;
  }

 private:
  RangeId range_for(const PieceStorage& storage) {
    RangeKey key{storage.between, spans_with_memory(storage, step_.pieces)};
    const auto found = std::ranges::find(keys_, key);
    if (found != keys_.end()) return id_of<RangeId>(static_cast<std::size_t>(found - keys_.begin()));
    FixedRange& range = layout_.ranges.emplace_back();
    range.between = key.between;
    for (const PieceSpan& span : key.spans) range.spans.push_back(span_of(span));
    written_.emplace_back(key.spans.size());
    keys_.push_back(std::move(key));
    return id_of<RangeId>(keys_.size() - 1);
  }

  /// The offset in the range, of which `bytes` grows.
  Bytes place_in(RangeId id, const PieceStorage& storage) {
    FixedRange& range = layout_.ranges[row(id)];
    const Bytes pad = range.bytes == 0 ? 0 : layout_.units.tail_pad_bytes;
    const Bytes offset = round_up(range.bytes + pad, layout_.units.alignment_bytes);
    range.bytes = offset + storage.bytes;
    return offset;
  }

  void add_touches(RangeId id, const PieceStorage& storage) {
    FixedRange& range = layout_.ranges[row(id)];
    for (const PieceTouch& touch : storage.touches)
      for (std::size_t i = 0; i < range.spans.size(); ++i) {
        RangeSpan& span = range.spans[i];
        if (touch.piece < span.pieces.first || touch.piece > span.pieces.last) continue;
        span.touched.first = std::min(span.touched.first, touch.piece);
        span.touched.last = std::max(span.touched.last, touch.piece);
        if (touch.writes) written_[row(id)][i] = true;
      }
  }

  void finish(FixedRange& range, const std::vector<bool>& written) {
    range.first_granule = layout_.space_granules;
    const Bytes granule = layout_.units.granule_bytes;
    range.granules = round_up(range.bytes + layout_.units.tail_pad_bytes, granule) / granule;
    layout_.space_granules += range.granules;
    const bool in_host = range.between == BetweenSteps::in_host;
    for (std::size_t i = 0; i < range.spans.size(); ++i) {
      RangeSpan& span = range.spans[i];
      span.copied_in = in_host || i > 0;
      const bool leaves_content = in_host || i + 1 < range.spans.size();
      span.copied_out = leaves_content && (written[i] || !span.copied_in);
    }
  }

  const CapturedPieces& step_;
  FixedLayout& layout_;
  std::vector<RangeKey> keys_;
  std::vector<std::vector<bool>> written_;  ///< by range and span
};

std::int64_t fullest_piece(const FixedLayout& layout) {
  std::vector<std::int64_t> granules(static_cast<std::size_t>(layout.pieces));
  for (const FixedRange& range : layout.ranges)
    for (const RangeSpan& span : range.spans)
      for (PieceId piece = span.pieces.first; piece <= span.pieces.last; piece = next(piece))
        granules[row(piece)] += range.granules;
  return *std::ranges::max_element(granules);
}

/// The sum of `count(boundary, action)` over all actions of a step.
template <class Count>
std::int64_t sum_over(const FixedLayout& layout, Count&& count) {
  std::int64_t sum = 0;
  for (std::size_t boundary = 0; boundary < layout.before.size(); ++boundary)
    for (const FixedAction& action : layout.before[boundary]) sum += count(boundary, action);
  return sum;
}

const LaneWait* find_host_wait(const FixedAction& action) {
  const auto* const wait = std::get_if<LaneWait>(&action);
  return wait != nullptr && wait->lane == FixedLane::host ? wait : nullptr;
}

/// Is the point the end of this piece, or of a copy right behind it?
bool ends_with(const FixedLayout& layout, FixedPoint point, PieceId piece) {
  if (point.what == FixedPoint::What::piece) return PieceId{point.index} == piece;
  const FixedRange& range = layout.ranges[static_cast<std::size_t>(point.index)];
  return std::ranges::any_of(range.spans,
                             [piece](const RangeSpan& span) { return span.copied_out && span.touched.last == piece; });
}

}  // namespace

std::int64_t FixedLayout::host_waits() const {
  return sum_over(*this,
                  [](std::size_t, const FixedAction& action) { return find_host_wait(action) == nullptr ? 0 : 1; });
}

std::int64_t FixedLayout::late_waits() const {
  return sum_over(*this, [this](std::size_t boundary, const FixedAction& action) {
    const LaneWait* const wait = find_host_wait(action);
    const std::size_t piece_before = (boundary == 0 ? before.size() - 1 : boundary) - 1;
    return wait != nullptr && ends_with(*this, wait->point, id_of<PieceId>(piece_before)) ? 1 : 0;
  });
}

std::int64_t FixedLayout::moved_granules() const {
  return sum_over(*this, [](std::size_t, const FixedAction& action) {
    const auto* const move = std::get_if<GranuleMove>(&action);
    return move == nullptr ? 0 : move->granules;
  });
}

Result<FixedLayout> lay_out_fixed(const CapturedPieces& step, const FixedUnits& units, std::int64_t spare_granules) {
  assert(spare_granules >= 0 && units.granule_bytes > 0 && units.granule_bytes % units.alignment_bytes == 0);
  if (Status status = find_problem(step); !status) return status.error();
  FixedLayout layout{.pieces = step.pieces, .units = units, .spare_granules = spare_granules};
  Ranges(step, layout).make();
  layout.peak_granules = std::min(fullest_piece(layout) + spare_granules, layout.space_granules);
  add_actions(layout);
  return layout;
}

}  // namespace tidemark::swap
