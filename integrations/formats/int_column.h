#pragma once
// Integer columns as folded JSON: what repeats is written once, and ten lines of any language read it back
// (docs/formats.md, scripts/read_plan.py).
//
//   {"count": 9, "coding": "delta", "scale": 512, "data": [0, 1, [1, 4], 3, [6, 3]]}
//
// `data` unfolds to `count` words: a number is itself, [d, n] repeats n words starting d words back (n may exceed d).
// Words become values by `coding`:
//   plain   the word;
//   delta   the sum of all words so far;
//   recall  0: one more than the largest value so far (-1 before the first); d > 0: the value d places back;
//           d < 0: the value -d - 1. For ids that count up where they are new and come back a regular distance later.
// A value is then multiplied by `scale` (absent: 1). `coding` is absent where plain.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"

namespace tidemark::formats {

enum class Coding : std::uint8_t { plain, delta, recall };

/// Appends the column to `out`. `scaled`: look for a common factor. Deterministic; O(values).
/// REQUIRES for recall: no value is negative.
void append_column(std::string& out, std::span<const std::int64_t> values, Coding coding, bool scaled = false);

/// The values of a column. Errors (bad_input): what is wrong with it, without a place.
[[nodiscard]] Result<std::vector<std::int64_t>> read_column(const nlohmann::json& column);

}  // namespace tidemark::formats
