#pragma once
// What a job was predicted to hold beside what a run of it held, by category. Pure. It holds figures beside each other
// and mends none: what one side cannot tell apart stands under `other` there.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "planner/budget/holdings.h"

namespace tidemark::budget {

/// A figure of both sides.
struct ComparedBytes {
  Bytes predicted_bytes = 0, measured_bytes = 0;
  /// Above 0: the run held more than was predicted.
  [[nodiscard]] Bytes delta_bytes() const { return measured_bytes - predicted_bytes; }
  friend bool operator==(const ComparedBytes&, const ComparedBytes&) = default;
};

struct RankComparison {
  std::int64_t rank = 0;
  std::string place;    ///< of the measured side
  ComparedBytes peak;   ///< everything that counts against a budget
  ComparedBytes asked;  ///< the same without `cached` and `reserve`: what the framework asked for
  std::array<ComparedBytes, kCategoryCount> by_category{};
  std::optional<ComparedBytes> steady;  ///< asked for between steps, as `asked`; nothing: a side does not tell
  std::optional<ComparedBytes> host;
  Bytes band_bytes = 0;        ///< of an estimate: how far its peak is expected to be off
  bool is_within_band = true;  ///< what the run asked for is no further from what was predicted than the band
  friend bool operator==(const RankComparison&, const RankComparison&) = default;
};

struct Comparison {
  std::vector<RankComparison> ranks;  ///< that both sides have, ascending
  std::vector<std::int64_t> only_predicted, only_measured;
  friend bool operator==(const Comparison&, const Comparison&) = default;
};

/// A planned side has no band: it is within where the run asked for no more than was planned.
/// REQUIRES: predicted.basis is planned or estimated, measured.basis is measured.
[[nodiscard]] Comparison compare(const Holdings& predicted, const Holdings& measured);

}  // namespace tidemark::budget
