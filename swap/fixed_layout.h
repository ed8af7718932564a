#pragma once
// Addresses that never change for the storages of captured graphs, and physical granules that change between them.
//
// Ranges. Storages that have memory in the same pieces share one range of whole granules; ranges never overlap, so a
// graph finds each storage where it was captured. The address space is the sum of all ranges.
//
// Stitching. Memory is as many granules as the fullest piece needs, and those to spare that were asked for: any granule
// can stand behind any address, so nothing is lost to fragmentation. All are mapped once, at `opening`; from then on
// granules move from ranges that are out of use to ranges that come into use, and none is made or released:
//
//   range A   [g0 g1]  --.                 [g0 g1]      A is copied out, B takes its granules, is done, A comes back
//   range B            '-> [g0 g1 | g2]  --'            to the same address with other, or the same, granules
//
// Which granules. Those longest out of use: what touched them last is likely to be done, so that the host, which must
// know it before it moves them, waits the least. Granules still behind the range that wants them stay. Where pieces are
// equally full there is nothing older to take than what the piece right before used, and the device stands still while
// the host waits for that piece and moves (`late_waits`); granules to spare let the host go ahead.
//
// One list of actions serves every step, since a step ends with the granules where it began: taken by age, those mapped
// after a step are the ones used last in it.
//
// Order. Actions come before each piece, and behind the last. Lanes are the host's own time, the stream of the pieces
// and the two copy streams; what is ordered only by lanes and waits listed here is all that verify_fixed_layout()
// trusts.
//
// Cost: O(pieces x granules of address space) to lay out. Pure; no device.

#include <cstdint>
#include <variant>
#include <vector>

#include "core/bytes.h"
#include "core/ids.h"
#include "core/result.h"
#include "swap/captured_pieces.h"

namespace tidemark::swap {

enum class RangeId : std::int32_t {};

/// What a device asks of addresses (DeviceTraits).
struct FixedUnits {
  Bytes granule_bytes = 0;
  Bytes alignment_bytes = 1;
  Bytes tail_pad_bytes = 0;
};

/// Pieces in which a range has memory, and what its storages do there.
struct RangeSpan {
  PieceSpan pieces;
  PieceSpan touched;        ///< from the first touch of any of its storages to the last
  bool copied_in = false;   ///< before piece `pieces.first`
  bool copied_out = false;  ///< behind piece `touched.last`; not where the host still has the same content
};

struct FixedRange {
  std::int64_t first_granule = 0;  ///< of the address space
  std::int64_t granules = 0;
  Bytes bytes = 0;  ///< that copies move: to the end of its last storage
  BetweenSteps between = BetweenSteps::nowhere;
  std::vector<RangeSpan>
      spans;  ///< in order; of a range that is on the device between steps, the last goes on in the first
};

enum class FixedLane : std::uint8_t { host, pieces, d2h, h2d };
inline constexpr std::size_t kFixedLaneCount = 4;

/// The end of the latest of: launches of a piece, copies of a range. What never was counts as done.
struct FixedPoint {
  enum class What : std::uint8_t { piece, copy_out, copy_in };
  What what = What::piece;
  std::int32_t index = 0;  ///< PieceId or RangeId
  friend bool operator==(const FixedPoint&, const FixedPoint&) = default;
};

/// What the lane does from now on comes behind the point.
struct LaneWait {
  FixedLane lane = FixedLane::host;
  FixedPoint point;
};

/// Memory moves from one place of the address space to another; on the host's lane.
struct GranuleMove {
  std::int64_t to = 0, from = 0;  ///< granules of the address space
  std::int64_t granules = 0;
};

/// FixedRange::bytes of a range between its address and its place in host memory.
struct RangeCopy {
  RangeId range{};
  bool out = false;
};

using FixedAction = std::variant<LaneWait, RangeCopy, GranuleMove>;

struct FixedLayout {
  std::int32_t pieces = 0;
  FixedUnits units;
  std::vector<FixedRange> ranges;  ///< by RangeId, and by address
  std::vector<RangeId> range_of;   ///< by StorageId
  std::vector<Bytes> offset_of;    ///< by StorageId, in the address space
  std::int64_t space_granules = 0;
  std::int64_t spare_granules = 0;
  std::int64_t peak_granules = 0;     ///< physical, at all times: of the fullest piece, and to spare
  std::vector<std::int64_t> opening;  ///< granules of the address space that are mapped between steps, ascending
  std::vector<std::vector<FixedAction>> before;  ///< by piece; the last, behind the last piece

  [[nodiscard]] Bytes peak_bytes() const { return peak_granules * units.granule_bytes; }
  [[nodiscard]] std::int64_t host_waits() const;      ///< a step
  [[nodiscard]] std::int64_t late_waits() const;      ///< of them, for the piece right before or a copy behind it
  [[nodiscard]] std::int64_t moved_granules() const;  ///< a step
};

/// `spare_granules`: physical ones beyond what the fullest piece needs, as far as there are addresses for them. Error
/// (bad_input): find_problem()'s.
[[nodiscard]] Result<FixedLayout> lay_out_fixed(const CapturedPieces& step, const FixedUnits& units,
                                                std::int64_t spare_granules = 0);

}  // namespace tidemark::swap
