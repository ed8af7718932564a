#pragma once
// A flat list as the decision core sees it: the idle stretches of its storages with everything kept, each given up by
// a run of its writer or by a page of its own. Positions are ops of the list.

#include <cstdint>
#include <vector>

#include "planner/decide/flat/problem.h"
#include "planner/decide/gaps/gap_problem.h"

namespace tidemark::decide::flat {

struct ListGaps {
  /// Where a gap of `problem` is, by storage, then time.
  struct Place {
    std::int32_t storage = 0;
    Key from = 0, until = 0;     ///< touches around it
    std::int32_t rerun_by = -1;  ///< last stage in which a run of the writer brings it back; -1: none does
  };
  gaps::GapProblem problem;
  std::vector<Place> places;
  std::vector<std::int32_t> first_of;  ///< per storage, first gap; one more at the end
};

enum class GapUse : std::uint8_t {
  /// Pages only where the touch that ends the gap reads.
  choice,
  /// Pages wherever a schedule may have one. A gap that ends in a pin or a write can be paged as well: a second run of
  /// any reader brings it back.
  bound,
};

/// Gaps that neither a run nor a page brings back are left out. What a gap costs at least: its share of a run of its
/// writer, of a page in and of a page out.
[[nodiscard]] ListGaps list_gaps(const Problem& problem, GapUse use);

/// The moves of a search: a run of the writer with those of all it needs that is dead by then, or a page, with what
/// its copies keep in memory.
void add_moves(const Problem& problem, ListGaps& gaps);

/// Bytes at every op with everything kept.
[[nodiscard]] std::vector<Bytes> kept_bytes(const Problem& problem);

}  // namespace tidemark::decide::flat
