#include "swap/captured_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace tidemark::swap {
namespace {

/// Of all storages together: no device has addresses for more. What is placed besides, as pads and what is left of
/// granules, does not overflow either.
constexpr Bytes kMostBytes = Bytes{1} << 47;

bool touches_in(const PieceStorage& storage, PieceSpan span) {
  return std::ranges::any_of(storage.touches, [span](const PieceTouch& touch) {
    return touch.piece >= span.first && touch.piece <= span.last;
  });
}

std::string name_of(PieceSpan span) {
  return fmt::format("pieces {} to {}", row(span.first), row(span.last));
}

/// Touches by themselves; empty: none is wrong.
std::string problem_of_touches(const PieceStorage& storage, std::int32_t pieces) {
  if (storage.touches.empty()) return "no piece touches it; leave it out";
  auto least = PieceId{0};
  for (const PieceTouch& touch : storage.touches) {
    if (touch.piece < least || touch.piece >= PieceId{pieces})
      return fmt::format("touches must be by piece, one a piece, from 0 to {}", pieces - 1);
    if (!touch.reads && !touch.writes)
      return fmt::format("the touch of piece {} must read, write or both", row(touch.piece));
    least = next(touch.piece);
  }
  if (storage.between == BetweenSteps::nowhere && storage.touches.front().reads)
    return fmt::format("piece {} reads it before any writes it; say where its content is between steps",
                       row(storage.touches.front().piece));
  return {};
}

std::string problem_of_gaps(const PieceStorage& storage, std::int32_t pieces) {
  auto least = PieceId{0};
  for (const PieceSpan& gap : storage.away) {
    if (gap.first < least || gap.last < gap.first || gap.last >= PieceId{pieces})
      return fmt::format("gaps must be by piece, a piece or more apart, within 0 to {}", pieces - 1);
    if (touches_in(storage, gap)) return fmt::format("a piece touches it while it is away in {}", name_of(gap));
    least = next(next(gap.last));
  }
  if (storage.away.empty()) return {};
  const PieceId first = storage.away.front().first, last = storage.away.back().last;
  if (storage.between == BetweenSteps::nowhere &&
      (first <= storage.touches.front().piece || last >= storage.touches.back().piece))
    return "it is away before its first or after its last touch, where it has no content; leave that gap out";
  if (storage.between == BetweenSteps::on_device && (first == PieceId{0} || last == PieceId{pieces - 1}))
    return "it is away at an end of the step; its content then is in host memory between steps";
  return {};
}

}  // namespace

std::vector<PieceSpan> spans_with_memory(const PieceStorage& storage, std::int32_t pieces) {
  const bool whole = storage.between != BetweenSteps::nowhere;
  PieceId first = whole ? PieceId{0} : storage.touches.front().piece;
  const PieceId last = whole ? PieceId{pieces - 1} : storage.touches.back().piece;
  std::vector<PieceSpan> spans;
  for (const PieceSpan& gap : storage.away) {
    if (gap.first > first) spans.push_back({first, PieceId{static_cast<std::int32_t>(gap.first) - 1}});
    first = next(gap.last);
  }
  if (first <= last) spans.push_back({first, last});
  return spans;
}

Status find_problem(const CapturedPieces& step) {
  if (step.pieces < 1) return bad_input("a step of captured graphs has one piece or more");
  Bytes left = kMostBytes;
  for (std::size_t s = 0; s < step.storages.size(); ++s) {
    const PieceStorage& storage = step.storages[s];
    std::string problem = storage.bytes > 0 ? "" : "it must have a byte or more";
    if (storage.bytes > left) problem = "its bytes and those of the storages before it must be 2^47 at most together";
    if (problem.empty()) left -= storage.bytes;
    if (problem.empty()) problem = problem_of_touches(storage, step.pieces);
    if (problem.empty()) problem = problem_of_gaps(storage, step.pieces);
    if (problem.empty())
      for (const PieceSpan& span : spans_with_memory(storage, step.pieces))
        if (!touches_in(storage, span))
          problem =
              fmt::format("nothing touches it in {}, for which it is brought back; make it one gap", name_of(span));
    if (!problem.empty()) return bad_input(fmt::format("storage {}: {}", s, problem));
  }
  return {};
}

}  // namespace tidemark::swap
