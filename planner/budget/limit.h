#pragma once
// Limits on the memory of ranks, and their verdicts: PASS, NEAR or FAIL for each limit, by the rank that is closest to
// it or exceeds it most. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "planner/budget/holdings.h"

namespace tidemark::budget {

/// The ranks of a limit. `first`, `middle` and `last` choose among the rows of a Holdings. A listed rank is judged by
/// its own row or by the row that represents its stage.
struct RankChoice {
  enum class Kind : std::uint8_t { all, first, middle, last, listed };
  Kind kind = Kind::all;
  std::vector<std::int64_t> listed;  ///< ascending, of Kind::listed
  [[nodiscard]] bool holds(const Holdings& holdings, std::size_t row) const;
  /// `holds`, and no rank that the row represents is left out: one listed rank does not answer for its stage.
  [[nodiscard]] bool covers(const Holdings& holdings, std::size_t row) const;
  friend bool operator==(const RankChoice&, const RankChoice&) = default;
};

/// A distance: the larger of a percentage of a whole and a size.
struct Tolerance {
  double percent = 0;
  Bytes bytes = 0;
  /// At most 10^18 bytes of a percentage, so that it can be added to any size. REQUIRES: whole >= 0, percent >= 0.
  [[nodiscard]] Bytes of(Bytes whole) const;
  friend bool operator==(const Tolerance&, const Tolerance&) = default;
};

struct Limit {
  RankChoice ranks;
  std::optional<Phase> phase;        ///< its peak in that phase; nothing: in the whole step
  std::optional<Category> category;  ///< at the peak; nothing: all bytes. Not together with a phase
  bool is_host = false;              ///< a limit on host memory instead of device memory
  Bytes most_bytes = 0;
  Tolerance near;  ///< a distance below `most_bytes` within it is NEAR
  int line = 0;    ///< of the budget file; 0: of no file
};

enum class Verdict : std::uint8_t { pass, near, fail };
[[nodiscard]] std::string_view word_of(Verdict verdict);

/// The bytes that a limit bounds. Of a category that the source tells in part, it is that part. Nothing: the source
/// does not tell the figure.
[[nodiscard]] std::optional<Bytes> measure(const RankHoldings& rank, const Limit& limit);

/// The verdict of one limit on its ranks.
struct Finding {
  Verdict verdict = Verdict::pass;
  std::size_t limit = 0;  ///< index in the limits
  /// Row of the rank with the worst verdict; ties: the most bytes, then the first. Nothing: no rank of the limit could
  /// be judged.
  std::optional<std::size_t> rank;
  Bytes bytes = 0;       ///< held by that rank
  Bytes band_bytes = 0;  ///< of an estimate: expected error of its peak, and so of any part of it
  Bytes most_bytes = 0;
};

/// In the order of the limits. An estimate whose band reaches above a limit is NEAR, and so is an estimate that is not
/// understood. A limit is NEAR at best where a rank of its choice is missing or has no figure, since the source does
/// not prove that the rank keeps it; so is a limit on a category that is known in part and may have exceeded it.
/// REQUIRES: at least one rank.
[[nodiscard]] std::vector<Finding> judge(const Holdings& holdings, const std::vector<Limit>& limits);

/// The worst verdict; PASS without findings.
[[nodiscard]] Verdict worst(const std::vector<Finding>& findings);

}  // namespace tidemark::budget
