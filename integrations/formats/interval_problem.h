#pragma once
// A table of buffers as a packer's numbers, and back: items are stays of rows, and addresses are said per row.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "integrations/formats/import_minimalloc_csv.h"
#include "planner/layout/packer.h"

namespace tidemark::formats {

struct IntervalRules {
  Bytes alignment_bytes = 1;  ///< from 1 to 2^40: of every address, and what sizes are rounded up to
  bool repack = false;        ///< `offset` is where a buffer might lie; otherwise where it must, as in minimalloc
};

/// A table as a problem. Times become their ranks, so that any clock fits; the order of events is what counts.
struct IntervalProblem {
  layout::PackProblem problem;
  std::vector<std::int32_t> row_of;  ///< of every item
  std::vector<std::int64_t> times;   ///< of every rank, ascending
};

/// Errors (bad_input): `file:line: what` for what no packing could meet, with the line of the last buffer named.
[[nodiscard]] Result<IntervalProblem> problem_of(const IntervalTable& table, const IntervalRules& rules,
                                                 std::string_view file_name);

/// Where the table itself puts every row, if it does: there is nothing left to pack. REQUIRES: problem_of the table.
[[nodiscard]] std::optional<layout::Packing> given_packing(const IntervalProblem& problem);

/// Address of every row: of its block, whatever part of it is there. A row that is never there lies where it is fixed,
/// or at 0. REQUIRES: the answer of a packer to the problem.
[[nodiscard]] std::vector<Bytes> addresses_of(const IntervalTable& table, const IntervalProblem& problem,
                                              const layout::Packing& packing, const IntervalRules& rules);

}  // namespace tidemark::formats
