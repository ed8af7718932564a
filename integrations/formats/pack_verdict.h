#pragma once
// What a packing is worth: how near the least height, whether it meets a capacity, and if nothing does, why.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "integrations/formats/interval_problem.h"

namespace tidemark::formats {

/// An excess over the lower bound of at most this is `within`; above, a packing is only the best one found.
inline constexpr double kWithinPercent = 1.0;

enum class PackWord : std::uint8_t {
  optimal,     ///< no packing is lower
  within,      ///< at most kWithinPercent above what no packing is lower than
  best_found,  ///< the least height is not known so well
  infeasible,  ///< no packing meets the capacity
};

/// `optimal`, `within`, `best_found`, `infeasible`.
[[nodiscard]] std::string_view word_text(PackWord word);

struct PackVerdict {
  PackWord word = PackWord::best_found;
  bool fits = true;                      ///< within the capacity; true where there is none
  std::vector<std::int32_t> cannot_fit;  ///< rows that cannot all be within the capacity, ascending; where known
  Bytes together_bytes = 0;              ///< what `cannot_fit` need at `time`; 0: no one moment shows it
  std::int64_t time = 0;
};

/// Of an answer to the problem under PackLimits::enough_bytes of the capacity.
[[nodiscard]] PackVerdict judge(const IntervalProblem& problem, const layout::PackAnswer& answer,
                                std::optional<Bytes> capacity_bytes);

}  // namespace tidemark::formats
